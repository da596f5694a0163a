package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// scan reads everything and returns the cursors in order.
func scan(t *testing.T, r *Reader, after manifest.Cursor) []manifest.Cursor {
	t.Helper()
	var all []manifest.Cursor
	for row, err := range r.Rows(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row.Cursor())
	}
	return all
}

// fill writes n delivered rows of app, many to a millisecond, with ids in which
// case, accents and length matter to a collation, and rows that no scan may give.
// It returns how to open a reader, and the cursors of the rows before cutoff in
// the server's own order.
func fill(t *testing.T, s mysqltest.Server, collation string, n int, cutoff int64) (func(ReaderOptions) *Reader, []manifest.Cursor) {
	t.Helper()
	db, tab := newTable(t, s, collation)
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := []rune("aAbBéEe_Z'\\ 09😀")
	var records []manifest.Record
	for i := range n {
		id := fmt.Sprintf("%d", i)
		for range rnd.IntN(4) {
			id = string(letters[rnd.IntN(len(letters))]) + id
		}
		r := record(i)
		r.EventID, r.UpdatedAtMS = id, int64(i/40)
		records = append(records, r)
		if i%10 == 0 {
			r.EventID, r.Status = "pending-"+id, "pending"
			records = append(records, r)
			r.AppCode, r.Status = "chat", manifest.StatusDelivered
			records = append(records, r)
		}
	}
	if err := write(t, db, tab, WriterOptions{}, records); err != nil {
		t.Fatal(err)
	}
	open := func(opts ReaderOptions) *Reader {
		t.Helper()
		opts.AppCode = app
		if opts.CutoffMS == 0 {
			opts.CutoffMS = cutoff
		}
		r, err := NewReader(db, tab, opts)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	rows, err := db.QueryContext(t.Context(), "SELECT updated_at_ms, event_id FROM wallet_outbox WHERE app_code = ? AND status = 'delivered' AND updated_at_ms < ? ORDER BY updated_at_ms, event_id", app, cutoff)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var want []manifest.Cursor
	for rows.Next() {
		var c manifest.Cursor
		if err := rows.Scan(&c.UpdatedAtMS, &c.EventID); err != nil {
			t.Fatal(err)
		}
		want = append(want, c)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return open, want
}

func TestReaderGivesEveryRowOnceInOrder(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		collations := []string{"utf8mb4_bin", "utf8mb4_unicode_ci"}
		if s.Name == mysqltest.MySQL {
			collations = append(collations, "utf8mb4_0900_ai_ci", "utf8mb4_0900_bin")
		} else {
			collations = append(collations, "utf8mb4_nopad_bin")
		}
		for _, collation := range collations {
			t.Run(collation, func(t *testing.T) {
				open, want := fill(t, s, collation, 400, 8)
				if len(want) != 320 {
					t.Fatalf("%d rows before the cutoff, want 320", len(want))
				}
				for _, opts := range []ReaderOptions{
					{}, {PageRows: 1, Connections: 2}, {PageRows: 7}, {PageRows: 40}, {PageRows: 500},
					{PageRows: 7, Connections: 2}, {PageRows: 10, Connections: 3}, {PageRows: 100, Connections: 4}, {PageRows: 500, Connections: 2},
				} {
					if diff := cmp.Diff(want, scan(t, open(opts), manifest.Cursor{})); diff != "" {
						t.Errorf("%+v (-want +got):\n%s", opts, diff)
					}
				}
				for _, at := range []int{0, 39, 40, 199, 318, 319} {
					for _, connections := range []int{1, 2} {
						got := scan(t, open(ReaderOptions{PageRows: 9, Connections: connections}), want[at])
						if !slices.Equal(got, want[at+1:]) {
							t.Errorf("resumed after row %d on %d connections: %d rows, want %d", at, connections, len(got), len(want)-at-1)
						}
					}
				}
				for _, most := range []int64{1, 79, 80, 81, 160, 320, 321} {
					for _, connections := range []int{1, 2} {
						got := scan(t, open(ReaderOptions{PageRows: 10, MaxRows: most, Connections: connections}), manifest.Cursor{})
						if !slices.Equal(got, want[:min(most, 320)]) {
							t.Errorf("at most %d rows on %d connections: %d rows", most, connections, len(got))
						}
					}
				}
			})
		}
	})
}

func TestReaderBounds(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		var records []manifest.Record
		for i, ms := range []int64{math.MinInt64, -1, 0, 1, 10, math.MaxInt64 - 1, math.MaxInt64} {
			r := record(i)
			r.EventID, r.UpdatedAtMS = fmt.Sprint(i), ms
			records = append(records, r)
		}
		if err := write(t, db, tab, WriterOptions{}, records); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			after  manifest.Cursor
			cutoff int64
			want   string
		}{
			{manifest.Cursor{}, math.MaxInt64, "012345"},
			{manifest.Cursor{}, 10, "0123"}, // the cutoff is exclusive
			{manifest.Cursor{}, 11, "01234"},
			{manifest.Cursor{UpdatedAtMS: -1, EventID: "1"}, 11, "234"},
			{manifest.Cursor{UpdatedAtMS: 1, EventID: "3"}, math.MaxInt64, "45"},
			{manifest.Cursor{UpdatedAtMS: 1, EventID: "2"}, math.MaxInt64, "345"},
			{manifest.Cursor{UpdatedAtMS: 10, EventID: "4"}, 10, ""},
			{manifest.Cursor{}, math.MinInt64, ""},
		} {
			r, err := NewReader(db, tab, ReaderOptions{AppCode: app, CutoffMS: tt.cutoff, PageRows: 2})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, c := range scan(t, r, tt.after) {
				got.WriteString(c.EventID)
			}
			if got.String() != tt.want {
				t.Errorf("after %+v before %d: rows %s, want %s", tt.after, tt.cutoff, &got, tt.want)
			}
		}
	})
}

func TestNewReaderRefuses(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		noIndex := *tab
		noIndex.Indexes = noIndex.Indexes[:1]
		noColumn := *tab
		noColumn.Columns = noColumn.Columns[1:]
		for _, tt := range []struct {
			name string
			tab  *Table
			opts ReaderOptions
		}{
			{"a page over the limit", tab, ReaderOptions{AppCode: app, PageRows: MaxPageRows + 1}},
			{"a negative page", tab, ReaderOptions{AppCode: app, PageRows: -1}},
			{"too many connections", tab, ReaderOptions{AppCode: app, Connections: MaxConnections + 1}},
			{"negative rows", tab, ReaderOptions{AppCode: app, MaxRows: -1}},
			{"no app", tab, ReaderOptions{}},
			{"a table without the index", &noIndex, ReaderOptions{AppCode: app}},
			{"a table without a column", &noColumn, ReaderOptions{AppCode: app}},
		} {
			if _, err := NewReader(db, tt.tab, tt.opts); err == nil {
				t.Errorf("NewReader took %s", tt.name)
			}
		}
	})
}

func TestCheckOrder(t *testing.T) {
	c := func(ms int64, id string) manifest.Cursor { return manifest.Cursor{UpdatedAtMS: ms, EventID: id} }
	for _, tt := range []struct {
		prev, next       manifest.Cursor
		byBytes, collate bool // whether each takes it
	}{
		{c(1, "a"), c(2, "a"), true, true},
		{c(1, "b"), c(2, "a"), true, true},
		{c(2, "a"), c(1, "b"), false, false},
		{c(1, "a"), c(1, "b"), true, true},
		{c(1, "b"), c(1, "a"), false, true},
		{c(1, "a"), c(1, "a"), false, false},
	} {
		for byBytes, want := range map[bool]bool{true: tt.byBytes, false: tt.collate} {
			err := (&Reader{byBytes: byBytes}).checkOrder(tt.prev, tt.next)
			if (err == nil) != want || err != nil && !errors.Is(err, ErrOrder) {
				t.Errorf("checkOrder(%v, %v) with byBytes %v = %v", tt.prev, tt.next, byBytes, err)
			}
		}
	}
}

// An index that does not sort as the definition says stands for a damaged one.
func TestReaderFindsRowsOutOfOrder(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		open, _ := fill(t, s, "utf8mb4_unicode_ci", 200, 1000)
		r := open(ReaderOptions{PageRows: 500})
		r.byBytes = true
		var last error
		for _, err := range r.Rows(t.Context(), manifest.Cursor{}) {
			last = err
		}
		if !errors.Is(last, ErrOrder) {
			t.Errorf("Rows = %v, want ErrOrder", last)
		}
	})
}

// Rows that change while segments are read make the marks wrong.
func TestReaderFindsRowsThatMove(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		open, want := fill(t, s, "", 1000, 1000)
		r := open(ReaderOptions{PageRows: 2, Connections: 2})
		n := 0
		var last error
		for _, err := range r.Rows(t.Context(), manifest.Cursor{}) {
			if last = err; err != nil {
				break
			}
			if n++; n == 1 {
				// A row appears in every millisecond, before the marks of segments
				// that nobody has read yet.
				mustExec(t, r.db, "INSERT INTO wallet_outbox SELECT app_code, CONCAT('!', event_id), event_type, transaction_id, command_id, user_id, asset_type, available_delta, frozen_delta, payload, status, worker_id, lock_until_ms, retry_count, next_retry_at_ms, last_error, created_at_ms, updated_at_ms FROM wallet_outbox WHERE app_code = 'game' AND status = 'delivered' AND updated_at_ms > 0")
			}
		}
		if !errors.Is(last, ErrOrder) || n >= len(want) {
			t.Errorf("Rows = %v after %d rows, want ErrOrder", last, n)
		}
	})
}

func TestReaderMayBeStopped(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		open, want := fill(t, s, "", 1000, 1000)
		for _, connections := range []int{1, 3} {
			r := open(ReaderOptions{PageRows: 3, Connections: connections})
			for stop := range []int{0, 1, 2, 100} {
				n := 0
				for row, err := range r.Rows(t.Context(), manifest.Cursor{}) {
					if err != nil {
						t.Fatal(err)
					}
					if row.Cursor() != want[n] {
						t.Fatalf("row %d is %v, want %v", n, row.Cursor(), want[n])
					}
					if n == stop {
						break
					}
					n++
				}
			}
			if got := scan(t, r, manifest.Cursor{}); !slices.Equal(got, want) {
				t.Errorf("after having been stopped, the reader gave %d rows, want %d", len(got), len(want))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			var last error
			for _, err := range r.Rows(ctx, manifest.Cursor{}) {
				last = err
				if n++; n == 10 {
					cancel()
				}
			}
			if !errors.Is(last, context.Canceled) {
				t.Errorf("cancelled on %d connections: last error %v, want context.Canceled", connections, last)
			}
			waitForIdle(t, r)
		}
	})
}

// waitForIdle fails when a connection of the pool is still in use.
func waitForIdle(t *testing.T, r *Reader) {
	t.Helper()
	for range 100 {
		if r.db.Stats().InUse == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d connections are still in use", r.db.Stats().InUse)
}

func TestReaderSaysWhatTheServerSaid(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		open, _ := fill(t, s, "", 10, 1000)
		for _, connections := range []int{1, 2} {
			r := open(ReaderOptions{Connections: connections})
			mustExec(t, r.db, "RENAME TABLE wallet_outbox TO moved")
			var last error
			for _, err := range r.Rows(t.Context(), manifest.Cursor{}) {
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), "wallet_outbox") {
				t.Errorf("Rows of a table that is gone = %v", last)
			}
			mustExec(t, r.db, "RENAME TABLE moved TO wallet_outbox")
		}
	})
}
