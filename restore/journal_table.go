package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// How a transaction was settled; see receiptOutcome.
const (
	byJournalTable = "journal table"
	byReadingBack  = "rows read back"
)

// createJournalTable makes the table of a journal when it is not there.
func createJournalTable(ctx context.Context, db mysqldb.Execer, table string) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+mysqldb.QuoteName(table)+` (
  run_id CHAR(32) NOT NULL,
  seq BIGINT NOT NULL,
  plan_id VARCHAR(128) NOT NULL,
  app_code VARCHAR(64) NOT NULL,
  batch_id VARCHAR(128) NOT NULL,
  inserted_rows BIGINT NOT NULL,
  overwritten_rows BIGINT NOT NULL,
  rows_sha256 CHAR(64) NOT NULL,
  recorded_at_ms BIGINT NOT NULL,
  PRIMARY KEY (run_id, seq)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`)
	if err != nil {
		return fmt.Errorf("make the journal table %s: %w", table, err)
	}
	return nil
}

// insertJournalRow leaves a line of the transaction in the target, which is there
// if and only if the transaction was committed.
func insertJournalRow(ctx context.Context, tx mysqldb.Session, h *ReceiptHeader, p *receiptPending, app string, id manifest.BatchID, now time.Time) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+mysqldb.QuoteName(h.JournalTable)+
		" (run_id, seq, plan_id, app_code, batch_id, inserted_rows, overwritten_rows, rows_sha256, recorded_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		h.RunID, p.Seq, h.PlanID, app, string(id), p.Counts.Inserted, p.Counts.Overwritten, p.SHA256.String(), now.UnixMilli())
	if err != nil {
		return fmt.Errorf("write to the journal table %s: %w", h.JournalTable, err)
	}
	return nil
}

// settleTransaction finds out what became of a transaction whose commit nobody
// has confirmed. Its line in the journal table tells for sure. Where there is none
// the rows do: it is Committed when all that it changed is in the target as it
// left it, RolledBack when all of that is as it was before, and Unknown otherwise,
// since somebody has written meanwhile. It is Unknown, too, when the rows are
// there and the line is not: it may have been purged.
func settleTransaction(ctx context.Context, db *sql.DB, log *slog.Logger, r *Receipt, t *ReceiptTransaction) (State, string, error) {
	if t.Rows.changed() == 0 {
		return Unchanged, byReadingBack, nil
	}
	var state State
	how := byReadingBack
	err := inTransaction(ctx, db, log, false, func(conn *sql.Conn) (err error) {
		if r.Header.JournalTable != "" {
			how = byJournalTable
			if state, err = askJournalTable(ctx, conn, r, t); err != nil || state != Unknown {
				return err
			}
		}
		if state, err = askRows(ctx, conn, r, t); how == byJournalTable && state == Committed {
			state = Unknown
		}
		return err
	})
	return state, how, err
}

// askJournalTable waits for the end of the transaction if it still runs: its line
// is locked until then. A line that is missing says that it was rolled back only
// where an earlier one of the run is there: nobody purges the latest first.
func askJournalTable(ctx context.Context, conn *sql.Conn, r *Receipt, t *ReceiptTransaction) (State, error) {
	table := mysqldb.QuoteName(r.Header.JournalTable)
	var sum string
	err := conn.QueryRowContext(ctx, "SELECT rows_sha256 FROM "+table+
		" WHERE run_id = ? AND seq = ? FOR UPDATE", r.Header.RunID, t.Seq).Scan(&sum)
	state, earlier := Committed, 0
	if errors.Is(err, sql.ErrNoRows) {
		err = conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE run_id = ? AND seq < ?", r.Header.RunID, t.Seq).Scan(&earlier)
		if state = Unknown; earlier > 0 {
			state = RolledBack
		}
	}
	if err != nil {
		return Unknown, fmt.Errorf("look into the journal table %s: %w", r.Header.JournalTable, err)
	}
	return state, nil
}

// askRows looks for the rows, each under a lock, so that a transaction that still
// runs is waited for.
func askRows(ctx context.Context, conn *sql.Conn, r *Receipt, t *ReceiptTransaction) (State, error) {
	table, err := outbox.Describe(ctx, conn, r.Header.Target.Table)
	if err != nil {
		return Unknown, err
	}
	var after, before, all int64 // as the transaction left them, and as it found them
	err = receiptChunks(r, t, lookRows, func(rows []*receiptRow) error {
		found, err := keyedRows(ctx, conn, &table, t.AppCode, rows, true)
		if err != nil {
			return err
		}
		for _, row := range rows {
			all++
			got, there := found[row.EventID]
			switch {
			case got != nil && got.RowHash() == row.RowHash:
				after++
			case row.Outcome == Inserted && !there:
				before++
			case row.Outcome == Overwritten && got != nil:
				old, err := row.old()
				if err != nil {
					return err
				}
				if got.RowHash() == old.RowHash() {
					before++
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return Unknown, err
	case after == all:
		return Committed, nil
	case before == all:
		return RolledBack, nil
	}
	return Unknown, nil
}

// lookRows is how many rows are locked by one statement.
const lookRows = 500

// receiptChunks calls f with the rows of t that were inserted or overwritten and
// that no undo has taken back yet, at most n at a time.
func receiptChunks(r *Receipt, t *ReceiptTransaction, n int, f func([]*receiptRow) error) error {
	chunk := make([]*receiptRow, 0, n)
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		err := f(chunk)
		chunk = chunk[:0]
		return err
	}
	number, undone := int64(0), t.undone // as they are now: f may add to them
	for row, err := range r.rows(t) {
		if err != nil {
			return err
		}
		if row.Outcome != Inserted && row.Outcome != Overwritten {
			continue
		}
		number++
		if row.Number = number; undone.has(number) {
			continue
		}
		if chunk = append(chunk, row); len(chunk) == n {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// keyedRows returns the rows of the target under the keys of rows, locked when
// lock says so, by event_id byte for byte. A row that is no record of any archive, and so none
// that was restored, is there with a nil record.
func keyedRows(ctx context.Context, conn *sql.Conn, table *outbox.Table, app string, rows []*receiptRow, lock bool) (map[string]*manifest.Record, error) {
	read := outbox.ReadByKeys
	if lock {
		read = outbox.LockByKeys
	}
	found := make(map[string]*manifest.Record, len(rows))
	ids := make([]string, 0, len(rows))
	for _, row := range rows {
		ids = append(ids, row.EventID)
	}
	for {
		again := false
		for got, err := range read(ctx, conn, table, app, ids) {
			var inexact *manifest.ExactnessError
			if errors.As(err, &inexact) && inexact.EventID != "" && !again {
				// It ends the sequence; the others are asked for again.
				if _, seen := found[inexact.EventID]; !seen {
					found[inexact.EventID], again = nil, true
					break
				}
			}
			if err != nil {
				return nil, err
			}
			found[got.EventID] = got.Clone()
		}
		if !again {
			return found, nil
		}
		left := ids[:0]
		for _, id := range ids {
			if _, seen := found[id]; !seen {
				left = append(left, id)
			}
		}
		ids = left
	}
}
