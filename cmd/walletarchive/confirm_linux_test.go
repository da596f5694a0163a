package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/internal/ptytest"
)

// answered runs the binary on a terminal and answers what it asks, after a call of
// meanwhile. It returns what was on the terminal by then, what was on stdout, and
// the exit code.
func answered(t *testing.T, answer string, meanwhile func(), args ...string) (asked, stdout string, code int) {
	t.Helper()
	master, terminal := ptytest.Open(t)
	ptytest.Resize(t, terminal, 24, 200)
	cmd := exec.CommandContext(t.Context(), programName, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, &out, terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	question := make(chan string, 1)
	go func() {
		var seen strings.Builder
		told := false
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			seen.Write(buf[:n])
			if !told && strings.Contains(seen.String(), "Type yes to go on:") {
				told = true
				question <- seen.String()
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case asked = <-question:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was asked")
	}
	meanwhile()
	if _, err := master.WriteString(answer); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code tells
	return asked, out.String(), cmd.ProcessState.ExitCode()
}

// TestUndoAsks answers the question of an undo on a terminal, while bars are
// drawn there.
func TestUndoAsks(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db, dsn := s.NewDB(t)
	outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
	t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
	t.Setenv("TERM", "xterm")
	a := newArchive(t, 1, 20)
	receipt := filepath.Join(t.TempDir(), "receipt")
	runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts, "--journal", receipt)
	for _, tt := range []struct {
		answer string
		code   int
		left   int
	}{{"no\n", exitUnfinished, 20}, {"\n", exitUnfinished, 20}, {"yes\n", exitOK, 0}} {
		text, out, code := answered(t, tt.answer, func() {}, "restore", "undo", receipt)
		if !strings.Contains(text, "Remove 20 rows and put back 0 rows") {
			t.Errorf("asked %q", text)
		}
		if code != tt.code {
			t.Errorf("answer %q: exit code %d, want %d: %s", tt.answer, code, tt.code, out)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != tt.left {
			t.Errorf("answer %q: %d rows, want %d", tt.answer, n, tt.left)
		}
	}
}

// TestRestoreRunAsks shows the plan on a terminal and does it after a yes only.
func TestRestoreRunAsks(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	t.Setenv("TERM", "xterm")
	pt := newPlanTest(t, s)
	state := t.TempDir()
	t.Setenv(stateDirEnv, state)
	path, _ := pt.plan(exitOK, "--on-conflict", "overwrite")
	before := dump(t, pt.db)
	args := []string{"restore", "run", "--plan", path, "--store", pt.url, "--receipt", pt.receipts, "--confirm-overwrite", "2"}
	for _, answer := range []string{"no\n", "\n", "y\n"} {
		asked, out, code := answered(t, answer, func() {}, args...)
		if code != exitUnfinished {
			t.Errorf("answer %q: exit code %d: %s", answer, code, out)
		}
		wantText(t, asked, "The plan, made", "of wallet: 5 rows; insert 1, overwrite 1, leave 0", "estimate: ", "Insert 1 row and overwrite 2 rows now, in table wallet_outbox")
		wantText(t, out, "nothing was written: it was not confirmed")
		if after := dump(t, pt.db); after != before {
			t.Errorf("answer %q: the target has\n%s", answer, after)
		}
	}
	if receipts, err := filepath.Glob(filepath.Join(state, "restores", "*")); err != nil || len(receipts) != 0 {
		t.Errorf("receipts %q of what was not done, error %v", receipts, err)
	}
	// What changes while somebody thinks is found, too, inside the transaction.
	for _, statement := range []string{
		"UPDATE wallet_outbox SET user_id = 98 WHERE event_id = 'e0-001'",
		"UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = 'e0-003'",
		"DELETE FROM wallet_outbox WHERE event_id = 'e0-003'",
	} {
		_, out, code := answered(t, "yes\n", func() { pt.exec(statement) }, args...)
		if code != exitTarget || !strings.Contains(out, ": plan: expected") || !strings.Contains(out, "not tried after the batch before") {
			t.Errorf("%s: exit code %d: %s", statement, code, out)
		}
		if n := count(t, pt.db, "SELECT COUNT(*) FROM wallet_outbox WHERE user_id IN (98, 99)"); n != 2 {
			t.Errorf("%s: %d rows differ still, want 2", statement, n)
		}
		pt.spoil()
	}
	before = dump(t, pt.db)
	_, out, code := answered(t, "yes\n", func() { pt.exec("ALTER TABLE wallet_outbox COMMENT 'x'") }, args...)
	if code != exitTarget || !strings.Contains(out, "the definition of the table or of its triggers is another one") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if after := dump(t, pt.db); after != before {
		t.Errorf("the target has\n%s", after)
	}
	pt.exec("ALTER TABLE wallet_outbox COMMENT ''")
	if _, out, code := answered(t, "yes\n", func() {}, args...); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	if n := count(t, pt.db, "SELECT COUNT(*) FROM wallet_outbox WHERE user_id <> 99"); n != 10 {
		t.Errorf("%d rows as archived, want 10", n)
	}
}
