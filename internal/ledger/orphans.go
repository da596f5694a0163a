package ledger

import (
	"context"
	"fmt"

	"github.com/hyapp/walletarchive/manifest"
)

// Orphans are members whose batch has no receipt. Receipt and members are
// written in one transaction, so that somebody has taken the receipt away.
type Orphans struct {
	BatchID manifest.BatchID
	Members int64
	EventID string // of the first of them
}

// Orphans returns the batches of an app that have members and no receipt, at
// most limit of them by batch_id, and how many there are. Those of one statement
// are of one moment, so an export that records a batch meanwhile makes none.
//
// With the key of [Schema] that is not in the contract, it reads one member of
// each batch; without it, all of them.
func (l *Ledger) Orphans(ctx context.Context, app string, limit int) (first []Orphans, total int64, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT m.app_code, m.batch_id FROM"+
		" (SELECT DISTINCT app_code, batch_id FROM "+MembersTable+" WHERE app_code = ?) m"+
		" LEFT JOIN "+ReceiptsTable+" r ON r.app_code = ? AND r.batch_id = m.batch_id"+
		" WHERE r.batch_id IS NULL ORDER BY m.batch_id", app, app)
	if err != nil {
		return nil, 0, fmt.Errorf("members without a receipt: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var of, id string
		if err := rows.Scan(&of, &id); err != nil {
			return nil, 0, fmt.Errorf("members without a receipt: %w", err)
		}
		if of != app { // by bytes, whatever the collation
			continue
		}
		if total++; total <= int64(limit) {
			first = append(first, Orphans{BatchID: manifest.BatchID(id)})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("members without a receipt: %w", err)
	}
	for i := range first {
		o := &first[i]
		err := l.db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(MIN(event_id), '') FROM "+MembersTable+" WHERE app_code = ? AND batch_id = ?",
			app, string(o.BatchID)).Scan(&o.Members, &o.EventID)
		if err != nil {
			return nil, 0, fmt.Errorf("members of %s, which has no receipt: %w", o.BatchID, err)
		}
	}
	return first, total, nil
}
