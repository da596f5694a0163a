package restore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hyapp/walletarchive/manifest"
)

// ReceiptUndo is a line of a receipt that begins an undo.
type ReceiptUndo struct {
	Tool     manifest.Program `json:"tool"`
	Operator string           `json:"operator,omitempty"`
	At       string           `json:"at"` // RFC 3339, UTC
}

// receiptUndone says which rows of a transaction an undo has taken back, after its
// commit: they are nobody's but a later restore's when they are there again.
type receiptUndone struct {
	Seq int64 `json:"seq"`
	// Rows are counted from 1 among those that the transaction has inserted or
	// overwritten.
	Rows        LineRanges `json:"rows"`
	Inserted    int64      `json:"inserted"`
	Overwritten int64      `json:"overwritten"`
	At          string     `json:"at"`
}

// Standing counts the rows that the receipt's committed transactions, and those
// whose fate nobody has said, have inserted or overwritten and that no undo by
// this receipt has taken back. Only Inserted and Overwritten are set.
func (r *Receipt) Standing() ReceiptCounts {
	var c ReceiptCounts
	for _, t := range r.Transactions {
		if t.State == Committed || t.State == Unknown {
			c.Inserted += t.Rows.Inserted - t.Undone.Inserted
			c.Overwritten += t.Rows.Overwritten - t.Undone.Overwritten
		}
	}
	return c
}

// transaction returns the one with that number, nil when it was never pending.
func (r *Receipt) transaction(seq int64) *ReceiptTransaction {
	i, ok := slices.BinarySearchFunc(r.Transactions, seq, func(t ReceiptTransaction, seq int64) int { return cmp.Compare(t.Seq, seq) })
	if !ok {
		return nil
	}
	return &r.Transactions[i]
}

// takeUndone notes what an undo has taken back.
func (r *Receipt) takeUndone(u *receiptUndone) error {
	t := r.transaction(u.Seq)
	if t == nil || t.State != Committed && t.State != Unknown {
		return fmt.Errorf("transaction %d was undone and never committed", u.Seq)
	}
	n := len(u.Rows)
	all := ReceiptCounts{Inserted: t.Undone.Inserted + u.Inserted, Overwritten: t.Undone.Overwritten + u.Overwritten}
	switch {
	case n == 0 || u.Inserted < 0 || u.Overwritten < 0 || u.Rows.Count() != u.Inserted+u.Overwritten,
		u.Rows[n-1].Last > t.Rows.changed(), all.Inserted > t.Rows.Inserted, all.Overwritten > t.Rows.Overwritten:
		return fmt.Errorf("more rows of transaction %d were undone than it has, or others", u.Seq)
	}
	both, ok := union(t.undone, u.Rows)
	if !ok {
		return fmt.Errorf("rows of transaction %d were undone twice", u.Seq)
	}
	t.undone, t.Undone = both, all
	return nil
}

// union returns the lines of a and b; false when a line is in both.
func union(a, b LineRanges) (LineRanges, bool) {
	all := slices.SortedFunc(slices.Values(slices.Concat(a, b)), func(x, y LineRange) int { return cmp.Compare(x.First, y.First) })
	merged := all[:0]
	for _, r := range all {
		switch n := len(merged); {
		case n == 0 || r.First > merged[n-1].Last+1:
			merged = append(merged, r)
		case r.First <= merged[n-1].Last:
			return nil, false
		default:
			merged[n-1].Last = r.Last
		}
	}
	return merged, true
}

// has reports whether line is among l.
func (l LineRanges) has(line int64) bool {
	_, ok := slices.BinarySearchFunc(l, line, func(r LineRange, line int64) int {
		switch {
		case r.Last < line:
			return -1
		case r.First > line:
			return 1
		}
		return 0
	})
	return ok
}

// undoLog adds to a receipt what an undo does.
type undoLog struct {
	receipt *Receipt
	file    *os.File
	begin   ReceiptUndo
	begun   bool
	now     func() time.Time
}

// openUndoLog fails when the receipt cannot be written, or is not as it was read.
// The caller calls close.
func openUndoLog(r *Receipt, tool manifest.Program, operator string, now func() time.Time) (*undoLog, error) {
	f, err := os.OpenFile(r.Path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("an undo is noted in its receipt: %w", err)
	}
	l := &undoLog{receipt: r, file: f, begin: ReceiptUndo{Tool: tool, Operator: operator}, now: now}
	if err := l.cutTail(); err != nil {
		return nil, errors.Join(fmt.Errorf("receipt %s: %w", r.Path, err), f.Close())
	}
	return l, nil
}

// cutTail removes what a crash tore off after the last whole line.
func (l *undoLog) cutTail() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	tail, err := io.ReadAll(io.NewSectionReader(l.file, l.receipt.size, max(0, info.Size()-l.receipt.size)))
	if err != nil {
		return err
	}
	if info.Size() < l.receipt.size || bytes.IndexByte(tail, '\n') >= 0 {
		return fmt.Errorf("%w: it changed since it was read", ErrReceipt)
	}
	if len(tail) == 0 {
		return nil
	}
	return l.file.Truncate(l.receipt.size)
}

// start notes who undoes, once, before the first change.
func (l *undoLog) start() error {
	if l.begun {
		return nil
	}
	l.begin.At, l.begun = l.stamp(), true
	return l.write(receiptLine{Undo: &l.begin})
}

func (l *undoLog) stamp() string { return l.now().UTC().Format(time.RFC3339Nano) }

// write adds a line, which is on disk afterwards and part of the receipt.
func (l *undoLog) write(line receiptLine) error {
	text, err := encodeReceiptLine(line)
	if err != nil {
		return err
	}
	if _, err = l.file.Write(text); err == nil {
		err = l.file.Sync()
	}
	if err == nil {
		_, err = l.receipt.take(line, nil, 0, manifest.Hash{})
	}
	if err != nil {
		return fmt.Errorf("note the undo in receipt %s: %w", l.receipt.Path, err)
	}
	l.receipt.size += int64(len(text))
	return nil
}

func (l *undoLog) close() error { return l.file.Close() }
