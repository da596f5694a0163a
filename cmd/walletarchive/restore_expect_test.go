package main

import (
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

func TestExpectRestored(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 2, 5)
		from := []string{"restore", "--store", a.url, "--receipt", a.receipts}
		expect := func(code int, more ...string) string {
			t.Helper()
			before := outboxtest.RowHashes(t, db)
			out, errs := runs(t, code, append(append(from[:len(from):len(from)], "--expect-restored"), more...)...)
			if after := outboxtest.RowHashes(t, db); len(after) != len(before) {
				t.Errorf("%d rows, %d before", len(after), len(before))
			}
			return out + errs
		}
		if out := expect(exitTarget); strings.Count(out, "rows_missing: expected 5 rows as archived, found 5 rows missing") != 2 {
			t.Errorf("nothing is there:\n%s", out)
		}
		runs(t, exitOK, from...)
		if out := expect(exitOK); !strings.Contains(out, "restore: proven: 2 batches") {
			t.Errorf("all is there:\n%s", out)
		}
		exec("DELETE FROM " + outbox.DefaultTable + " WHERE event_id = 'e1-003'")
		if out := expect(exitTarget, "--json"); strings.Count(out, `"check":"rows_missing"`) != 1 {
			t.Errorf("a row is missing:\n%s", out)
		}
		expect(exitOK, "--event-id", "e1-002")
		expect(exitTarget, "--event-id", "e1-003")
		exec("UPDATE " + outbox.DefaultTable + " SET retry_count = retry_count + 1 WHERE event_id = 'e0-000'")
		if out := expect(exitTarget); !strings.Contains(out, "column retry_count") || !strings.Contains(out, "rows_missing") {
			t.Errorf("a row is missing and one differs:\n%s", out)
		}
		for _, args := range []string{"--missing", "--on-conflict skip", "--on-conflict overwrite", "--to ndjson:-"} {
			expect(exitUsage, strings.Fields(args)...)
		}
	})
}

// TestExpectRestoredJudges is about what no server does at will.
func TestExpectRestoredJudges(t *testing.T) {
	for _, test := range []struct {
		name    string
		outcome report.Outcome
		rep     restore.Report
		want    report.Outcome
	}{
		{"all there", report.Passed, restore.Report{Selected: 2, Present: 2}, report.Passed},
		{"one missing", report.Passed, restore.Report{Selected: 2, Present: 1, Missing: 1}, report.TargetDiffers},
		{"one not counted", report.Passed, restore.Report{Selected: 2, Present: 1}, report.Unfinished},
		{"one different, one missing", report.TargetDiffers, restore.Report{Selected: 2, Missing: 1, ConflictCount: 1}, report.TargetDiffers},
		{"not finished", report.Unfinished, restore.Report{Selected: 2, Missing: 1}, report.Unfinished},
	} {
		b := expectRestored(report.Batch{Outcome: test.outcome}, test.rep)
		if b.Outcome != test.want {
			t.Errorf("%s: %v, want %v", test.name, b.Outcome, test.want)
		}
	}
}
