package restore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestLineRanges(t *testing.T) {
	var l LineRanges
	for _, line := range []int64{1, 2, 3, 7, 9, 10} {
		l.add(line)
	}
	text, err := l.MarshalText()
	if err != nil || string(text) != "1-3,7,9-10" || l.Count() != 6 {
		t.Errorf("%s of %d lines, error %v", text, l.Count(), err)
	}
	for _, text := range []string{"", "5", "1-3,7,9-10", "1-9223372036854775807"} {
		var got LineRanges
		if err := got.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if again, err := got.MarshalText(); err != nil || string(again) != text {
			t.Errorf("%q became %q, error %v", text, again, err)
		}
	}
	for _, text := range []string{"0", "-1", "1-1", "3-2", "1,1", "1,2", "1-3,4", "5,1", "1-", "-", ",", "1,", "01", "+1", " 1", "1 ", "x", "1-2-3", "9223372036854775808"} {
		if err := new(LineRanges).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// A dry run tells what each row is in the target, and a restore that expects that
// finds every change of it but its own work.
func TestExpect(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		choose := func(r *manifest.Record) bool { return r.EventID != rows[39].EventID }
		type change struct {
			name    string
			exec    string // with the event_id of row as its one parameter
			row     int
			how     OnConflict
			planned string // "" when it is no change
			found   string
		}
		for _, tc := range []change{
			{name: "nothing", exec: "DELETE FROM wallet_outbox WHERE event_id = CONCAT(?, 'x')"},
			{name: "row outside the choice", exec: "DELETE FROM wallet_outbox WHERE event_id = ?", row: 39},
			{name: "present, gone", exec: "DELETE FROM wallet_outbox WHERE event_id = ?", row: 35, planned: "as archived", found: "missing"},
			{name: "present, other", exec: "UPDATE wallet_outbox SET retry_count = 9 WHERE event_id = ?", row: 35, planned: "as archived", found: "different"},
			{name: "different, gone", exec: "DELETE FROM wallet_outbox WHERE event_id = ?", row: 25, planned: "different", found: "missing"},
			{name: "different otherwise", exec: "UPDATE wallet_outbox SET retry_count = 9 WHERE event_id = ?", row: 25, planned: "different", found: "different in another way"},
			{name: "no record any more", exec: "UPDATE wallet_outbox SET worker_id = NULL WHERE event_id = ?", row: 25, planned: "different", found: "different in another way"},
			{name: "different, as archived", exec: "UPDATE wallet_outbox SET available_delta = " + number(&rows[25].AvailableDelta) + " WHERE event_id = ?", row: 25},
			{name: "different, as archived, left", exec: "UPDATE wallet_outbox SET available_delta = " + number(&rows[25].AvailableDelta) + " WHERE event_id = ?", row: 25, how: Skip, planned: "different", found: "as archived"},
			{name: "all gone", exec: "DELETE FROM wallet_outbox WHERE event_id <> CONCAT(?, 'x')", row: 20, planned: "different", found: "missing"},
		} {
			if tc.how == Fail {
				tc.how = Overwrite
			}
			t.Run(tc.name, func(t *testing.T) {
				db := newTarget(t, s)
				mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(128) NULL")
				changed := append([]manifest.Record(nil), rows[20:]...)
				for i := range changed[:10] {
					changed[i].AvailableDelta = 99
				}
				insert(t, db, changed...)
				v := open(t, rows, nil)
				opts := testOptions(t)
				opts.OnConflict, opts.Select, opts.DryRun = tc.how, choose, true
				plan, err := Batch(t.Context(), v, db, opts)
				if err != nil {
					t.Fatal(err)
				}
				if n := plan.States.Missing.Count(); n != 20 || len(plan.States.Different) != 10 {
					t.Fatalf("%d missing, %d different", n, len(plan.States.Different))
				}
				for _, d := range plan.States.Different {
					i := int(d.Line - 1)
					if hash := changed[i-20].RowHash(); d.EventID != rows[i].EventID || *d.FoundHash != hash || !cmp.Equal(d.Columns, []string{"available_delta"}) {
						t.Errorf("line %d: %+v, want hash %s", d.Line, d, hash)
					}
				}
				mustExec(t, db, tc.exec, rows[tc.row].EventID)
				before := rawContents(t, db)
				opts.Expect = plan.States
				for _, dry := range []bool{true, false} {
					opts.DryRun = dry
					r, err := Batch(t.Context(), v, db, opts)
					opts.ConfirmOverwrite = 0
					if dry && tc.how == Overwrite {
						opts.ConfirmOverwrite = r.ConflictCount
					}
					if tc.planned == "" {
						if err != nil || !dry && tc.how == Overwrite && !r.Complete() {
							t.Errorf("dry run %t: error %v, report %+v", dry, err, r)
						}
						continue
					}
					var e *ChangedError
					if !errors.As(err, &e) || !errors.Is(err, ErrConflict) || r.State != Untouched {
						t.Fatalf("dry run %t: error %v, state %s", dry, err, r.State)
					}
					want := RowChange{Line: int64(tc.row + 1), EventID: rows[tc.row].EventID, Planned: tc.planned, Found: tc.found}
					if e.First[0] != want || e.Count != 1 && tc.name != "all gone" || e.Count != int64(len(e.First)) || !strings.Contains(e.Error(), tc.found+" now") {
						t.Errorf("dry run %t: %d changes %+v, want %+v", dry, e.Count, e.First[0], want)
					}
					if after := rawContents(t, db); after != before {
						t.Errorf("dry run %t changed the target:\n%s\nwas\n%s", dry, after, before)
					}
				}
			})
		}
	})
}

// rawContents returns the target's rows, also those that are no records.
func rawContents(t *testing.T, db mysqldb.Queryer) string {
	t.Helper()
	var b strings.Builder
	err := texts(t.Context(), db, "SELECT * FROM wallet_outbox ORDER BY event_id", func(row []string) { b.WriteString(strings.Join(row, "|") + "\n") })
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is no state of the batch is refused, whatever the target holds.
func TestExpectOfAnotherBatch(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db := newTarget(t, s)
	rows := records(5)
	v := open(t, rows, nil)
	for name, states := range map[string]*RowStates{
		"line too far":       {Missing: LineRanges{{1, 6}}},
		"line 0":             {Different: []DifferentRow{{Line: 0}}},
		"different too far":  {Different: []DifferentRow{{Line: 6}}},
		"twice":              {Missing: LineRanges{{1, 2}}, Different: []DifferentRow{{Line: 2}}},
		"different twice":    {Different: []DifferentRow{{Line: 2}, {Line: 2}}},
		"row was not chosen": {Missing: LineRanges{{1, 5}}},
	} {
		opts := testOptions(t)
		opts.Expect = states
		opts.Select = func(r *manifest.Record) bool { return name != "row was not chosen" || r.EventID != rows[2].EventID }
		if _, err := Batch(t.Context(), v, db, opts); !errors.Is(err, errStates) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	checkContents(t, contents(t, db), map[string]string{})
}

// What a session puts between the look at a row and its being overwritten is
// found, although it differed before, too.
func TestExpectMeanwhile(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(5)
		db := newTarget(t, s)
		other := rows[2]
		other.UserID = -1
		insert(t, db, other, rows[4])
		v := open(t, rows, nil)
		opts := testOptions(t)
		opts.OnConflict, opts.DryRun = Overwrite, true
		plan, err := Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.DryRun, opts.ConfirmOverwrite, opts.Expect = false, 1, plan.States
		moved := false
		opts.Hooks = []Hooks{{Row: func(_ context.Context, o RowOutcome) error {
			if o.Outcome == Present && !moved { // it is looked at after the row that differs
				moved = true
				mustExec(t, db, "UPDATE wallet_outbox SET user_id = -2 WHERE user_id = -1")
			}
			return nil
		}}}
		var changed *ChangedError
		if _, err := Batch(t.Context(), v, db, opts); !errors.As(err, &changed) || changed.First[0].Found != stateDifferent2 {
			t.Errorf("error %v", err)
		}
		other.UserID = -2
		checkContents(t, contents(t, db), linesOf([]manifest.Record{other, rows[4]}))
	})
}
