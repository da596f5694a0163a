package restore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// TestUndoOfAnUnconfirmedTransaction cuts a receipt off after `pending`, changes
// the target, and wants of undo that it takes no transaction for rolled back whose
// rows say otherwise.
func TestUndoOfAnUnconfirmedTransaction(t *testing.T) {
	type want struct{ rows, removed, putBack, gone, left int64 }
	const purge, rollBack = "DELETE FROM restores", "rolled back"
	for _, c := range []struct {
		name         string
		journalTable string
		change       []string // of rows e-00 (overwritten) and e-01 to e-03 (inserted)
		want         want
	}{
		{"committed", "", nil, want{4, 3, 1, 0, 0}},
		{"rolled back", "", []string{rollBack}, want{}},
		{"all changed since", "", []string{"UPDATE wallet_outbox SET retry_count = 7"}, want{4, 0, 0, 0, 4}},
		{"one changed since", "", []string{"UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = '%[2]s'"}, want{4, 2, 1, 0, 1}},
		{"one changed and the others gone", "", []string{"UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = '%[2]s'",
			"DELETE FROM wallet_outbox WHERE event_id NOT IN ('%[1]s', '%[2]s')", "UPDATE wallet_outbox SET worker_id = 'before' WHERE event_id = '%[1]s'"}, want{4, 0, 0, 2, 1}},
		{"the overwritten one deleted", "", []string{rollBack, "DELETE FROM wallet_outbox WHERE event_id = '%[1]s'"}, want{4, 0, 0, 3, 1}},
		{"a line", "restores", []string{"UPDATE wallet_outbox SET retry_count = 7"}, want{4, 0, 0, 0, 4}},
		{"no line and no row", "restores", []string{purge, rollBack}, want{}},
		{"no line and every row", "restores", []string{purge}, want{4, 0, 0, 0, 4}},
		{"no line and changed rows", "restores", []string{purge, "UPDATE wallet_outbox SET retry_count = 7"}, want{4, 0, 0, 0, 4}},
		{"no line and one row", "restores", []string{purge, rollBack, "insert"}, want{4, 0, 0, 2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
				db := newTarget(t, s)
				rows := records(4)
				old := *rows[0].Clone()
				old.WorkerID = "before"
				insert(t, db, old)
				path := filepath.Join(t.TempDir(), "receipt")
				o := journalOptions(t, db, path)
				o.Table = c.journalTable
				opts := testOptions(t)
				opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
				journaled(t, db, open(t, rows, nil), openJournal(t, db, o), opts)
				cutAfterPending(t, path)
				for _, change := range c.change {
					switch change {
					case rollBack:
						mustExec(t, db, "DELETE FROM wallet_outbox")
						insert(t, db, old)
					case "insert":
						insert(t, db, rows[1])
					default:
						mustExec(t, db, fmt.Sprintf(change+"%.0[1]s%.0[2]s", rows[0].EventID, rows[1].EventID))
					}
				}
				before := contents(t, db)
				var done int64 // by the first that is not dry, unless it may not note it
				for _, dry := range []bool{true, false, false} {
					u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{DryRun: dry})
					got := want{u.Rows, u.Removed, u.PutBack, u.Gone, u.LeftCount}
					if u.UndoneBefore > 0 {
						got.removed, got.putBack, got.gone = c.want.removed, c.want.putBack, c.want.gone
					}
					if u.UndoneBefore != done {
						t.Errorf("%d rows undone before, want %d", u.UndoneBefore, done)
					}
					if !dry && !strings.HasPrefix(c.name, "no line") {
						done = u.Removed + u.PutBack + u.Gone + u.AlreadyBack + u.UndoneBefore
					}
					if err != nil || got != c.want {
						t.Errorf("dry %t: %+v, %v, want %+v", dry, u, err, c.want)
					}
					if c.want.removed+c.want.putBack == 0 {
						if diff := cmp.Diff(before, contents(t, db)); diff != "" {
							t.Errorf("dry %t: a row was touched (-before +after)\n%s", dry, diff)
						}
					}
				}
			})
		})
	}
}
