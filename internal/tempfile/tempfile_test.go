package tempfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestNewLeavesNothingInTheFolder(t *testing.T) {
	dir := t.TempDir()
	f, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the open file has a name: %v (%v)", left, err)
	}
	if _, err := io.WriteString(f, "rows"); err != nil {
		t.Error(err)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "rows" {
		t.Errorf("read back %q, %v", b, err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 4 {
		t.Errorf("mode %v, %d bytes, %v", info.Mode(), info.Size(), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestNewWithoutAFolder(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New = %v, want fs.ErrNotExist", err)
	}
}
