package restore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// endless counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += int64(len(p))
	return len(p), nil
}

// TestReceiptIsAFile gives something else for a receipt, and wants no more than
// the size of a header read of it.
func TestReceiptIsAFile(t *testing.T) {
	for _, path := range []string{os.DevNull, t.TempDir()} {
		if _, err := ReadReceipt(path); !errors.Is(err, ErrReceipt) {
			t.Errorf("ReadReceipt(%s): %v", path, err)
		}
		if _, err := HoldReceipt(path); !errors.Is(err, ErrReceipt) {
			t.Errorf("HoldReceipt(%s): %v", path, err)
		}
	}
	var e endless
	if err := new(Receipt).read(&e); !errors.Is(err, ErrReceipt) || e.read > 2*maxHeaderLine {
		t.Errorf("%d bytes were read, %v", e.read, err)
	}
	path := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 2*maxHeaderLine), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReceipt(path); !errors.Is(err, ErrReceipt) || errors.Is(err, ErrNoHeader) {
		t.Errorf("a long file without a newline: %v", err)
	}
}
