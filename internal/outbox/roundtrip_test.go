package outbox

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestFieldsAreTheArchivesColumns(t *testing.T) {
	var r manifest.Record
	seen := map[any]string{}
	for i, f := range fields {
		if f.name != manifest.Columns[i] {
			t.Errorf("field %d is %s, want %s", i, f.name, manifest.Columns[i])
		}
		var where any
		switch {
		case f.str != nil:
			where = f.str(&r)
		case f.num != nil:
			where = f.num(&r)
		case f.optStr != nil:
			where = f.optStr(&r)
		default:
			where = f.optNum(&r)
		}
		if other, ok := seen[where]; ok {
			t.Errorf("%s and %s share a place in the record", f.name, other)
		}
		seen[where] = f.name
	}
	for i, name := range map[int]string{appCodeField: "app_code", eventIDField: "event_id", payloadField: "payload", statusField: "status", updatedAtField: "updated_at_ms"} {
		if fields[i].name != name {
			t.Errorf("field %d is %s, want %s", i, fields[i].name, name)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// awkward are records that a careless hand would change. Payloads are what MySQL
// renders, so that it gives the same text back.
func awkward() []manifest.Record {
	var rs []manifest.Record
	add := func(change func(*manifest.Record)) {
		r := record(len(rs))
		change(&r)
		rs = append(rs, r)
	}
	add(func(r *manifest.Record) {})
	for _, s := range []string{
		"", " ", "trailing ", "trailing tab\t", "\t", "\n", "a\nb\r\nc", "\\", `\N`, `\\N`, `a\`, `\0`, "nul\x00mid", "\x00", "\x1a", "'", `"`, "`", `'; DROP TABLE x; -- `, "NULL",
		"😀", "é", "e\u0301", "\u2028\u2029", "\ufeffbom", "<>&", "$1 %s ?", "a,b", "(", "\x7f", "\u0080", "€", "\U0010ffff", "/* c */", "# c", "日本語", strings.Repeat("\\\t\n\x00'", 20),
	} {
		add(func(r *manifest.Record) {
			r.EventID = fmt.Sprintf("evt%03d|%s", len(rs), s) // unique also when the rest is blank
			r.TransactionID, r.CommandID, r.WorkerID, r.EventType, r.LastError = s, s, s, clipRunes(s, 60), &s
			r.AssetType = clipRunes(s, 30)
		})
	}
	for _, n := range []int64{math.MinInt64, math.MaxInt64, 0, -1, 1 << 53, 1<<53 + 1, -(1<<53 + 1)} {
		add(func(r *manifest.Record) {
			r.UserID, r.AvailableDelta, r.FrozenDelta, r.LockUntilMS, r.NextRetryAtMS, r.CreatedAtMS = n, n, n, &n, &n, n
			r.RetryCount = max(min(n, math.MaxInt32), math.MinInt32)
		})
	}
	add(func(r *manifest.Record) { r.LastError = nil })
	add(func(r *manifest.Record) { r.LastError = ptr("") })
	add(func(r *manifest.Record) { r.LockUntilMS, r.NextRetryAtMS = ptr(int64(0)), ptr(int64(0)) })
	for _, p := range []string{
		`null`, `0`, `-0.0`, `""`, `{}`, `[]`, `"\\N"`, `"\\"`, `"a\tb\nc"`, `"\u0000"`, `"it's"`, `"\""`, `{"a": 1, "b": "😀"}`, `"<>&"`, "\"\u2028\"", `"/"`,
		`18446744073709551615`, `-9223372036854775808`, `1.1`, `0.1`, `0.0000001`, `100.0`, `1e30`, `[1, 2, [3, {"x": null}]]`, `{"": ""}`, `true`,
	} {
		add(func(r *manifest.Record) { r.PayloadJSON = p })
	}
	return rs
}

func clipRunes(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

func byEventID(a, b manifest.Record) int { return strings.Compare(a.EventID, b.EventID) }

func collect(t *testing.T, seq func(func(*manifest.Record, error) bool)) []manifest.Record {
	t.Helper()
	var all []manifest.Record
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *r)
	}
	return all
}

func TestAwkwardValuesComeBack(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, opts := range []WriterOptions{
			{Method: Insert, rows: 2}, // prepared
			{Method: Insert}, {Method: LoadData},
			{Method: Insert, ChunkBytes: 2000, SortByKey: true}, {Method: LoadData, ChunkBytes: 2000, SortByKey: true},
		} {
			t.Run(fmt.Sprintf("%v, %d bytes", opts.Method, opts.ChunkBytes), func(t *testing.T) {
				db, tab := newTable(t, s, "")
				want := awkward()
				if err := write(t, db, tab, opts, want); err != nil {
					t.Fatal(err)
				}
				slices.SortFunc(want, byEventID)
				got := collect(t, ReadAll(t.Context(), db, tab, "", AnyOrder))
				slices.SortFunc(got, byEventID)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("ReadAll (-want +got):\n%s", diff)
				}
				ids := make([]string, len(want))
				for i := range want {
					ids[i] = want[i].EventID
				}
				got = collect(t, ReadByKeys(t.Context(), db, tab, app, ids))
				slices.SortFunc(got, byEventID)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("ReadByKeys (-want +got):\n%s", diff)
				}
				got = nil
				r, err := NewReader(db, tab, ReaderOptions{AppCode: app, CutoffMS: math.MaxInt64, PageRows: 7})
				if err != nil {
					t.Fatal(err)
				}
				for row, err := range r.Rows(t.Context(), manifest.Cursor{}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, row.Record)
				}
				slices.SortFunc(got, byEventID)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("Reader (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// A server that keeps the text gives back any spelling.
func TestMariaDBKeepsPayloadText(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db, tab := newTable(t, s, "")
	var want []manifest.Record
	for i, p := range []string{`{"b":1,"a":2}`, `{"a":1,"a":2}`, ` [ 1 ] `, `1.10`, `1E2`, `-0`, `"\/"`, `123456789012345678901234567890`, `"\ud83d\ude00"`} {
		r := record(i)
		r.PayloadJSON = p
		want = append(want, r)
	}
	if err := write(t, db, tab, WriterOptions{}, want); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(want, byEventID)
	got := collect(t, ReadAll(t.Context(), db, tab, app, AnyOrder))
	slices.SortFunc(got, byEventID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadAll (-want +got):\n%s", diff)
	}
}

func TestReadByKeysGivesTheRowsSpelling(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "utf8mb4_general_ci")
		r := record(1)
		r.EventID = "Evt-É"
		if err := write(t, db, tab, WriterOptions{}, []manifest.Record{r}); err != nil {
			t.Fatal(err)
		}
		got := collect(t, ReadByKeys(t.Context(), db, tab, app, []string{"evt-e", "missing"}))
		if len(got) != 1 || got[0].EventID != "Evt-É" {
			t.Errorf("ReadByKeys = %v, want the one row as it is spelled", got)
		}
		if got := collect(t, ReadByKeys(t.Context(), db, tab, app, nil)); len(got) != 0 {
			t.Errorf("ReadByKeys of nothing = %v", got)
		}
	})
}

func TestReadBetween(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		var all []manifest.Record
		for i := range 20 {
			r := record(i)
			r.EventID = fmt.Sprintf("e%02d", i)
			all = append(all, r)
		}
		other := record(99)
		other.AppCode, other.EventID = "chat", "e05"
		if err := write(t, db, tab, WriterOptions{}, append(all, other)); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			first, last string
			limit       int
			want        []manifest.Record
		}{
			{"e05", "e09", 100, all[5:10]},
			{"e05", "e09", 3, all[5:8]},
			{"e045", "e5", 100, all[5:]},
			{"x", "y", 100, nil},
		} {
			if diff := cmp.Diff(tt.want, collect(t, ReadBetween(t.Context(), db, tab, app, tt.first, tt.last, tt.limit))); diff != "" {
				t.Errorf("between %s and %s, at most %d (-want +got):\n%s", tt.first, tt.last, tt.limit, diff)
			}
		}
	})
}

func TestReadAllOrder(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		var all []manifest.Record
		for i := range 300 {
			r := record(i)
			r.UpdatedAtMS = int64(i / 10)
			if i%100 == 99 {
				r.Status = "pending"
			}
			if i%3 == 0 {
				r.AppCode = "chat"
			}
			all = append(all, r)
		}
		if err := write(t, db, tab, WriterOptions{}, all); err != nil {
			t.Fatal(err)
		}
		order := func(a, b manifest.Record) int {
			return strings.Compare(
				fmt.Sprintf("%s %s %09d %s", a.AppCode, a.Status, a.UpdatedAtMS, a.EventID),
				fmt.Sprintf("%s %s %09d %s", b.AppCode, b.Status, b.UpdatedAtMS, b.EventID))
		}
		slices.SortFunc(all, order)
		if diff := cmp.Diff(all, collect(t, ReadAll(t.Context(), db, tab, "", CursorOrder))); diff != "" {
			t.Errorf("ReadAll of all apps (-want +got):\n%s", diff)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(r manifest.Record) bool { return r.AppCode != app })
		if diff := cmp.Diff(want, collect(t, ReadAll(t.Context(), db, tab, app, CursorOrder))); diff != "" {
			t.Errorf("ReadAll of one app (-want +got):\n%s", diff)
		}
		if got := collect(t, ReadAll(t.Context(), db, tab, app, AnyOrder)); len(got) != len(want) {
			t.Errorf("ReadAll in any order gave %d rows, want %d", len(got), len(want))
		}
	})
}

func TestSummarize(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "utf8mb4_general_ci")
		got, err := Summarize(t.Context(), db, tab, app)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Summary{}, got, cmpSums); diff != "" {
			t.Errorf("Summarize of no rows (-want +got):\n%s", diff)
		}
		var all []manifest.Record
		var totals manifest.Totals
		for i := range 20 {
			r := record(i)
			r.AvailableDelta = math.MaxInt64 - int64(i) // the sum is over int64
			r.FrozenDelta = math.MinInt64 + int64(i)
			r.UpdatedAtMS = int64(i / 5)
			r.EventID = fmt.Sprintf("e%02d", i)
			r.AssetType = []string{"COIN", "coin", "gem", "gem "}[i%4] // two of them equal in the column's collation
			all = append(all, r)
			if err := totals.Add(&r); err != nil {
				t.Fatal(err)
			}
		}
		want := summaryOf(&totals)
		want.FirstCursor, want.LastCursor = manifest.Cursor{UpdatedAtMS: 0, EventID: "e00"}, manifest.Cursor{UpdatedAtMS: 3, EventID: "e19"}
		other := record(99)
		other.AppCode = "chat"
		if err := write(t, db, tab, WriterOptions{}, append(all, other)); err != nil {
			t.Fatal(err)
		}
		got, err = Summarize(t.Context(), db, tab, app)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpSums); diff != "" {
			t.Errorf("Summarize (-want +got):\n%s", diff)
		}
		if err := totals.Add(&other); err != nil {
			t.Fatal(err)
		}
		want = summaryOf(&totals)
		want.FirstCursor, want.LastCursor = got.FirstCursor, other.Cursor()
		if got, err = Summarize(t.Context(), db, tab, ""); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpSums); diff != "" {
			t.Errorf("Summarize of all apps (-want +got):\n%s", diff)
		}
	})
}

// TestSummarizeCursors: the first and last row are those of the server's own
// order, whatever asset type they are of.
func TestSummarizeCursors(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tc := range []struct{ collation, first, last string }{
			{"utf8mb4_bin", "B", "d"},
			{"utf8mb4_general_ci", "a", "E"},
		} {
			db, tab := newTable(t, s, tc.collation)
			var all []manifest.Record
			for i, c := range []struct {
				ms    int64
				id    string
				asset string
			}{
				{-7, "a", "COIN"}, {-7, "B", "gem"}, {0, "A0", "COIN"}, {5, "z0", "gem"}, // z0 is greater, and not last
				{10, "d", "gem"}, {10, "E", "COIN"},
			} {
				r := record(i)
				r.UpdatedAtMS, r.EventID, r.AssetType = c.ms, c.id, c.asset
				r.CreatedAtMS = -int64(i) - 1 // zero is no bound by itself
				all = append(all, r)
			}
			if err := write(t, db, tab, WriterOptions{}, all); err != nil {
				t.Fatal(err)
			}
			got, err := Summarize(t.Context(), db, tab, "")
			if err != nil {
				t.Fatal(err)
			}
			if want := (manifest.Cursor{UpdatedAtMS: -7, EventID: tc.first}); got.FirstCursor != want {
				t.Errorf("%s: first cursor %v, want %v", tc.collation, got.FirstCursor, want)
			}
			if want := (manifest.Cursor{UpdatedAtMS: 10, EventID: tc.last}); got.LastCursor != want {
				t.Errorf("%s: last cursor %v, want %v", tc.collation, got.LastCursor, want)
			}
			if got.MinCreatedAtMS != -6 || got.MaxCreatedAtMS != -1 {
				t.Errorf("%s: created from %d to %d, want -6 to -1", tc.collation, got.MinCreatedAtMS, got.MaxCreatedAtMS)
			}
		}
	})
}

func summaryOf(t *manifest.Totals) Summary {
	return Summary{All: t.All, ByAsset: t.ByAsset, MinCreatedAtMS: t.MinCreatedAtMS, MaxCreatedAtMS: t.MaxCreatedAtMS}
}

var cmpSums = cmp.Comparer(func(a, b manifest.Sum) bool { return a == b })

func TestReadingStopsWithTheContext(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		if err := write(t, db, tab, WriterOptions{}, []manifest.Record{record(1), record(2)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// What the driver has read already may still come, and then an error or none.
		rows, failed := 0, false
		for _, err := range ReadAll(ctx, db, tab, "", AnyOrder) {
			if failed {
				t.Error("ReadAll went on after an error")
			}
			if failed = err != nil; !failed {
				rows++
			}
			cancel()
		}
		if rows < 1 || rows > 2 {
			t.Errorf("ReadAll gave %d rows", rows)
		}
		for _, err := range ReadAll(ctx, db, tab, "", AnyOrder) {
			if err == nil {
				t.Error("ReadAll gave a row after the context had ended")
			}
		}
	})
}
