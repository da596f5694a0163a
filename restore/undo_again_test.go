package restore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// TestUndoAgainLeavesALaterRestore restores, takes that back, restores under
// another receipt and undoes the first one again.
func TestUndoAgainLeavesALaterRestore(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		rows := records(12)
		v := open(t, rows, nil)
		old := make([]manifest.Record, 3)
		for i := range old {
			old[i] = *rows[i].Clone()
			old[i].WorkerID = "before"
		}
		insert(t, db, old...)
		before := contents(t, db)
		dir := t.TempDir()
		restored := func(name string) string {
			path := filepath.Join(dir, name)
			opts := testOptions(t)
			opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 3
			journaled(t, db, v, openJournal(t, db, journalOptions(t, db, path)), opts)
			return path
		}
		first := restored("first")
		if got := readReceipt(t, first).Standing(); got != (ReceiptCounts{Inserted: 9, Overwritten: 3}) {
			t.Errorf("standing after the restore: %+v", got)
		}
		// One row is changed and so left: the first undo has not taken it back.
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = ?", rows[5].EventID)
		u, err := Undo(t.Context(), db, readReceipt(t, first), UndoOptions{RowsPerTransaction: 5, Operator: "bob"})
		if err != nil || u.Removed != 8 || u.PutBack != 3 || u.LeftCount != 1 {
			t.Fatalf("%+v, %v", u, err)
		}
		r := readReceipt(t, first)
		if got := r.Standing(); got != (ReceiptCounts{Inserted: 1}) || len(r.Undos) != 1 || r.Undos[0].Operator != "bob" || !r.Complete {
			t.Errorf("the receipt after the undo: standing %+v, undos %+v", got, r.Undos)
		}
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 0 WHERE event_id = ?", rows[5].EventID)

		second := restored("second")
		want := contents(t, db)
		delete(want, app+"/"+rows[5].EventID)
		for _, dry := range []bool{true, false} {
			u, err = Undo(t.Context(), db, readReceipt(t, first), UndoOptions{DryRun: dry})
			if err != nil || u.Rows != 12 || u.UndoneBefore != 11 || u.Removed != 1 || u.PutBack != 0 || u.Complete() == dry {
				t.Errorf("the first again, dry %t: %+v, %v", dry, u, err)
			}
		}
		if diff := cmp.Diff(want, contents(t, db)); diff != "" {
			t.Errorf("rows of the second restore (-want +got)\n%s", diff)
		}
		text, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		if u, err = Undo(t.Context(), db, readReceipt(t, first), UndoOptions{}); err != nil || u.UndoneBefore != 12 || !u.Complete() {
			t.Errorf("a third time: %+v, %v", u, err)
		}
		if after, err := os.ReadFile(first); err != nil || !bytes.Equal(text, after) {
			t.Errorf("an undo that had nothing to do wrote to the receipt, %v", err)
		}
		if u, err = Undo(t.Context(), db, readReceipt(t, second), UndoOptions{}); err != nil || u.Removed != 8 || u.PutBack != 3 || !u.Complete() {
			t.Errorf("the second: %+v, %v", u, err)
		}
		if diff := cmp.Diff(before, contents(t, db)); diff != "" {
			t.Errorf("the table before and after (-before +after)\n%s", diff)
		}
	})
}

// TestUndoThatIsStopped reports what the receipt has, and not what it came to.
func TestUndoThatIsStopped(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		path := filepath.Join(t.TempDir(), "receipt")
		journaled(t, db, open(t, records(12), nil), openJournal(t, db, journalOptions(t, db, path)), testOptions(t))
		stop := errors.New("stop")
		u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{
			RowsPerTransaction: 5, Pause: func(context.Context, int) error { return stop },
		})
		if !errors.Is(err, stop) || u.Rows != 12 || u.Removed != 5 || u.NotReached() != 7 || u.Complete() || u.OtherColumns != nil {
			t.Errorf("%+v, %v", u, err)
		}
		u, err = Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
		if err != nil || u.Rows != 12 || u.UndoneBefore != 5 || u.Removed != 7 || u.NotReached() != 0 || !u.Complete() {
			t.Errorf("the rest: %+v, %v", u, err)
		}
	})
}

// TestUndoSettlesOnce has a transaction that was rolled back and whose rows a
// later restore brings.
func TestUndoSettlesOnce(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		rows := records(4)
		path := filepath.Join(t.TempDir(), "receipt")
		journaled(t, db, open(t, rows, nil), openJournal(t, db, journalOptions(t, db, path)), testOptions(t))
		cutAfterPending(t, path)
		mustExec(t, db, "DELETE FROM wallet_outbox")
		u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
		if err != nil || u.Unconfirmed != 1 || u.Rows != 0 {
			t.Fatalf("%+v, %v", u, err)
		}
		insert(t, db, rows...)
		if u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{}); err != nil || u.Removed != 0 || len(contents(t, db)) != 4 {
			t.Errorf("rows of somebody else: %+v, %v", u, err)
		}
	})
}

// cutAfterPending leaves of a receipt what a kill between the commit and its
// answer leaves, and a part of a line that was torn off.
func cutAfterPending(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte(`{"outcome"`))
	if at < 0 {
		t.Fatal("no outcome")
	}
	if err := os.WriteFile(path, text[:at+7], 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUndoneIsChecked changes what a receipt says of its undo.
func TestUndoneIsChecked(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db := newTarget(t, s)
	path := filepath.Join(t.TempDir(), "receipt")
	journaled(t, db, open(t, records(3), nil), openJournal(t, db, journalOptions(t, db, path)), testOptions(t))
	stale := readReceipt(t, path)
	if u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{}); err != nil || u.Removed != 3 {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := Undo(t.Context(), db, stale, UndoOptions{}); !errors.Is(err, ErrReceipt) {
		t.Errorf("a receipt that was read before another undo: %v", err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := good[bytes.Index(good, []byte(`{"undone"`)):]
	wantNoReceipt(t, path, good, map[string][]byte{
		"twice":              append(bytes.Clone(good), line...),
		"too many":           bytes.Replace(good, []byte(`"rows":"1-3","inserted":3`), []byte(`"rows":"1-4","inserted":4`), 1),
		"none":               bytes.Replace(good, []byte(`"rows":"1-3","inserted":3`), []byte(`"rows":"","inserted":0`), 1),
		"others":             bytes.Replace(good, []byte(`"rows":"1-3"`), []byte(`"rows":"2-4"`), 1),
		"another count":      bytes.Replace(good, []byte(`"rows":"1-3"`), []byte(`"rows":"1-2"`), 1),
		"a negative count":   bytes.Replace(good, []byte(`"inserted":3,"overwritten":0,"at"`), []byte(`"inserted":4,"overwritten":-1,"at"`), 1),
		"never overwritten":  bytes.Replace(good, []byte(`"inserted":3,"overwritten":0,"at"`), []byte(`"inserted":2,"overwritten":1,"at"`), 1),
		"no such number":     bytes.Replace(good, []byte(`{"undone":{"seq":1`), []byte(`{"undone":{"seq":2`), 1),
		"it was rolled back": bytes.Replace(good, []byte(`"committed"`), []byte(`"rolled_back"`), 1),
	})
}

func TestUnionOfLines(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"", "1", "1"},
		{"1-3", "4-5", "1-5"},
		{"1,5", "2-4", "1-5"},
		{"7-9", "1-2", "1-2,7-9"},
		{"1-3", "3", "twice"},
		{"2", "1-4", "twice"},
	} {
		var a, b LineRanges
		if err := errors.Join(a.UnmarshalText([]byte(c.a)), b.UnmarshalText([]byte(c.b))); err != nil {
			t.Fatal(err)
		}
		got := "twice"
		if both, ok := union(a, b); ok {
			text, _ := both.MarshalText()
			got = string(text)
			for n := range int64(12) {
				if both.has(n) != (a.has(n) || b.has(n)) {
					t.Errorf("%q and %q: has(%d) = %t", c.a, c.b, n, both.has(n))
				}
			}
		}
		if got != c.want {
			t.Errorf("union(%q, %q) = %q, want %q", c.a, c.b, got, c.want)
		}
	}
}
