package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
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

// TestVerifyAllOfLedger spoils a ledger between its batches: verify --all finds
// each fault by its check and judges the other batches all the same.
func TestVerifyAllOfLedger(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		a := newArchive(t, 3, 3)
		tests := []struct {
			name    string
			spoil   []string // statements
			checks  string   // of each batch in turn, "-" where it is proven
			batches string   // and which of the archive it is
		}{
			{"whole", nil, "- - -", "0 1 2"},
			{
				"an unreadable receipt", []string{"UPDATE " + ledger.ReceiptsTable + " SET manifest_sha256 = 'zz' WHERE batch_id = '" + a.id(1) + "'"},
				"- receipt -", "0 1 2",
			},
			{
				"a receipt that contradicts itself", []string{"UPDATE " + ledger.ReceiptsTable + " SET row_count = 0 WHERE batch_id = '" + a.id(0) + "'"},
				"receipt - -", "0 1 2",
			},
			{
				"a receipt taken away", []string{"DELETE FROM " + ledger.ReceiptsTable + " WHERE batch_id = '" + a.id(1) + "'"},
				"- - member_without_receipt", "0 2 1",
			},
			{
				"every receipt taken away", []string{"DELETE FROM " + ledger.ReceiptsTable},
				"member_without_receipt member_without_receipt member_without_receipt", "",
			},
			{
				// Beside what the batch itself says to that.
				"a receipt that reaches back", []string{"UPDATE " + ledger.ReceiptsTable + " SET first_updated_at_ms = 1, data_object_key = REPLACE(data_object_key, '1970-01-02', '1970-01-01')," +
					"manifest_object_key = REPLACE(manifest_object_key, '1970-01-02', '1970-01-01'), success_object_key = REPLACE(success_object_key, '1970-01-02', '1970-01-01')" +
					" WHERE batch_id = '" + a.id(1) + "'"},
				"- object_missing,object_missing,receipt_overlap -", "0 1 2",
			},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				db, dsn := s.NewDB(t)
				t.Setenv("WALLETARCHIVE_LEDGER_DSN", dsn)
				l := ledger.New(db)
				if err := l.CreateTables(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i, r := range a.list {
					members := func(yield func(manifest.Member, error) bool) {
						for _, rec := range a.records[i] {
							if !yield(r.Member(rec.EventID, rec.UpdatedAtMS), nil) {
								return
							}
						}
					}
					if _, err := l.Record(t.Context(), r, members); err != nil {
						t.Fatal(err)
					}
				}
				for _, q := range tt.spoil {
					if res, err := db.ExecContext(t.Context(), q); err != nil {
						t.Fatal(err)
					} else if n, err := res.RowsAffected(); err != nil || n == 0 {
						t.Fatalf("%s changed nothing: %v", q, err)
					}
				}
				code := exitArchive
				if tt.spoil == nil {
					code = exitOK
				}
				out, _ := runs(t, code, "verify", "--app", "wallet", "--store", a.url, "--all", "--json")
				var checks, batches []string
				for _, b := range documentOf(t, out).Batches {
					var names []string
					for _, f := range b.Faults {
						names = append(names, f.Check)
					}
					checks = append(checks, cmp.Or(strings.Join(names, ","), "-"))
					for i := range a.list {
						if a.id(i) == b.BatchID {
							batches = append(batches, strconv.Itoa(i))
						}
					}
				}
				if got := strings.Join(checks, " "); got != tt.checks {
					t.Errorf("checks %s, want %s\n%s", got, tt.checks, out)
				}
				if got := strings.Join(batches, " "); tt.batches != "" && got != tt.batches {
					t.Errorf("batches %s, want %s", got, tt.batches)
				}
			})
		}
	})
}

// TestOverlaps holds what two receipts of one app may share: a millisecond, but
// no cursor.
func TestOverlaps(t *testing.T) {
	at := func(digit string, first, last manifest.Cursor) chosen {
		r := receiptOf("wallet", id(digit), 0, 10)
		r.FirstUpdatedAtMS, r.FirstEventID, r.LastUpdatedAtMS, r.LastEventID = first.UpdatedAtMS, first.EventID, last.UpdatedAtMS, last.EventID
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		return vouched(r)
	}
	cursor := func(ms int64, id string) manifest.Cursor { return manifest.Cursor{UpdatedAtMS: ms, EventID: id} }
	gone := chosen{err: manifest.ErrBadReceipt}
	for _, tt := range []struct {
		name string
		list []chosen
		want string // a digit for each batch: 1 with a fault
	}{
		{"apart", []chosen{at("a", cursor(1, "a"), cursor(2, "b")), at("b", cursor(3, "a"), cursor(4, "b"))}, "00"},
		{"in one millisecond, by the source's order", []chosen{at("a", cursor(1, "a"), cursor(2, "b")), at("b", cursor(2, "A"), cursor(2, "B"))}, "00"},
		{"the same cursor twice", []chosen{at("a", cursor(1, "a"), cursor(2, "b")), at("b", cursor(2, "b"), cursor(3, "c"))}, "01"},
		{"one before the other's end", []chosen{at("a", cursor(1, "a"), cursor(3, "b")), at("b", cursor(2, "x"), cursor(4, "c"))}, "01"},
		{"one around another", []chosen{at("a", cursor(2, "a"), cursor(3, "b")), at("b", cursor(1, "x"), cursor(4, "c"))}, "01"},
		{"behind one that cannot be read", []chosen{at("a", cursor(1, "a"), cursor(3, "b")), gone, at("b", cursor(2, "x"), cursor(4, "c"))}, "001"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overlaps(tt.list)
			got := ""
			for _, b := range tt.list {
				got += strconv.Itoa(len(b.faults))
			}
			if got != tt.want {
				t.Errorf("faults %s, want %s", got, tt.want)
			}
		})
	}
}
