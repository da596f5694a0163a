package scratch_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/scratch"
)

// databases counts the databases of that name on the server.
func databases(t *testing.T, s mysqltest.Server, name string) string {
	t.Helper()
	return ask(t, s.DSN(""), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?", name)
}

func TestDSN(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, server mysqltest.Server) {
		db, dsn := server.NewDB(t)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE wallet_outbox (a INT)"); err != nil {
			t.Fatal(err)
		}
		s, err := scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeDSN + dsn})
		if err != nil {
			t.Fatal(err)
		}
		checkUsable(t, s)
		if got := databases(t, server, s.Database); got != "1" {
			t.Errorf("there are %s databases %s, want 1", got, s.Database)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if err := s.Close(cancelled); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if got := databases(t, server, s.Database); got != "0" {
			t.Errorf("there are %s databases %s after Close, want 0", got, s.Database)
		}
		if got := ask(t, dsn, "SELECT COUNT(*) FROM wallet_outbox"); got != "0" {
			t.Errorf("the table in the DSN's own database has %s rows, want to find it untouched", got)
		}
	})
}

func TestDSNKeep(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, server mysqltest.Server) {
		s, err := scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeDSN + server.DSN(""), Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			db, err := mysqldb.Open(context.Background(), server.DSN(""), mysqldb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(context.Background(), "DROP DATABASE "+s.Database); err != nil {
				t.Error(err)
			}
		})
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := databases(t, server, s.Database); got != "1" || !strings.Contains(s.Kept, "DROP DATABASE "+s.Database) {
			t.Errorf("there are %s databases %s and Kept = %q, want 1 and how to drop it", got, s.Database, s.Kept)
		}
	})
}

func TestDSNRefusesADatabaseThatExists(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, server mysqltest.Server) {
		db, dsn := server.NewDB(t)
		name, err := mysqldb.Database(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE precious (a INT)"); err != nil {
			t.Fatal(err)
		}
		_, err = scratch.StartNamed(t.Context(), scratch.Options{Mode: scratch.ModeDSN + dsn}, name)
		if !errors.Is(err, scratch.ErrDatabaseExists) {
			t.Errorf("Start = %v, want ErrDatabaseExists", err)
		}
		if got := ask(t, dsn, "SELECT COUNT(*) FROM precious"); got != "0" {
			t.Errorf("the table has %s rows, want to find it untouched", got)
		}
	})
}

func TestDSNFailures(t *testing.T) {
	t.Run("unreadable", func(t *testing.T) {
		_, err := scratch.Start(t.Context(), scratch.Options{Mode: "dsn:root:secret@tcp(127.0.0.1:1"})
		if !errors.Is(err, mysqldb.ErrBadDSN) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Start = %v, want ErrBadDSN without the password", err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		dsn := "root:secret@unix(" + t.TempDir() + "/none.sock)/"
		_, err := scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeDSN + dsn})
		if err == nil || !strings.Contains(err.Error(), "none.sock") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Start = %v, want where nobody was, without the password", err)
		}
		if strings.Contains(err.Error(), "left behind") {
			t.Errorf("Start = %v, but it never got as far as making anything", err)
		}
	})
	t.Run("may not", func(t *testing.T) {
		mysqltest.Each(t, func(t *testing.T, server mysqltest.Server) {
			db, dsn := server.NewDB(t)
			user, err := mysqldb.Database(dsn)
			if err != nil {
				t.Fatal(err)
			}
			user = strings.TrimPrefix(user, "wallet") // at most 32 characters
			if _, err := db.ExecContext(t.Context(), "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'secret'"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := db.ExecContext(context.Background(), "DROP USER '"+user+"'@'%'"); err != nil {
					t.Error(err)
				}
			})
			dsn = user + ":secret@" + dsn[strings.LastIndex(dsn, "@")+1:]
			_, err = scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeDSN + dsn})
			if !mysqldb.IsError(err, mysqldb.ErDBAccessDenied) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Start = %v, want ER_DBACCESS_DENIED_ERROR without the password", err)
			}
		})
	})
}
