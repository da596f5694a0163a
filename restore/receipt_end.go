package restore

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// What EndsComplete reads at most of the head and of the end of a receipt.
const (
	headBytes = 64 << 10
	endBytes  = 4 << 10
)

// EndsComplete reports whether the first and the last line of the receipt at path
// are enough to say that a run of this plan into this target came to its end and
// was complete. It reads no other line, however long the receipt is, and so does
// not notice damage between them. False says nothing: [ReadReceipt] does.
//
// The error is one of [os].
func EndsComplete(path, planID string, target TargetIdentity) (bool, error) {
	f, err := openReceipt(path)
	if errors.Is(err, ErrReceipt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	return endsComplete(f, info.Size(), planID, target)
}

func endsComplete(f io.ReaderAt, size int64, planID string, target TargetIdentity) (bool, error) {
	text, err := readLine(bufio.NewReaderSize(io.NewSectionReader(f, 0, min(size, headBytes)), 4<<10), headBytes)
	if errors.Is(err, io.EOF) || errors.Is(err, ErrReceipt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	first, err := decodeReceiptLine(text)
	if err != nil || first.Header == nil || first.Header.Schema != ReceiptSchema ||
		first.Header.PlanID != planID || !first.Header.Target.Same(target) {
		return false, nil
	}
	tail := make([]byte, min(size, endBytes))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	// The newline before the line is wanted too: what follows none may be the rest
	// of a longer line.
	whole, found := bytes.CutSuffix(tail, []byte("\n"))
	before := bytes.LastIndexByte(whole, '\n')
	if !found || before < 0 {
		return false, nil
	}
	last, err := decodeReceiptLine(tail[before+1:])
	return err == nil && last.End != nil && last.End.Complete, nil
}
