// Package mysqltest runs tests on real servers: MySQL in Docker and MariaDB as
// a process, each started at most once in a test binary.
//
//	func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }
//
//	func TestInsert(t *testing.T) {
//		mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
//			db, dsn := s.NewDB(t)
//			…
//		})
//	}
//
// A server that this machine does not have skips its subtests, unless
// WALLETARCHIVE_TEST_REQUIRE names it. Everything else that goes wrong fails.
// Which server and version the checks ran on is printed.
package mysqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/scratch"
)

// databasePrefix begins the name of each database of NewDB.
const databasePrefix = "walletarchive_test_"

// cleanupTimeout bounds a DROP DATABASE, which waits for a transaction that a
// test forgot.
const cleanupTimeout = 30 * time.Second

// Server is a running server that tests share.
type Server struct {
	Name     string         // MySQL or MariaDB, the constants
	Identity mysqldb.Server // what it says it is; its Flavor fits the Name
	Where    string         // "MySQL 9.7.4 in Docker (image …)", for people

	dsn string
}

// Flavor is the flavor of the server's Identity.
func (s Server) Flavor() mysqldb.Flavor { return s.Identity.Flavor }

// DSN returns the data source name of a database of the server, for an account
// that may do everything; an empty name selects none.
func (s Server) DSN(database string) string {
	dsn, err := mysqldb.WithDatabase(s.dsn, database)
	if err != nil {
		panic("mysqltest: " + err.Error()) // it has been connected with
	}
	return dsn
}

// NewDB creates an empty database with a name that nobody else uses and
// returns a pool on it, opened by mysqldb.Open, and its DSN. When the test
// ends the pool is closed and the database dropped.
func (s Server) NewDB(t testing.TB) (*sql.DB, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cleanupTimeout)
	defer cancel()
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	name := databasePrefix + hex.EncodeToString(random)
	s.exec(ctx, t, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		s.exec(ctx, t, "DROP DATABASE "+name)
	})
	db, err := mysqldb.Open(ctx, s.DSN(name), mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return db, s.DSN(name)
}

// exec runs one statement on a connection of its own.
func (s Server) exec(ctx context.Context, t testing.TB, statement string) {
	t.Helper()
	db, err := mysqldb.Open(ctx, s.DSN(""), mysqldb.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Each runs f as one subtest a server, named as the server is.
func Each(t *testing.T, f func(t *testing.T, s Server)) {
	t.Helper()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { f(t, Get(t, name)) })
	}
}

// Get returns the server of that name, which it starts when it is the first to
// ask. Without one the test is skipped, or fails where one is required.
func Get(t testing.TB, name string) Server {
	t.Helper()
	slot, ok := slots[name]
	if !ok {
		t.Fatalf("mysqltest: no server is called %q", name)
	}
	if !inMain {
		t.Fatal("mysqltest: TestMain of this package does not call mysqltest.Main, so nobody would stop the servers")
	}
	if _, err := Required(); err != nil {
		t.Fatal("mysqltest: ", err)
	}
	slot.once.Do(func() { slot.start(t.Context(), name) })
	switch {
	case slot.err == nil:
	case errors.Is(slot.err, ErrMissing):
		Missing(t, name, slot.err)
	default:
		t.Fatalf("no %s to test on: %v", name, slot.err)
	}
	return slot.server
}

// Missing ends the test for want of the server of that name, or of what belongs
// to it, such as its client: it fails where the environment requires that server,
// and is skipped elsewhere.
func Missing(t testing.TB, name string, why error) {
	t.Helper()
	required, err := Required()
	switch {
	case err != nil:
		t.Fatal("mysqltest: ", err)
	case slices.Contains(required, name):
		t.Fatalf("no %s to test on: %v", name, why)
	default:
		t.Skipf("no %s to test on: %v", name, why)
	}
}

// slot is a server of this test binary.
type slot struct {
	once    sync.Once
	server  Server
	err     error
	mu      sync.Mutex // guards scratch, which a signal may close at any time
	scratch *scratch.Server
}

var (
	slots  = map[string]*slot{MySQL: {}, MariaDB: {}}
	inMain bool // set before the first test and not changed after
)

func (s *slot) start(ctx context.Context, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scratch, s.err = Start(ctx, name)
	if s.err != nil {
		return
	}
	s.server = Server{Name: name, Identity: s.scratch.Identity, Where: s.scratch.Describe(), dsn: s.scratch.DSN("")}
	fmt.Fprintf(os.Stderr, "mysqltest: %s checks run on %s\n", name, s.server.Where)
}

func (s *slot) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scratch == nil {
		return nil
	}
	return s.scratch.Close(context.Background())
}

// Main runs the tests of a package and then stops the servers that they
// started, also on SIGINT and SIGTERM. It returns the exit status for TestMain
// to exit with: 1 also when a server could not be stopped.
func Main(m *testing.M) int {
	inMain = true
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		_ = stopAll()
		os.Exit(130)
	}()
	code := m.Run()
	if err := stopAll(); err != nil {
		fmt.Fprintln(os.Stderr, "mysqltest:", err)
		code = max(code, 1)
	}
	return code
}

func stopAll() error {
	var errs []error
	for _, name := range Names() {
		errs = append(errs, slots[name].stop())
	}
	return errors.Join(errs...)
}
