package main

import (
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// eventIDs returns the event_ids in the table, in their order.
func eventIDs(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all sql.NullString
	if err := db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(event_id ORDER BY event_id SEPARATOR ' ') FROM "+outbox.DefaultTable).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all.String
}

// newOutbox returns an empty table on s, named by the environment as the target.
func newOutbox(t *testing.T, s mysqltest.Server) (db *sql.DB, exec func(string)) {
	t.Helper()
	db, dsn := s.NewDB(t)
	exec = func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), strings.TrimRight(statement, "; \n")); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec(outbox.Schema(outbox.DefaultTable, ""))
	t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
	return db, exec
}

func TestRestoreRows(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 3, 5)
		ids := filepath.Join(t.TempDir(), "ids")
		if err := os.WriteFile(ids, []byte("e2-004\r\n\ne0-000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			args     string
			outcomes string
			want     string
			code     int
		}{
			{args: "--event-id e1-003", outcomes: "passed", want: "e1-003"},
			{args: "--event-id @" + ids + " --event-id e0-001", outcomes: "passed passed", want: "e0-000 e0-001 e2-004"},
			{args: "--user-id 3 --user-id 4 --all", outcomes: "passed passed passed", want: "e0-003 e0-004 e1-003 e1-004 e2-003 e2-004"},
			{args: "--user-id 3 --event-id @" + ids + " --event-id e1-003 --all", outcomes: "no_batch no_batch no_batch", code: exitNoBatch},
			{args: "--transaction-id x --user-id 2 " + a.id(1), outcomes: "passed", want: "e1-002"},
			{args: "--command-id none --all", outcomes: "no_batch no_batch no_batch", code: exitNoBatch},
			{args: "--event-id e1-003 --event-id nowhere", outcomes: "no_batch unfinished", code: exitNoBatch},
			{args: "--since 1970-01-02T00:00:00.001Z --until 1970-01-02T00:00:00.003Z --time-of delivered", outcomes: "passed", want: "e1-001 e1-002"},
			{args: "--since 1970-01-02T00:00:00.003Z --time-of created", outcomes: "passed passed", want: "e1-003 e1-004 e2-000 e2-001 e2-002 e2-003 e2-004"},
			{args: "--until 1970-01-01T00:00:00.001Z", outcomes: "passed", want: "e0-000 e0-001 e0-002 e0-003 e0-004"}, // the whole batch
			{args: "--since 1970-01-02T12:00:00Z --until 1970-01-02T13:00:00Z --time-of created", code: exitNoBatch},
		} {
			exec("DELETE FROM " + outbox.DefaultTable)
			args := append([]string{"restore", "--json", "--store", a.url, "--receipt", a.receipts}, strings.Fields(tc.args)...)
			out, errs := runs(t, tc.code, args...)
			var got []string
			for _, b := range documentOf(t, out).Batches {
				got = append(got, b.Outcome)
			}
			if outcomes := strings.Join(got, " "); outcomes != tc.outcomes {
				t.Errorf("%s: outcomes %q, want %q\n%s%s", tc.args, outcomes, tc.outcomes, out, errs)
			}
			if got := eventIDs(t, db); got != tc.want {
				t.Errorf("%s: rows %q, want %q", tc.args, got, tc.want)
			}
		}
		// The rows of a file are chosen in the same way.
		out, _ := runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts, "--event-id", "e1-003", "--to", "ndjson:-")
		if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"event_id":"e1-003"`) {
			t.Errorf("rows:\n%s", out)
		}
	})
}

func TestRestoreOnConflict(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 2, 5)
		const differ = "SELECT COUNT(*) FROM " + outbox.DefaultTable + " WHERE user_id = 99"
		prepare := func() {
			t.Helper()
			exec("DELETE FROM " + outbox.DefaultTable)
			runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts, "--event-id", "e0-001", "--event-id", "e0-002", "--event-id", "e1-001")
			exec("UPDATE " + outbox.DefaultTable + " SET user_id = 99")
		}
		restored := func(code int, args ...string) string {
			t.Helper()
			out, errs := runs(t, code, append([]string{"restore", "--store", a.url, "--receipt", a.receipts}, args...)...)
			return out + errs
		}
		prepare()
		restored(exitTarget)
		restored(exitTarget, "--on-conflict", "fail")
		if n := count(t, db, differ); n != 3 {
			t.Errorf("%d rows differ, want 3", n)
		}

		// Skip and --missing restore the others, and say that some were left.
		for _, how := range [][]string{{"--on-conflict", "skip"}, {"--missing"}} {
			prepare()
			if out := restored(exitTarget, how...); !strings.Contains(out, "2 rows left, which the target holds otherwise") || !strings.Contains(out, "column user_id") {
				t.Errorf("%s:\n%s", how, out)
			}
			if n, all := count(t, db, differ), eventIDs(t, db); n != 3 || strings.Count(all, "e") != 10 {
				t.Errorf("%s: %d rows differ of %s", how, n, all)
			}
		}

		// Overwriting needs the number, all batches together, and it must be right.
		prepare()
		old := filepath.Join(t.TempDir(), "old.ndjson")
		restored(exitUsage, "--on-conflict", "overwrite")
		if out := restored(exitOK, "--on-conflict", "overwrite", "--dry-run"); !strings.Contains(out, "2 rows would be overwritten") {
			t.Errorf("dry run:\n%s", out)
		}
		for _, n := range []string{"0", "2", "4"} {
			if out := restored(exitTarget, "--on-conflict", "overwrite", "--confirm-overwrite", n, "--save-old", old); !strings.Contains(out, "3 rows in table wallet_outbox would be overwritten, and "+n+" were confirmed") {
				t.Errorf("%s confirmed:\n%s", n, out)
			}
			if all := eventIDs(t, db); all != "e0-001 e0-002 e1-001" || count(t, db, differ) != 3 {
				t.Errorf("%s confirmed: rows %s", n, all)
			}
		}
		if _, err := os.Stat(old); err == nil {
			t.Error("a file of old rows was made and nothing was overwritten")
		}
		if out := restored(exitOK, "--on-conflict", "overwrite", "--confirm-overwrite", "3", "--save-old", old); !strings.Contains(out, "2 overwritten and read back") {
			t.Errorf("overwritten:\n%s", out)
		}
		if n := count(t, db, differ); n != 0 {
			t.Errorf("%d rows differ still", n)
		}
		b, err := os.ReadFile(old)
		if err != nil || strings.Count(string(b), `"user_id":99,`) != 3 || strings.Count(string(b), "\n") != 3 {
			t.Errorf("old rows, error %v:\n%s", err, b)
		}
		if out := restored(exitUsage, "--on-conflict", "overwrite", "--confirm-overwrite", "0", "--save-old", old); !strings.Contains(out, "no file is replaced") {
			t.Errorf("a file that is there:\n%s", out)
		}
		if again, err := os.ReadFile(old); err != nil || string(again) != string(b) {
			t.Errorf("the old rows were replaced, error %v:\n%s", err, again)
		}
		restored(exitOK, "--on-conflict", "overwrite", "--confirm-overwrite", "0")
	})
}

// TestConfirmOverwriteAgain counts rows that were overwritten before and differ
// once more, with the same receipt: none of them twice.
func TestConfirmOverwriteAgain(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 2, 5)
		receipt := filepath.Join(t.TempDir(), "receipt")
		runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts)
		change := func(where string) { exec("UPDATE " + outbox.DefaultTable + " SET user_id = 99 WHERE " + where) }
		overwrite := func(code int, n string) string {
			t.Helper()
			out, errs := runs(t, code, "restore", "--store", a.url, "--receipt", a.receipts, "--journal", receipt,
				"--on-conflict", "overwrite", "--confirm-overwrite", n)
			return out + errs
		}
		const differ = "SELECT COUNT(*) FROM " + outbox.DefaultTable + " WHERE user_id = 99"
		change("event_id IN ('e0-001', 'e0-002', 'e1-001')")
		overwrite(exitOK, "3")
		overwrite(exitOK, "3") // the same command again, with nothing left to do
		change("event_id IN ('e0-001', 'e1-001')")
		for _, n := range []string{"0", "1", "3"} {
			want := "2 rows in table wallet_outbox would be overwritten (after 3 by an earlier run of this receipt), and " + n + " were confirmed"
			if out := overwrite(exitTarget, n); !strings.Contains(out, want) {
				t.Errorf("%s confirmed:\n%s", n, out)
			}
		}
		if n := count(t, db, differ); n != 2 {
			t.Errorf("%d rows differ, want 2", n)
		}
		overwrite(exitOK, "2")
		if n := count(t, db, differ); n != 0 {
			t.Errorf("%d rows differ still", n)
		}
		runs(t, exitOK, "restore", "undo", "--yes", receipt) // as they were at first
		if n := count(t, db, differ); n != 3 {
			t.Errorf("%d rows differ after the undo, want 3", n)
		}
		overwrite(exitOK, "3")
		if n := count(t, db, differ); n != 0 {
			t.Errorf("%d rows differ still after the undo", n)
		}
	})
}

// What the relay would pick up is refused, and so are triggers.
func TestRestoreRelay(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := newArchive(t, 1, 5)
		restored := func(code int, args ...string) string {
			t.Helper()
			out, errs := runs(t, code, append([]string{"restore", "--store", a.url, "--receipt", a.receipts}, args...)...)
			if code != exitOK && eventIDs(t, db) != "" {
				t.Errorf("rows %s", eventIDs(t, db))
			}
			return out + errs
		}
		if out := restored(exitTarget, "--relay-query", "user_id = 3"); !strings.Contains(out, "relay_would_dispatch") || !strings.Contains(out, "e0-003") {
			t.Errorf("relay:\n%s", out)
		}
		restored(exitUsage, "--relay-query", "user_id = 3; SELECT 1")
		if out := restored(exitUnfinished, "--relay-query", "nothing = 3"); !strings.Contains(out, "relay query") {
			t.Errorf("relay:\n%s", out)
		}
		exec("CREATE TRIGGER tr AFTER INSERT ON " + outbox.DefaultTable + " FOR EACH ROW SET @x = 1")
		if out := restored(exitTarget); !strings.Contains(out, "trigger tr runs after every row") {
			t.Errorf("trigger:\n%s", out)
		}
		if out := restored(exitOK, "--allow-triggers"); !strings.Contains(out, "trigger tr runs after every row") {
			t.Errorf("allowed trigger:\n%s", out)
		}
	})
}

func TestRestoreRowsUsage(t *testing.T) {
	a := newArchive(t, 1, 1)
	base := []string{"restore", "--store", a.url, "--receipt", a.receipts, "--target-dsn", "u@unix(/s)/d"}
	for _, args := range []string{
		"--time-of delivered", "--time-of updated --since 1970-01-01", "--user-id x", "--event-id @/nowhere/ids", "--on-conflict replace",
		"--missing --on-conflict overwrite", "--confirm-overwrite 3", "--save-old f", "--on-conflict skip --confirm-overwrite 1",
		"--on-conflict overwrite --confirm-overwrite=-1", "--relay-query 1)", "--event-id e0-000 --to ndjson:- --missing",
	} {
		runs(t, exitUsage, append(base[:len(base):len(base)], strings.Fields(args)...)...)
	}
	runs(t, exitUsage, "restore", "--store", a.url, "--app", "wallet", "--ledger-dsn", "u@unix(/s)/d", "--target-dsn", "u@unix(/s)/d", "--user-id", "3")
}

// TestTableNames refuses names that no server takes, with every command alike and
// before anything is contacted.
func TestTableNames(t *testing.T) {
	a := newArchive(t, 1, 1)
	target := []string{"--target-dsn", "u@unix(/nowhere)/d"}
	for name, want := range map[string]int{
		strings.Repeat("x", 65): exitUsage, "wallet_outbox ": exitUsage, "wallet\U0001f600": exitUsage, "a\xff": exitUsage,
		strings.Repeat("é", 64): exitUnfinished, " wallet`outbox": exitUnfinished, // there is no such server
	} {
		for _, command := range [][]string{
			append([]string{"restore", "--target-table", name}, target...),
			append([]string{"restore", "plan", "--target-table", name}, target...),
			append([]string{"restore", "--journal-table", name}, target...),
		} {
			runs(t, want, append(command, "--store", a.url, "--receipt", a.receipts)...)
		}
		code := want
		if want == exitUnfinished {
			code = exitOK
		}
		runs(t, code, "restore", "--to", "sql:-", "--target-table", name, "--store", a.url, "--receipt", a.receipts)
	}
}

// The batches of events are looked for below the prefix of the URL, too.
func TestRestoreRowsBelowAPrefix(t *testing.T) {
	a := newArchive(t, 2, 3)
	p := newProgram(io.Discard, io.Discard)
	s := selection{app: "wallet", receiptFile: a.receipts, byEvents: true}
	err := p.withRows(t.Context(), s, &rowChoice{EventIDs: []string{"e1-002"}}, archive{prefix: "copy"}, func(list []chosen) error {
		if len(list) != 1 || list[0].Location.Prefix != "copy" || list[0].Location.BatchID != manifest.BatchID(a.id(1)) {
			t.Errorf("batches %+v", list)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Spaces and commas are part of an id, as they are in a file of ids.
func TestRestoreRowsByteForByte(t *testing.T) {
	rows := newArchive(t, 1, 6).records[0]
	for i, id := range []string{"tx", "tx ", " tx", "a", "b", "a,b"} {
		rows[i].EventID, rows[i].TransactionID, rows[i].CommandID = "e"+id, "t"+id, id
	}
	a := newArchiveOf(t, [][]manifest.Record{rows})
	for _, tc := range []struct {
		flag, value string
		want        string // the event_ids; "" for no such row
	}{
		{"event-id", "etx", `"etx"`},
		{"event-id", "etx ", `"etx "`},
		{"event-id", " etx", ""},
		{"event-id", "ea,b", `"ea,b"`},
		{"event-id", "etx  ", ""},
		{"transaction-id", "ttx ", `"etx "`},
		{"transaction-id", "ta,b", `"ea,b"`},
		{"command-id", " tx", `"e tx"`},
		{"command-id", "tx", `"etx"`},
		{"command-id", "tx ", `"etx "`},
		{"command-id", "tx\t", ""},
	} {
		code := exitOK
		if tc.want == "" {
			code = exitNoBatch
		}
		args := []string{"--store", a.url, "--receipt", a.receipts, "--all", "--" + tc.flag, tc.value}
		out, _ := runs(t, code, append([]string{"restore", "--to", "ndjson:-"}, args...)...)
		if n := strings.Count(out, "\n"); n != strings.Count(tc.want, "\"")/2 || !strings.Contains(out, tc.want) {
			t.Errorf("--%s %q: want event_id %s, rows:\n%s", tc.flag, tc.value, tc.want, out)
		}
	}
	// Nor is a number or a name of a file anything else than it is.
	runs(t, exitUsage, "restore", "--to", "ndjson:-", "--store", a.url, "--receipt", a.receipts, "--all", "--user-id", " 3")
}
