package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// outcomeTimeout bounds how long Record looks for the outcome of a commit that
// it did not see. It is longer than the 50 seconds that InnoDB lets a statement
// wait for the rows of a transaction that is still being undone.
const outcomeTimeout = 70 * time.Second

// Record writes a receipt and its members in one READ COMMITTED transaction, all
// of it or nothing, by the rules of docs/FORMAT.md "Ledger". Members may come in
// any order and are read once; memory does not grow with them.
//
// Before the commit, r is valid; the receipt was read back field by field; there
// are exactly row_count members, each of this receipt, none twice, the rows of
// both cursors among them; and each chunk of them was read back.
//
// When the ledger already holds the same receipt with the same members, existed
// is true and nothing is written: verified_at_ms and the other two times of the
// first recording stay, whatever those of r are.
//
// The errors, with nothing written:
//
//   - a wrapped [manifest.ErrBadReceipt], perhaps a [*MemberError]: r or its
//     members are incomplete or contradict each other;
//   - a [*ConflictError]: the batch is recorded otherwise, or another batch holds
//     one of the members, or members of the batch are there without a receipt;
//   - a [*SchemaError]: the tables cannot hold what the ledger promises;
//   - [ErrReadBack];
//   - the error that members gave, or the server's. It may be mysqldb.IsRetryable.
//
// When the connection is lost during the commit, the outcome is read back on
// another one; [ErrOutcomeUnknown] is returned only where that fails as well.
func (l *Ledger) Record(ctx context.Context, r manifest.Receipt, members iter.Seq2[manifest.Member, error]) (existed bool, err error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	if err := l.ready(ctx); err != nil {
		return false, err
	}
	whole, err := l.wholeChunk(ctx, r.RowCount)
	if err != nil {
		return false, fmt.Errorf("record receipt %s: prepare: %w", r.BatchID, err)
	}
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return false, fmt.Errorf("record receipt %s: begin: %w", r.BatchID, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing and says so
	switch _, err := tx.ExecContext(ctx, insertReceipt, receiptArgs(&r)...); {
	case mysqldb.IsError(err, mysqldb.ErDupEntry):
		same := sameAsStored(ctx, tx, &r, members)
		if errors.Is(same, ErrNoReceipt) { // a unique key that the contract does not have
			same = fmt.Errorf("record receipt %s: %w", r.BatchID, err)
		}
		return same == nil, same
	case err != nil:
		return false, fmt.Errorf("record receipt %s: %w", r.BatchID, err)
	}
	if err := checkStored(ctx, tx, &r); err != nil {
		return false, err
	}
	if err := insertAll(ctx, newMemberWriter(ctx, tx, &r, whole, l), members); err != nil {
		return false, fmt.Errorf("record members of receipt %s: %w", r.BatchID, err)
	}
	if err := tx.Commit(); err != nil {
		return false, l.outcome(ctx, &r, fmt.Errorf("record receipt %s: commit: %w", r.BatchID, err))
	}
	return false, nil
}

// checkStored reads the receipt back inside the transaction that wrote it.
func checkStored(ctx context.Context, tx *sql.Tx, r *manifest.Receipt) error {
	got, err := receipt(ctx, tx, r.AppCode, r.BatchID, "")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadBack, err)
	}
	for _, c := range receiptColumns {
		if got, want := c.get(&got), c.get(r); got != want {
			return fmt.Errorf("%w: receipt %s: %s is %q, want %q", ErrReadBack, r.BatchID, c.name, clip(got), clip(want))
		}
	}
	return nil
}

// outcome finds out what a failed commit did: nil when the receipt is there.
func (l *Ledger) outcome(ctx context.Context, r *manifest.Receipt, commit error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
	defer cancel()
	// The lost transaction may be alive on the server. A locking read waits for its
	// end, where a plain one would call the receipt absent and be wrong a moment later.
	got, err := receipt(ctx, l.db, r.AppCode, r.BatchID, " LOCK IN SHARE MODE")
	switch {
	case errors.Is(err, ErrNoReceipt):
		return commit
	case err != nil:
		return fmt.Errorf("%w: %w; then: %w", ErrOutcomeUnknown, commit, err)
	}
	for _, c := range receiptColumns {
		if got, want := c.get(&got), c.get(r); got != want {
			// Someone else has recorded the batch since. Run again, Record will judge it.
			return fmt.Errorf("%w; meanwhile another run recorded the batch with %s %q", commit, c.name, clip(got))
		}
	}
	return nil
}

// sameAsStored judges a receipt whose batch the ledger already has.
func sameAsStored(ctx context.Context, tx *sql.Tx, r *manifest.Receipt, members iter.Seq2[manifest.Member, error]) error {
	stored, err := receipt(ctx, tx, r.AppCode, r.BatchID, "")
	if err != nil {
		return err
	}
	for _, c := range receiptColumns {
		if got, want := c.get(&stored), c.get(r); got != want && !c.time {
			return &ConflictError{AppCode: r.AppCode, BatchID: r.BatchID, Column: c.name, Got: got, Want: want}
		}
	}
	return sameMembers(ctx, tx, &stored, r, members)
}

// memberCheck checks members one by one against their receipt, then all of them
// by their number. That none is there twice is left to its user.
type memberCheck struct {
	receipt     *manifest.Receipt
	count       int64
	first, last bool // the row of the cursor was seen
}

func (c *memberCheck) add(m *manifest.Member) error {
	r := c.receipt
	c.count++
	bad := func(column, got, want string) error {
		return &MemberError{EventID: m.EventID, Column: column, Got: got, Want: want}
	}
	want := r.Member(m.EventID, m.UpdatedAtMS)
	switch {
	case c.count > r.RowCount:
		return &MemberError{Column: "row_count", Got: "more", Want: strconv.FormatInt(r.RowCount, 10)}
	case m.EventID == "":
		return bad("event_id", "", "not empty")
	case !utf8.ValidString(m.EventID):
		return bad("event_id", m.EventID, "UTF-8")
	case m.AppCode != want.AppCode:
		return bad("app_code", m.AppCode, want.AppCode)
	case m.BatchID != want.BatchID:
		return bad("batch_id", string(m.BatchID), string(want.BatchID))
	case m.ManifestSHA256 != want.ManifestSHA256:
		return bad("manifest_sha256", m.ManifestSHA256.String(), want.ManifestSHA256.String())
	case m.ReceiptVerifiedAtMS != want.ReceiptVerifiedAtMS:
		return bad("receipt_verified_at_ms", strconv.FormatInt(m.ReceiptVerifiedAtMS, 10), strconv.FormatInt(want.ReceiptVerifiedAtMS, 10))
	case m.UpdatedAtMS < r.FirstUpdatedAtMS || m.UpdatedAtMS > r.LastUpdatedAtMS:
		return bad("updated_at_ms", strconv.FormatInt(m.UpdatedAtMS, 10), fmt.Sprintf("%d to %d", r.FirstUpdatedAtMS, r.LastUpdatedAtMS))
	}
	cursor := manifest.Cursor{UpdatedAtMS: m.UpdatedAtMS, EventID: m.EventID}
	c.first = c.first || cursor == r.FirstCursor()
	c.last = c.last || cursor == r.LastCursor()
	return nil
}

func (c *memberCheck) end() error {
	r := c.receipt
	absent := func(column, eventID string, ms int64) error {
		return &MemberError{Column: column, Got: "not a member", Want: fmt.Sprintf("%s at %d", eventID, ms)}
	}
	switch {
	case c.count != r.RowCount:
		return &MemberError{Column: "row_count", Got: strconv.FormatInt(c.count, 10), Want: strconv.FormatInt(r.RowCount, 10)}
	case !c.first:
		return absent("first_event_id", r.FirstEventID, r.FirstUpdatedAtMS)
	case !c.last:
		return absent("last_event_id", r.LastEventID, r.LastUpdatedAtMS)
	}
	return nil
}
