package restore

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// asAccount returns a pool on the database of dsn for a new account with these
// privileges.
func asAccount(t *testing.T, root *sql.DB, dsn, privileges string) *sql.DB {
	t.Helper()
	database, err := mysqldb.Database(dsn)
	if err != nil {
		t.Fatal(err)
	}
	user := "wa_" + strings.ToLower(rand.Text()[:12])
	mustExec(t, root, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'secret'")
	t.Cleanup(func() { mustExec(t, root, "DROP USER '"+user+"'@'%'") })
	mustExec(t, root, "GRANT "+privileges+" ON "+database+".* TO '"+user+"'@'%'")
	db, err := mysqldb.Open(t.Context(), user+":secret@"+dsn[strings.LastIndex(dsn, "@")+1:]+"?sql_safe_updates=1", mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A dry run finds that the account may not write, although it may write to its own
// temporary table; one that finds nothing to write does not mind.
func TestDryRunTriesToWrite(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(20)
		v := open(t, rows, nil)
		for _, tt := range []struct {
			name       string
			privileges string
			readOnly   bool
			overwrite  bool
			want       string // in the problem; "" for none
		}{
			{"all privileges", "ALL PRIVILEGES", false, true, ""},
			{"no more than is needed", "SELECT, INSERT, UPDATE, CREATE TEMPORARY TABLES", false, true, ""},
			{"no INSERT", "SELECT, UPDATE, CREATE TEMPORARY TABLES", false, false, "INSERT command denied"},
			{"no UPDATE", "SELECT, INSERT, CREATE TEMPORARY TABLES", false, true, "UPDATE command denied"},
			{"no UPDATE, and none needed", "SELECT, INSERT, CREATE TEMPORARY TABLES", false, false, ""},
			{"no temporary table either", "SELECT", false, false, "INSERT command denied"},
			{"read only", "ALL PRIVILEGES", true, false, "read-only"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				root, dsn := s.NewDB(t)
				mustExec(t, root, outbox.Schema(outbox.DefaultTable, ""))
				insert(t, root, rows[:5]...)
				if tt.overwrite {
					mustExec(t, root, "UPDATE wallet_outbox SET user_id = 5")
				}
				before := contents(t, root)
				db := asAccount(t, root, dsn, tt.privileges)
				if tt.readOnly {
					mustExec(t, root, "SET GLOBAL read_only = ON")
					t.Cleanup(func() { mustExec(t, root, "SET GLOBAL read_only = OFF") })
				}
				opts := rehearsing(t)
				opts.DryRun = true
				if tt.overwrite {
					opts.OnConflict = Overwrite
				}
				r, err := Batch(t.Context(), v, db, opts)
				var preflight *PreflightError
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("the dry run = %v", err)
				case tt.want == "":
				case !errors.As(err, &preflight) || len(preflight.Problems) != 1 || preflight.Problems[0].Code != notWritable ||
					!strings.Contains(preflight.Problems[0].Detail, tt.want):
					t.Errorf("the dry run = %v, want the problem %s with %q", err, notWritable, tt.want)
				}
				if r.Missing != 15 {
					t.Errorf("%d rows are missing, want 15", r.Missing)
				}
				checkContents(t, contents(t, root), before)
				opts.OnConflict = Fail
				if !tt.overwrite {
					some := open(t, rows[:5], nil)
					if r, err := Batch(t.Context(), some, db, opts); err != nil || r.Present != 5 {
						t.Errorf("where nothing is to be written: %d present, %v", r.Present, err)
					}
				}
			})
		}
	})
}

// A dry run says which keys it cannot answer for.
func TestDryRunNamesWhatItCannotSee(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		v := open(t, records(20), nil)
		opts := rehearsing(t)
		opts.DryRun = true
		unseen := func() []string {
			t.Helper()
			r, err := Batch(t.Context(), v, db, opts)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range r.Problems {
				if p.Code == notInRehearsal {
					all = append(all, p.Detail)
				}
			}
			return all
		}
		if got := unseen(); got != nil {
			t.Errorf("of a plain table: %q", got)
		}
		mustExec(t, db, "CREATE TABLE users (id BIGINT PRIMARY KEY)")
		mustExec(t, db, "ALTER TABLE wallet_outbox ADD UNIQUE KEY uk_command (command_id), ADD CONSTRAINT fk_user FOREIGN KEY (user_id) REFERENCES users (id)")
		if got := unseen(); len(got) != 1 || !strings.Contains(got[0], "unique key uk_command") || !strings.Contains(got[0], "foreign key fk_user") {
			t.Errorf("of keys: %q", got)
		}
		opts.DryRun = false
		if r, err := Batch(t.Context(), v, db, opts); !errors.Is(err, ErrConflict) ||
			slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Code == notInRehearsal }) {
			t.Errorf("the restore, whose users are missing = %v, problems %v", err, r.Problems)
		}
		mustExec(t, db, "ALTER TABLE wallet_outbox DROP FOREIGN KEY fk_user") // so that the database can be dropped in any order
	})
}
