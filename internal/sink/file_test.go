package sink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// names returns what is in dir, hidden files too.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func create(t *testing.T, path, text string) *File {
	t.Helper()
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileAppearsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	f := create(t, path, "abc")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there before it is whole: %v", err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "abc" {
		t.Errorf("read %q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
	if _, err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a file = %v", err)
	}
}

func TestFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	f := create(t, path, "abc")
	if err := errors.Join(f.Discard(), f.Discard()); err != nil {
		t.Fatal(err)
	}
	f = create(t, path, "abc")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Commit over a file that appeared = %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "mine" {
		t.Errorf("the other file is now %q", got)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
	if _, err := Create(filepath.Join(dir, "none", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create in no directory = %v", err)
	}
}

func TestFileIsReadBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows.csv")
	f := create(t, path, "abc")
	if _, err := f.tmp.WriteAt([]byte("X"), 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); !errors.Is(err, ErrChanged) {
		t.Errorf("Commit of a file that changed = %v", err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}
