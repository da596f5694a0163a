package restore

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// conflicting returns a target that lacks rows 0 to 19, holds rows 20 to 29
// otherwise, and the rest as archived, and what it holds.
func conflicting(t *testing.T, s mysqltest.Server, rows []manifest.Record) (target func(*testing.T) map[string]string, options func() Options, run func(Options) (Report, error)) {
	t.Helper()
	db := newTarget(t, s)
	v := open(t, rows, nil)
	changed := append([]manifest.Record(nil), rows[20:]...)
	for i := range changed[:10] {
		changed[i].AvailableDelta = 99
		if i == 0 {
			changed[i].LastError = pointer("secret")
		}
	}
	insert(t, db, changed...)
	return func(t *testing.T) map[string]string { return contents(t, db) },
		func() Options { return testOptions(t) },
		func(o Options) (Report, error) { return Batch(t.Context(), v, db, o) }
}

func TestOnConflict(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		target, options, run := conflicting(t, s, rows)
		before := target(t)

		// Fail names all and writes none, also of the rows that were missing.
		opts := options()
		r, err := run(opts)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Count != 10 || r.State != Untouched {
			t.Errorf("error %v, state %s", err, r.State)
		}
		if diff := cmp.Diff(map[string]int64{"available_delta": 10, "last_error": 1}, r.ConflictColumns); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		checkContents(t, target(t), before)

		// So does Overwrite when the number is another one, however small.
		for _, n := range []int64{0, 9, 11} {
			opts.OnConflict, opts.ConfirmOverwrite = Overwrite, n
			var number *OverwriteError
			if r, err = run(opts); !errors.As(err, &number) || !errors.Is(err, ErrConflict) || number.Found != 10 || number.Confirmed != n {
				t.Errorf("%d confirmed: error %v", n, err)
			}
			checkContents(t, target(t), before)
		}
		// A dry run finds the number.
		opts.DryRun, opts.ConfirmOverwrite = true, 0
		if r, err = run(opts); err != nil || r.ConflictCount != 10 || r.Missing != 20 || r.Present != 10 {
			t.Errorf("dry run: error %v, report %+v", err, figuresOf(r))
		}

		// Skip restores the others and is not complete.
		opts = options()
		opts.OnConflict = Skip
		c := &tally{}
		hooks := c.hooks()
		hooks.BeforeCommit = nil
		opts.Hooks = []Hooks{hooks}
		r, err = run(opts)
		if err != nil || r.Complete() || r.State != Committed || r.Skipped != 10 || r.Inserted != 20 {
			t.Errorf("skip: error %v, report %+v", err, r)
		}
		if diff := cmp.Diff(map[Outcome]int{Skipped: 10, Inserted: 20, Present: 10}, c.Outcomes); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
		want := linesOf(rows)
		for i := 20; i < 30; i++ {
			key := app + "/" + rows[i].EventID
			want[key] = before[key]
		}
		checkContents(t, target(t), want)
	})
}

// Overwrite keeps what it overwrites, and makes every row as archived.
func TestOverwrite(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		rows[25].LastError = pointer("it's \\ odd\n")
		target, options, run := conflicting(t, s, rows)
		before := target(t)
		old := map[string]string{}
		opts := options()
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 10
		failing := errors.New("the hook fails")
		opts.Hooks = []Hooks{{
			Begin: func(context.Context) error { clear(old); return nil },
			Row: func(_ context.Context, o RowOutcome) error {
				if o.Outcome == Overwritten {
					old[app+"/"+o.Row.EventID] = string(o.Old.AppendLine(nil))
				} else if o.Old != nil {
					t.Errorf("%s row with an old one", o.Outcome)
				}
				return nil
			},
			BeforeCommit: func(context.Context, mysqldb.Session) error { return failing },
		}}
		if r, err := run(opts); !errors.Is(err, failing) || r.Overwritten != 0 {
			t.Errorf("error %v, %d overwritten", err, r.Overwritten)
		}
		checkContents(t, target(t), before)
		failing = nil
		r, err := run(opts)
		if err != nil || !r.Complete() || r.Overwritten != 10 || r.Inserted != 20 || r.Present != 10 || r.State != Committed {
			t.Fatalf("error %v, report %+v", err, r)
		}
		checkContents(t, target(t), linesOf(rows))
		for key, line := range old {
			if before[key] != line {
				t.Errorf("%s: saved %s, there was %s", key, line, before[key])
			}
		}
		if len(old) != 10 {
			t.Errorf("%d old rows were saved, want 10", len(old))
		}
		// Once done there is nothing to overwrite, and the number does not fit.
		if _, err := run(opts); !errors.As(err, new(*OverwriteError)) {
			t.Errorf("error %v, want an *OverwriteError", err)
		}
	})
}

// A row of the target that is no record of any archive cannot be kept, and a row
// under another event_id is none of the batch: neither is overwritten, and a
// trigger on UPDATE is refused like one on INSERT.
func TestOverwriteRefused(t *testing.T) {
	for name, prepare := range map[string]string{
		"no record":  "ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(128) NULL; UPDATE wallet_outbox SET worker_id = NULL",
		"stranger":   "ALTER TABLE wallet_outbox MODIFY event_id VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL; UPDATE wallet_outbox SET event_id = UPPER(event_id)",
		"trigger":    "UPDATE wallet_outbox SET user_id = 1; CREATE TRIGGER tr AFTER UPDATE ON wallet_outbox FOR EACH ROW SET @x = 1",
		"rewritten":  "UPDATE wallet_outbox SET user_id = 1; CREATE TRIGGER tr BEFORE UPDATE ON wallet_outbox FOR EACH ROW SET NEW.user_id = 2",
		"constraint": "UPDATE wallet_outbox SET user_id = 1; ALTER TABLE wallet_outbox ADD CONSTRAINT ck CHECK (user_id = 1)",
	} {
		t.Run(name, func(t *testing.T) {
			mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
				rows := records(5)
				db := newTarget(t, s)
				insert(t, db, rows[0])
				for _, statement := range strings.Split(prepare, ";") {
					mustExec(t, db, strings.TrimSpace(statement))
				}
				opts := testOptions(t)
				opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
				opts.AllowTriggers = name == "rewritten"
				r, err := Batch(t.Context(), open(t, rows, nil), db, opts)
				if !errors.Is(err, ErrConflict) || r.Complete() {
					t.Errorf("error %v", err)
				}
				switch name {
				case "trigger":
					var preflight *PreflightError
					if !errors.As(err, &preflight) || preflight.Problems[0].Code != outbox.HasTrigger {
						t.Errorf("error %v, want the trigger", err)
					}
				case "rewritten":
					if !errors.Is(err, ErrChanged) {
						t.Errorf("error %v, want ErrChanged", err)
					}
				case "constraint":
					if !errors.As(err, new(*RefusedError)) {
						t.Errorf("error %v, want a *RefusedError", err)
					}
				default:
					if !errors.As(err, new(*ConflictError)) {
						t.Errorf("error %v, want a *ConflictError", err)
					}
				}
				var n int
				if err := db.QueryRow("SELECT COUNT(*) FROM wallet_outbox").Scan(&n); err != nil || n != 1 {
					t.Errorf("%d rows, error %v, want the one", n, err)
				}
			})
		})
	}
}

// Only selected rows are restored, and the others do not matter, even when the
// target holds them otherwise.
func TestSelect(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		other := rows[3]
		other.UserID = -1
		db := newTarget(t, s)
		insert(t, db, other, rows[10])
		v := open(t, rows, nil)
		opts := testOptions(t)
		wanted := map[string]bool{rows[10].EventID: true, rows[11].EventID: true, rows[30].EventID: true}
		opts.Select = func(r *manifest.Record) bool { return wanted[r.EventID] }
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil || !r.Complete() || r.Rows != 40 || r.Selected != 3 || r.Present != 1 || r.Inserted != 2 {
			t.Fatalf("error %v, report %+v", err, r)
		}
		want := linesOf([]manifest.Record{other, rows[10], rows[11], rows[30]})
		checkContents(t, contents(t, db), want)

		opts.Select = func(*manifest.Record) bool { return false }
		r, err = Batch(t.Context(), v, db, opts)
		if err != nil || r.Selected != 0 || r.State != Unchanged {
			t.Errorf("nothing selected: error %v, report %+v", err, r)
		}
		if got := contents(t, db); !maps.Equal(got, want) {
			t.Errorf("target %v", got)
		}
	})
}
