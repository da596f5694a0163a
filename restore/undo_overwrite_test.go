package restore

import (
	"database/sql"
	"errors"
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

// TestUndoRefusesAServerThatChangesAnOldRow shows that putting back is read back.
func TestUndoRefusesAServerThatChangesAnOldRow(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		rows := records(3)
		old := *rows[1].Clone()
		old.WorkerID = "before"
		insert(t, db, old)
		path := filepath.Join(t.TempDir(), "receipt")
		j := openJournal(t, db, journalOptions(t, db, path))
		opts := testOptions(t)
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
		journaled(t, db, open(t, rows, nil), j, opts)
		mustExec(t, db, "CREATE TRIGGER meddle BEFORE UPDATE ON wallet_outbox FOR EACH ROW SET NEW.worker_id = 'meddled'")
		_, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{AllowTriggers: true})
		var refused *RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, ErrConflict) || refused.EventID != rows[1].EventID {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff(linesOf(rows), contents(t, db)); diff != "" {
			t.Errorf("the transaction was not undone (-want +got)\n%s", diff)
		}
	})
}
