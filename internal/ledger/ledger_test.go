package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

// batch is a receipt with its members.
type batch struct {
	receipt manifest.Receipt
	members []manifest.Member
}

// baseMS is the updated_at_ms of the first row of batches in tests.
const baseMS = 1_764_550_800_000

// newBatch returns a valid batch of rows whose event_ids begin with name, each a
// millisecond after the one before. Another name is another batch.
func newBatch(t testing.TB, app, name string, rows int) batch {
	t.Helper()
	return newBatchAt(t, app, name, rows, func(i int) int64 { return baseMS + int64(i) })
}

// newBatchAt is newBatch with the updated_at_ms of each row.
func newBatchAt(t testing.TB, app, name string, rows int, ms func(i int) int64) batch {
	t.Helper()
	f := manifest.Figures{
		NDJSONSHA256: manifest.SumHash([]byte(name)), GzipSHA256: manifest.SumHash([]byte(name + "gz")),
		DataCRC64: 7, UncompressedBytes: 100, CompressedBytes: 50,
	}
	cursor := func(i int) manifest.Cursor {
		return manifest.Cursor{UpdatedAtMS: ms(i), EventID: fmt.Sprintf("%s-%06d", name, i)}
	}
	f.FirstCursor, f.LastCursor = cursor(0), cursor(rows-1)
	for i := range rows {
		r := manifest.Record{AssetType: "gold", AvailableDelta: -1 << 62, FrozenDelta: 1, CreatedAtMS: baseMS + int64(i)}
		if err := f.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	m, err := manifest.New("pre/fix", app, f, time.UnixMilli(baseMS))
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.NewReceipt(&m, []byte("manifest of "+name), []byte("marker of "+name), baseMS+1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	b := batch{receipt: r}
	for i := range rows {
		c := cursor(i)
		b.members = append(b.members, r.Member(c.EventID, c.UpdatedAtMS))
	}
	return b
}

// at returns b verified at another time, as a second run would have it.
func (b batch) at(verifiedMS int64) batch {
	b.receipt.VerifiedAtMS, b.receipt.CreatedAtMS, b.receipt.UpdatedAtMS = verifiedMS, verifiedMS, verifiedMS
	b.members = slices.Clone(b.members)
	for i := range b.members {
		b.members[i].ReceiptVerifiedAtMS = verifiedMS
	}
	return b
}

// each gives the members as Record takes them.
func each(members []manifest.Member) iter.Seq2[manifest.Member, error] {
	return func(yield func(manifest.Member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// newLedger returns a ledger with empty tables in a database of its own.
func newLedger(t *testing.T, s mysqltest.Server) (*Ledger, *sql.DB) {
	t.Helper()
	db, _ := s.NewDB(t)
	l := New(db)
	if err := l.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, db
}

func mustRecord(t *testing.T, l *Ledger, b batch) {
	t.Helper()
	existed, err := l.Record(t.Context(), b.receipt, each(b.members))
	if err != nil || existed {
		t.Fatalf("Record(%s) = %v, %v, want false, nil", b.receipt.BatchID, existed, err)
	}
}

// snapshot is all that both tables hold.
func snapshot(t *testing.T, db *sql.DB) (receipts []manifest.Receipt, members []manifest.Member) {
	t.Helper()
	ctx := context.Background()
	if err := eachReceipt(ctx, db, selectReceipts+" ORDER BY app_code, batch_id", nil, func(s Stored) error {
		receipts = append(receipts, s.Receipt)
		return s.Err
	}); err != nil {
		t.Fatal(err)
	}
	if err := eachMember(ctx, db, selectMembers+" ORDER BY app_code, event_id", nil, func(m manifest.Member) error {
		members = append(members, m)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return receipts, members
}

// checkHolds fails unless the ledger holds these batches and nothing else.
func checkHolds(t *testing.T, db *sql.DB, want ...batch) {
	t.Helper()
	receipts, members := snapshot(t, db)
	var wantReceipts []manifest.Receipt
	var wantMembers []manifest.Member
	for _, b := range want {
		wantReceipts = append(wantReceipts, b.receipt)
		wantMembers = append(wantMembers, b.members...)
	}
	slices.SortFunc(wantReceipts, func(a, b manifest.Receipt) int {
		return strings.Compare(a.AppCode+string(a.BatchID), b.AppCode+string(b.BatchID))
	})
	for _, m := range [][]manifest.Member{members, wantMembers} { // the collation has another order
		slices.SortFunc(m, func(a, b manifest.Member) int { return strings.Compare(a.AppCode+a.EventID, b.AppCode+b.EventID) })
	}
	if d := cmp.Diff(wantReceipts, receipts, cmp.AllowUnexported(manifest.Sum{})); d != "" {
		t.Errorf("receipts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantMembers, members); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
}

func TestReadReceipts(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		ctx := t.Context()
		l, db := newLedger(t, s)
		if _, ok, err := l.LatestCursor(ctx, "game"); ok || err != nil {
			t.Errorf("LatestCursor of an empty ledger = %v, %v, want false, nil", ok, err)
		}
		if _, err := l.Receipt(ctx, "game", newBatch(t, "game", "a", 1).receipt.BatchID); !errors.Is(err, ErrNoReceipt) {
			t.Errorf("Receipt of an empty ledger = %v, want %v", err, ErrNoReceipt)
		}
		if list, err := l.Receipts(ctx, Filter{}); err != nil || len(list) != 0 {
			t.Errorf("Receipts of an empty ledger = %v, %v", list, err)
		}

		a := newBatch(t, "game", "a", 3)                     // ends at +2
		b := newBatch(t, "game", "b", 10).at(baseMS + 1)     // ends at +9
		tied := newBatch(t, "game", "B2", 10).at(baseMS + 9) // ends at +9 too, verified later
		other := newBatch(t, "Game", "c", 20)                // another app, later
		for _, x := range []batch{b, other, tied, a} {
			mustRecord(t, l, x)
		}
		cursor, ok, err := l.LatestCursor(ctx, "game")
		if want := tied.receipt.LastCursor(); err != nil || !ok || cursor != want {
			t.Errorf("LatestCursor = %v, %v, %v, want %v", cursor, ok, err, want)
		}
		if _, ok, err := l.LatestCursor(ctx, "GAME"); ok || err != nil {
			t.Errorf("LatestCursor of an app in other case = %v, %v, want false, nil", ok, err)
		}
		got, err := l.Receipt(ctx, "game", a.receipt.BatchID)
		if d := cmp.Diff(a.receipt, got, cmp.AllowUnexported(manifest.Sum{})); err != nil || d != "" {
			t.Errorf("Receipt: %v (-want +got):\n%s", err, d)
		}
		if _, err := l.Receipt(ctx, "Game", a.receipt.BatchID); !errors.Is(err, ErrNoReceipt) {
			t.Errorf("Receipt of another app = %v, want %v", err, ErrNoReceipt)
		}

		ms := func(n int64) time.Time { return time.UnixMilli(baseMS + n) }
		tests := []struct {
			name   string
			filter Filter
			want   []batch
		}{
			{"all", Filter{}, []batch{other, a, b, tied}},
			{"app", Filter{AppCode: "game"}, []batch{a, b, tied}},
			{"latest", Filter{AppCode: "game", Latest: 2}, []batch{b, tied}},
			{"latest of each app", Filter{Latest: 1}, []batch{other, tied}},
			{"latest of more than there are", Filter{AppCode: "Game", Latest: 9}, []batch{other}},
			{"since the last millisecond of one", Filter{AppCode: "game", Since: ms(2)}, []batch{a, b, tied}},
			{"since after it", Filter{AppCode: "game", Since: ms(2).Add(time.Nanosecond)}, []batch{b, tied}},
			{"until the first millisecond", Filter{AppCode: "game", Until: ms(0)}, nil},
			{"until after it", Filter{AppCode: "game", Until: ms(0).Add(time.Nanosecond)}, []batch{a, b, tied}},
			{"between", Filter{AppCode: "game", Since: ms(5), Until: ms(6), Latest: 1}, []batch{tied}},
			{"no such app", Filter{AppCode: "gam"}, nil},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				list, err := l.Receipts(ctx, tt.filter)
				if err != nil {
					t.Fatal(err)
				}
				var got, want []manifest.BatchID
				for _, r := range list {
					got = append(got, r.BatchID)
				}
				for _, b := range tt.want {
					want = append(want, b.receipt.BatchID)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("Receipts (-want +got):\n%s", d)
				}
			})
		}

		// A receipt in another state moves no cursor, and is not hidden either.
		exec(t, db, "UPDATE "+ReceiptsTable+" SET state = 'REVOKED' WHERE batch_id = ?", string(tied.receipt.BatchID))
		if cursor, _, err := l.LatestCursor(ctx, "game"); err != nil || cursor != b.receipt.LastCursor() {
			t.Errorf("LatestCursor = %v, %v, want %v", cursor, err, b.receipt.LastCursor())
		}
		if list, err := l.Receipts(ctx, Filter{AppCode: "game", Latest: 1}); err != nil || len(list) != 1 || list[0].State != "REVOKED" {
			t.Errorf("Receipts = %v, %v, want the revoked one", list, err)
		}
		// Nothing is built on a receipt that contradicts itself.
		exec(t, db, "UPDATE "+ReceiptsTable+" SET row_count = 0 WHERE batch_id = ?", string(b.receipt.BatchID))
		if _, _, err := l.LatestCursor(ctx, "game"); !errors.Is(err, manifest.ErrBadReceipt) {
			t.Errorf("LatestCursor = %v, want %v", err, manifest.ErrBadReceipt)
		}
		exec(t, db, "UPDATE "+ReceiptsTable+" SET gzip_sha256 = UPPER(gzip_sha256) WHERE batch_id = ?", string(a.receipt.BatchID))
		unreadable := func(err error) {
			t.Helper()
			if !errors.Is(err, manifest.ErrBadReceipt) || !strings.Contains(err.Error(), "gzip_sha256") {
				t.Errorf("a receipt whose gzip_sha256 cannot be read = %v, want %v and the column", err, manifest.ErrBadReceipt)
			}
		}
		_, err = l.Receipt(ctx, "game", a.receipt.BatchID)
		unreadable(err)
		// It keeps nobody from the others, and its place in the chain.
		for _, f := range []Filter{{AppCode: "game"}, {AppCode: "game", Latest: 3}, {AppCode: "game", Since: ms(1)}} {
			list, err := l.Receipts(ctx, f)
			if err != nil || len(list) != 3 || list[1].Err != nil || list[2].Err != nil || list[1].BatchID != b.receipt.BatchID {
				t.Fatalf("Receipts(%+v) = %v, %v", f, list, err)
			}
			unreadable(list[0].Err)
			if bad := list[0].Receipt; bad != (manifest.Receipt{AppCode: "game", BatchID: a.receipt.BatchID}) {
				t.Errorf("the receipt that cannot be read is %+v", bad)
			}
		}
		// One without a time may be of any.
		exec(t, db, "ALTER TABLE "+ReceiptsTable+" MODIFY last_updated_at_ms BIGINT NULL")
		exec(t, db, "UPDATE "+ReceiptsTable+" SET last_updated_at_ms = NULL WHERE batch_id = ?", string(b.receipt.BatchID))
		if list, err := l.Receipts(ctx, Filter{AppCode: "game", Since: ms(1000)}); err != nil || len(list) != 1 || list[0].BatchID != b.receipt.BatchID || list[0].Err == nil {
			t.Errorf("Receipts since a time after all = %v, %v, want the one whose time is NULL", list, err)
		}
	})
}

// TestLatestWithinOneMillisecond holds the order of batches that end in the same
// millisecond: the one that began before it is the first, whatever the clocks say.
func TestLatestWithinOneMillisecond(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, _ := newLedger(t, s)
		within := func(int) int64 { return baseMS + 9 }
		first := newBatch(t, "game", "z", 10).at(baseMS + 900)
		second := newBatchAt(t, "game", "y", 2, within).at(baseMS + 100)
		third := newBatchAt(t, "game", "x", 2, within).at(baseMS + 101)
		for i, b := range []batch{first, third, second} {
			mustRecord(t, l, b)
			want := []batch{first, third, third}[i].receipt.LastCursor()
			if got, ok, err := l.LatestCursor(t.Context(), "game"); err != nil || !ok || got != want {
				t.Errorf("LatestCursor = %v, %v, %v, want %v", got, ok, err, want)
			}
		}
		list, err := l.Receipts(t.Context(), Filter{AppCode: "game"})
		if err != nil || len(list) != 3 || list[0].BatchID != first.receipt.BatchID || list[1].BatchID != second.receipt.BatchID {
			t.Errorf("Receipts = %v, %v, want the order of the chain", list, err)
		}
	})
}

// TestLatestTellsAppsApartByBytes: the ledger's collation takes "game " for
// "game", and an app that began behind the cursor of another would lose rows.
func TestLatestTellsAppsApartByBytes(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, _ := newLedger(t, s)
		b := newBatch(t, "game", "a", 2)
		mustRecord(t, l, b)
		for _, app := range []string{"game ", "Game", "gam\u00e9"} {
			if got, ok, err := l.Latest(t.Context(), app); err != nil || ok {
				t.Errorf("Latest(%q) = %s of %q, %v, %v, want none", app, got.BatchID, got.AppCode, ok, err)
			}
		}
		later := newBatch(t, "game ", "b", 1)
		mustRecord(t, l, later)
		for _, want := range []batch{b, later} {
			app := want.receipt.AppCode
			if got, ok, err := l.Latest(t.Context(), app); err != nil || !ok || got.BatchID != want.receipt.BatchID {
				t.Errorf("Latest(%q) = %s of %q, %v, %v, want %s", app, got.BatchID, got.AppCode, ok, err, want.receipt.BatchID)
			}
		}
	})
}

func TestReadMembers(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		ctx := t.Context()
		l, db := newLedger(t, s)
		a, b, other := newBatch(t, "game", "a", 1200), newBatch(t, "game", "b", 3), newBatch(t, "Game", "a", 2)
		for _, x := range []batch{a, b, other} {
			mustRecord(t, l, x)
		}
		for _, x := range []batch{a, b, other} {
			if n, err := l.MemberCount(ctx, x.receipt.AppCode, x.receipt.BatchID); err != nil || n != int64(len(x.members)) {
				t.Errorf("MemberCount = %d, %v, want %d", n, err, len(x.members))
			}
			var got []manifest.Member
			for m, err := range l.Members(ctx, x.receipt.AppCode, x.receipt.BatchID) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m)
			}
			if d := cmp.Diff(x.members, got); d != "" {
				t.Errorf("Members (-want +got):\n%s", d)
			}
		}
		if n, err := l.MemberCount(ctx, "Game", a.receipt.BatchID); err != nil || n != 0 {
			t.Errorf("MemberCount of another app = %d, %v, want 0", n, err)
		}
		for m, err := range l.Members(ctx, "game", other.receipt.BatchID) {
			t.Errorf("Members of another app gives %v, %v", m, err)
		}
		n := 0
		for _, err := range l.Members(ctx, "game", a.receipt.BatchID) {
			if n++; err != nil {
				t.Fatal(err)
			}
			break
		}
		if n != 1 {
			t.Errorf("a loop that breaks saw %d members", n)
		}

		ids := []string{"absent", "A-000000", "b-000002", "b-000002"}
		for _, m := range a.members {
			ids = append(ids, m.EventID)
		}
		got, err := l.BatchesOf(ctx, "game", ids)
		want := map[string]manifest.BatchID{"b-000002": b.receipt.BatchID}
		for _, m := range a.members {
			want[m.EventID] = a.receipt.BatchID
		}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("BatchesOf: %v (-want +got):\n%s", err, d)
		}
		if got, err := l.BatchesOf(ctx, "game", nil); err != nil || len(got) != 0 {
			t.Errorf("BatchesOf nothing = %v, %v", got, err)
		}

		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		var errs []error
		for _, err := range l.Members(cancelled, "game", a.receipt.BatchID) {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
			t.Errorf("Members with a cancelled context gives %v, want %v once", errs, context.Canceled)
		}
		exec(t, db, "UPDATE "+MembersTable+" SET manifest_sha256 = 'x' WHERE event_id = 'b-000001'")
		errs = nil
		for _, err := range l.Members(ctx, "game", b.receipt.BatchID) {
			errs = append(errs, err)
		}
		if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], manifest.ErrBadReceipt) {
			t.Errorf("Members with one that cannot be read gives %v, want nil and then %v", errs, manifest.ErrBadReceipt)
		}
	})
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
