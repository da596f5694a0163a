package main

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// count returns how many rows a query counts.
func count(t *testing.T, db *sql.DB, query string) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRestoreCommand(t *testing.T) {
	const table, all = outbox.DefaultTable, "SELECT COUNT(*) FROM " + outbox.DefaultTable
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		exec := func(statement string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), strings.TrimRight(statement, "; \n")); err != nil {
				t.Fatal(err)
			}
		}
		exec(outbox.Schema(table, ""))
		t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
		a := newArchive(t, 3, 20)
		restored := func(code int, outcomes string, args ...string) (document, string) {
			t.Helper()
			out, errs := runs(t, code, append([]string{"restore", "--json", "--store", a.url, "--receipt", a.receipts}, args...)...)
			d := documentOf(t, out)
			var got []string
			for _, b := range d.Batches {
				got = append(got, b.Outcome)
			}
			if strings.Join(got, " ") != outcomes {
				t.Errorf("outcomes %q, want %q:\n%s%s", got, outcomes, out, errs)
			}
			return d, out
		}

		if _, out := restored(exitOK, "passed passed passed", "--dry-run"); count(t, db, all) != 0 || !strings.Contains(out, `"dry_run":true`) {
			t.Errorf("a dry run wrote %d rows:\n%s", count(t, db, all), out)
		}
		if _, out := restored(exitOK, "passed", a.id(1)); count(t, db, all) != 20 || !strings.Contains(out, `"inserted":20`) {
			t.Errorf("%d rows after one batch:\n%s", count(t, db, all), out)
		}
		// A second run finds what is there and adds the rest.
		if _, out := restored(exitOK, "passed passed passed"); count(t, db, all) != 60 || !strings.Contains(out, `"state":"unchanged"`) {
			t.Errorf("%d rows after all batches:\n%s", count(t, db, all), out)
		}

		// A row that differs keeps its batch out, and its batch only.
		exec("DELETE FROM " + table + " WHERE event_id <> 'e1-003'")
		exec("UPDATE " + table + " SET available_delta = 99")
		_, out := restored(exitTarget, "passed target_differs passed")
		if n := count(t, db, all); n != 41 {
			t.Errorf("%d rows, want two batches and the row that differs", n)
		}
		if !strings.Contains(out, `"check":"conflict"`) || !strings.Contains(out, `"row":"e1-003","column":"available_delta","got":"99","want":"3"`) {
			t.Errorf("the conflict is not named:\n%s", out)
		}
		text, _ := runs(t, exitTarget, "restore", "--store", a.url, "--receipt", a.receipts, a.id(1))
		if !strings.Contains(text, "fault       "+table+`, line 4, row "e1-003", column available_delta: conflict: expected 3, found 99`) {
			t.Errorf("text:\n%s", text)
		}

		// A batch that is not whole keeps all of them out, before the target is asked.
		exec("DELETE FROM " + table)
		a.flip(t, a.list[1].DataObjectKey)
		restored(exitArchive, "archive_wrong unfinished unfinished")
		if n := count(t, db, all); n != 0 {
			t.Errorf("%d rows were written beside a broken batch", n)
		}
		restored(exitNoBatch, "no_batch unfinished", a.id(0), string(id("e")))
		if n := count(t, db, all); n != 0 {
			t.Errorf("%d rows were written beside a missing batch", n)
		}
		restored(exitOK, "passed", a.id(0))

		// A target that cannot be reached, or has no such table, is no verdict.
		if d, _ := restored(exitTarget, "target_differs", a.id(0), "--target-table", "none"); d.Summary.Verdict == "proven" {
			t.Errorf("summary: %+v", d.Summary)
		}
		t.Setenv("WALLETARCHIVE_TARGET_DSN", "u:s3cret-pa55@tcp(127.0.0.1:1)/d?timeout=2s")
		out, errs := runs(t, exitUnfinished, "restore", "--store", a.url, "--receipt", a.receipts, a.id(0))
		if !strings.Contains(out, "restore: not proven") || strings.Contains(out+errs, "s3cret-pa55") {
			t.Errorf("a target that is not there:\n%s%s", out, errs)
		}
	})
}

func TestRestoreCommandUsage(t *testing.T) {
	a := newArchive(t, 1, 1)
	for _, args := range [][]string{
		{"--store", a.url, "--receipt", a.receipts}, // no target
		{"--store", a.url, "--app", "wallet", a.id(0), "--target-dsn", "u@unix(/s)/d"},
		{"--receipt", a.receipts, "--target-dsn", "u@unix(/s)/d"},
		{"--store", a.url, "--receipt", a.receipts, "--target-dsn", "x"},
		{"--store", a.url, "--receipt", a.receipts, "--target-dsn", "u@unix(/s)/d", "--target-table", "--dry-run"},
	} {
		runs(t, exitUsage, append([]string{"restore"}, args...)...)
	}
}
