package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestOrphans(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, key := range []bool{true, false} { // with the key of Schema that is not in the contract, and without
			l, db := newLedger(t, s)
			if !key {
				exec(t, db, "ALTER TABLE "+MembersTable+" DROP KEY "+batchKey)
				l = New(db) // what it knows of the tables it has asked once
			}
			kept, gone, also := newBatch(t, "game", "a", 3), newBatch(t, "game", "b", 600), newBatch(t, "game", "c", 2)
			other := newBatch(t, "Game", "d", 4) // whose receipt is taken away as well
			for _, b := range []batch{kept, gone, also, other} {
				mustRecord(t, l, b)
			}
			if first, total, err := l.Orphans(t.Context(), "game", 5); err != nil || total != 0 || len(first) != 0 {
				t.Errorf("Orphans of a whole ledger = %v, %d, %v", first, total, err)
			}
			for _, b := range []batch{gone, also, other} {
				exec(t, db, "DELETE FROM "+ReceiptsTable+" WHERE batch_id = ?", string(b.receipt.BatchID))
			}
			want := []Orphans{{gone.receipt.BatchID, 600, "b-000000"}, {also.receipt.BatchID, 2, "c-000000"}}
			if strings.Compare(string(want[0].BatchID), string(want[1].BatchID)) > 0 {
				want[0], want[1] = want[1], want[0]
			}
			for limit := range 3 {
				first, total, err := l.Orphans(t.Context(), "game", limit)
				if d := cmp.Diff(want[:limit], append([]Orphans{}, first...)); err != nil || total != 2 || d != "" {
					t.Errorf("Orphans, at most %d = %d, %v (-want +got):\n%s", limit, total, err, d)
				}
			}
			// A receipt without members is an older one and no orphan.
			exec(t, db, "DELETE FROM "+MembersTable+" WHERE batch_id = ?", string(kept.receipt.BatchID))
			if _, total, err := l.Orphans(t.Context(), "game", 0); err != nil || total != 2 {
				t.Errorf("Orphans beside an older receipt = %d, %v", total, err)
			}
		}
	})
}
