package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

// dump returns all that the table holds, whatever its definition.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+outbox.DefaultTable+" ORDER BY 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	values := make([]sql.NullString, len(names))
	dest := make([]any, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			fmt.Fprintf(&text, "%t %q ", v.Valid, v.String)
		}
		text.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// planTest is a target of which e0-000 is missing, e0-001 and e1-001 differ, and
// the rest is as archived, and a place for plans.
type planTest struct {
	*testArchive
	t    *testing.T
	db   *sql.DB
	exec func(string)
	n    int // of plans
}

func newPlanTest(t *testing.T, s mysqltest.Server) *planTest {
	t.Helper()
	db, exec := newOutbox(t, s)
	pt := &planTest{testArchive: newArchive(t, 2, 5), t: t, db: db, exec: exec}
	pt.spoil()
	return pt
}

// spoil makes the target as a planTest has it.
func (pt *planTest) spoil() {
	pt.t.Helper()
	pt.exec("DELETE FROM wallet_outbox")
	runs(pt.t, exitOK, "restore", "--store", pt.url, "--receipt", pt.receipts)
	pt.exec("DELETE FROM wallet_outbox WHERE event_id = 'e0-000'")
	pt.exec("UPDATE wallet_outbox SET user_id = 99, asset_type = 'GEM' WHERE event_id IN ('e0-001', 'e1-001')")
}

// plan makes a plan and returns its file and what was printed. The target stays
// as it is.
func (pt *planTest) plan(code int, args ...string) (path, out string) {
	pt.t.Helper()
	pt.n++
	path = filepath.Join(filepath.Dir(pt.dir), fmt.Sprintf("plan-%d.json", pt.n))
	before := dump(pt.t, pt.db)
	out, errs := runs(pt.t, code, append([]string{"restore", "plan", "--store", pt.url, "--receipt", pt.receipts, "--out", path}, args...)...)
	if after := dump(pt.t, pt.db); after != before {
		pt.t.Errorf("the plan changed the target to\n%s", after)
	}
	return path, out + errs
}

// run runs a plan, which must end with code and, unless that is 0, change nothing.
func (pt *planTest) run(code int, path string, args ...string) string {
	pt.t.Helper()
	before := dump(pt.t, pt.db)
	out, errs := runs(pt.t, code, append([]string{"restore", "run", "--plan", path, "--store", pt.url, "--receipt", pt.receipts}, args...)...)
	if after := dump(pt.t, pt.db); code != exitOK && after != before {
		pt.t.Errorf("a refused run changed the target to\n%s", after)
	}
	return out + errs
}

func wantText(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

func TestRestorePlan(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		pt := newPlanTest(t, s)
		path, out := pt.plan(exitOK, "--on-conflict", "overwrite")
		wantText(t, out, "insert 1 row, overwrite 2 rows; 7 rows there already", "asset_type in 1 row, user_id in 1 row", "rows/s, the rate of the rehearsal of 3 rows")
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("file %v, error %v", info, err)
		}
		p, err := readPlan(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := (planFound{Selected: 10, Present: 7, Different: 2, Missing: 1, Insert: 1, Overwrite: 2}); *p.Totals.Found != want || !p.Runnable {
			t.Errorf("found %+v, want %+v; runnable %t", *p.Totals.Found, want, p.Runnable)
		}
		if b := p.Batches[0]; b.ManifestSHA256 != pt.list[0].ManifestSHA256 || b.Rows != 5 || b.Bytes != pt.list[0].UncompressedBytes || b.ColdObjects != 0 ||
			b.States.Missing.Count() != 1 || len(b.States.Different) != 1 || b.States.Different[0].EventID != "e0-001" || b.DifferentColumns["user_id"] != 1 {
			t.Errorf("batch %+v", b)
		}
		if p.Target.Server == "" || p.Target.DefinitionSHA256.IsZero() || p.Target.Settings["time_zone"] != "+00:00" || *p.Estimate.RowsPerSecond < 1 {
			t.Errorf("target %+v, estimate %+v", p.Target, p.Estimate)
		}
		b, err := os.ReadFile(path)
		if err != nil || bytes.Contains(b, []byte("99")) && bytes.Contains(b, []byte("GEM")) {
			t.Errorf("a value of a row is in the plan, or error %v:\n%s", err, b)
		}

		// The document has the very plan, and a file is never replaced.
		out, _ = runs(t, exitOK, "restore", "plan", "--json", "--store", pt.url, "--receipt", pt.receipts, "--on-conflict", "overwrite")
		var doc struct {
			Schema  string
			Details json.RawMessage
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != "walletarchive.restore_plan/v1" {
			t.Errorf("schema %q, error %v", doc.Schema, err)
		}
		if _, err := decodePlan(doc.Details); err != nil {
			t.Errorf("the plan of the document: %v\n%s", err, doc.Details)
		}
		runs(t, exitUsage, "restore", "plan", "--store", pt.url, "--receipt", pt.receipts, "--out", path)
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(b, again) {
			t.Errorf("the plan was replaced, error %v", err)
		}

		// Without a way to settle the conflicts there is a plan that nobody can run.
		path, out = pt.plan(exitTarget)
		wantText(t, out, "runnable", "1 different", "conflict: expected 1, found 99", "2 rows that the target holds otherwise are in the way")
		wantText(t, pt.run(exitUsage, path, "--yes"), "says that it cannot be run", "holds 1 rows of the batch otherwise")
		// No batch or a damaged one gives none.
		pt.flip(t, pt.list[1].DataObjectKey)
		path, _ = pt.plan(exitArchive)
		if _, err := os.Stat(path); err == nil {
			t.Error("a plan of a damaged archive")
		}
		path, out = pt.plan(exitNoBatch, "--event-id", "nowhere")
		if _, err := os.Stat(path); err == nil {
			t.Error("a plan of nothing")
		}
		wantText(t, out, "no batch has event_id")
	})
}

func TestRestoreRun(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		pt := newPlanTest(t, s)
		all := func() string {
			t.Helper()
			pt.exec("DELETE FROM wallet_outbox")
			runs(t, exitOK, "restore", "--store", pt.url, "--receipt", pt.receipts)
			text := dump(t, pt.db)
			pt.spoil()
			return text
		}()
		path, _ := pt.plan(exitOK, "--on-conflict", "overwrite")
		confirmed := []string{"--yes", "--confirm-overwrite", "2"}

		// What is wrong with the command line is known before anything is contacted.
		t.Run("usage", func(t *testing.T) {
			t.Setenv("WALLETARCHIVE_TARGET_DSN", "u@tcp(127.0.0.1:1)/nowhere")
			for text, args := range map[string][]string{
				"give --yes":                              {"--confirm-overwrite", "2"},
				"confirm with --confirm-overwrite 2":      {"--yes"},
				"is 3, and the plan overwrites 2 rows":    {"--yes", "--confirm-overwrite", "3"},
				`there is no flag "--event-id"`:           {"--yes", "--event-id", "e0-000"},
				`there is no flag "--on-conflict"`:        {"--yes", "--on-conflict", "skip"},
				`there is no flag "--target-table"`:       {"--yes", "--target-table", "x"},
				"names the table that is restored into":   append([]string{"--journal-table", "wallet_outbox"}, confirmed...),
				"takes no arguments":                      append([]string{pt.id(0)}, confirmed...),
				"is there already, and no file is replac": append([]string{"--save-old", path}, confirmed...),
			} {
				wantText(t, pt.run(exitUsage, path, args...), text)
			}
			_, errs := runs(t, exitUsage, append([]string{"restore", "run", "--plan", path, "--store", pt.url + "/other", "--receipt", pt.receipts}, confirmed...)...)
			wantText(t, errs, "the plan is about "+pt.url)
			_, errs = runs(t, exitUsage, append([]string{"restore", "run", "--plan", path, "--store", pt.url}, confirmed...)...)
			wantText(t, errs, "without a receipt nothing says")
			_, errs = runs(t, exitUsage, "restore", "run", "--store", pt.url, "--receipt", pt.receipts, "--yes")
			wantText(t, errs, "--plan is missing")
		})

		receipt, old := filepath.Join(t.TempDir(), "receipt"), filepath.Join(t.TempDir(), "old")
		out := pt.run(exitOK, path, append(confirmed, "--journal", receipt, "--save-old", old)...)
		wantText(t, out, "1 overwritten and read back", "1 inserted and read back")
		if text := dump(t, pt.db); text != all {
			t.Errorf("the target has\n%s, want\n%s", text, all)
		}
		r, err := restore.ReadReceipt(receipt)
		if err != nil {
			t.Fatal(err)
		}
		p, err := readPlan(path)
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.PlanID != p.id.String() || !r.Complete {
			t.Errorf("receipt of plan %s, complete %t, want plan %s", r.Header.PlanID, r.Complete, p.id)
		}
		if b, err := os.ReadFile(old); err != nil || bytes.Count(b, []byte("\n")) != 2 {
			t.Errorf("old rows, error %v:\n%s", err, b)
		}
		// Once done it is done, and the same command says so.
		wantText(t, pt.run(exitOK, path, confirmed...), "5 present, 0 missing")
		// And the undo of its receipt gives back what was there.
		runs(t, exitOK, "restore", "undo", "--yes", receipt)
		pt.run(exitOK, path, confirmed...)

		// The receipt of one plan is not that of another.
		pt.spoil()
		path, _ = pt.plan(exitOK, "--on-conflict", "overwrite")
		wantText(t, pt.run(exitTarget, path, append(confirmed, "--journal", receipt)...), "the journal is of another restore")

		// Rows that somebody restored meanwhile are no change, rows that are none of
		// the plan neither.
		pt.spoil()
		path, _ = pt.plan(exitTarget, "--missing")
		runs(t, exitOK, "restore", "--store", pt.url, "--receipt", pt.receipts, "--event-id", "e0-000")
		pt.exec("INSERT INTO wallet_outbox SELECT app_code, 'another', event_type, transaction_id, command_id, user_id, asset_type, available_delta, " +
			"frozen_delta, payload, status, worker_id, lock_until_ms, retry_count, next_retry_at_ms, last_error, created_at_ms, updated_at_ms FROM wallet_outbox WHERE event_id = 'e1-002'")
		wantText(t, pt.run(exitTarget, path, "--yes"), "1 row left, which", "0 missing")

		// A plan of some rows restores these.
		pt.exec("DELETE FROM wallet_outbox")
		path, _ = pt.plan(exitOK, "--event-id", "e0-003", "--event-id", "e1-002")
		pt.run(exitOK, path, "--yes")
		if got := eventIDs(t, pt.db); got != "e0-003 e1-002" {
			t.Errorf("rows %s", got)
		}
	})
}

// What has changed since the plan was made is found before anything is written.
func TestRestoreRunRefuses(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tc := range []struct {
			name   string
			change func(pt *planTest)
			code   int
			want   []string
		}{
			{"a row is gone", func(pt *planTest) { pt.exec("DELETE FROM wallet_outbox WHERE event_id = 'e1-003'") }, exitTarget,
				[]string{`row "e1-003"`, "plan: expected as archived, found missing"}},
			{"a row changed", func(pt *planTest) { pt.exec("UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = 'e1-003'") }, exitTarget,
				[]string{`row "e1-003"`, "expected as archived, found different"}},
			{"a row that differed changed", func(pt *planTest) { pt.exec("UPDATE wallet_outbox SET user_id = 98 WHERE event_id = 'e0-001'") }, exitTarget,
				[]string{`row "e0-001"`, "found different in another way"}},
			{"a row that differed is gone", func(pt *planTest) { pt.exec("DELETE FROM wallet_outbox WHERE event_id = 'e0-001'") }, exitTarget,
				[]string{`row "e0-001"`, "expected different, found missing"}},
			{"a missing row came back otherwise", func(pt *planTest) {
				runs(pt.t, exitOK, "restore", "--store", pt.url, "--receipt", pt.receipts, "--event-id", "e0-000")
				pt.exec("UPDATE wallet_outbox SET user_id = 5 WHERE event_id = 'e0-000'")
			}, exitTarget, []string{`row "e0-000"`, "expected missing, found different"}},
			{"all rows are gone", func(pt *planTest) { pt.exec("DELETE FROM wallet_outbox") }, exitTarget, []string{`row "e0-001"`, `row "e1-004"`}},
			{"a column is wider", func(pt *planTest) { pt.exec("ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(200) NOT NULL") }, exitTarget,
				[]string{"the definition of the table or of its triggers is another one"}},
			{"a trigger", func(pt *planTest) {
				pt.exec("CREATE TRIGGER tr AFTER DELETE ON wallet_outbox FOR EACH ROW SET @x = 1")
			}, exitTarget, []string{"the definition of the table or of its triggers is another one"}},
			{"another database", func(pt *planTest) {
				_, dsn := s.NewDB(pt.t)
				pt.t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
			}, exitTarget, []string{"the database was"}},
			{"damaged data", func(pt *planTest) { pt.flip(pt.t, pt.list[1].DataObjectKey) }, exitArchive, nil},
			{"no marker", func(pt *planTest) { pt.remove(pt.t, pt.list[0].SuccessObjectKey) }, exitArchive, nil},
			{"another receipt", func(pt *planTest) {
				pt.list[1].VerifiedAtMS++
				pt.rewriteReceipts(pt.list...)
			}, exitArchive, []string{"the archive has changed since the plan was made", "another verification"}},
			{"another manifest", func(pt *planTest) {
				pt.list[1].ManifestSHA256[0]++
				pt.rewriteReceipts(pt.list...)
			}, exitArchive, []string{"the archive has changed since the plan was made", "names manifest"}},
			{"no receipt", func(pt *planTest) { pt.rewriteReceipts(pt.list[0]) }, exitNoBatch, []string{"no such receipt"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				pt := newPlanTest(t, s)
				path, _ := pt.plan(exitOK, "--on-conflict", "overwrite")
				tc.change(pt)
				wantText(t, pt.run(tc.code, path, "--yes", "--confirm-overwrite", "2"), tc.want...)
			})
		}
	})
}

// rewriteReceipts replaces the receipt file, without members.
func (pt *planTest) rewriteReceipts(list ...manifest.Receipt) {
	pt.t.Helper()
	var text bytes.Buffer
	for _, r := range list {
		if err := manifest.WriteReceipt(&text, &r, 0, nil); err != nil {
			pt.t.Fatal(err)
		}
	}
	if err := os.WriteFile(pt.receipts, text.Bytes(), 0o600); err != nil {
		pt.t.Fatal(err)
	}
}

// A run that is killed and run again does what the plan says, once.
func TestRestoreRunGoesOn(t *testing.T) {
	a := newArchive(t, 12, 400)
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		state := t.TempDir()
		t.Setenv(stateDirEnv, state)
		runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts)
		want := dump(t, db)
		exec("DELETE FROM wallet_outbox WHERE event_id > 'e11-100' OR event_id < 'e11-050'")
		exec("UPDATE wallet_outbox SET user_id = -1 WHERE event_id < 'e11-060'")
		before := dump(t, db)
		path := filepath.Join(t.TempDir(), "plan.json")
		runs(t, exitOK, "restore", "plan", "--store", a.url, "--receipt", a.receipts, "--on-conflict", "overwrite", "--out", path)
		args := []string{"restore", "run", "--plan", path, "--yes", "--confirm-overwrite", "10", "--store", a.url, "--receipt", a.receipts}
		rows := count(t, db, "SELECT COUNT(*) FROM wallet_outbox")
		p := start(t, nil, append(args, "--max-rows-per-second", "1500")...)
		for deadline := time.Now().Add(20 * time.Second); count(t, db, "SELECT COUNT(*) FROM wallet_outbox") == rows; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no batch was committed: %s", p.errs.String())
			}
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t); code != -1 {
			t.Fatalf("exit code %d: %s", code, p.errs.String())
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n == rows || n == 12*400 {
			t.Fatalf("%d rows after the kill", n)
		}
		_, errs := runs(t, exitOK, args...)
		wantText(t, errs, "going on with the receipt of an earlier run")
		if diff := cmp.Diff(want, dump(t, db)); diff != "" {
			t.Errorf("the target (-want +got):\n%s", diff)
		}
		receipts, err := filepath.Glob(filepath.Join(state, "restores", "*"))
		if err != nil || len(receipts) != 2 { // that of the first restore, too
			t.Fatalf("receipts %q, error %v", receipts, err)
		}
		plan, err := readPlan(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, receipt := range receipts {
			if strings.HasPrefix(filepath.Base(receipt), plan.id.String()[:16]) {
				runs(t, exitOK, "restore", "undo", "--yes", receipt)
			}
		}
		if diff := cmp.Diff(before, dump(t, db)); diff != "" {
			t.Errorf("after the undo (-want +got):\n%s", diff)
		}
	})
}

// What a relay takes may change from one hour to the next: it is asked again before
// anything is written.
func TestRestoreRunAsksTheRelayAgain(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		pt := newPlanTest(t, s)
		pt.exec("CREATE TABLE picked (n BIGINT)")
		pt.exec("DELETE FROM wallet_outbox")
		path, _ := pt.plan(exitOK, "--relay-query", "user_id IN (SELECT n FROM picked)")
		pt.exec("INSERT INTO picked VALUES (3)")
		wantText(t, pt.run(exitTarget, path, "--yes"), "relay_would_dispatch", "untouched", "nothing was written")
		pt.exec("DELETE FROM picked")
		pt.run(exitOK, path, "--yes")
	})
}

// With a ledger, its members say which batches hold an event, and no other is read;
// the receipts of the run are those of the plan.
func TestRestorePlanByLedger(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := newSource(t, s, 300)
		for _, name := range []string{"SOURCE", "LEDGER", "TARGET"} {
			t.Setenv("WALLETARCHIVE_"+name+"_DSN", dsn)
		}
		dir := t.TempDir()
		at := []string{"--store", "file://" + filepath.Join(dir, "archive")}
		runs(t, exitOK, append([]string{"export", "--app", "wallet", "--older-than", "24h", "--batch-rows", "50"}, at...)...)
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox_archive_receipts"); n < 4 {
			t.Fatalf("%d batches", n)
		}
		before := dump(t, db)
		var first, last string
		err := db.QueryRowContext(t.Context(), "SELECT first_event_id, last_event_id FROM wallet_outbox_archive_receipts ORDER BY last_updated_at_ms LIMIT 1, 1").Scan(&first, &last)
		if err != nil {
			t.Fatal(err)
		}
		ids := filepath.Join(dir, "ids")
		if err := os.WriteFile(ids, []byte(first+"\n"+last+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		outboxtest.Exec(t, db, "DELETE o FROM wallet_outbox o JOIN wallet_outbox_archive_receipts r ON o.event_id IN (r.first_event_id, r.last_event_id)")
		path := filepath.Join(dir, "plan")
		out, _ := runs(t, exitOK, append([]string{"restore", "plan", "--app", "wallet", "--event-id", "@" + ids, "--out", path}, at...)...)
		wantText(t, out, "insert 2 rows; 0 rows there already", "restore plan: proven: 1 batch,")
		history := filepath.Join(dir, "history")
		run := append([]string{"restore", "run", "--yes", "--plan", path, "--history-file", history}, at...)
		out, _ = runs(t, exitOK, run...)
		if line, err := os.ReadFile(history); err != nil || !strings.Contains(string(line), `"app_code":"wallet"`) {
			t.Errorf("the history does not name the app of the plan: %s, %v", line, err)
		}
		wantText(t, out, "2 of 50 chosen: 0 present, 2 missing, 2 inserted and read back")
		runs(t, exitOK, append([]string{"restore", "--app", "wallet", "--all", "--missing"}, at...)...)
		if after := dump(t, db); after != before {
			t.Errorf("the table has\n%s, had\n%s", after, before)
		}
		outboxtest.Exec(t, db, "UPDATE wallet_outbox_archive_receipts SET verified_at_ms = verified_at_ms + 1")
		_, errs := runs(t, exitArchive, run...)
		out, _ = runs(t, exitNoBatch, append([]string{"restore", "plan", "--app", "wallet", "--event-id", "nowhere"}, at...)...)
		wantText(t, out+errs, `no batch has event_id "nowhere"`)
	})
}
