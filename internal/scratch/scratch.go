// Package scratch starts MySQL-family servers that live for one task: a drill
// restores into one, and the tests of this module run on some.
//
// A server is a private process on this machine, a Docker container, or a
// database of its own on a server that somebody else runs; [Start] tells them
// apart by [Options.Mode]. Whatever Start made, [Server.Close] removes: the
// process and its folder, the container and its volume, the database. What
// goes into the server, and whether it came back whole, is the caller's.
package scratch

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// The values of [Options.Mode]. ModeDSN is a prefix: what follows it is the
// data source name of a running server.
const (
	ModeAuto   = "auto"
	ModeLocal  = "local"
	ModeDocker = "docker"
	ModeDSN    = "dsn:"
)

const (
	// DefaultImage is the Docker image of a zero Options.Image.
	DefaultImage = "mysql:8.4"
	// DefaultStartTimeout is how long a server may take to answer SQL where
	// Options.StartTimeout is zero. The download of an image does not count.
	DefaultStartTimeout = 2 * time.Minute
	// DatabasePrefix begins the name of every database that Start creates; 16
	// random hexadecimal digits follow.
	DatabasePrefix = "walletarchive_drill_"
	// ContainerLabel is on every container that Start makes; its value is the
	// name of Server.Database. It is for finding what a killed process left.
	ContainerLabel = "walletarchive.scratch"
)

const (
	pullTimeout  = 10 * time.Minute // for the download of an image
	closeTimeout = time.Minute      // for all of Close
	tryTimeout   = 5 * time.Second  // for one attempt to connect
	pollInterval = 50 * time.Millisecond
)

var (
	// ErrMode is returned by Start when Options.Mode is none of the known ones.
	ErrMode = errors.New("unknown scratch mode")
	// ErrNotInstalled is returned by Start in mode local when this machine has
	// neither mysqld nor mariadbd, and in mode auto when no Docker engine
	// answers either.
	ErrNotInstalled = errors.New("no MySQL or MariaDB server is installed")
	// ErrNoDocker is returned by Start when no Docker engine answers.
	ErrNoDocker = errors.New("no Docker engine answers")
	// ErrNoImage is returned by Start when the engine neither has the image nor
	// can, or may, download it.
	ErrNoImage = errors.New("no such Docker image")
	// ErrDatabaseExists is returned by Start in mode dsn when the database that
	// it chose a random name for is there already. It is left alone.
	ErrDatabaseExists = errors.New("database exists already")
)

// Options say which server to start. The zero value is mode auto.
type Options struct {
	// Mode is auto, local, docker or "dsn:" followed by a data source name as
	// go-sql-driver/mysql reads it; empty is auto. Auto is local where a server
	// is installed, else docker.
	Mode string
	// Image is the Docker image; empty is DefaultImage. It has to take
	// MYSQL_ROOT_PASSWORD and server flags as arguments, as the official images
	// of MySQL and MariaDB do. One that the engine does not have is downloaded.
	Image string
	// NoPull makes an image that the engine does not have an ErrNoImage.
	NoPull bool
	// Binary is the server to run in mode local: a mysqld or mariadbd by path or
	// by name; empty looks for one, MySQL before MariaDB.
	Binary string
	// ServerArgs are further flags for the server, such as
	// "--innodb-buffer-pool-size=64M"; they come last and so win. Mode dsn
	// ignores them.
	ServerArgs []string
	// Keep leaves everything in place at Close and lets a local server or a
	// container outlive this process; Server.Kept says where it is.
	Keep bool
	// TempDir is where a local server's folder is made; empty is os.TempDir().
	TempDir string
	// StartTimeout bounds the start, see DefaultStartTimeout.
	StartTimeout time.Duration
	// Logger hears of the steps at level debug; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Mode = cmp.Or(o.Mode, ModeAuto)
	switch {
	case o.Mode == ModeAuto, o.Mode == ModeLocal, o.Mode == ModeDocker:
	case strings.HasPrefix(o.Mode, ModeDSN) && o.Mode != ModeDSN:
	default:
		// Not quoted: a DSN given without its "dsn:" may hold a password.
		return o, fmt.Errorf("%w: want auto, local, docker or dsn:user:password@protocol(address)/", ErrMode)
	}
	if o.StartTimeout < 0 {
		return o, fmt.Errorf("start timeout %s is negative", o.StartTimeout)
	}
	o.Image = cmp.Or(o.Image, DefaultImage)
	o.StartTimeout = cmp.Or(o.StartTimeout, DefaultStartTimeout)
	o.ServerArgs = slices.Clone(o.ServerArgs)
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Server is a running server with one fresh, empty database. Its fields are
// set by Start and not changed after. It may be used by several goroutines.
type Server struct {
	// Database is the name of the database that Start created; its default
	// character set is utf8mb4.
	Database string
	// Identity is what the server says it is.
	Identity mysqldb.Server
	// Why says in a few words why this server and no other was taken.
	Why string
	// Kept says how to reach and how to remove the server by hand; empty unless
	// Options.Keep was set.
	Kept string

	place  string
	dsn    string
	logger *slog.Logger
	mu     sync.Mutex                      // one Close at a time
	remove func(ctx context.Context) error // nil once nothing is left to remove
}

// instance is what each mode hands to Start: a server that is there or about
// to be.
type instance struct {
	place string // ends the sentence "MySQL 9.7.4 …"
	dsn   string // of an account that may create databases; names no database
	// given is true for a server that this package did not start: only the
	// database on it is ours.
	given bool
	// failure returns an error once the server has died; nil when given.
	failure func(ctx context.Context) error
	// tail returns the end of the server's own log; nil when given.
	tail func(ctx context.Context) string
	// kept says how to reach and remove what Options.Keep leaves.
	kept func(database string) string
	// remove undoes the start. It is safe to call again after an error.
	remove func(ctx context.Context) error
}

// Start starts a server, waits until it answers SQL and creates a database of
// a new random name in it. The caller closes the server, also when ctx was
// cancelled meanwhile. After an error nothing is left behind, whatever
// Options.Keep says, and the error carries the end of the server's own log.
//
// The error wraps ErrMode, ErrNotInstalled, ErrNoDocker, ErrNoImage or
// ErrDatabaseExists where one of them is the cause. No error and no log line
// holds a DSN or a password.
//
// On Linux a local server dies with this process, even one killed with SIGKILL;
// its folder then stays behind, as does a container where the reaper of
// testcontainers-go is switched off.
func Start(ctx context.Context, opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	database, err := newDatabaseName()
	if err != nil {
		return nil, err
	}
	return start(ctx, opts, database)
}

// start does what Start says, with options that are complete.
func start(ctx context.Context, opts Options, database string) (*Server, error) {
	in, why, err := launch(ctx, opts, database)
	if err != nil {
		return nil, err
	}
	s := &Server{Database: database, Why: why, place: in.place, dsn: in.dsn, logger: opts.Logger}
	if !in.given {
		s.remove = in.remove
	}
	if err := s.prepare(ctx, opts, in); err != nil {
		if in.tail != nil {
			err = withTail(ctx, err, in.tail)
		}
		if closeErr := s.Close(ctx); closeErr != nil {
			err = fmt.Errorf("%w; and it is left behind: %w", err, closeErr)
		}
		return nil, err
	}
	if opts.Keep {
		s.Kept = in.kept(database)
	}
	opts.Logger.Debug("scratch server is up", "server", s.Describe(), "why", why)
	return s, nil
}

// launch picks the mode and tells the server to start.
func launch(ctx context.Context, opts Options, database string) (*instance, string, error) {
	dsn, given := strings.CutPrefix(opts.Mode, ModeDSN)
	switch {
	case given:
		in, err := useDSN(dsn, database)
		return in, "asked for a database on a running server", err
	case opts.Mode == ModeDocker:
		in, err := startDocker(ctx, opts, database)
		return in, "asked for Docker", err
	}
	bin, err := findServer(ctx, opts.Binary)
	switch {
	case err == nil:
		why := "asked for a local server, found " + bin.path
		if opts.Mode == ModeAuto {
			why = "auto takes a local server when one is installed, found " + bin.path
		}
		in, err := startLocal(ctx, opts, bin)
		return in, why, err
	case opts.Mode == ModeAuto && errors.Is(err, ErrNotInstalled):
		in, dockerErr := startDocker(ctx, opts, database)
		if errors.Is(dockerErr, ErrNoDocker) {
			return nil, "", fmt.Errorf("%w and %w", err, dockerErr)
		}
		return in, "auto takes Docker when no local server is installed", dockerErr
	default:
		return nil, "", err
	}
}

// prepare waits for the server and makes the database.
func (s *Server) prepare(ctx context.Context, opts Options, in *instance) error {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.StartTimeout,
		fmt.Errorf("not ready within %s", opts.StartTimeout))
	defer cancel()
	db, err := waitForSQL(ctx, in)
	if err != nil {
		return fmt.Errorf("start scratch server %s: %w", in.place, err)
	}
	defer db.Close()
	if s.Identity, err = mysqldb.Identify(ctx, db); err != nil {
		return fmt.Errorf("start scratch server %s: %w", in.place, err)
	}
	// From here on the database may exist, also after a lost connection.
	s.remove = in.remove
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+mysqldb.QuoteName(s.Database)+" CHARACTER SET utf8mb4")
	if err == nil {
		return nil
	}
	if in.given && mysqldb.Number(err) != 0 {
		// The server said no, so whatever has this name is not ours to drop.
		s.remove = nil
	}
	if mysqldb.IsError(err, mysqldb.ErDBCreateExists) {
		err = ErrDatabaseExists
	}
	return fmt.Errorf("create database %s %s: %w", s.Database, in.place, err)
}

// waitForSQL returns a pool once the server answers SQL. It waits for that and
// not for a line in a log, since the official images first start a server that
// is not yet the one to use. A given server gets one try: nothing says that it
// is about to come up.
func waitForSQL(ctx context.Context, in *instance) (*sql.DB, error) {
	for {
		db, err := try(ctx, in.dsn)
		if err == nil {
			return db, nil
		}
		if in.given || ctx.Err() != nil {
			return nil, timeoutCause(ctx, err)
		}
		if failed := in.failure(ctx); failed != nil {
			return nil, failed
		}
		select {
		case <-ctx.Done():
			return nil, timeoutCause(ctx, err)
		case <-time.After(pollInterval):
		}
	}
}

// try bounds one attempt: the proxy in front of a container may accept the
// connection long before there is a server behind it.
func try(ctx context.Context, dsn string) (*sql.DB, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return mysqldb.Open(ctx, dsn, mysqldb.Options{MaxConns: 1})
}

// timeoutCause says why ctx ended, and what the server last answered when it
// was for want of time.
func timeoutCause(ctx context.Context, last error) error {
	switch {
	case ctx.Err() == nil:
		return last
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: last answer: %w", context.Cause(ctx), last)
	default:
		return ctx.Err()
	}
}

// withTail adds the end of the server's log to err, also when ctx has ended.
func withTail(ctx context.Context, err error, tail func(context.Context) string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	text := tail(ctx)
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; the end of its log:\n%s", err, text)
}

// DSN returns the data source name of a database of the server, for
// mysqldb.Open; an empty name selects none. It may hold a password.
func (s *Server) DSN(database string) string {
	dsn, err := mysqldb.WithDatabase(s.dsn, database)
	if err != nil {
		// Start has connected with s.dsn.
		panic("scratch: " + err.Error())
	}
	return dsn
}

// Describe says what the server is and where it runs, such as "MySQL 9.7.4 in
// Docker (image mysql:9.7)" or "MariaDB 10.11.19 as a local process".
func (s *Server) Describe() string {
	return s.Identity.String() + " " + s.place
}

// Close removes all that Start made: the process and its folder, the container,
// or the database on a given server. It does its work although ctx may be
// cancelled, within a minute. After a success it does nothing and returns nil;
// after an error it may be called again. With Options.Keep it does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Kept != "" {
		return nil
	}
	if s.remove == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.remove(ctx); err != nil {
		return fmt.Errorf("remove scratch server %s: %w", s.place, err)
	}
	s.remove = nil
	s.logger.Debug("scratch server is removed", "place", s.place)
	return nil
}

func newDatabaseName() (string, error) {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("choose a database name: %w", err)
	}
	return DatabasePrefix + hex.EncodeToString(b), nil
}
