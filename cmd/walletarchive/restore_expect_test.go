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

// TestExpectRestoredIsNotAboutWriting proves rows in tables that a restore would
// refuse to write to, and does not when one of them differs.
func TestExpectRestoredIsNotAboutWriting(t *testing.T) {
	const table = outbox.DefaultTable
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		_, exec := newOutbox(t, s)
		a := newArchive(t, 1, 5)
		from := []string{"restore", "--store", a.url, "--receipt", a.receipts}
		runs(t, exitOK, from...)
		expect := func(code int, what string, more ...string) string {
			t.Helper()
			out, errs := runs(t, code, append(append(from[:len(from):len(from)], "--expect-restored"), more...)...)
			if proven := strings.Contains(out, "restore: proven"); proven != (code == exitOK) {
				t.Errorf("%s:\n%s%s", what, out, errs)
			}
			return out + errs
		}
		for _, tc := range []struct{ what, do, undo string }{
			{"a trigger", "CREATE TRIGGER tr BEFORE INSERT ON " + table + " FOR EACH ROW SET NEW.user_id = 1", "DROP TRIGGER tr"},
			{"a further column", "ALTER TABLE " + table + " ADD COLUMN more INT NOT NULL", "ALTER TABLE " + table + " DROP COLUMN more"},
			{"an engine without transactions", "ALTER TABLE " + table + " ENGINE = MyISAM", "ALTER TABLE " + table + " ENGINE = InnoDB"},
			{"no key", "ALTER TABLE " + table + " DROP PRIMARY KEY", "ALTER TABLE " + table + " ADD PRIMARY KEY (app_code, event_id)"},
			{"a narrow column", "ALTER TABLE " + table + " MODIFY last_error VARCHAR(1)", "ALTER TABLE " + table + " MODIFY last_error TEXT"},
		} {
			exec(tc.do)
			expect(exitOK, tc.what)
			exec("UPDATE " + table + " SET user_id = 99 WHERE event_id = 'e0-003'")
			if out := expect(exitTarget, tc.what); !strings.Contains(out, "column user_id") {
				t.Errorf("%s and a row that differs:\n%s", tc.what, out)
			}
			exec("UPDATE " + table + " SET user_id = 3 WHERE event_id = 'e0-003'")
			exec(tc.undo)
		}
		exec("CREATE VIEW seen AS SELECT * FROM " + table + " WHERE user_id <> 3")
		if out := expect(exitTarget, "a view of four rows", "--target-table", "seen"); !strings.Contains(out, "found 1 row missing") {
			t.Errorf("a view of four rows:\n%s", out)
		}
		expect(exitOK, "a view of four rows", "--target-table", "seen", "--event-id", "e0-002")
		// A row that is there twice is not there as archived.
		exec("CREATE TABLE twice AS SELECT * FROM " + table)
		expect(exitOK, "a copy", "--target-table", "twice")
		exec("INSERT INTO twice SELECT * FROM " + table + " LIMIT 1")
		expect(exitTarget, "a row that is there twice", "--target-table", "twice")
		// What cannot be read exactly stays in the way.
		exec("ALTER TABLE twice DROP COLUMN worker_id")
		if out := expect(exitTarget, "a missing column", "--target-table", "twice"); !strings.Contains(out, "missing_column") {
			t.Errorf("a missing column:\n%s", out)
		}
		exec("DROP TABLE twice")
		exec("CREATE TABLE twice AS SELECT * FROM " + table)
		exec("ALTER TABLE twice MODIFY available_delta DOUBLE")
		if out := expect(exitTarget, "a wrong type", "--target-table", "twice"); !strings.Contains(out, "wrong_type") {
			t.Errorf("a wrong type:\n%s", out)
		}
		expect(exitTarget, "no table", "--target-table", "nowhere")
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
