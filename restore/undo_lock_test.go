package restore

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// TestUndoOfALockedRow has another transaction hold a row: a dry run does not
// wait for it, and an undo says what it waits for.
func TestUndoOfALockedRow(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		rows := records(3)
		path := filepath.Join(t.TempDir(), "receipt")
		journaled(t, db, open(t, rows, nil), openJournal(t, db, journalOptions(t, db, path)), testOptions(t))
		impatient, err := mysqldb.Open(t.Context(), dsn+"?innodb_lock_wait_timeout=1", mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer impatient.Close()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM wallet_outbox WHERE event_id = ? FOR UPDATE", rows[1].EventID); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		opts := UndoOptions{DryRun: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if u, err := Undo(t.Context(), impatient, readReceipt(t, path), opts); err != nil || u.Removed != 3 || log.Len() > 0 {
			t.Errorf("dry run: %+v, %v, log %s", u, err, log.String())
		}
		opts.DryRun = false
		u, err := Undo(t.Context(), impatient, readReceipt(t, path), opts)
		if !mysqldb.IsError(err, mysqldb.ErLockWaitTimeout) || !strings.Contains(err.Error(), `rows from event_id "`+rows[0].EventID+`" to "`) || !strings.Contains(err.Error(), "INNODB_TRX") || u.NotReached() != 3 {
			t.Errorf("%+v, %v", u, err)
		}
		if n := strings.Count(log.String(), "locked by another transaction"); n != DefaultMaxAttempts-1 {
			t.Errorf("%d waits were logged, want %d:\n%s", n, DefaultMaxAttempts-1, log.String())
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if u, err := Undo(t.Context(), impatient, readReceipt(t, path), opts); err != nil || !u.Complete() || u.Removed != 3 {
			t.Errorf("after it: %+v, %v", u, err)
		}
	})
}
