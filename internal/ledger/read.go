package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// chainOrder is the order in which an app's batches follow each other, the first
// one last. Of batches that end in the same millisecond the one that began before
// it is the first. Which of those that lie within it wholly comes later is known to
// the source's collation alone, so that the order of recording decides; the id is
// only there to have an order.
const chainOrder = "last_updated_at_ms DESC, first_updated_at_ms DESC, verified_at_ms DESC, created_at_ms DESC, last_event_id DESC"

// Latest returns the VERIFIED receipt that the next batch of an app follows, and
// false when there is none.
//
// Where several batches lie within one millisecond it is the one verified last. If
// a clock that was set back makes that a wrong one, it is an earlier one: what
// follows it is archived once more and then is the same receipt or a conflict. No
// row is skipped.
//
// The error wraps [manifest.ErrBadReceipt] when that receipt is not valid, since
// nothing may be built on it, [ErrSchema] when the tables compare ids other than
// by bytes. An app_code is compared byte by byte even so: the collation of the
// ledger's own tables takes "a " for "a", and the receipt of another app would
// make rows of this one be skipped.
func (l *Ledger) Latest(ctx context.Context, app string) (manifest.Receipt, bool, error) {
	if err := l.ready(ctx); err != nil {
		return manifest.Receipt{}, false, err
	}
	const verified = " WHERE app_code = ? AND CAST(CONVERT(app_code USING utf8mb4) AS BINARY) = CAST(? AS BINARY)" +
		" AND state = '" + manifest.StateVerified + "'"
	var latest []manifest.Receipt
	err := eachReceipt(ctx, l.db, selectReceipts+verified+
		" AND last_updated_at_ms = (SELECT MAX(last_updated_at_ms) FROM "+ReceiptsTable+verified+")"+
		" ORDER BY "+chainOrder+" LIMIT 1", []any{app, app, app, app}, func(s Stored) error {
		latest = append(latest, s.Receipt)
		return s.Err
	})
	if err != nil || len(latest) == 0 {
		return manifest.Receipt{}, false, wrap(err, "latest receipt of app_code %q", app)
	}
	return latest[0], true, wrap(latest[0].Validate(), "latest receipt %s of app_code %q", latest[0].BatchID, app)
}

// LatestCursor returns where the next batch of an app begins: the last cursor of
// [Ledger.Latest], and false when the app has no VERIFIED receipt.
func (l *Ledger) LatestCursor(ctx context.Context, app string) (manifest.Cursor, bool, error) {
	r, ok, err := l.Latest(ctx, app)
	if err != nil || !ok {
		return manifest.Cursor{}, false, err
	}
	return r.LastCursor(), true, nil
}

// Receipt returns the receipt of a batch as it is stored, in any state: whether
// it is valid is for the caller to judge. The error wraps [ErrNoReceipt] when there
// is none, [manifest.ErrBadReceipt] when a field cannot be read.
func (l *Ledger) Receipt(ctx context.Context, app string, id manifest.BatchID) (manifest.Receipt, error) {
	return receipt(ctx, l.db, app, id, "")
}

// receipt is Receipt in a transaction, or with a locking clause at the end.
func receipt(ctx context.Context, q mysqldb.Queryer, app string, id manifest.BatchID, lock string) (manifest.Receipt, error) {
	found := []manifest.Receipt{}
	err := eachReceipt(ctx, q, selectReceipts+" WHERE app_code = ? AND batch_id = ?"+lock, []any{app, string(id)}, func(s Stored) error {
		if s.AppCode != app || s.BatchID != id { // by bytes, whatever the collation
			return nil
		}
		found = append(found, s.Receipt)
		return s.Err
	})
	if err == nil && len(found) == 0 {
		err = ErrNoReceipt
	}
	if err != nil {
		return manifest.Receipt{}, fmt.Errorf("receipt %s of app_code %q: %w", id, app, err)
	}
	return found[0], nil
}

// Filter chooses receipts. The zero Filter chooses all of them.
type Filter struct {
	// AppCode is the app, "" for every app.
	AppCode string
	// Since and Until choose the batches with rows whose updated_at_ms may be in
	// [Since, Until): those whose first and last row are not both before or both
	// after it. The zero time leaves an end open.
	Since, Until time.Time
	// Latest keeps that many, the last of each app. Zero keeps all.
	Latest int
}

// Stored is a receipt as the ledger holds it, in any state: whether it is valid
// is for the caller to judge.
type Stored struct {
	// Receipt has the app_code and batch_id alone when Err is not nil.
	manifest.Receipt
	// Err wraps [manifest.ErrBadReceipt] and names the field that cannot be read.
	Err error
}

// Receipts returns the receipts that f chooses by app_code and, within an app, in
// the order of the chain, the oldest first. None is not an error, and neither is
// one that cannot be read: it is returned as such, so that nobody takes the
// others for all there are. One without a time fits any time.
func (l *Ledger) Receipts(ctx context.Context, f Filter) ([]Stored, error) {
	where := []string{"1 = 1"}
	var args []any
	if f.AppCode != "" {
		where, args = append(where, "app_code = ?"), append(args, f.AppCode)
	}
	if !f.Since.IsZero() {
		where, args = append(where, "(last_updated_at_ms >= ? OR last_updated_at_ms IS NULL)"), append(args, ceilMS(f.Since))
	}
	if !f.Until.IsZero() {
		where, args = append(where, "(first_updated_at_ms < ? OR first_updated_at_ms IS NULL)"), append(args, ceilMS(f.Until))
	}
	var list []Stored
	n := 0 // of the last app
	err := eachReceipt(ctx, l.db, selectReceipts+" WHERE "+strings.Join(where, " AND ")+" ORDER BY app_code DESC, "+chainOrder, args, func(s Stored) error {
		if f.AppCode != "" && s.AppCode != f.AppCode { // by bytes, whatever the collation
			return nil
		}
		if len(list) > 0 && list[len(list)-1].AppCode != s.AppCode {
			n = 0
		}
		if n++; f.Latest <= 0 || n <= f.Latest {
			list = append(list, s)
		}
		if f.AppCode != "" && n == f.Latest {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	slices.Reverse(list)
	return list, nil
}

// ceilMS is the first millisecond that is not before t.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// MemberCount returns how many members the ledger has for a batch. Zero beside a
// receipt means that an older writer recorded it: it can be verified, restored
// and drilled, and its rows are never eligible for a later clean-up.
func (l *Ledger) MemberCount(ctx context.Context, app string, id manifest.BatchID) (int64, error) {
	var n int64
	err := l.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+MembersTable+" WHERE app_code = ? AND batch_id = ?", app, string(id)).Scan(&n)
	return n, wrap(err, "members of receipt %s", id)
}

const orderByEventID = " ORDER BY event_id"

var membersOfBatch = selectMembers + " WHERE app_code = ? AND batch_id = ?" + orderByEventID

// Members streams the members of a batch by event_id, from one statement and so
// from one moment. It keeps a connection until the loop ends. An error comes once, last and with a zero Member: what came before it is
// not all of them.
func (l *Ledger) Members(ctx context.Context, app string, id manifest.BatchID) iter.Seq2[manifest.Member, error] {
	return func(yield func(manifest.Member, error) bool) {
		err := eachMember(ctx, l.db, membersOfBatch, []any{app, string(id)}, func(m manifest.Member) error {
			if m.AppCode == app && !yield(m, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(manifest.Member{}, fmt.Errorf("members of receipt %s: %w", id, err))
		}
	}
}

// errStop ends a loop over rows before their end.
var errStop = errors.New("enough rows")

// BatchesOf returns which batch holds each of the events. An event that is no
// member of any batch is not in the map; it may still be in a batch whose receipt
// is an older one, without members.
func (l *Ledger) BatchesOf(ctx context.Context, app string, eventIDs []string) (map[string]manifest.BatchID, error) {
	batches := make(map[string]manifest.BatchID)
	wanted := make(map[string]bool, len(eventIDs))
	for ids := range slices.Chunk(eventIDs, chunkRows) {
		args := []any{app}
		for _, id := range ids {
			wanted[id] = true
			args = append(args, id)
		}
		query := selectMembers + " WHERE app_code = ? AND event_id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")"
		err := eachMember(ctx, l.db, query, args, func(m manifest.Member) error {
			if m.AppCode == app && wanted[m.EventID] { // by bytes, whatever the collation
				batches[m.EventID] = m.BatchID
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("batches of events: %w", err)
		}
	}
	return batches, nil
}

// eachReceipt calls f with every row of a query on the receipts until f fails.
func eachReceipt(ctx context.Context, q mysqldb.Queryer, query string, args []any, f func(Stored) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		s, err := scanReceipt(rows)
		if err == nil {
			err = f(s)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// eachMember calls f with every row of a query on the members until f fails.
func eachMember(ctx context.Context, q mysqldb.Queryer, query string, args []any, f func(manifest.Member) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var app, batch, hash sql.RawBytes
	var m manifest.Member
	var lastHash []byte
	for rows.Next() {
		if err := rows.Scan(&app, &m.EventID, &m.UpdatedAtMS, &batch, &hash, &m.ReceiptVerifiedAtMS); err != nil {
			return err
		}
		// The same for all members of a batch: made anew only where they change.
		if m.AppCode != string(app) {
			m.AppCode = string(app)
		}
		if string(m.BatchID) != string(batch) {
			m.BatchID = manifest.BatchID(batch)
		}
		if lastHash == nil || !bytes.Equal(lastHash, hash) {
			if err := m.ManifestSHA256.UnmarshalText(hash); err != nil {
				return fmt.Errorf("member %q: manifest_sha256: %w: %w", clip(m.EventID), err, manifest.ErrBadReceipt)
			}
			lastHash = append(lastHash[:0], hash...)
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return rows.Err()
}

// wrap adds context to an error and leaves nil alone.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
