package restore

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// tally is a hook that counts.
type tally struct {
	Begun, Before, After, Paused int
	Outcomes                     map[Outcome]int
	Lines                        map[int64]bool
}

func (c *tally) hooks() Hooks {
	return Hooks{
		Begin: func(context.Context) error {
			c.Begun++
			c.Outcomes, c.Lines = map[Outcome]int{}, map[int64]bool{}
			return nil
		},
		Row: func(_ context.Context, o RowOutcome) error {
			if c.Lines[o.Row.Line] {
				return errors.New("told twice of a row")
			}
			c.Lines[o.Row.Line] = true
			c.Outcomes[o.Outcome]++
			return nil
		},
		BeforeCommit: func(ctx context.Context, tx mysqldb.Session) error {
			c.Before++
			_, err := tx.ExecContext(ctx, "INSERT INTO journal VALUES (?)", c.Before)
			return err
		},
		AfterCommit: func(context.Context) error { c.After++; return nil },
		Pause:       func(_ context.Context, rows int) error { c.Paused += rows; return nil },
	}
}

func TestHooks(t *testing.T) {
	errHook := errors.New("the hook fails")
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(60)
		v := open(t, rows, nil)
		db := newTarget(t, s)
		mustExec(t, db, "CREATE TABLE journal (n INT NOT NULL) ENGINE=InnoDB")
		insert(t, db, rows[:10]...)
		journal := func(want int) {
			t.Helper()
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM journal").Scan(&n); err != nil || n != want {
				t.Errorf("%d rows in the journal, error %v, want %d", n, err, want)
			}
		}

		// Whatever hook fails before the commit, nothing is written.
		for name, h := range map[string]Hooks{
			"begin": {Begin: func(context.Context) error { return errHook }},
			"present": {Row: func(_ context.Context, o RowOutcome) error {
				if o.Outcome == Present {
					return errHook
				}
				return nil
			}},
			"inserted": {Row: func(_ context.Context, o RowOutcome) error {
				if o.Outcome == Inserted {
					return errHook
				}
				return nil
			}},
			"pause":  {Pause: func(context.Context, int) error { return errHook }},
			"commit": {BeforeCommit: func(context.Context, mysqldb.Session) error { return errHook }},
		} {
			first := &tally{}
			opts := testOptions(t)
			opts.Hooks = []Hooks{first.hooks(), h}
			r, err := Batch(t.Context(), v, db, opts)
			if !errors.Is(err, errHook) || r.Complete() || r.State == Committed || first.After != 0 {
				t.Errorf("%s: error %v, state %s, after %d", name, err, r.State, first.After)
			}
			checkContents(t, contents(t, db), linesOf(rows[:10]))
			journal(0)
		}

		// In a dry run none is called.
		c := &tally{}
		opts := testOptions(t)
		opts.Hooks = []Hooks{c.hooks()}
		opts.DryRun = true
		if _, err := Batch(t.Context(), v, db, opts); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tally{}, *c); diff != "" {
			t.Errorf("hooks of a dry run (-want +got):\n%s", diff)
		}

		opts.DryRun = false
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil || r.State != Committed {
			t.Fatalf("error %v, state %s", err, r.State)
		}
		want := tally{Begun: 1, Before: 1, After: 1, Paused: 50, Outcomes: map[Outcome]int{Present: 10, Inserted: 50}, Lines: c.Lines}
		if diff := cmp.Diff(want, *c); diff != "" || len(c.Lines) != 60 {
			t.Errorf("hooks (-want +got):\n%s%d lines", diff, len(c.Lines))
		}
		journal(1)

		// What the hook writes is kept even when every row was there.
		r, err = Batch(t.Context(), v, db, opts)
		if err != nil || r.State != Unchanged || !r.Complete() {
			t.Fatalf("error %v, report %+v", err, r)
		}
		if c.After != 2 || c.Outcomes[Present] != 60 {
			t.Errorf("hooks %+v", *c)
		}
		journal(2)

		// After the commit an error undoes nothing.
		opts.Hooks = []Hooks{{AfterCommit: func(context.Context) error { return errHook }}}
		if r, err = Batch(t.Context(), v, db, opts); !errors.Is(err, errHook) || r.State != Unchanged {
			t.Errorf("error %v, state %s", err, r.State)
		}
	})
}
