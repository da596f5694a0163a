package restore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// says is an edit of a manifest: what a source of this version found of payloads.
func says(version string, f *manifest.PayloadFidelity) func(*manifest.Manifest) {
	return func(m *manifest.Manifest) { m.Source.ServerVersion, m.PayloadFidelity = version, f }
}

func carries() *manifest.PayloadFidelity {
	return &manifest.PayloadFidelity{Checked: true, TextUnstableEventIDs: []string{}, ValueUnstableEventIDs: []string{}}
}

func versionOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

// The default target is proven, so that no rehearsal is made; and each thing that
// takes the proof away brings the rehearsal back.
func TestProofSparesRehearsal(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		isMySQL := s.Flavor() == mysqldb.MySQL
		rows := records(40)
		version := versionOf(t, newTarget(t, s))
		for _, tc := range []struct {
			name     string
			edit     func(*manifest.Manifest)
			alter    string
			opts     func(*Options)
			needed   bool
			because  string
			onMySQL  bool // needed on MySQL only
			noReason bool
		}{
			{name: "nothing"},
			{name: "no word of payloads", edit: func(*manifest.Manifest) {}, because: "JSON", onMySQL: true},
			{name: "payloads not checked", edit: says(version, &manifest.PayloadFidelity{
				TextUnstableEventIDs: []string{}, ValueUnstableEventIDs: []string{},
			}), because: "JSON", onMySQL: true},
			{name: "payloads checked by another version", edit: says("9.7.3", carries()), because: "JSON", onMySQL: true},
			{name: "one payload that does not carry", edit: says(version, &manifest.PayloadFidelity{
				Checked: true, TextUnstableRows: 1, TextUnstableEventIDs: []string{rows[3].EventID}, ValueUnstableEventIDs: []string{},
			}), because: "JSON", onMySQL: true},
			{name: "a column more", alter: "ADD note INT NULL", needed: true, because: "note"},
			{name: "a collation", alter: "MODIFY event_id VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL", needed: true, because: "collation"},
			{name: "overwriting", opts: func(o *Options) { o.OnConflict = Overwrite }, needed: true, because: "overwritten"},
			{name: "a relay", opts: func(o *Options) { o.RelayQuery = "status = 'pending'" }, needed: true, because: "relay"},
			{name: "dry run", opts: func(o *Options) { o.DryRun = true }, needed: true, noReason: true},
		} {
			t.Run(tc.name, func(t *testing.T) {
				if tc.edit == nil {
					tc.edit = says(version, carries())
				}
				db := newTarget(t, s)
				if tc.alter != "" {
					mustExec(t, db, "ALTER TABLE wallet_outbox "+tc.alter)
				}
				opts := rehearsing(t)
				if tc.opts != nil {
					tc.opts(&opts)
				}
				r, err := Batch(t.Context(), open(t, rows, tc.edit), db, opts)
				if err != nil || r.Complete() == opts.DryRun {
					t.Fatalf("error %v, report %+v", err, r)
				}
				if !tc.needed && !(tc.onMySQL && isMySQL) {
					if r.Rehearsal != nil || !strings.HasPrefix(r.NoRehearsal, "not needed: ") {
						t.Errorf("rehearsal %+v, reason for none %q", r.Rehearsal, r.NoRehearsal)
					}
					return
				}
				if r.Rehearsal == nil || r.NoRehearsal != "" {
					t.Fatalf("rehearsal %+v, reason for none %q", r.Rehearsal, r.NoRehearsal)
				}
				if tc.noReason != (len(r.Rehearsal.Because) == 0) || !strings.Contains(strings.Join(r.Rehearsal.Because, "; "), tc.because) {
					t.Errorf("because %q, want %q", r.Rehearsal.Because, tc.because)
				}
			})
		}
	})
}

// A definition that changes between the proof and the transaction proves nothing.
func TestProofOfAnotherDefinition(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(10)
		db := newTarget(t, s)
		v := open(t, rows, says(versionOf(t, db), carries()))
		r := &restorer{manifest: v.Manifest(), db: db, opts: mustDefaults(t, rehearsing(t)), needs: new(outbox.Needs)}
		r.log = r.opts.Logger
		for i := range rows {
			r.needs.Add(&rows[i])
		}
		r.report.Table = outbox.DefaultTable
		if err := r.preflight(t.Context()); err != nil || len(r.doubts) > 0 {
			t.Fatalf("error %v, doubts %q", err, r.doubts)
		}
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		a := &attempt{restorer: r, conn: conn}
		if err := a.spareRehearsal(t.Context()); err != nil || r.report.NoRehearsal == "" {
			t.Errorf("as it was: error %v, reason %q", err, r.report.NoRehearsal)
		}
		mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY event_type VARCHAR(63) NOT NULL")
		if err := a.spareRehearsal(t.Context()); !errors.Is(err, errTableChanged) {
			t.Errorf("another definition: error %v", err)
		}
		mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY event_type VARCHAR(64) NOT NULL")
		mustExec(t, conn, "SET sql_mode = ''")
		if err := a.spareRehearsal(t.Context()); !errors.Is(err, errTableChanged) {
			t.Errorf("another session: error %v", err)
		}
		mustExec(t, conn, "SET sql_mode = 'STRICT_ALL_TABLES'")
	})
}

func mustDefaults(t *testing.T, o Options) Options {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// The condition of the default relay is held against what was read back.
func TestDeliveredOnly(t *testing.T) {
	rows := records(1)
	a := &attempt{restorer: &restorer{}, inserted: newLines(1)}
	l := loader{attempt: a}
	row := manifest.Row{Record: rows[0], Line: 1}
	row.Status = "pending"
	if err := l.confirm(context.Background(), &row, identical); !errors.Is(err, ErrWouldDispatch) {
		t.Errorf("a pending row: error %v", err)
	}
	row.Status = manifest.StatusDelivered
	if err := l.confirm(context.Background(), &row, identical); err != nil || a.report.Inserted != 1 {
		t.Errorf("a delivered row: error %v", err)
	}
}
