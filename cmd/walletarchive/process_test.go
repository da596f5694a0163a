package main

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/sample"
)

// These tests run the binary as a process, since only a process can be killed.

// newSource returns a database with a ledger and a wallet_outbox of rows that
// are a day old, and its DSN.
func newSource(t *testing.T, s mysqltest.Server, rows int) (*sql.DB, string) {
	t.Helper()
	db, dsn := s.NewDB(t)
	if err := ledger.New(db).CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), outbox.Schema(outbox.DefaultTable, "")); err != nil {
		t.Fatal(err)
	}
	_, err := sample.Fill(t.Context(), db, outbox.DefaultTable, sample.Options{
		Apps: []string{"wallet"}, Rows: rows, Seed: 3, Start: time.Now().Add(-48 * time.Hour), Span: time.Hour, Awkward: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, dsn
}

// process is a started binary with its output.
type process struct {
	*exec.Cmd
	out, errs bytes.Buffer
}

// start starts the binary with env beside the environment of the test.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), programName, args...)}
	p.Env = append(os.Environ(), env...)
	p.Stdout, p.Stderr = &p.out, &p.errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// code waits and returns the exit code, -1 after a signal that killed.
func (p *process) code(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

func TestSecondExporterIsRefused(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := newSource(t, s, 50)
		lock, err := ledger.New(db).Lock(t.Context(), "wallet")
		if err != nil {
			t.Fatal(err)
		}
		archive := t.TempDir()
		args := []string{"export", "--app", "wallet", "--store", "file://" + archive, "--older-than", "24h"}
		env := []string{"WALLETARCHIVE_SOURCE_DSN=" + dsn}
		p := start(t, env, args...)
		if got := p.code(t); got != exitLocked {
			t.Errorf("exit code %d while another holds the lock, want %d: %s", got, exitLocked, p.errs.String())
		}
		if left, err := os.ReadDir(archive); err != nil || len(left) > 0 {
			t.Errorf("the refused run wrote %v (%v)", left, err)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM "+ledger.ReceiptsTable); n != 0 {
			t.Errorf("the refused run recorded %d receipts", n)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := start(t, env, args...); p.code(t) != exitOK {
			t.Errorf("exit code %d once the lock is free: %s", p.ProcessState.ExitCode(), p.errs.String())
		}
	})
}

// TestExportKilled kills exports at growing ages and then lets one finish.
func TestExportKilled(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		const rows = 3_000
		db, dsn := newSource(t, s, rows)
		temp := t.TempDir()
		store := "file://" + t.TempDir()
		env := []string{"WALLETARCHIVE_SOURCE_DSN=" + dsn, "WALLETARCHIVE_LEDGER_DSN=" + dsn, "TMPDIR=" + temp}
		args := []string{"export", "--app", "wallet", "--store", store, "--older-than", "24h", "--batch-rows", "400", "--max-batches", "3"}
		killed := 0
		for age := 30 * time.Millisecond; age < 500*time.Millisecond; age += 45 * time.Millisecond {
			p := start(t, env, args...)
			timer := time.AfterFunc(age, func() { _ = p.Process.Kill() })
			code := p.code(t)
			timer.Stop()
			switch code {
			case -1:
				killed++
			case exitOK, exitLocked: // the server may not have noticed the last death yet
			default:
				t.Fatalf("exit code %d: %s", code, p.errs.String())
			}
		}
		if killed == 0 {
			t.Fatal("every export finished before it was killed")
		}
		deadline := time.Now().Add(30 * time.Second)
		for {
			p := start(t, env, args[:len(args)-2]...)
			code := p.code(t)
			if code == exitOK {
				break
			}
			if code != exitLocked || time.Now().After(deadline) {
				t.Fatalf("exit code %d: %s", code, p.errs.String())
			}
		}
		if n := count(t, db, "SELECT COUNT(*) FROM "+ledger.MembersTable); n != rows {
			t.Errorf("%d members, want %d", n, rows)
		}
		if n := count(t, db, "SELECT SUM(row_count) FROM "+ledger.ReceiptsTable); n != rows {
			t.Errorf("the receipts count %d rows, want %d", n, rows)
		}
		p := start(t, env, "verify", "--app", "wallet", "--store", store, "--all")
		if code := p.code(t); code != exitOK {
			t.Errorf("verify ends with %d:\n%s%s", code, p.out.String(), p.errs.String())
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("the killed exports left %v (%v)", left, err)
		}
	})
}

// TestDrillInterrupted sends SIGINT to a drill that runs a server of its own.
func TestDrillInterrupted(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	_, dsn := newSource(t, s, 20_000)
	store := "file://" + t.TempDir()
	env := []string{"WALLETARCHIVE_SOURCE_DSN=" + dsn, "WALLETARCHIVE_LEDGER_DSN=" + dsn}
	if p := start(t, env, "export", "--app", "wallet", "--store", store, "--older-than", "24h"); p.code(t) != exitOK {
		t.Fatalf("export: %s", p.errs.String())
	}
	for _, when := range []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		t.Run(when.String(), func(t *testing.T) {
			temp := t.TempDir()
			p := start(t, append(env, "TMPDIR="+temp), "drill", "--app", "wallet", "--store", store, "--latest", "1", "--scratch", "local")
			// The folder of the scratch server is the sign that it is being started.
			deadline := time.Now().Add(time.Minute)
			for {
				dirs, err := filepath.Glob(filepath.Join(temp, "*", "*"))
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("no scratch server was started (%v): %s", err, p.errs.String())
				}
				if len(dirs) > 0 {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			time.AfterFunc(when, func() { _ = p.Process.Signal(syscall.SIGINT) })
			code := p.code(t)
			if code != exitCancelled && code != exitOK {
				t.Errorf("exit code %d, want %d: %s%s", code, exitCancelled, p.out.String(), p.errs.String())
			}
			if code == exitCancelled && strings.Contains(p.out.String(), "drill: proven") {
				t.Errorf("a cancelled drill says proven:\n%s", p.out.String())
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
			procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				t.Fatal(err)
			}
			for _, proc := range procs {
				if b, err := os.ReadFile(proc); err == nil && bytes.Contains(b, []byte(temp)) {
					t.Errorf("a process still runs: %s", bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
				}
			}
		})
	}
}

// TestDrillWithoutAReader drills into a pipe that nobody reads, as under
// "| head -1": the scratch database must not stay behind.
func TestDrillWithoutAReader(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := newSource(t, s, 50)
		store := "file://" + t.TempDir()
		env := []string{"WALLETARCHIVE_SOURCE_DSN=" + dsn, "WALLETARCHIVE_LEDGER_DSN=" + dsn, "WALLETARCHIVE_SCRATCH=dsn:" + dsn}
		if p := start(t, env, "export", "--app", "wallet", "--store", store, "--older-than", "24h"); p.code(t) != exitOK {
			t.Fatalf("export: exit code %d: %s", p.ProcessState.ExitCode(), p.errs.String())
		}
		drills := "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'walletarchive_drill_%'"
		before := count(t, db, drills)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		p := &process{Cmd: exec.CommandContext(t.Context(), programName, "drill", "--app", "wallet", "--store", store, "--all")}
		p.Env = append(os.Environ(), env...)
		p.Stdout, p.Stderr = w, &p.errs
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t); code != exitUnfinished {
			t.Errorf("exit code %d (%v), want %d: %s", code, p.ProcessState, exitUnfinished, p.errs.String())
		}
		if after := count(t, db, drills); after != before {
			t.Errorf("%d scratch databases are left behind", after-before)
		}
	})
}
