package restore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// receiptStart is how every receipt begins, of any version.
const receiptStart = `{"header":{"schema":"walletarchive.restore_receipt/`

// CheckJournalPath reports whether [OpenJournal] may write to path: there is
// nothing yet, or a regular file that is empty, or begins as a receipt does. The
// error is [ErrReceipt] for anything else, or one of [os]. Nothing is changed.
func CheckJournalPath(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := checkRegular(info); err != nil { // a pipe would be waited for
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(checkReceiptStart(f), f.Close())
}

func checkRegular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is no regular file", ErrReceipt)
	}
	return nil
}

// checkReceiptStart returns an [ErrReceipt] for a file of somebody else. One that
// is cut off within its first bytes may be a receipt: a run was killed then.
func checkReceiptStart(f io.ReaderAt) error {
	start := make([]byte, len(receiptStart))
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return err
	}
	if !bytes.HasPrefix([]byte(receiptStart), start[:n]) {
		return fmt.Errorf("%w: it begins otherwise", ErrReceipt)
	}
	return nil
}

// keepPrivate takes a file from the group and all others: it holds rows.
func keepPrivate(f *os.File, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return f.Chmod(info.Mode().Perm() & 0o700)
}
