package main

import (
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
	"github.com/hyapp/walletarchive/restore"
)

func TestRestoreUndoCommand(t *testing.T) {
	t.Setenv(operatorEnv, "root@test")
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
		a := newArchive(t, 2, 20)
		from := []string{"--store", a.url, "--receipt", a.receipts}
		runs(t, exitOK, append([]string{"restore", a.id(0)}, from...)...)
		before, sum := outboxtest.RowHashes(t, db), outboxtest.Checksum(t, db)

		receipt := filepath.Join(t.TempDir(), "receipt.ndjson")
		out, _ := runs(t, exitOK, append([]string{"restore", "--json", "--journal", receipt, "--ticket", "INC-7", "--operator", "alice", "--journal-table", "restores"}, from...)...)
		if !strings.Contains(out, `"receipt":"`+receipt+`"`) {
			t.Errorf("the receipt is not named:\n%s", out)
		}
		r, err := restore.ReadReceipt(receipt)
		if err != nil || r.Header.Ticket != "INC-7" || r.Header.Operator != "alice" || !r.Complete {
			t.Errorf("receipt %+v, %v", r, err)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM restores"); n != 2 {
			t.Errorf("%d rows in the journal table", n)
		}
		after := outboxtest.RowHashes(t, db)
		if len(after) != 40 {
			t.Fatalf("%d rows", len(after))
		}

		// Nobody can be asked in a test.
		runs(t, exitUsage, "restore", "undo", receipt)
		runs(t, exitUsage, "restore", "undo", "--yes")
		runs(t, exitUsage, "restore", "undo", "--yes", receipt, receipt)
		runs(t, exitUsage, "restore", "undo", "--yes", receipt+".none")
		release, err := restore.HoldReceipt(receipt) // as a run that writes it does
		if err != nil {
			t.Fatal(err)
		}
		runs(t, exitLocked, "restore", "undo", "--yes", receipt)
		runs(t, exitLocked, append([]string{"restore", "--journal", receipt}, from...)...)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		out, _ = runs(t, exitOK, "restore", "undo", "--dry-run", receipt)
		if !strings.Contains(out, "to be removed 20\n") || !strings.Contains(out, "ticket INC-7") {
			t.Errorf("dry run:\n%s", out)
		}
		if diff := cmp.Diff(after, outboxtest.RowHashes(t, db)); diff != "" {
			t.Errorf("a dry run changed\n%s", diff)
		}

		// Rows that were changed since are left and listed.
		outboxtest.Exec(t, db, "UPDATE wallet_outbox SET retry_count = 3 WHERE event_id = 'e1-005'")
		out, _ = runs(t, exitTarget, "restore", "undo", "--json", "--yes", receipt)
		var doc struct {
			Schema        string
			Complete      bool
			Rows, Removed int64
			LeftCount     int64 `json:"left_count"`
			Left          []struct {
				EventID string `json:"event_id"`
			}
			Operator string `json:"restore_operator"`
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != "walletarchive.restore_undo/v1" || doc.Complete || doc.Rows != 20 ||
			doc.Removed != 19 || doc.LeftCount != 1 || len(doc.Left) != 1 || doc.Left[0].EventID != "e1-005" || doc.Operator != "alice" {
			t.Errorf("%v: %+v", err, doc)
		}
		outboxtest.Exec(t, db, "UPDATE wallet_outbox SET retry_count = 0 WHERE event_id = 'e1-005'")
		out, _ = runs(t, exitOK, "restore", "undo", "--yes", receipt)
		if !strings.Contains(out, "removed    1\n") || !strings.Contains(out, "before     19 taken back already, first by the undo of 20") || !strings.Contains(out, " by root@test;") {
			t.Errorf("text:\n%s", out)
		}
		if diff := cmp.Diff(before, outboxtest.RowHashes(t, db)); diff != "" {
			t.Errorf("the table before and after\n%s", diff)
		}
		if got := outboxtest.Checksum(t, db); got != sum {
			t.Errorf("CHECKSUM TABLE %d, was %d", got, sum)
		}
		runs(t, exitOK, "restore", "undo", "--yes", receipt)

		// A journal of another plan or target is refused, and nothing is written.
		runs(t, exitTarget, append([]string{"restore", "--journal", receipt, a.id(1)}, from...)...)
		runs(t, exitUsage, append([]string{"restore", "--journal", filepath.Join(receipt, "x"), a.id(1)}, from...)...)
		runs(t, exitUsage, append([]string{"restore", "--journal-table", outbox.DefaultTable, a.id(1)}, from...)...)
		other, otherDSN := s.NewDB(t)
		outboxtest.Exec(t, other, outbox.Schema(outbox.DefaultTable, ""))
		t.Setenv("WALLETARCHIVE_TARGET_DSN", otherDSN)
		runs(t, exitTarget, append([]string{"restore", "--journal", receipt}, from...)...)
		runs(t, exitTarget, "restore", "undo", "--yes", receipt)
		if n := count(t, other, "SELECT COUNT(*) FROM wallet_outbox"); n != 0 {
			t.Errorf("%d rows were written", n)
		}
	})
}

// TestRestoreUndoOfACutReceipt undoes by a copy of a receipt that breaks off in
// the rows of the second batch.
func TestRestoreUndoOfACutReceipt(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
		a := newArchive(t, 2, 20)
		dir := t.TempDir()
		receipt, cut := filepath.Join(dir, "receipt"), filepath.Join(dir, "cut")
		runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts, "--journal", receipt)
		text, err := os.ReadFile(receipt)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		if err := os.WriteFile(cut, []byte(strings.Join(lines[:35], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := runs(t, exitOK, "restore", "undo", "--dry-run", cut)
		if !strings.Contains(out, "note       this receipt has no end") {
			t.Errorf("dry run:\n%s", out)
		}
		out, _ = runs(t, exitUnfinished, "restore", "undo", "--yes", "--json", cut)
		if !strings.Contains(out, `"complete": false`) || !strings.Contains(out, `"receipt_ended": false`) || !strings.Contains(out, `"removed": 20`) || !strings.Contains(out, "has no end") {
			t.Errorf("undo:\n%s", out)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != 20 {
			t.Errorf("%d rows, want those of the batch that the copy does not have", n)
		}
		t.Setenv("WALLETARCHIVE_TARGET_DSN", "root@tcp(127.0.0.1:1)/nothing")
		if out, _ = runs(t, exitUnfinished, "restore", "undo", "--yes", receipt); out != "" {
			t.Errorf("an undo without a server says:\n%s", out)
		}
		t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
		// An error within the look: nothing of the rows was reached.
		outboxtest.Exec(t, db, "RENAME TABLE wallet_outbox TO elsewhere")
		out, _ = runs(t, exitUnfinished, "restore", "undo", "--yes", receipt)
		if !strings.Contains(out, "rows       40 inserted") || !strings.Contains(out, "not reached 40, because of the error") {
			t.Errorf("an undo that fails:\n%s", out)
		}
		outboxtest.Exec(t, db, "RENAME TABLE elsewhere TO wallet_outbox")
		outboxtest.Exec(t, db, "CREATE TABLE counted (n INT NOT NULL)")
		outboxtest.Exec(t, db, "CREATE TRIGGER count_it AFTER DELETE ON wallet_outbox FOR EACH ROW INSERT INTO counted VALUES (1)")
		for _, how := range []string{"--dry-run", "--yes"} {
			out, _ = runs(t, exitTarget, "restore", "undo", how, "--allow-cascades", receipt)
			if !strings.Contains(out, "beside     trigger count_it: runs after DELETE") || count(t, db, "SELECT COUNT(*) FROM wallet_outbox") != 20 {
				t.Errorf("%s with a trigger:\n%s", how, out)
			}
		}
		out, _ = runs(t, exitOK, "restore", "undo", "--yes", "--json", "--allow-triggers", receipt)
		if !strings.Contains(out, `"complete": true`) || count(t, db, "SELECT COUNT(*) FROM wallet_outbox") != 0 {
			t.Errorf("undo by the whole receipt:\n%s", out)
		}
	})
}

// killRows is how many rows TestRestoreKilled restores; the environment asks for
// more.
func killRows(t *testing.T) (batches, rows int) {
	t.Helper()
	batches, rows = 12, 500
	if text := os.Getenv("WALLETARCHIVE_TEST_KILL_ROWS"); text != "" {
		var all int
		if _, err := fmt.Sscan(text, &all); err != nil || all < batches {
			t.Fatalf("WALLETARCHIVE_TEST_KILL_ROWS=%q", text)
		}
		rows = all / batches
	}
	return batches, rows
}

// TestRestoreKilled kills restores at points spread over all that one does, 20 of
// them, and then lets the same command finish: the rows and hashes are those of
// an undisturbed run, and undo knows of all of them.
func TestRestoreKilled(t *testing.T) {
	batches, rows := killRows(t)
	a := newArchive(t, batches, rows)
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, journalTable := range []bool{false, true} {
			if journalTable && s.Name == mysqltest.MySQL {
				continue // once is enough: the table is asked in the same way
			}
			db, dsn := s.NewDB(t)
			outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
			state := t.TempDir()
			env := []string{"WALLETARCHIVE_TARGET_DSN=" + dsn, stateDirEnv + "=" + state, "TMPDIR=" + t.TempDir()}
			args := []string{"restore", "--store", a.url, "--receipt", a.receipts, "--progress", "off"}
			if journalTable {
				args = append(args, "--journal-table", "restores")
			}
			began := time.Now()
			if p := start(t, env, args...); p.code(t) != exitOK {
				t.Fatalf("undisturbed: %s%s", p.out.String(), p.errs.String())
			}
			took := time.Since(began)
			want := outboxtest.RowHashes(t, db)
			if len(want) != batches*rows {
				t.Fatalf("%d rows", len(want))
			}
			outboxtest.Exec(t, db, "DELETE FROM wallet_outbox")
			if err := os.RemoveAll(filepath.Join(state, "restores")); err != nil {
				t.Fatal(err)
			}
			const kills = 20
			killed, partly := 0, 0
			for i := range kills {
				p := start(t, env, args...)
				// The later ones begin where the earlier ones have ended.
				timer := time.AfterFunc(took*time.Duration(i+1)/(kills+1), func() { _ = p.Process.Kill() })
				code := p.code(t)
				timer.Stop()
				switch code {
				case -1:
					killed++
				case exitOK:
				default:
					t.Fatalf("exit code %d: %s%s", code, p.out.String(), p.errs.String())
				}
				// A part of the rows may be there, and of each batch all or none.
				n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox")
				if n%rows != 0 {
					// What was sent before the kill may still be committed.
					time.Sleep(200 * time.Millisecond)
					if n = count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n%rows != 0 {
						t.Errorf("%d rows after kill %d: a part of a batch", n, i)
					}
				}
				if n > 0 && n < batches*rows {
					partly++
				}
			}
			if killed < kills/4 || partly == 0 {
				t.Fatalf("%d of %d runs were killed, %d within the restore: the test shows nothing", killed, kills, partly)
			}
			p := start(t, env, args...)
			if p.code(t) != exitOK {
				t.Fatalf("the last run: %s%s", p.out.String(), p.errs.String())
			}
			if diff := cmp.Diff(want, outboxtest.RowHashes(t, db)); diff != "" {
				t.Fatalf("rows after the kills (-undisturbed +killed)\n%s", diff)
			}
			// Every row is in one of the receipts, and only once.
			left, err := os.ReadDir(filepath.Join(state, "restores"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				p := start(t, env, "restore", "undo", "--yes", filepath.Join(state, "restores", e.Name()))
				if p.code(t) != exitOK {
					t.Errorf("undo %s: %s%s", e.Name(), p.out.String(), p.errs.String())
				}
			}
			if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != 0 {
				t.Errorf("%d rows are in no receipt", n)
			}
			t.Logf("%d of %d runs were killed, %d within the restore, %d receipts", killed, kills, partly, len(left))
		}
	})
}
