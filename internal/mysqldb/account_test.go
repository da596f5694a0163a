package mysqldb_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

// An account for this program has rights on its tables and none to administer.
func TestOpenAsAnAccountWithoutPrivileges(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		name, err := mysqldb.Database(dsn)
		if err != nil {
			t.Fatal(err)
		}
		user := strings.TrimPrefix(name, "walletarchive_") // an account's name has 32 characters at most
		for _, statement := range []string{
			"CREATE USER '" + user + "'@'%' IDENTIFIED BY 'secret'",
			"GRANT SELECT ON " + name + ".* TO '" + user + "'@'%'",
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if _, err := db.ExecContext(context.Background(), "DROP USER '"+user+"'@'%'"); err != nil {
				t.Error(err)
			}
		})
		plain, err := mysqldb.Open(t.Context(), user+":secret@"+dsn[strings.LastIndex(dsn, "@")+1:], mysqldb.Options{})
		if err != nil {
			t.Fatalf("Open = %v", err)
		}
		defer plain.Close()
		settings, err := mysqldb.ReadSettings(t.Context(), plain)
		if err != nil || !settings.Strict() {
			t.Errorf("ReadSettings = %+v, %v, want strict ones", settings, err)
		}
	})
}

func TestOpenRefusesAServerThatHidesWarnings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		_, dsn := s.NewDB(t)
		_, err := mysqldb.Open(t.Context(), dsn+"?max_error_count=0", mysqldb.Options{})
		if !errors.Is(err, mysqldb.ErrWarningsHidden) {
			t.Errorf("Open = %v, want ErrWarningsHidden", err)
		}
	})
}
