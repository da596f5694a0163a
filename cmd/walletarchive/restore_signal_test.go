package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

// TestRestoreInterrupted sends one SIGINT: the transaction at hand is finished,
// the rest is left, and the operator is told how to go on.
func TestRestoreInterrupted(t *testing.T) {
	a := newArchive(t, 12, 400)
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		state := t.TempDir()
		env := []string{"WALLETARCHIVE_TARGET_DSN=" + dsn, stateDirEnv + "=" + state}
		args := []string{"restore", "--store", a.url, "--receipt", a.receipts, "--progress", "off", "--max-rows-per-second", "1500"}
		p := start(t, env, args...)
		deadline := time.Now().Add(20 * time.Second)
		for count(t, db, "SELECT COUNT(*) FROM wallet_outbox") == 0 {
			if time.Now().After(deadline) {
				t.Fatal("no batch was committed")
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(60 * time.Millisecond) // into the next one, which takes a quarter of a second
		if err := p.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t); code != exitCancelled {
			t.Fatalf("exit code %d: %s%s", code, p.out.String(), p.errs.String())
		}
		n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox")
		if n == 0 || n == 12*400 || n%400 != 0 {
			t.Errorf("%d rows, want whole batches and not all", n)
		}
		for _, want := range []string{"the transaction at hand is finished first", "the same command goes on from here", "restore undo " + state} {
			if !strings.Contains(p.errs.String(), want) {
				t.Errorf("stderr lacks %q:\n%s", want, p.errs.String())
			}
		}
		files, err := filepath.Glob(filepath.Join(state, "restores", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("receipts %v, %v", files, err)
		}
		if r, err := restore.ReadReceipt(files[0]); err != nil || !r.Ended || r.Complete {
			t.Errorf("receipt %+v, %v", r, err)
		} else if c, unknown := r.Counts(); c.Inserted != int64(n) || unknown != (restore.ReceiptCounts{}) {
			t.Errorf("receipt counts %+v and unknown %+v, the table has %d", c, unknown, n)
		}
		if p := start(t, env, args[:len(args)-2]...); p.code(t) != exitOK || !bytes.Contains(p.errs.Bytes(), []byte("going on with the receipt")) {
			t.Errorf("the same command again: %s%s", p.out.String(), p.errs.String())
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != 12*400 {
			t.Errorf("%d rows at last", n)
		}
	})
}

// TestRestoreTellsItsState asks a running restore by SIGUSR1, which kills by
// default, with and without progress.
func TestRestoreTellsItsState(t *testing.T) {
	a := newArchive(t, 3, 400)
	s := mysqltest.Get(t, mysqltest.MariaDB)
	for mode, want := range map[string]string{"lines": "msg=progress task=restore", "off": "where it stands is not known"} {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		env := []string{"WALLETARCHIVE_TARGET_DSN=" + dsn, stateDirEnv + "=" + t.TempDir()}
		p := start(t, env, "restore", "--store", a.url, "--receipt", a.receipts, "--progress", mode, "--max-rows-per-second", "600")
		deadline := time.Now().Add(20 * time.Second)
		for count(t, db, "SELECT COUNT(*) FROM wallet_outbox") == 0 {
			if time.Now().After(deadline) {
				t.Fatal("no batch was committed")
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err := p.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if code := p.code(t); code != exitOK {
			t.Fatalf("exit code %d: %s%s", code, p.out.String(), p.errs.String())
		}
		if errs := p.errs.String(); !strings.Contains(errs, want) || mode == "lines" && (!strings.Contains(errs, "rows_total=1200") || !strings.Contains(errs, "bytes=") || !strings.Contains(errs, "left=")) {
			t.Errorf("%s: stderr lacks %q:\n%s", mode, want, errs)
		}
	}
}

// TestPaceComesToItsEnd wants all rows and bytes of a batch counted, also of one
// of which only some were chosen.
func TestPaceComesToItsEnd(t *testing.T) {
	r := progress.New(progress.NewOutput(io.Discard), progress.Options{Mode: progress.Lines})
	defer r.Close()
	task := r.Task("restore", progress.Counts{})
	p := newPace(task, manifest.Manifest{RowCount: 7, UncompressedBytes: 1000})
	p.rows(3)
	if got, want := task.Status().Done, (progress.Counts{Rows: 3, Bytes: 428}); got != want {
		t.Errorf("after 3 rows %+v, want %+v", got, want)
	}
	p.rows(2)
	p.end()
	if got, want := task.Status().Done, (progress.Counts{Batches: 1, Rows: 7, Bytes: 1000}); got != want {
		t.Errorf("at the end %+v, want %+v", got, want)
	}
}

// TestRestoreThrottled holds a restore and its undo to a number of rows a second,
// and refuses bounds that nobody can be asked about.
func TestRestoreThrottled(t *testing.T) {
	a := newArchive(t, 2, 400)
	from := []string{"restore", "--store", a.url, "--receipt", a.receipts}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
		receipt := filepath.Join(t.TempDir(), "receipt")
		began := time.Now()
		runs(t, exitOK, append(from, "--max-rows-per-second", "400", "--max-threads-running", "1000", "--journal", receipt)...)
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("800 rows at 400 a second took %s", took)
		}
		began = time.Now()
		runs(t, exitOK, "restore", "undo", "--yes", "--max-rows-per-second", "400", receipt)
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("800 rows back at 400 a second took %s", took)
		}
		for _, args := range [][]string{
			{"--max-rows-per-second", "0"}, {"--max-threads-running", "-1"}, {"--max-replica-lag", "10ms"},
			{"--max-replica-lag", "1s"}, {"--replica-dsn-file", receipt}, {"--max-replica-lag", "1s", "--replica-dsn-file", receipt},
		} {
			runs(t, exitUsage, append(from[:len(from):len(from)], args...)...)
		}
		// A server that is no replica says nothing of a lag.
		t.Setenv("WALLETARCHIVE_REPLICA_DSN", dsn)
		if _, errs := runs(t, exitUnfinished, append(from, "--max-replica-lag", "1s")...); !strings.Contains(errs, "not a replica") || strings.Contains(errs, dsn) {
			t.Errorf("stderr:\n%s", errs)
		}
		if n := count(t, db, "SELECT COUNT(*) FROM wallet_outbox"); n != 0 {
			t.Errorf("%d rows were written", n)
		}
	})
}
