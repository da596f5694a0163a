package restore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// wantNoReceipt wants each text, which differs from a good receipt, to be refused. It
// is written to path.
func wantNoReceipt(t *testing.T, path string, good []byte, texts map[string][]byte) {
	t.Helper()
	for name, bad := range texts {
		if bytes.Equal(bad, good) {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadReceipt(path); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestReadReceiptRefuses(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db := newTarget(t, s)
	path := filepath.Join(t.TempDir(), "receipt")
	rows := records(3)
	journaled(t, db, open(t, rows, nil), openJournal(t, db, journalOptions(t, db, path)), testOptions(t))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(good, []byte("\n"))
	hash := []byte(rows[0].RowHash().String())
	wantNoReceipt(t, path, good, map[string][]byte{
		"empty":              {},
		"a hash":             bytes.Replace(good, hash, []byte(manifest.SumHash(nil).String()), 1),
		"a row less":         bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil),
		"no header":          bytes.Join(lines[1:], nil),
		"header twice":       append(append([]byte{}, lines[0]...), good...),
		"another schema":     bytes.Replace(good, []byte("receipt/v1"), []byte("receipt/v2"), 1),
		"an unknown member":  bytes.Replace(good, []byte(`{"begin"`), []byte(`{"start"`), 1),
		"an unknown outcome": bytes.Replace(good, []byte(`"inserted",`), []byte(`"maybe",`), 1),
		"an unknown state":   bytes.Replace(good, []byte(`"committed"`), []byte(`"kept"`), 1),
		"no begin":           bytes.Join(append([][]byte{lines[0]}, lines[2:]...), nil),
		"outcome twice":      bytes.Join(append(append([][]byte{}, lines[:len(lines)-2]...), lines[len(lines)-3], lines[len(lines)-2]), nil),
		"text after":         bytes.Replace(good, []byte("}\n"), []byte("} x\n"), 1),
		"counts":             bytes.Replace(good, []byte(`"inserted":3`), []byte(`"inserted":2`), 1),
		"another sequence":   bytes.ReplaceAll(good, []byte(`"seq":1`), []byte(`"seq":2`)),
	})
}

// TestJournalWithoutAWholeHeader goes on after a kill within the first line.
func TestJournalWithoutAWholeHeader(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db := newTarget(t, s)
	path := filepath.Join(t.TempDir(), "receipt")
	for _, text := range []string{"", `{"header":{"schema":"walletarchive.rest`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, db, journalOptions(t, db, path))
		if _, resumed := j.Resumed(); resumed {
			t.Errorf("%q: resumed", text)
		}
		if err := j.Close(true); err != nil {
			t.Fatal(err)
		}
		if r := readReceipt(t, path); r.Header.RunID != j.RunID() || !r.Complete {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// TestJournalLeavesForeignFiles gives a journal the name of another file.
func TestJournalLeavesForeignFiles(t *testing.T) {
	db := newTarget(t, mysqltest.Get(t, mysqltest.MariaDB))
	path := filepath.Join(t.TempDir(), "receipt")
	for _, text := range []string{"something else\n", "user:secret@tcp(db:3306)/wallet", "{", `{"header":{"schema":"other/v1"}}`, "\x00", "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		foreign := text != "{" // which a receipt begins with, too
		if err := CheckJournalPath(path); errors.Is(err, ErrReceipt) != foreign {
			t.Errorf("%q: %v", text, err)
		}
		if !foreign {
			continue
		}
		if _, err := ReadReceipt(path); !errors.Is(err, ErrReceipt) || errors.Is(err, ErrNoHeader) {
			t.Errorf("read %q: %v", text, err)
		}
		if _, err := OpenJournal(t.Context(), db, journalOptions(t, db, path)); !errors.Is(err, ErrReceipt) {
			t.Errorf("%q: %v", text, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%q: mode %v, %v", text, info.Mode(), err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%q is now %q, %v", text, after, err)
		}
	}
	// What swallows a receipt is no place for it.
	for _, other := range []string{os.DevNull, t.TempDir()} {
		if err := CheckJournalPath(other); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", other, err)
		}
		if _, err := OpenJournal(t.Context(), db, journalOptions(t, db, other)); err == nil {
			t.Errorf("%s is written to", other)
		}
	}
}

// A journal holds rows, so that nobody else may read it, whoever made the file.
func TestJournalIsPrivate(t *testing.T) {
	db := newTarget(t, mysqltest.Get(t, mysqltest.MariaDB))
	path := filepath.Join(t.TempDir(), "receipt")
	for _, text := range []string{"", "{"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o664); err != nil {
			t.Fatal(err)
		}
		if err := openJournal(t, db, journalOptions(t, db, path)).Close(true); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: mode %v, %v", text, info.Mode(), err)
		}
	}
}
