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
	"github.com/hyapp/walletarchive/internal/ptytest"
)

// TestUndoAsks answers the question of an undo on a terminal, while bars are
// drawn there.
func TestUndoAsks(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db, dsn := s.NewDB(t)
	mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
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
		master, terminal := ptytest.Open(t)
		ptytest.Resize(t, terminal, 24, 200)
		cmd := exec.CommandContext(t.Context(), programName, "restore", "undo", receipt)
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, &out, terminal
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		asked := make(chan string)
		go func() {
			var seen strings.Builder
			told := false
			buf := make([]byte, 4096)
			for {
				n, err := master.Read(buf)
				seen.Write(buf[:n])
				if !told && strings.Contains(seen.String(), "Type yes to go on:") {
					told = true
					asked <- seen.String()
				}
				if err != nil {
					return
				}
			}
		}()
		select {
		case text := <-asked:
			if !strings.Contains(text, "Remove 20 rows and put back 0 rows") {
				t.Errorf("asked %q", text)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was asked")
		}
		if _, err := master.WriteString(tt.answer); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code tells
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("answer %q: exit code %d, want %d: %s", tt.answer, code, tt.code, &out)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != tt.left {
			t.Errorf("answer %q: %d rows, want %d", tt.answer, n, tt.left)
		}
	}
}
