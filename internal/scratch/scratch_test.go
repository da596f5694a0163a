package scratch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/scratch"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		os.Exit(helper())
	}
	os.Exit(mysqltest.Main(m))
}

// mustStart starts a server for the test, or skips as package mysqltest does
// when this machine lacks what it takes.
func mustStart(t *testing.T, name string, opts scratch.Options) *scratch.Server {
	t.Helper()
	s, err := scratch.Start(t.Context(), opts)
	if err != nil {
		skipWithout(t, name, err)
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func skipWithout(t *testing.T, name string, err error) {
	t.Helper()
	for _, missing := range []error{scratch.ErrNotInstalled, scratch.ErrNoDocker, scratch.ErrNoImage} {
		if errors.Is(err, missing) {
			mysqltest.Missing(t, name, err)
		}
	}
}

// exec runs statements in the server's own database.
func exec(t *testing.T, s *scratch.Server, statements ...string) {
	t.Helper()
	db, err := mysqldb.Open(t.Context(), s.DSN(s.Database), mysqldb.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// ask returns the one value that a query gives, as text.
func ask(t *testing.T, dsn, query string, args ...any) string {
	t.Helper()
	db, err := mysqldb.Open(t.Context(), dsn, mysqldb.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var value string
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// checkUsable checks what Start promises of every server.
func checkUsable(t *testing.T, s *scratch.Server) {
	t.Helper()
	if !regexp.MustCompile(`^` + scratch.DatabasePrefix + `[0-9a-f]{16}$`).MatchString(s.Database) {
		t.Errorf("database is called %q", s.Database)
	}
	exec(t, s, "CREATE TABLE t (a VARCHAR(10))", "INSERT INTO t VALUES ('😀')")
	if got := ask(t, s.DSN(s.Database), "SELECT CONCAT(HEX(a), @@character_set_database) FROM t"); got != "F09F9880utf8mb4" {
		t.Errorf("the emoji came back as %s", got)
	}
	if got := ask(t, s.DSN(""), "SELECT COALESCE(DATABASE(), 'none')"); got != "none" {
		t.Errorf("DSN(\"\") selects database %q", got)
	}
	version := ask(t, s.DSN(""), "SELECT VERSION()")
	if s.Identity.Version != version || !strings.HasPrefix(s.Describe(), s.Identity.String()+" ") || s.Why == "" {
		t.Errorf("Describe() = %q, Why = %q, version %q, want them to say %q", s.Describe(), s.Why, s.Identity.Version, version)
	}
}

// checkServes checks that the server still answers.
func checkServes(t *testing.T, s *scratch.Server) {
	t.Helper()
	if got := ask(t, s.DSN(s.Database), "SELECT DATABASE()"); got != s.Database {
		t.Errorf("the server's database is %s, want %s", got, s.Database)
	}
}

// logInto returns options that log everything, and fails the test when they
// logged the password of a server.
func logInto(t *testing.T, opts *scratch.Options) (check func(secret string)) {
	var log bytes.Buffer
	opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return func(secret string) {
		t.Helper()
		if log.Len() == 0 || strings.Contains(log.String(), secret) {
			t.Errorf("the log is empty or holds the password:\n%s", &log)
		}
	}
}

func TestMode(t *testing.T) {
	for _, mode := range []string{"dsn:", "Local", "root:secret@tcp(127.0.0.1)/", " docker"} {
		t.Run(mode, func(t *testing.T) {
			_, err := scratch.Start(t.Context(), scratch.Options{Mode: mode})
			if !errors.Is(err, scratch.ErrMode) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Start in mode %q = %v, want ErrMode without the mode's text", mode, err)
			}
		})
	}
	if _, err := scratch.Start(t.Context(), scratch.Options{Mode: "local", StartTimeout: -1}); err == nil {
		t.Error("Start with a negative timeout = nil, want an error")
	}
}

func TestAuto(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		s := mustStart(t, mysqltest.MariaDB, scratch.Options{Binary: "mariadbd"})
		if !strings.HasPrefix(s.Why, "auto takes a local server") || !strings.HasSuffix(s.Describe(), " as a local process") {
			t.Errorf("auto started %q because %q, want a local process", s.Describe(), s.Why)
		}
	})
	t.Run("Docker", func(t *testing.T) {
		opts := scratch.Options{Binary: "/nonexistent/mysqld", Image: image(), NoPull: true}
		s := mustStart(t, mysqltest.MySQL, opts)
		if s.Why != "auto takes Docker when no local server is installed" || !strings.Contains(s.Describe(), " in Docker (image ") {
			t.Errorf("auto started %q because %q, want Docker", s.Describe(), s.Why)
		}
	})
}
