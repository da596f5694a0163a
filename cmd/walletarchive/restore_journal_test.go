package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of somebody else is no receipt, and nothing is contacted with one.
func TestJournalNamesAForeignFile(t *testing.T) {
	a := newArchive(t, 1, 1)
	path := filepath.Join(t.TempDir(), "dsn")
	const text = "user:secret@tcp(db:3306)/wallet"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	restored := []string{"restore", "--store", a.url, "--receipt", a.receipts, "--target-dsn", "u@unix(/nowhere)/d", "--journal"}
	if _, errs := runs(t, exitUsage, append(restored, path)...); !strings.Contains(errs, "is there already and is left as it is") || strings.Contains(errs, "secret") {
		t.Errorf("stderr: %s", errs)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("the file is now %q, %v", after, err)
	}
	runs(t, exitUsage, append(restored, os.DevNull)...)
	runs(t, exitUnfinished, append(restored, path+".new")...) // there is no such server
}
