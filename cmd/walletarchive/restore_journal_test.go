package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
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

// TestJournalTableOfARefusedRun leaves nothing in a target that was not written to.
func TestJournalTableOfARefusedRun(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 1, 5)
		restored := func(code int, more ...string) {
			t.Helper()
			runs(t, code, append([]string{"restore", "--store", a.url, "--receipt", a.receipts, "--journal-table", "restores",
				"--journal", filepath.Join(t.TempDir(), "receipt")}, more...)...)
		}
		tables := func() int {
			t.Helper()
			return count(t, db, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'restores'")
		}
		runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts, "--event-id", "e0-001")
		exec("UPDATE " + outbox.DefaultTable + " SET user_id = 99")
		restored(exitTarget)
		restored(exitTarget, "--on-conflict", "overwrite", "--confirm-overwrite", "3")
		restored(exitTarget, "--relay-query", "user_id = 3")
		if n := tables(); n != 0 {
			t.Errorf("%d journal tables after runs that wrote nothing", n)
		}
		restored(exitOK, "--on-conflict", "overwrite", "--confirm-overwrite", "1")
		if n := count(t, db, "SELECT COUNT(*) FROM restores WHERE inserted_rows = 4 AND overwritten_rows = 1"); n != 1 {
			t.Errorf("%d lines of the transaction", n)
		}
		// A run that finds every row there leaves a line, too, and makes the table.
		exec("DROP TABLE restores")
		restored(exitOK)
		if n := count(t, db, "SELECT COUNT(*) FROM restores WHERE inserted_rows = 0"); n != 1 {
			t.Errorf("%d lines of a run with nothing to do", n)
		}
	})
}
