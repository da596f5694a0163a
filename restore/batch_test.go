package restore

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// figures are the parts of a report that a test states in full.
type figures struct {
	Rows, Present, Missing, Inserted, Respelled, ConflictCount int64
	State                                                      State
	Attempts                                                   int
	Complete                                                   bool
}

func figuresOf(r Report) figures {
	return figures{r.Rows, r.Present, r.Missing, r.Inserted, r.Respelled, r.ConflictCount, r.State, r.Attempts, r.Complete()}
}

func checkFigures(t *testing.T, r Report, want figures) {
	t.Helper()
	if diff := cmp.Diff(want, figuresOf(r)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func checkContents(t *testing.T, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	if diff := cmp.Diff(want, got); len(diff) < 4000 {
		t.Errorf("target (-want +got):\n%s", diff)
	} else {
		t.Errorf("target has %d rows, want %d, or other values", len(got), len(want))
	}
}

func pointer[T any](v T) *T { return &v }

// awkward are rows whose values a loader is likely to get wrong.
func awkward() []manifest.Record {
	rows := records(8)
	rows[0].PayloadJSON = `{"n": 9007199254740993, "max": 18446744073709551615, "min": -9223372036854775808}`
	rows[1].PayloadJSON = `{"a": "\u0000", "b": "<>& / \u001f \\N \\ \" ' ` + "\u2028 \U0001F600" + `"}`
	rows[2].LastError = pointer("")
	rows[3].LastError = pointer("NULL\\N\ttab\nline\r\n\x00\x1a'\"`\\")
	rows[4].LastError = pointer(" trailing  ")
	rows[4].LockUntilMS, rows[4].NextRetryAtMS = pointer(int64(0)), pointer(int64(-1))
	rows[5].AvailableDelta, rows[5].FrozenDelta, rows[5].UserID = 1<<63-1, -1<<63, 1<<63-1
	rows[6].WorkerID, rows[6].TransactionID = "", "\\N"
	rows[7].EventID, rows[7].CommandID = "evt,\"quoted\"\t🪙", "café"
	return rows
}

func TestBatch(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := append(awkward(), records(300)[8:]...)
		other := record(3)
		other.AppCode = "other"
		v := open(t, rows, nil)
		db := newTarget(t, s)
		insert(t, db, other)
		var progress int64
		opts := testOptions(t)
		opts.Method = method
		opts.Progress = func(n int64) { progress += n }

		r, err := Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 300, Missing: 300, Inserted: 300, State: Committed, Attempts: 1, Complete: true})
		if r.Loader != method.String() || r.ServerVersion != s.Identity.Version || r.Table != outbox.DefaultTable || progress != 300 {
			t.Errorf("loader %q, version %q, table %q, progress %d", r.Loader, r.ServerVersion, r.Table, progress)
		}
		want := linesOf(append(rows, other))
		checkContents(t, contents(t, db), want)

		// Again: all are there.
		progress = 0
		r, err = Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 300, Present: 300, State: Unchanged, Attempts: 1, Complete: true})
		if r.Loader != "" || progress != 300 {
			t.Errorf("loader %q, progress %d", r.Loader, progress)
		}
		checkContents(t, contents(t, db), want)

		// And with gaps.
		mustExec(t, db, "DELETE FROM wallet_outbox WHERE app_code = ? AND user_id % 3 = 0", app)
		gone := int64(len(want) - len(contents(t, db)))
		r, err = Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 300, Present: 300 - gone, Missing: gone, Inserted: gone, State: Committed, Attempts: 1, Complete: true})
		checkContents(t, contents(t, db), want)
	})
}

// One window, and so no temporary file, and one row a window.
func TestBatchWindows(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(50)
		for _, window := range []int{1, 2000, 1 << 20} {
			db := newTarget(t, s)
			opts := testOptions(t)
			opts.WindowBytes = window
			r, err := Batch(t.Context(), open(t, rows, nil), db, opts)
			if err != nil {
				t.Fatal(err)
			}
			checkFigures(t, r, figures{Rows: 50, Missing: 50, Inserted: 50, State: Committed, Attempts: 1, Complete: true})
			checkContents(t, contents(t, db), linesOf(rows))
		}
	})
}

func TestBatchDryRun(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		v := open(t, rows, nil)
		db := newTarget(t, s)
		opts := testOptions(t)
		opts.DryRun = true
		var progress int64
		opts.Progress = func(n int64) { progress += n }
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 40, Missing: 40, Attempts: 1})
		checkContents(t, contents(t, db), map[string]string{})

		insert(t, db, rows[:10]...)
		changed := rows[10]
		changed.FrozenDelta++
		insert(t, db, changed)
		before := contents(t, db)
		r, err = Batch(t.Context(), v, db, opts)
		if !errors.Is(err, ErrConflict) {
			t.Errorf("error %v, want a conflict", err)
		}
		checkFigures(t, r, figures{Rows: 40, Present: 10, Missing: 29, ConflictCount: 1, Attempts: 1})
		checkContents(t, contents(t, db), before)
		if progress != 80 {
			t.Errorf("progress told of %d rows, want 80", progress)
		}
	})
}

func TestBatchConflict(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := records(60)
		rows[7].LastError = pointer("")
		cases := []struct {
			name   string
			change func(*manifest.Record)
			want   []string // columns
		}{
			{"delta", func(r *manifest.Record) { r.AvailableDelta++ }, []string{"available_delta"}},
			{"NULL for an empty text", func(r *manifest.Record) { r.LastError = nil }, []string{"last_error"}},
			{"status and lease", func(r *manifest.Record) { r.Status = "pending"; r.LockUntilMS = pointer(int64(5)) }, []string{"status", "lock_until_ms"}},
			{"payload", func(r *manifest.Record) { r.PayloadJSON = `{"secret": "topsecret"}` }, []string{"payload"}},
		}
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				db := newTarget(t, s)
				insert(t, db, rows[3])
				found := rows[7]
				tc.change(&found)
				insert(t, db, found)
				before := contents(t, db)
				opts := testOptions(t)
				opts.Method = method
				r, err := Batch(t.Context(), open(t, rows, nil), db, opts)
				var conflict *ConflictError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &conflict) {
					t.Fatalf("error %v, want a *ConflictError", err)
				}
				checkFigures(t, r, figures{Rows: 60, Present: 1, Missing: 58, ConflictCount: 1, Attempts: 1})
				checkContents(t, contents(t, db), before)
				if len(r.Conflicts) != 1 || conflict.Count != 1 {
					t.Fatalf("conflicts %+v, count %d", r.Conflicts, conflict.Count)
				}
				c := r.Conflicts[0]
				var columns []string
				for _, x := range c.Columns {
					columns = append(columns, x.Column)
					if strings.Contains(x.Found, "secret") || x.Found == x.Archived || x.Found == "" {
						t.Errorf("column %+v", x)
					}
				}
				if c.Line != 8 || c.EventID != rows[7].EventID || !cmp.Equal(columns, tc.want) {
					t.Errorf("conflict %+v, want line 8, columns %v", c, tc.want)
				}
				for _, part := range []string{rows[7].EventID, "line 8", tc.want[0]} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error %q does not name %q", err, part)
					}
				}
			})
		}
	})
}

// All conflicts are counted, the first are named.
func TestBatchManyConflicts(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(MaxConflicts + 20)
		db := newTarget(t, s)
		insert(t, db, rows...)
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 1")
		r, err := Batch(t.Context(), open(t, rows, nil), db, testOptions(t))
		if !errors.Is(err, ErrConflict) {
			t.Fatalf("error %v, want a conflict", err)
		}
		checkFigures(t, r, figures{Rows: MaxConflicts + 20, ConflictCount: MaxConflicts + 20, Attempts: 1})
		if len(r.Conflicts) != MaxConflicts {
			t.Errorf("%d conflicts are named, want %d", len(r.Conflicts), MaxConflicts)
		}
	})
}

// A row in the target that no archive can hold is a conflict like any other.
func TestBatchConflictInexact(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(20)
		db := newTarget(t, s)
		mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY event_type VARCHAR(64) NULL, MODIFY user_id BIGINT UNSIGNED NOT NULL")
		insert(t, db, rows...)
		mustExec(t, db, "UPDATE wallet_outbox SET event_type = NULL WHERE event_id = ?", rows[4].EventID)
		mustExec(t, db, "UPDATE wallet_outbox SET user_id = 18446744073709551615 WHERE event_id = ?", rows[9].EventID)
		r, err := Batch(t.Context(), open(t, rows, nil), db, testOptions(t))
		if !errors.Is(err, ErrConflict) {
			t.Fatalf("error %v, want a conflict", err)
		}
		checkFigures(t, r, figures{Rows: 20, Present: 18, ConflictCount: 2, Attempts: 1})
		got := map[string]string{}
		for _, c := range r.Conflicts {
			got[c.EventID] = c.Columns[0].Column
		}
		want := map[string]string{rows[4].EventID: "event_type", rows[9].EventID: "user_id"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("conflicts (-want +got):\n%s", diff)
		}
	})
}

// A collation may take two event_ids for one: with a row that is there, and
// within the batch.
func TestBatchCollation(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := records(30)
		for i := range rows {
			rows[i].EventID = strings.Repeat(string(rune('a'+i%26)), i+1)
			if i%2 == 1 {
				rows[i].EventID = strings.ToUpper(rows[i].EventID)
			}
		}
		newDB := func(t *testing.T) (db interface {
			execer
			mysqldb.Queryer
		}, restore func(rows []manifest.Record) (Report, error), get func() map[string]string) {
			pool, _ := s.NewDB(t)
			mustExec(t, pool, outbox.Schema(outbox.DefaultTable, "utf8mb4_general_ci"))
			opts := testOptions(t)
			opts.Method = method
			return pool, func(rows []manifest.Record) (Report, error) {
				return Batch(t.Context(), open(t, rows, nil), pool, opts)
			}, func() map[string]string { return contents(t, pool) }
		}
		t.Run("harmless", func(t *testing.T) {
			_, restore, get := newDB(t)
			for range 2 {
				r, err := restore(rows)
				if err != nil || !r.Complete() {
					t.Fatalf("error %v, report %+v", err, r)
				}
			}
			checkContents(t, get(), linesOf(rows))
		})
		t.Run("in the target", func(t *testing.T) {
			db, restore, get := newDB(t)
			mustExec(t, db, "INSERT INTO wallet_outbox SELECT ?, 'BBB', 't', 't', 'c', 1, 'COIN', 1, 1, '{}', 'delivered', '', NULL, 0, NULL, NULL, 1, 1", app)
			before := get()
			r, err := restore([]manifest.Record{record(1), func() manifest.Record { r := record(2); r.EventID = "bbb"; return r }()})
			if !errors.Is(err, ErrConflict) || len(r.Conflicts) != 1 || r.Conflicts[0].EventID != "BBB" || r.Conflicts[0].Columns[0].Column != "event_id" {
				t.Errorf("error %v, conflicts %+v", err, r.Conflicts)
			}
			checkContents(t, get(), before)
		})
		t.Run("app_code", func(t *testing.T) {
			db, restore, get := newDB(t)
			mustExec(t, db, "INSERT INTO wallet_outbox SELECT 'GAME', ?, 't', 't', 'c', 1, 'COIN', 1, 1, '{}', 'delivered', '', NULL, 0, NULL, NULL, 1, 1", rows[2].EventID)
			before := get()
			r, err := restore(rows)
			if !errors.Is(err, ErrConflict) || len(r.Conflicts) != 1 || r.Conflicts[0].Line != 3 || r.Conflicts[0].Columns[0].Column != "app_code" {
				t.Errorf("error %v, conflicts %+v", err, r.Conflicts)
			}
			checkContents(t, get(), before)
		})
		t.Run("within the batch", func(t *testing.T) {
			_, restore, get := newDB(t)
			twin := rows[6]
			twin.EventID = strings.ToUpper(twin.EventID)
			twin.UpdatedAtMS = rows[29].UpdatedAtMS + 1
			r, err := restore(append(rows[:len(rows):len(rows)], twin))
			var refused *RefusedError
			if !errors.Is(err, ErrConflict) || !errors.As(err, &refused) || !errors.Is(err, outbox.ErrDuplicate) {
				t.Fatalf("error %v, want a refused row", err)
			}
			if !strings.EqualFold(refused.EventID, twin.EventID) || refused.Line != 7 && refused.Line != 31 {
				t.Errorf("refused %+v, want line 7 or 31", refused)
			}
			checkFigures(t, r, figures{Rows: 31, Missing: 31, State: RolledBack, Attempts: 2})
			checkContents(t, get(), map[string]string{})
		})
	})
}

func TestBatchRespelled(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := records(30)
		rows[4].PayloadJSON = `{"d": 1.10}` // as a DECIMAL inside JSON is rendered
		rows[5].PayloadJSON = `{"d":  1.5 }`
		opts := testOptions(t)
		opts.Method = method
		db := newTarget(t, s)
		v := open(t, rows, func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{
				Checked: true, TextUnstableRows: 2, TextUnstableEventIDs: []string{rows[4].EventID, rows[5].EventID}, ValueUnstableEventIDs: []string{},
			}
		})
		var respelled int64
		if s.Flavor() == mysqldb.MySQL {
			respelled = 2
		}
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 30, Missing: 30, Inserted: 30, Respelled: respelled, State: Committed, Attempts: 1, Complete: true})
		r, err = Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		checkFigures(t, r, figures{Rows: 30, Present: 30, Respelled: respelled, State: Unchanged, Attempts: 1, Complete: true})

		opts.StrictPayload = true
		r, err = Batch(t.Context(), v, db, opts)
		if s.Flavor() == mysqldb.MariaDB {
			if err != nil || !r.Complete() {
				t.Errorf("MariaDB keeps the text, and yet: %v", err)
			}
			return
		}
		var preflight *PreflightError
		if !errors.As(err, &preflight) || r.Attempts != 0 {
			t.Errorf("error %v after %d attempts, want a *PreflightError", err, r.Attempts)
		}
		opts.ignore = without(payloadUnstable)
		r, err = Batch(t.Context(), v, db, opts)
		if !errors.Is(err, ErrConflict) || r.ConflictCount != 2 || r.Respelled != 0 {
			t.Errorf("error %v, report %+v, want 2 conflicts", err, figuresOf(r))
		}
		mustExec(t, db, "DELETE FROM wallet_outbox")
		_, err = Batch(t.Context(), v, db, opts)
		var refused *RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, ErrChanged) || len(refused.Columns) != 1 || refused.Columns[0].Column != "payload" {
			t.Errorf("error %v, want a changed payload", err)
		}
		checkContents(t, contents(t, db), map[string]string{})
	})
}

// MySQL makes a double of a long integer and says nothing.
func TestBatchChangedPayload(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MySQL) // MariaDB keeps JSON as text
	rows := records(30)
	rows[12].PayloadJSON = `{"n": 123456789012345678901234567890}`
	db := newTarget(t, s)
	r, err := Batch(t.Context(), open(t, rows, nil), db, testOptions(t))
	var refused *RefusedError
	if !errors.Is(err, ErrConflict) || !errors.As(err, &refused) || !errors.Is(err, ErrChanged) {
		t.Fatalf("error %v, want a refused row", err)
	}
	if refused.Line != 13 || refused.EventID != rows[12].EventID || len(refused.Columns) != 1 || refused.Columns[0].Column != "payload" {
		t.Errorf("refused %+v", refused)
	}
	if strings.Contains(err.Error(), "12345678901234567") {
		t.Errorf("error %q shows the payload", err)
	}
	checkFigures(t, r, figures{Rows: 30, Missing: 30, State: RolledBack, Attempts: 1})
	checkContents(t, contents(t, db), map[string]string{})
}

func TestBatchNoTable(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		_, err := Batch(t.Context(), open(t, records(3), nil), db, testOptions(t))
		var preflight *PreflightError
		if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) || preflight.Problems[0].Code != noTable {
			t.Errorf("error %v, want no_table", err)
		}
	})
}

func TestBatchCancelled(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(200)
		v := open(t, rows, nil)
		for _, after := range []int64{0, 1, 50, 150} {
			db := newTarget(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			opts := testOptions(t)
			var done int64
			opts.Progress = func(n int64) {
				if done += n; done >= after {
					cancel()
				}
			}
			if after == 0 {
				cancel()
			}
			r, err := Batch(ctx, v, db, opts)
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrConflict) {
				t.Errorf("after %d rows: error %v, want context.Canceled", after, err)
			}
			if r.Complete() || r.State == Committed {
				t.Errorf("after %d rows: report %+v", after, figuresOf(r))
			}
			checkContents(t, contents(t, db), map[string]string{})
			cancel()
			r, err = Batch(t.Context(), v, db, testOptions(t))
			if err != nil || !r.Complete() {
				t.Errorf("run again: %v", err)
			}
			checkContents(t, contents(t, db), linesOf(rows))
		}
	})
}

// Cancelled after the commit was asked for, a restore is complete.
func TestBatchCancelledAtTheEnd(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(5)
		db := newTarget(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		opts := testOptions(t)
		opts.WindowBytes = 1 << 20
		opts.Progress = func(int64) { cancel() }
		r, err := Batch(ctx, open(t, rows, nil), db, opts)
		if got := contents(t, db); len(got) > 0 != r.Complete() || r.Complete() != (err == nil) {
			t.Errorf("error %v, complete %t, %d rows", err, r.Complete(), len(got))
		}
	})
}

func TestOptions(t *testing.T) {
	for _, opts := range []Options{
		{WindowBytes: -1}, {StatementBytes: -1}, {MaxAttempts: -1}, {Method: 9},
		{OnConflict: 3}, {OnConflict: -1}, {ConfirmOverwrite: 1}, {CompareOnly: true, OnConflict: Skip}, {OnConflict: Skip, ConfirmOverwrite: 1}, {RelayQuery: "1) OR (1"},
	} {
		if _, err := opts.withDefaults(); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
	got, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Table: outbox.DefaultTable, WindowBytes: DefaultWindowBytes, MaxAttempts: DefaultMaxAttempts, RelayQuery: DefaultRelayQuery}
	ignore := cmp.Options{cmpopts.IgnoreFields(Options{}, "Now", "Logger", "Progress"), cmpopts.IgnoreUnexported(Options{})}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}
