package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// chunkRows is how many members are written, read back and looked up in one
// statement (docs/FORMAT.md "Ledger").
const chunkRows = 500

// windowRows and windowBytes bound the members that are sorted before they are
// written. A batch comes in the order of its cursors, in which event_ids are spread
// over the whole key; sorted, 200,000 of them take two thirds of the time.
const (
	windowRows  = 64 << 10
	windowBytes = 8 << 20 // of event_ids
)

// insertAll writes the members of a receipt that the transaction has just written.
func insertAll(ctx context.Context, w *memberWriter, members iter.Seq2[manifest.Member, error]) error {
	r := w.receipt
	if err := noOrphans(ctx, w.tx, r); err != nil {
		return err
	}
	check := memberCheck{receipt: r}
	for m, err := range members {
		if err == nil {
			err = check.add(&m)
		}
		if err == nil {
			err = w.add(ctx, m.EventID, m.UpdatedAtMS)
		}
		if err != nil {
			return err
		}
	}
	// Members that end because of ctx are not too few of them.
	if err := cmp.Or(ctx.Err(), check.end()); err != nil {
		return err
	}
	return w.flush(ctx)
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
		return fmt.Errorf("look for them: %w", err)
	}
	return &ConflictError{AppCode: r.AppCode, BatchID: r.BatchID, EventID: id, Column: "batch_id", Got: "a member without a receipt"}
}

// memberWriter gathers members, sorts them, and writes and reads back one chunk
// after the other. Statements are built as text: all but the event_id and
// updated_at_ms is the same for each member of a receipt.
type memberWriter struct {
	tx       *sql.Tx
	receipt  *manifest.Receipt
	batchKey bool      // the table has the key of Schema that is not in the contract
	app      []byte    // literal
	tail     []byte    // the columns after updated_at_ms, and the parenthesis
	whole    *sql.Stmt // inserts a chunk of chunkRows; nil for a batch without one
	args     []any     // of whole

	rows   int // of a full window
	window []member
	bytes  int // of the event_ids in window
	query  []byte
}

// member is what differs between the members of a receipt.
type member struct {
	eventID string
	ms      int64
}

func byEventID(a, b member) int { return strings.Compare(a.eventID, b.eventID) }

// wholeChunk returns the statement that inserts chunkRows members of any receipt,
// or nil when one of rows rows has no use for it. The server reads its text once for all
// batches of a run, which takes a third (MariaDB 10.11) or a fifth (MySQL 9.7) of the time of
// a chunk off. It lives as long as the pool, and takes no connection from it.
func (l *Ledger) wholeChunk(ctx context.Context, rows int64) (*sql.Stmt, error) {
	if rows < chunkRows {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole == nil {
		one := "(?" + strings.Repeat(",?", len(memberColumns)-1) + ")"
		stmt, err := l.db.PrepareContext(ctx, insertMembers+one+strings.Repeat(","+one, chunkRows-1))
		if err != nil {
			return nil, err
		}
		l.whole = stmt
	}
	return l.whole, nil
}

func newMemberWriter(ctx context.Context, tx *sql.Tx, r *manifest.Receipt, whole *sql.Stmt, l *Ledger) *memberWriter {
	w := &memberWriter{tx: tx, receipt: r, batchKey: l.batchKey.Load(), rows: l.window}
	w.app = mysqldb.AppendString(nil, r.AppCode)
	w.tail = mysqldb.AppendString([]byte{','}, string(r.BatchID))
	w.tail = mysqldb.AppendString(append(w.tail, ','), r.ManifestSHA256.String())
	w.tail = append(strconv.AppendInt(append(w.tail, ','), r.VerifiedAtMS, 10), ')')
	if whole != nil {
		w.whole = tx.StmtContext(ctx, whole) // closed with tx
		w.args = make([]any, 0, chunkRows*len(memberColumns))
		for range chunkRows {
			w.args = append(w.args, r.AppCode, nil, nil, string(r.BatchID), r.ManifestSHA256.String(), r.VerifiedAtMS)
		}
	}
	return w
}

// add takes a member that memberCheck has passed.
func (w *memberWriter) add(ctx context.Context, eventID string, ms int64) error {
	w.window = append(w.window, member{eventID, ms})
	if w.bytes += len(eventID); len(w.window) < w.rows && w.bytes < windowBytes {
		return nil
	}
	return w.flush(ctx)
}

func (w *memberWriter) flush(ctx context.Context) error {
	slices.SortFunc(w.window, byEventID)
	for i := 1; i < len(w.window); i++ {
		if w.window[i].eventID == w.window[i-1].eventID {
			return duplicateMember(w.window[i].eventID)
		}
	}
	for chunk := range slices.Chunk(w.window, chunkRows) {
		if err := w.write(ctx, chunk); err != nil {
			return err
		}
	}
	w.window, w.bytes = w.window[:0], 0
	return nil
}

// write writes a sorted chunk and reads it back.
func (w *memberWriter) write(ctx context.Context, chunk []member) error {
	switch err := w.insert(ctx, chunk); {
	case mysqldb.IsError(err, mysqldb.ErDupEntry):
		return w.whoHolds(ctx, chunk, err)
	case err != nil:
		return err
	}
	if w.batchKey {
		err := w.same(ctx, chunk, w.between)
		if !errors.Is(err, ErrReadBack) {
			return err
		}
		// Perhaps only the collation has another order than the bytes have.
	}
	return w.same(ctx, chunk, w.stored)
}

func (w *memberWriter) insert(ctx context.Context, chunk []member) error {
	if w.whole != nil && len(chunk) == chunkRows {
		for i, m := range chunk {
			w.args[i*len(memberColumns)+1], w.args[i*len(memberColumns)+2] = m.eventID, m.ms
		}
		_, err := w.whole.ExecContext(ctx, w.args...)
		return err
	}
	q := append(w.query[:0], insertMembers...)
	for i, m := range chunk {
		if i > 0 {
			q = append(q, ',')
		}
		q = append(append(append(q, '('), w.app...), ',')
		q = append(mysqldb.AppendString(q, m.eventID), ',')
		q = append(strconv.AppendInt(q, m.ms, 10), w.tail...)
	}
	w.query = q
	_, err := w.tx.ExecContext(ctx, string(q))
	return err
}

// same proves that what read finds is the chunk and nothing else, else it returns
// [ErrReadBack].
func (w *memberWriter) same(ctx context.Context, chunk []member, read func(context.Context, []member, func(manifest.Member) error) error) error {
	found := 0
	err := read(ctx, chunk, func(got manifest.Member) error {
		found++
		i, ok := slices.BinarySearchFunc(chunk, member{eventID: got.EventID}, byEventID)
		if !ok || got != w.receipt.Member(got.EventID, chunk[i].ms) {
			return fmt.Errorf("%w: member %+v", ErrReadBack, got)
		}
		return nil
	})
	if err == nil && found != len(chunk) { // each of them another, by the primary key
		err = fmt.Errorf("%w: %d of %d members", ErrReadBack, found, len(chunk))
	}
	return err
}

// between calls f with the members of the batch from the first of the chunk to
// the last. It takes two thirds of the time that stored takes.
func (w *memberWriter) between(ctx context.Context, chunk []member, f func(manifest.Member) error) error {
	r := w.receipt
	return eachMember(ctx, w.tx, selectMembers+" FORCE INDEX ("+batchKey+") WHERE app_code = ? AND batch_id = ? AND event_id BETWEEN ? AND ?",
		[]any{r.AppCode, string(r.BatchID), chunk[0].eventID, chunk[len(chunk)-1].eventID}, f)
}

// stored calls f with what the ledger has under the keys of the chunk. The key is
// forced, since statistics of a table that has just grown may favour reading all
// of it, 500 members at a time.
func (w *memberWriter) stored(ctx context.Context, chunk []member, f func(manifest.Member) error) error {
	q := append(append(w.query[:0], selectMembers...), " FORCE INDEX (PRIMARY) WHERE app_code = "...)
	q = append(append(q, w.app...), " AND event_id IN ("...)
	for i, m := range chunk {
		if i > 0 {
			q = append(q, ',')
		}
		q = mysqldb.AppendString(q, m.eventID)
	}
	w.query = append(q, ')')
	return eachMember(ctx, w.tx, string(w.query), nil, f)
}

func duplicateMember(eventID string) error {
	return &MemberError{EventID: eventID, Column: "event_id", Got: "there twice", Want: "once"}
}

// whoHolds tells a member that another batch holds from one that this batch was
// given twice. The server has undone the whole statement by then, so that what it
// still has of this batch came in an earlier chunk.
func (w *memberWriter) whoHolds(ctx context.Context, chunk []member, dup error) error {
	conflict := func(given, column, got, want string) error {
		return &ConflictError{AppCode: w.receipt.AppCode, BatchID: w.receipt.BatchID, EventID: given, Column: column, Got: got, Want: want}
	}
	byKey := make(map[string]string, len(chunk))
	var equal error
	for _, m := range chunk {
		if other, ok := byKey[ledgerKey(m.eventID)]; ok {
			equal = conflict(m.eventID, "event_id", other, m.eventID)
		}
		byKey[ledgerKey(m.eventID)] = m.eventID
	}
	err := w.stored(ctx, chunk, func(held manifest.Member) error {
		switch given := byKey[ledgerKey(held.EventID)]; {
		case given != held.EventID:
			return conflict(given, "event_id", held.EventID, given)
		case held.BatchID != w.receipt.BatchID:
			return conflict(given, "batch_id", string(held.BatchID), string(w.receipt.BatchID))
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
