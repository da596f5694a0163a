package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// runs calls run with these arguments and wants that exit code.
func runs(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), append([]string{programName}, args...), &out, &errs); got != want {
		t.Errorf("%q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, got, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func TestReceiptsOfLedger(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		t.Setenv("WALLETARCHIVE_LEDGER_DSN", dsn)
		runs(t, exitUnfinished, "receipts", "list", "--app", "wallet") // no tables
		l := ledger.New(db)
		if err := l.CreateTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out, _ := runs(t, exitOK, "receipts", "list", "--app", "wallet"); !strings.Contains(out, "0 receipts, 0 rows\n") {
			t.Errorf("list of an empty ledger:\n%s", out)
		}
		runs(t, exitNoBatch, "receipts", "show", "--all", "--app", "wallet")

		a, b, other := receiptOf("wallet", id("a"), 0, 10), receiptOf("wallet", id("b"), 10, 20), receiptOf("other", id("c"), 0, 5)
		for _, r := range []manifest.Receipt{a, b, other} {
			if _, err := l.Record(t.Context(), r, membersOf(r)); err != nil {
				t.Fatal(err)
			}
		}
		tests := []struct {
			args []string
			want string // first digits, in order
		}{
			{nil, "ab"},
			{[]string{"--all"}, "ab"},
			{[]string{"--latest", "1"}, "b"},
			{[]string{"--since", "1970-01-12"}, "b"},
			{[]string{"--until", "1970-01-02"}, "a"},
			{[]string{string(id("b")), string(id("a"))}, "ba"},
		}
		for _, tt := range tests {
			out, _ := runs(t, exitOK, append([]string{"receipts", "list", "--app", "wallet"}, tt.args...)...)
			got := ""
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); len(f) > 1 && f[0] == "wallet" {
					got += f[1][:1]
				}
			}
			if got != tt.want {
				t.Errorf("list %q shows %q, want %q:\n%s", tt.args, got, tt.want, out)
			}
		}
		_, errs := runs(t, exitNoBatch, "receipts", "show", "--app", "wallet", string(id("c"))) // of another app
		if !strings.Contains(errs, "no such receipt") {
			t.Errorf("stderr: %s", errs)
		}

		// What is exported is what a file of the same receipts holds, and what is
		// recorded without members stays so.
		if _, err := db.ExecContext(t.Context(), "DELETE FROM "+ledger.MembersTable+" WHERE batch_id = ?", string(id("b"))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "receipts.ndjson")
		runs(t, exitOK, "receipts", "export", "--all", "--app", "wallet", "--out", path)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		for _, r := range []manifest.Receipt{a, b} {
			count, members := int64(2), membersOf(r)
			if r.BatchID == b.BatchID {
				count, members = 0, nil
			}
			if err := manifest.WriteReceipt(&want, &r, count, members); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(text, want.Bytes()) {
			t.Errorf("exported:\n%s\nwant:\n%s", text, want.Bytes())
		}
		if out, _ := runs(t, exitOK, "receipts", "list", "--app", "wallet"); !strings.Contains(out, noMembers) {
			t.Errorf("list does not tell the receipt without members:\n%s", out)
		}

		// Half of the members is a ledger that cannot be exported as it is.
		if _, err := db.ExecContext(t.Context(), "DELETE FROM "+ledger.MembersTable+" WHERE event_id = ?", a.FirstEventID); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), "half.ndjson")
		runs(t, exitArchive, "receipts", "export", "--all", "--app", "wallet", "--out", path)
		if _, err := os.Stat(path); err == nil {
			t.Error("a file was left after an export that failed")
		}

		// A receipt that was tampered with is shown as such.
		if _, err := db.ExecContext(t.Context(), "UPDATE "+ledger.ReceiptsTable+" SET data_object_key = 'x' WHERE batch_id = ?", string(id("a"))); err != nil {
			t.Fatal(err)
		}
		runs(t, exitArchive, "receipts", "show", "--app", "wallet", string(id("a")))
		runs(t, exitArchive, "receipts", "list", "--app", "wallet")
	})
}
