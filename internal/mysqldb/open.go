package mysqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// DefaultConnectTimeout is how long a connection may take to be made when the
// DSN has no timeout of its own.
const DefaultConnectTimeout = 15 * time.Second

// ErrBadDSN is returned by [Open] for a DSN that cannot be read, before any
// server is contacted. Its text never holds a part of the DSN.
var ErrBadDSN = errors.New("DSN cannot be read: want user:password@tcp(host:3306)/database or user:password@unix(/path/to.sock)/database")

// ErrWarningsHidden is returned by [Open] for a server that would hide every
// warning from this account.
var ErrWarningsHidden = errors.New("the server shows no warnings: set its max_error_count to 1 or more")

// Options are the settings of [Open]. The zero value is usable.
type Options struct {
	// MaxConns bounds the open connections; zero means no bound.
	MaxConns int
	// Logger takes what the driver says of broken connections; nil discards it.
	Logger *slog.Logger
}

// sqlMode is strict in every part, and free of the modes that change what a
// string literal means (NO_BACKSLASH_ESCAPES, ANSI_QUOTES) or what a column
// gives back (PAD_CHAR_TO_FULL_LENGTH).
const sqlMode = "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// pinned are the session variables that every connection gets, in the driver's
// spelling: each is the right side of a SET. All of them exist in MySQL 5.7 and
// later and in MariaDB 10.5 and later.
var pinned = map[string]string{
	"sql_mode":   "'" + sqlMode + "'",
	"time_zone":  "'+00:00'",
	"autocommit": "1",
	// A COMMIT ends a transaction, and neither begins one nor ends the connection.
	"completion_type": "0",
	// A server-wide limit would shorten every result without a word.
	"sql_select_limit": "18446744073709551615",
	// Without it a note may exist and not be shown. max_error_count would belong
	// here, too, but MySQL 8 and later let only some accounts set it (1227,
	// measured on 9.7.4): Open asks for its value instead.
	"sql_notes": "1",
	// A global 0 would let rows in that a key forbids.
	"unique_checks":      "1",
	"foreign_key_checks": "1",
	// One end of a long stream may wait for the other: a page for an upload, a
	// LOAD DATA for a decoder, the connection of the lock for a whole batch.
	"net_read_timeout":  "600",
	"net_write_timeout": "600",
	"wait_timeout":      "28800",
}

// Open returns a pool of connections to the server that dsn names (the format
// of github.com/go-sql-driver/mysql), after one of them has answered.
//
// These settings are pinned on every connection and override those of the DSN:
// charset utf8mb4, strict sql_mode, time_zone +00:00, no result limit, no
// chained transactions, notes counted as warnings, parseTime off, one statement
// a call, no local file may be asked for by the server, and parameters
// interpolated by the client (exact under this charset and sql_mode, and one
// round trip instead of three).
//
// Errors of statements name the key or column, and leave out the value of a row
// that the server quotes.
//
// The error is [ErrBadDSN] before anything is contacted, [ErrWarningsHidden], or
// what connecting gave; none holds a password. The caller closes the pool.
func Open(ctx context.Context, dsn string, opts Options) (*sql.DB, error) {
	cfg, err := config(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = driverLogger{opts.Logger}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, ErrBadDSN // its text may quote the DSN
	}
	db := sql.OpenDB(quietConnector{connector})
	db.SetMaxOpenConns(opts.MaxConns)
	db.SetMaxIdleConns(max(opts.MaxConns, 4))
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close() // no connection was made; the reason is err
		return nil, fmt.Errorf("connect to %s: %w", describe(cfg), err)
	}
	if err := checkWarningsShown(ctx, db); err != nil {
		_ = db.Close() // nothing was done on it; the reason is err
		return nil, fmt.Errorf("connect to %s: %w", describe(cfg), err)
	}
	return db, nil
}

// checkWarningsShown returns ErrWarningsHidden when the server is set to show
// none: then a cut value would look like one that fitted.
func checkWarningsShown(ctx context.Context, q Queryer) error {
	var shown int64
	if err := q.QueryRowContext(ctx, "SELECT @@SESSION.max_error_count").Scan(&shown); err != nil {
		return fmt.Errorf("ask whether warnings are shown: %w", err)
	}
	if shown == 0 {
		return ErrWarningsHidden
	}
	return nil
}

func config(dsn string) (*mysql.Config, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, ErrBadDSN
	}
	cfg.Loc = time.UTC
	cfg.AllowAllFiles = false
	cfg.ClientFoundRows = false // RowsAffected must count rows, not matches
	cfg.ColumnsWithAlias = false
	cfg.InterpolateParams = true
	cfg.MaxAllowedPacket = 0 // ask the server
	cfg.MultiStatements = false
	cfg.ParseTime = false
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultConnectTimeout
	}
	if cfg.ConnectionAttributes == "" {
		cfg.ConnectionAttributes = "program_name:walletarchive"
	}
	params := make(map[string]string, len(cfg.Params)+len(pinned))
	for name, value := range cfg.Params {
		if !overridden(name) {
			params[name] = value
		}
	}
	maps.Copy(params, pinned)
	cfg.Params = params
	return cfg, nil
}

// overridden reports whether a session variable of the DSN is one that Open
// pins, under any of the spellings that SET takes.
func overridden(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.TrimPrefix(name, "@@")
	for _, scope := range []string{"session", "local"} {
		if rest, ok := strings.CutPrefix(name, scope); ok {
			name = strings.TrimLeft(rest, " .\t")
		}
	}
	name = strings.Trim(name, "`")
	_, ok := pinned[name]
	return ok || strings.HasPrefix(name, "character_set_") || strings.HasPrefix(name, "collation_")
}

// parseDSN hides the driver's errors, which quote what they could not read, and
// with a forgotten slash that is the password. It also turns the driver's panic
// on the old parameter "strict" into an error.
func parseDSN(dsn string) (cfg *mysql.Config, err error) {
	defer func() {
		if recover() != nil {
			cfg, err = nil, ErrBadDSN
		}
	}()
	cfg, err = mysql.ParseDSN(dsn)
	if err != nil || dsn == "" {
		return nil, ErrBadDSN
	}
	return cfg, nil
}

// Redact returns what people may see of a DSN: user@host:port/database or
// user@/path/to.sock/database. Passwords and parameters are left out; a DSN that
// cannot be read is shown as "unreadable DSN" and no more.
func Redact(dsn string) string {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return "unreadable DSN"
	}
	return describe(cfg)
}

// HasPassword reports whether dsn holds a password. It is false for a DSN that
// cannot be read.
func HasPassword(dsn string) bool {
	cfg, err := parseDSN(dsn)
	return err == nil && cfg.Passwd != ""
}

// Database returns the name of the database in dsn, "" when it names none. The
// error is [ErrBadDSN].
func Database(dsn string) (string, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return "", err
	}
	return cfg.DBName, nil
}

// WithDatabase returns dsn with its database replaced by name. The result holds
// the password as dsn does. The error is [ErrBadDSN].
func WithDatabase(dsn, name string) (string, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return "", err
	}
	cfg.DBName = name
	return cfg.FormatDSN(), nil
}

func describe(cfg *mysql.Config) string {
	s := cfg.Addr
	if host, port, err := net.SplitHostPort(cfg.Addr); err == nil && port == "3306" {
		s = host
	}
	if cfg.User != "" {
		s = cfg.User + "@" + s
	}
	return s + "/" + cfg.DBName
}

// driverLogger gives the driver's remarks, which hold no data of a row, to slog.
type driverLogger struct{ l *slog.Logger }

// Print logs at debug level.
func (d driverLogger) Print(v ...any) {
	if d.l != nil {
		d.l.Debug("mysql driver", "message", fmt.Sprint(v...))
	}
}
