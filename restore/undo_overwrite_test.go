package restore

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestUndoPutsOverwrittenRowsBack(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		mustExec(t, db, "ALTER TABLE wallet_outbox ADD COLUMN extra INT NULL")
		rows := records(12)
		v := open(t, rows, nil)
		old := make([]manifest.Record, 4)
		for i := range old {
			old[i] = *rows[i].Clone()
			text := "it's \\ \"odd\" \n <&>"
			old[i].LastError, old[i].AvailableDelta = &text, 1<<62
			insertNamed(t, db, old[i])
		}
		mustExec(t, db, "UPDATE wallet_outbox SET extra = 5")
		before, sum := contents(t, db), outboxtest.Checksum(t, db)
		path := filepath.Join(t.TempDir(), "receipt")
		j := openJournal(t, db, journalOptions(t, db, path))
		opts := testOptions(t)
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 4
		journaled(t, db, v, j, opts)
		if got := j.Counts(); got != (ReceiptCounts{Inserted: 8, Overwritten: 4}) {
			t.Errorf("counts %+v", got)
		}
		if diff := cmp.Diff(linesOf(rows), contents(t, db)); diff != "" {
			t.Fatalf("the restore itself (-want +got)\n%s", diff)
		}
		// One of them is somebody else's since, one is gone, one is back already.
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = ?", rows[0].EventID)
		mustExec(t, db, "DELETE FROM wallet_outbox WHERE event_id = ?", rows[1].EventID)
		r := readReceipt(t, path)
		u, err := Undo(t.Context(), db, r, UndoOptions{})
		if diff := cmp.Diff([]string{"extra"}, u.OtherColumns); diff != "" {
			t.Errorf("columns that are not of the archive (-want +got)\n%s", diff)
		}
		if err != nil || u.Removed != 8 || u.PutBack != 2 || u.LeftCount != 2 || u.Complete() {
			t.Fatalf("%+v, %v", u, err)
		}
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 0 WHERE event_id = ?", rows[0].EventID)
		insertNamed(t, db, rows[1])
		mustExec(t, db, "UPDATE wallet_outbox SET extra = 5")
		u, err = Undo(t.Context(), db, r, UndoOptions{})
		if err != nil || u.PutBack != 2 || u.UndoneBefore != 10 || !u.Complete() {
			t.Fatalf("again: %+v, %v", u, err)
		}
		if diff := cmp.Diff(before, contents(t, db)); diff != "" {
			t.Errorf("the table before and after (-before +after)\n%s", diff)
		}
		if got := outboxtest.Checksum(t, db); got != sum {
			t.Errorf("CHECKSUM TABLE %d, was %d", got, sum)
		}
	})
}

// insertNamed is insert into a table with further columns.
func insertNamed(t *testing.T, db *sql.DB, r manifest.Record) {
	t.Helper()
	mustExec(t, db, "INSERT INTO wallet_outbox ("+strings.Join(manifest.Columns[:], ", ")+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", r.AppCode, r.EventID, r.EventType,
		r.TransactionID, r.CommandID, r.UserID, r.AssetType, r.AvailableDelta, r.FrozenDelta, r.PayloadJSON, r.Status, r.WorkerID,
		r.LockUntilMS, r.RetryCount, r.NextRetryAtMS, r.LastError, r.CreatedAtMS, r.UpdatedAtMS)
}

// TestUndoLeavesARowThatCannotBePutBack shows that putting back is read back, and
// that one row does not keep the others from it.
func TestUndoLeavesARowThatCannotBePutBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare []string // %[1]s and %[2]s are an overwritten and an inserted row
		removed int64
		putBack int64
		why     string
	}{
		{"a trigger that changes it", []string{"CREATE TRIGGER meddle BEFORE UPDATE ON wallet_outbox FOR EACH ROW " +
			"SET NEW.retry_count = IF(NEW.event_id = '%[1]s', 9, NEW.retry_count)"}, 4, 3, "the target changes what is put back, in retry_count"},
		{"a unique key", nil, 4, 3, "the target does not take back what it was: error 1062, another row has a unique key of it"},
		{"a trigger that refuses it", []string{"CREATE TRIGGER meddle BEFORE UPDATE ON wallet_outbox FOR EACH ROW " +
			"IF NEW.event_id = '%[1]s' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF"}, 4, 3, "the target does not take back what it was: error 1644, a trigger refuses it"},
		{"a trigger that keeps it", []string{"CREATE TRIGGER meddle BEFORE DELETE ON wallet_outbox FOR EACH ROW " +
			"IF OLD.event_id = '%[2]s' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF"}, 3, 4, "the target does not let it be deleted: error 1644, a trigger refuses it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
				db := newTarget(t, s)
				rows := records(8)
				for i := range rows[:4] {
					old := *rows[i].Clone()
					old.WorkerID = fmt.Sprint("before", i)
					insert(t, db, old)
				}
				path := filepath.Join(t.TempDir(), "receipt")
				opts := testOptions(t)
				opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 4
				journaled(t, db, open(t, rows, nil), openJournal(t, db, journalOptions(t, db, path)), opts)
				if c.name == "a unique key" {
					// Somebody else's row has what one of the old rows had.
					other := record(1000)
					other.WorkerID = "before1"
					mustExec(t, db, "ALTER TABLE wallet_outbox ADD COLUMN uniq VARCHAR(140) AS (IF(worker_id LIKE 'before%', worker_id, event_id)) STORED UNIQUE")
					insertNamed(t, db, other)
				} else {
					for _, p := range c.prepare {
						mustExec(t, db, fmt.Sprintf(p+"%.0[1]s%.0[2]s", rows[1].EventID, rows[5].EventID))
					}
				}
				for again := range 2 {
					u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{AllowTriggers: true})
					if again > 0 {
						u.Removed, u.PutBack, u.UndoneBefore = u.Removed+c.removed, u.PutBack+c.putBack, u.UndoneBefore-7
					}
					if err != nil || u.Removed != c.removed || u.PutBack != c.putBack || u.UndoneBefore != 0 || u.LeftCount != 1 || u.Left[0].Why != c.why || u.Complete() {
						t.Errorf("%+v, %v", u, err)
					}
				}
				if c.name == "a unique key" {
					mustExec(t, db, "DELETE FROM wallet_outbox WHERE worker_id = 'before1'")
				} else {
					mustExec(t, db, "DROP TRIGGER meddle")
				}
				if u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{}); err != nil || !u.Complete() {
					t.Errorf("without it: %+v, %v", u, err)
				}
				if n := len(contents(t, db)); n != 4 {
					t.Errorf("%d rows, want the old ones", n)
				}
			})
		})
	}
}
