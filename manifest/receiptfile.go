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
// keeps of a member is in its receipt. A nil pointer is a member that is missing
// or null.
type memberLine struct {
	EventID     *string `json:"event_id"`
	UpdatedAtMS *int64  `json:"updated_at_ms"`
}

// WriteReceipt appends one receipt with its members to a receipt file. count is
// how many members the sequence yields: as many as the receipt has rows, or 0 for
// an older receipt, whose members were never recorded; members may then be nil.
// The error wraps [ErrBadReceipt], [ErrMemberCount] when another number comes, or
// [ErrForeignMember]; what was written before it is no receipt file.
func WriteReceipt(w io.Writer, r *Receipt, count int64, members iter.Seq2[Member, error]) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := checkMemberCount(r, count); err != nil {
		return err
	}
	if members == nil {
		members = func(func(Member, error) bool) {}
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
		if err := line(memberLine{&m.EventID, &m.UpdatedAtMS}); err != nil {
			return err
		}
		n++
	}
	if n != count {
		return fmt.Errorf("receipt of %s: %d members, not %d: %w", r.BatchID, n, count, ErrMemberCount)
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write receipt of %s: %w", r.BatchID, err)
	}
	return nil
}

func checkMemberCount(r *Receipt, count int64) error {
	if count != 0 && count != r.RowCount {
		return fmt.Errorf("receipt of %s: %d members for %d rows: %w", r.BatchID, count, r.RowCount, ErrMemberCount)
	}
	return nil
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
	offset  int64
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
// end. An error that wraps [ErrBadReceipt] is about this receipt, of which
// app_code and batch_id are returned, and Next may be called again for the one
// after its members. Every other is final: [ErrBadDocument], [ErrMemberCount], or
// that of reading.
func (rr *ReceiptReader) Next() (Receipt, int64, error) {
	for range rr.Members() {
	}
	if rr.err != nil {
		return Receipt{}, 0, rr.err
	}
	var l receiptLine
	if rr.err = rr.read(&l); rr.err != nil {
		return Receipt{}, 0, rr.err
	}
	rr.receipt, rr.left = l.Receipt, l.MemberCount
	named := Receipt{AppCode: l.Receipt.AppCode, BatchID: l.Receipt.BatchID}
	if err := l.Receipt.Validate(); err != nil {
		return named, 0, fmt.Errorf("receipt file, line %d: receipt of %s: %w", rr.line, clip(string(named.BatchID)), err)
	}
	if err := checkMemberCount(&l.Receipt, l.MemberCount); err != nil {
		rr.err = fmt.Errorf("receipt file, line %d: %w", rr.line, err)
		return named, 0, rr.err
	}
	return l.Receipt, l.MemberCount, nil
}

// Offset returns how many bytes of the file were read: after Next, where the
// members of that receipt begin, and before it, where the next receipt may.
func (rr *ReceiptReader) Offset() int64 { return rr.offset }

// Members yields the members of the receipt that Next returned last, in the
// order of the file. A second range goes on where the first one stopped. A pair
// with an error is the last one; its member is zero.
func (rr *ReceiptReader) Members() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for rr.left > 0 && rr.err == nil {
			var l memberLine
			err := rr.read(&l)
			if err == io.EOF {
				err = fmt.Errorf("receipt of %s: %d members missing: %w", rr.receipt.BatchID, rr.left, ErrMemberCount)
			}
			if err == nil && (l.EventID == nil || l.UpdatedAtMS == nil) {
				err = fmt.Errorf("receipt file, line %d: %w: event_id or updated_at_ms is missing or null", rr.line, ErrBadDocument)
			}
			if rr.err = err; err != nil {
				yield(Member{}, err)
				return
			}
			rr.left--
			if !yield(rr.receipt.Member(*l.EventID, *l.UpdatedAtMS), nil) {
				return
			}
		}
	}
}

func (rr *ReceiptReader) read(v any) error {
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
	rr.offset += int64(len(b))
	switch {
	case errors.Is(err, bufio.ErrBufferFull), len(b) > MaxManifestBytes:
		return fmt.Errorf("receipt file, line %d: %w: %w", rr.line, ErrBadDocument, ErrLineTooLong)
	case err == io.EOF && len(b) == 0:
		return io.EOF
	case err == io.EOF:
		return fmt.Errorf("receipt file, line %d: %w: %w", rr.line, ErrBadDocument, ErrUnterminated)
	case err != nil:
		return fmt.Errorf("receipt file, line %d: %w", rr.line, err)
	}
	if m, ok := v.(*memberLine); ok { // there may be millions, and what is missing shows as nil
		err = unmarshal(b, m)
	} else {
		err = decodeDocument(b, v)
	}
	if err != nil {
		return fmt.Errorf("receipt file, line %d: %w", rr.line, err)
	}
	return nil
}
