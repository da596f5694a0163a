package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// chunkRows is how many members are written, read back and looked up in one
// statement (docs/FORMAT.md "Ledger").
const chunkRows = 500

// insertAll writes the members of a receipt that tx has just written.
func insertAll(ctx context.Context, tx *sql.Tx, r *manifest.Receipt, members iter.Seq2[manifest.Member, error]) error {
	if err := noOrphans(ctx, tx, r); err != nil {
		return err
	}
	check := memberCheck{receipt: r}
	c := newChunk(tx, r)
	for m, err := range members {
		if err == nil {
			err = check.add(&m)
		}
		if err == nil {
			err = c.add(ctx, &m)
		}
		if err != nil {
			return fmt.Errorf("record members of receipt %s: %w", r.BatchID, err)
		}
	}
	if err := errors.Join(c.flush(ctx), ctx.Err()); err != nil {
		return fmt.Errorf("record members of receipt %s: %w", r.BatchID, err)
	}
	return check.end()
}

// noOrphans refuses members that name a batch without a receipt. Their receipt
// was taken away by hand, and nobody can say what else was.
func noOrphans(ctx context.Context, tx *sql.Tx, r *manifest.Receipt) error {
	var id string
	err := tx.QueryRowContext(ctx, "SELECT event_id FROM "+MembersTable+" WHERE app_code = ? AND batch_id = ? LIMIT 1",
		r.AppCode, string(r.BatchID)).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for members of receipt %s: %w", r.BatchID, err)
	}
	return &ConflictError{AppCode: r.AppCode, BatchID: r.BatchID, EventID: id, Column: "batch_id", Got: "a member without a receipt"}
}

// chunk gathers members, writes them with one statement and reads them back with
// another. Statements are built as text: all but the event_id and updated_at_ms is
// the same for each member of a receipt.
type chunk struct {
	tx      *sql.Tx
	receipt *manifest.Receipt
	app     []byte           // literal
	tail    []byte           // the columns after updated_at_ms
	ms      map[string]int64 // event_id to updated_at_ms of the members gathered
	values  []byte           // of the INSERT
	keys    []byte           // of the SELECT
}

func newChunk(tx *sql.Tx, r *manifest.Receipt) *chunk {
	tail := mysqldb.AppendString([]byte{','}, string(r.BatchID))
	tail = mysqldb.AppendString(append(tail, ','), r.ManifestSHA256.String())
	tail = strconv.AppendInt(append(tail, ','), r.VerifiedAtMS, 10)
	return &chunk{
		tx: tx, receipt: r, app: mysqldb.AppendString(nil, r.AppCode), tail: append(tail, ')'),
		ms: make(map[string]int64, chunkRows),
	}
}

// add takes a member that memberCheck has passed.
func (c *chunk) add(ctx context.Context, m *manifest.Member) error {
	if !utf8.ValidString(m.EventID) {
		return &MemberError{EventID: m.EventID, Column: "event_id", Got: m.EventID, Want: "UTF-8"}
	}
	if _, ok := c.ms[m.EventID]; ok {
		return duplicateMember(m.EventID)
	}
	if len(c.ms) > 0 {
		c.values = append(c.values, ',')
		c.keys = append(c.keys, ',')
	}
	c.ms[m.EventID] = m.UpdatedAtMS
	c.keys = mysqldb.AppendString(c.keys, m.EventID)
	c.values = append(append(append(c.values, '('), c.app...), ',')
	c.values = append(mysqldb.AppendString(c.values, m.EventID), ',')
	c.values = append(strconv.AppendInt(c.values, m.UpdatedAtMS, 10), c.tail...)
	if len(c.ms) == chunkRows {
		return c.flush(ctx)
	}
	return nil
}

func duplicateMember(eventID string) error {
	return &MemberError{EventID: eventID, Column: "event_id", Got: "there twice", Want: "once"}
}

func (c *chunk) flush(ctx context.Context) error {
	if len(c.ms) == 0 {
		return nil
	}
	switch _, err := c.tx.ExecContext(ctx, insertMembers+string(c.values)); {
	case mysqldb.IsError(err, mysqldb.ErDupEntry):
		return c.whoHolds(ctx, err)
	case err != nil:
		return err
	}
	if err := c.readBack(ctx); err != nil {
		return err
	}
	clear(c.ms)
	c.values, c.keys = c.values[:0], c.keys[:0]
	return nil
}

// stored calls f with what the ledger has under the keys of the chunk. The key is
// forced, since statistics of a table that has just grown may favour reading all
// of it, 500 members at a time.
func (c *chunk) stored(ctx context.Context, f func(manifest.Member) error) error {
	return eachMember(ctx, c.tx, selectMembers+" FORCE INDEX (PRIMARY) WHERE app_code = "+string(c.app)+
		" AND event_id IN ("+string(c.keys)+")", nil, f)
}

// readBack proves that the chunk is in the ledger as it was given.
func (c *chunk) readBack(ctx context.Context) error {
	found := 0
	err := c.stored(ctx, func(got manifest.Member) error {
		ms, ok := c.ms[got.EventID]
		if want := c.receipt.Member(got.EventID, ms); !ok || got != want {
			return fmt.Errorf("%w: member %+v, want %+v", ErrReadBack, got, want)
		}
		found++
		return nil
	})
	if err == nil && found != len(c.ms) {
		err = fmt.Errorf("%w: %d of %d members", ErrReadBack, found, len(c.ms))
	}
	return err
}

// whoHolds tells a member that another batch holds from one that this batch was
// given twice. The server has undone the whole statement by then, so that what it
// still has of this batch came in an earlier chunk.
func (c *chunk) whoHolds(ctx context.Context, dup error) error {
	conflict := func(given, column, got, want string) error {
		return &ConflictError{AppCode: c.receipt.AppCode, BatchID: c.receipt.BatchID, EventID: given, Column: column, Got: got, Want: want}
	}
	byKey := make(map[string]string, len(c.ms))
	var equal error
	for id := range c.ms {
		if other, ok := byKey[ledgerKey(id)]; ok {
			equal = conflict(max(id, other), "event_id", min(id, other), max(id, other))
		}
		byKey[ledgerKey(id)] = id
	}
	err := c.stored(ctx, func(held manifest.Member) error {
		switch given := byKey[ledgerKey(held.EventID)]; {
		case given != held.EventID:
			return conflict(given, "event_id", held.EventID, given)
		case held.BatchID != c.receipt.BatchID:
			return conflict(given, "batch_id", string(held.BatchID), string(c.receipt.BatchID))
		}
		return duplicateMember(held.EventID)
	})
	// Without any of these the holder has gone in the meantime.
	return cmp.Or(err, equal, dup)
}

// ledgerKey is what the ledger's collation sees of an event_id: two that differ
// in trailing spaces alone are the same key to it, though not to every source.
func ledgerKey(eventID string) string { return strings.TrimRight(eventID, " ") }

// sameMembers compares the members that are to be recorded with those that the
// ledger holds for the same receipt, as sets.
func sameMembers(ctx context.Context, tx *sql.Tx, stored, r *manifest.Receipt, members iter.Seq2[manifest.Member, error]) (err error) {
	given := spill.New("", spill.Options{Expect: r.RowCount})
	held := spill.New("", spill.Options{Expect: r.RowCount})
	defer func() { err = errors.Join(err, given.Close(), held.Close()) }()
	check := memberCheck{receipt: r}
	for m, err := range members {
		if err == nil {
			err = check.add(&m)
		}
		if err == nil {
			err = given.Add(spill.Entry{EventID: m.EventID, UpdatedAtMS: m.UpdatedAtMS, Line: check.count})
		}
		if err != nil {
			return fmt.Errorf("members of receipt %s: %w", r.BatchID, err)
		}
	}
	conflict := func(eventID, column, got, want string) error {
		return &ConflictError{AppCode: r.AppCode, BatchID: r.BatchID, EventID: eventID, Column: column, Got: got, Want: want}
	}
	err = eachMember(ctx, tx, membersOfBatch, []any{stored.AppCode, string(stored.BatchID)}, func(m manifest.Member) error {
		if want := stored.Member(m.EventID, m.UpdatedAtMS); m != want {
			return conflict(m.EventID, "manifest_sha256 and receipt_verified_at_ms",
				fmt.Sprintf("%s, %d", m.ManifestSHA256, m.ReceiptVerifiedAtMS), fmt.Sprintf("%s, %d", want.ManifestSHA256, want.ReceiptVerifiedAtMS))
		}
		return held.Add(spill.Entry{EventID: m.EventID, UpdatedAtMS: m.UpdatedAtMS, Line: held.Len() + 1})
	})
	if err != nil {
		return err
	}
	diff, err := spill.Compare(ctx, given, held, 1)
	switch {
	case err != nil:
		return fmt.Errorf("compare members of receipt %s: %w", r.BatchID, err)
	case diff.DuplicateRows.Total > 0:
		return duplicateMember(diff.DuplicateRows.First[0].EventID)
	}
	if err := check.end(); err != nil {
		return err
	}
	switch {
	case held.Len() == 0:
		return conflict("", "members", "none, as of an older writer", strconv.FormatInt(r.RowCount, 10))
	case diff.Missing.Total > 0:
		id := diff.Missing.First[0].EventID
		return conflict(id, "event_id", id, "")
	case diff.Extra.Total > 0:
		id := diff.Extra.First[0].EventID
		return conflict(id, "event_id", "", id)
	case diff.Moved.Total > 0:
		m := diff.Moved.First[0]
		return conflict(m.Row.EventID, "updated_at_ms", strconv.FormatInt(m.Member.UpdatedAtMS, 10), strconv.FormatInt(m.Row.UpdatedAtMS, 10))
	}
	return nil
}
