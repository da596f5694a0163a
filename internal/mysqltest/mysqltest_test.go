package mysqltest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

func TestEachServerIsWhatItsNameSays(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		want := map[string]mysqldb.Flavor{"mysql": mysqldb.MySQL, "mariadb": mysqldb.MariaDB}[s.Name]
		if s.Flavor() != want || !strings.Contains(t.Name(), s.Name) {
			t.Errorf("subtest %s runs on %s, a %s", t.Name(), s.Where, s.Flavor())
		}
	})
}

func TestNewDB(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		ctx := t.Context()
		var names []string
		t.Run("fresh", func(t *testing.T) {
			for range 2 {
				db, dsn := s.NewDB(t)
				var name string
				var tables int
				err := db.QueryRowContext(ctx, `SELECT DATABASE(), COUNT(table_name) FROM information_schema.tables
					WHERE table_schema = DATABASE()`).Scan(&name, &tables)
				if err != nil {
					t.Fatal(err)
				}
				if inDSN, err := mysqldb.Database(dsn); err != nil || inDSN != name {
					t.Errorf("DSN names database %q (%v), want %q", inDSN, err, name)
				}
				if tables != 0 {
					t.Errorf("new database has %d tables, want 0", tables)
				}
				if _, err := db.ExecContext(ctx, "CREATE TABLE t (a INT)"); err != nil {
					t.Error(err)
				}
				names = append(names, name)
			}
		})
		if len(names) != 2 || names[0] == names[1] {
			t.Fatalf("databases are called %q, want two names", names)
		}
		admin, err := mysqldb.Open(ctx, s.DSN(""), mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		var left int
		err = admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN (?, ?)",
			names[0], names[1]).Scan(&left)
		if err != nil || left != 0 {
			t.Errorf("after the test %d of %q are left (%v), want 0", left, names, err)
		}
	})
}

func TestServersAllowLocalInfile(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		settings, err := mysqldb.ReadSettings(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if !settings.LocalInfile {
			t.Error("local_infile is OFF, want ON")
		}
	})
}

func TestRequired(t *testing.T) {
	for _, test := range []struct {
		value string
		want  string
		ok    bool
	}{
		{"", "", true},
		{"mysql", "mysql", true},
		{"mysql,mariadb", "mysql mariadb", true},
		{"mysql,cos", "mysql cos", true},
		{"mysql, postgres", "", false},
	} {
		t.Run(test.value, func(t *testing.T) {
			t.Setenv(mysqltest.EnvRequire, test.value)
			got, err := mysqltest.Required()
			if strings.Join(got, " ") != test.want || (err == nil) != test.ok {
				t.Errorf("Required() = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestStartTellsMissingFromBroken(t *testing.T) {
	t.Run("no image", func(t *testing.T) {
		t.Setenv(mysqltest.EnvMySQLDSN, "")
		t.Setenv(mysqltest.EnvMySQLImage, "walletarchive-no-such-image:0")
		_, err := mysqltest.Start(t.Context(), mysqltest.MySQL)
		if !errors.Is(err, mysqltest.ErrMissing) {
			t.Errorf("Start without the image = %v, want ErrMissing", err)
		}
	})
	t.Run("nobody at the DSN", func(t *testing.T) {
		t.Setenv(mysqltest.EnvMySQLDSN, "root:secret@unix("+t.TempDir()+"/none.sock)/")
		_, err := mysqltest.Start(t.Context(), mysqltest.MySQL)
		if err == nil || errors.Is(err, mysqltest.ErrMissing) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Start with a dead DSN = %v, want another error than ErrMissing and no password", err)
		}
	})
	t.Run("another flavor", func(t *testing.T) {
		mariadb := mysqltest.Get(t, mysqltest.MariaDB)
		t.Setenv(mysqltest.EnvMySQLDSN, mariadb.DSN(""))
		_, err := mysqltest.Start(t.Context(), mysqltest.MySQL)
		if err == nil || !strings.Contains(err.Error(), "is not a mysql") {
			t.Errorf("Start of MySQL on MariaDB's DSN = %v, want an error", err)
		}
	})
	t.Run("unknown name", func(t *testing.T) {
		if _, err := mysqltest.Start(t.Context(), "oracle"); err == nil || errors.Is(err, mysqltest.ErrMissing) {
			t.Errorf("Start of an unknown server = %v, want another error than ErrMissing", err)
		}
	})
}

func TestMissingServerSkipsUnlessRequired(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		required string
		wantOK   bool
		want     string
	}{
		{"skipped", "", true, "--- SKIP: TestEachServerIsWhatItsNameSays/mysql"},
		{"required", "mysql", false, "--- FAIL: TestEachServerIsWhatItsNameSays/mysql"},
		{"another is required", "mariadb", true, "--- SKIP: TestEachServerIsWhatItsNameSays/mysql"},
		{"misspelt", "mysq", false, "--- FAIL: TestEachServerIsWhatItsNameSays/mysql"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^TestEachServerIsWhatItsNameSays$/^mysql$")
			cmd.Env = append(os.Environ(), mysqltest.EnvMySQLDSN+"=",
				mysqltest.EnvMySQLImage+"=walletarchive-no-such-image:0", mysqltest.EnvRequire+"="+test.required)
			out, err := cmd.CombinedOutput()
			if (err == nil) != test.wantOK || !strings.Contains(string(out), test.want) {
				t.Errorf("tests without MySQL and %s=%q: %v, want success %t and %q in:\n%s",
					mysqltest.EnvRequire, test.required, err, test.wantOK, test.want, out)
			}
		})
	}
}
