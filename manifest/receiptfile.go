package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"
)

// A receipt file carries receipts and their members to somebody who has no
// database (docs/FORMAT.md "Receipt file"): NDJSON in which a receipt line is
// followed by exactly member_count member lines. Several receipts may follow
// one another.

// receiptLine is the first line of each receipt in a receipt file.
type receiptLine struct {
	Receipt     Receipt `json:"receipt"`
	MemberCount int64   `json:"member_count"`
}

// memberLine is a member in a receipt file. Everything else that the ledger
// keeps of a member is in its receipt.
type memberLine struct {
	EventID     string `json:"event_id"`
	UpdatedAtMS int64  `json:"updated_at_ms"`
}

// WriteReceipt appends one receipt with its members to a receipt file. count is
// how many members the sequence yields: 0 for an older receipt, whose members
// were never recorded. It is an error when another number comes, or a member of
// another batch.
func WriteReceipt(w io.Writer, r *Receipt, count int64, members iter.Seq2[Member, error]) error {
	if err := r.Validate(); err != nil {
		return err
	}
	buf := bufio.NewWriter(w)
	line := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode receipt of %s: %w", r.BatchID, err)
		}
		buf.Write(b)
		return buf.WriteByte('\n')
	}
	if err := line(receiptLine{*r, count}); err != nil {
		return err
	}
	var n int64
	for m, err := range members {
		if err != nil {
			return err
		}
		if want := r.Member(m.EventID, m.UpdatedAtMS); m != want {
			return fmt.Errorf("member %q of batch %s: %w", clip(m.EventID), m.BatchID, ErrForeignMember)
		}
		if err := line(memberLine{m.EventID, m.UpdatedAtMS}); err != nil {
			return err
		}
		n++
	}
	if n != count {
		return fmt.Errorf("receipt of %s: %d members, not %d: %w", r.BatchID, n, count, ErrMemberCount)
	}
	return buf.Flush()
}

// Errors of receipt files.
var (
	// ErrForeignMember is returned for a member that contradicts its receipt.
	ErrForeignMember = errors.New("member does not belong to the receipt")
	// ErrMemberCount is returned when a receipt has more or fewer members than
	// it declares.
	ErrMemberCount = errors.New("wrong number of members")
)

// ReceiptReader reads a receipt file front to back, one receipt at a time, in
// memory bounded by its longest line.
type ReceiptReader struct {
	br      *bufio.Reader
	line    int64
	receipt Receipt
	left    int64 // members of receipt not read yet
	err     error
}

// NewReceiptReader reads r, which is not closed.
func NewReceiptReader(r io.Reader) *ReceiptReader {
	return &ReceiptReader{br: bufio.NewReader(r)}
}

// Next returns the next receipt and how many members follow it, skipping
// members of the one before that were not read. It returns io.EOF at the clean
// end. The error wraps [ErrBadDocument], [ErrBadReceipt] or [ErrMemberCount].
func (rr *ReceiptReader) Next() (Receipt, int64, error) {
	for range rr.Members() {
	}
	if rr.err != nil {
		return Receipt{}, 0, rr.err
	}
	var l receiptLine
	if rr.err = rr.read("receipt", &l); rr.err != nil {
		return Receipt{}, 0, rr.err
	}
	if rr.err = l.Receipt.Validate(); rr.err == nil && l.MemberCount != 0 && l.MemberCount != l.Receipt.RowCount {
		rr.err = fmt.Errorf("receipt of %s: %d members for %d rows: %w", l.Receipt.BatchID, l.MemberCount, l.Receipt.RowCount, ErrMemberCount)
	}
	if rr.err != nil {
		return Receipt{}, 0, rr.err
	}
	rr.receipt, rr.left = l.Receipt, l.MemberCount
	return l.Receipt, l.MemberCount, nil
}

// Members yields the members of the receipt that Next returned last. It may be
// ranged over once.
func (rr *ReceiptReader) Members() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for rr.left > 0 && rr.err == nil {
			var l memberLine
			err := rr.read("member", &l)
			if err == io.EOF {
				err = fmt.Errorf("receipt of %s: %d members missing: %w", rr.receipt.BatchID, rr.left, ErrMemberCount)
			}
			rr.left--
			rr.err = err
			if !yield(rr.receipt.Member(l.EventID, l.UpdatedAtMS), err) {
				return
			}
		}
	}
}

func (rr *ReceiptReader) read(what string, v any) error {
	b, err := rr.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		full := bytes.Clone(b)
		for errors.Is(err, bufio.ErrBufferFull) && len(full) <= MaxManifestBytes {
			b, err = rr.br.ReadSlice('\n')
			full = append(full, b...)
		}
		b = full
	}
	rr.line++
	switch {
	case err == io.EOF && len(b) == 0:
		return io.EOF
	case err == io.EOF:
		return fmt.Errorf("receipt file, line %d: %w: %w", rr.line, ErrBadDocument, ErrUnterminated)
	case err != nil:
		return fmt.Errorf("receipt file, line %d: %w", rr.line, err)
	}
	return decodeDocument(fmt.Sprintf("receipt file, line %d, %s", rr.line, what), b, v)
}
