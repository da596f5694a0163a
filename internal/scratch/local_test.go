package scratch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/scratch"
)

// helperEnv makes the test binary start a server in the folder that it names
// and wait to be killed.
const helperEnv = "SCRATCH_TEST_HELPER_DIR"

func local(t *testing.T) scratch.Options {
	return scratch.Options{Mode: scratch.ModeLocal, Binary: "mariadbd", TempDir: t.TempDir()}
}

// nothingLeft checks that a folder is empty and that no process has a file of
// it in its command line.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s is left behind", entry.Name())
	}
	if pids := running(t, dir); len(pids) > 0 {
		t.Errorf("processes %v are left behind", pids)
	}
}

// running returns the processes with text in their command line.
func running(t *testing.T, text string) []int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), text) {
			continue // it has ended, or is another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestLocal(t *testing.T) {
	opts := local(t)
	opts.ServerArgs = []string{"--innodb-buffer-pool-size=32M"}
	s := mustStart(t, mysqltest.MariaDB, opts)
	checkUsable(t, s)
	if got := ask(t, s.DSN(""), "SELECT CONCAT(@@skip_networking, ' ', @@port, ' ', @@innodb_buffer_pool_size)"); got != "ON 0 33554432" {
		t.Errorf("skip_networking, port, buffer pool = %s, want no network, no port and 32 MiB", got)
	}
	entries, err := os.ReadDir(opts.TempDir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("folder holds %v (%v), want the server's own", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the server's folder has mode %v (%v), want 0700", info.Mode(), err)
	}
	other := local(t)
	if s2 := mustStart(t, mysqltest.MariaDB, other); s2.Database == s.Database || s2.DSN("") == s.DSN("") {
		t.Errorf("two servers share %s or %s", s.DSN(""), s.Database)
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := s.Close(cancelled); err != nil {
			t.Errorf("Close: %v", err)
		}
		nothingLeft(t, opts.TempDir)
	}
}

func TestLocalInALongPath(t *testing.T) {
	opts := local(t)
	opts.TempDir = filepath.Join(opts.TempDir, strings.Repeat("long", 30))
	if err := os.Mkdir(opts.TempDir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := mustStart(t, mysqltest.MariaDB, opts)
	checkUsable(t, s)
	socketDir := filepath.Dir(ask(t, s.DSN(""), "SELECT @@socket"))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, opts.TempDir)
	if _, err := os.Stat(socketDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's folder %s is left behind (%v)", socketDir, err)
	}
}

func TestCloseAfterTheServerCrashed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists processes in /proc")
	}
	opts := local(t)
	s := mustStart(t, mysqltest.MariaDB, opts)
	pids := running(t, opts.TempDir)
	if len(pids) != 1 {
		t.Fatalf("found processes %v, want the server", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	nothingLeft(t, opts.TempDir)
}

func TestKeepLocal(t *testing.T) {
	opts := local(t)
	opts.Keep = true
	s := mustStart(t, mysqltest.MariaDB, opts)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := running(t, opts.TempDir)
	t.Cleanup(func() {
		for _, pid := range running(t, opts.TempDir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		waitFor(t, "the kept server to end", func() bool { return len(running(t, opts.TempDir)) == 0 })
	})
	checkUsable(t, s)
	if len(pids) == 1 && !strings.Contains(s.Kept, fmt.Sprintf("kill %d ", pids[0])) {
		t.Errorf("Kept = %q, want it to name process %d", s.Kept, pids[0])
	}
	for _, want := range []string{s.Database, opts.TempDir} {
		if !strings.Contains(s.Kept, want) {
			t.Errorf("Kept = %q, want it to name %s", s.Kept, want)
		}
	}
	made, err := os.ReadDir(opts.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	_, remove, _ := strings.Cut(s.Kept, " and rm -r ")
	for _, e := range made {
		if dir := filepath.Join(opts.TempDir, e.Name()); !slices.Contains(strings.Fields(remove), dir) {
			t.Errorf("Kept = %q, want it to remove %s", s.Kept, dir)
		}
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// helper is the process that TestServerDiesWithItsParent kills.
func helper() int {
	s, err := scratch.Start(context.Background(),
		scratch.Options{Mode: scratch.ModeLocal, Binary: "mariadbd", TempDir: os.Getenv(helperEnv)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Describe())
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test is
	return 0
}

func TestServerDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	mustStart(t, mysqltest.MariaDB, local(t)) // skips where there is no MariaDB
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self)
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	before := running(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if readErr != nil || len(before) != 1 {
		t.Fatalf("helper said %q (%v) and runs %v, want one server", line, readErr, before)
	}
	waitFor(t, "the server to end", func() bool { return len(running(t, dir)) == 0 })
}

// script writes a server program that is a shell script.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mysqld")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	saysVersion = `case "$*" in *--version*) echo "mysqld  Ver 9.7.4 for Linux on x86_64"; exit 0;; esac` + "\n"
	initializes = `case "$*" in *--initialize-insecure*) exit 0;; esac` + "\n"
)

func TestLocalFailures(t *testing.T) {
	for _, test := range []struct {
		name   string
		binary string
		want   string // in the error
		is     error  // or nil
	}{
		{"missing", "/nonexistent/mysqld", "apt-get install", scratch.ErrNotInstalled},
		{"missing by name", "no-such-mysqld", "no-such-mysqld", scratch.ErrNotInstalled},
		{"no version", script(t, "echo broken; exit 7\n"), "exit status 7: broken", nil},
		{"another program", script(t, "echo hello\n"), "not the answer of a MySQL or MariaDB server: hello", nil},
		{"cannot initialize", script(t, saysVersion+"echo disk on fire >&2; exit 5\n"), "disk on fire", nil},
		{"hangs when initializing", script(t, saysVersion+"echo initializing >&2; sleep 600\n"), "not done within 2s", nil},
		{"ends at once", script(t, saysVersion+initializes+"echo no memory >&2; exit 9\n"), "no memory", nil},
		{"ends well", script(t, saysVersion+initializes+"exit 0\n"), "exit status 0", nil},
		{"never answers", script(t, saysVersion+initializes+"echo thinking >&2; exec sleep 600\n"), "not ready within 2s", nil},
		{"never answers nor ends", script(t, saysVersion+initializes+"trap '' TERM; while :; do sleep 1; done\n"), "not ready within 2s", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			scratch.SetStopTimeout(t, time.Second)
			dir := t.TempDir()
			_, err := scratch.Start(t.Context(), scratch.Options{
				Mode: scratch.ModeLocal, Binary: test.binary, TempDir: dir, StartTimeout: 2 * time.Second,
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || (test.is != nil && !errors.Is(err, test.is)) {
				t.Errorf("Start = %v, want %q", err, test.want)
			}
			nothingLeft(t, dir)
		})
	}
}

func TestLocalWithAFlagItDoesNotKnow(t *testing.T) {
	opts := local(t)
	opts.ServerArgs = []string{"--no-such-flag"}
	opts.Keep = true // must not keep what did not start
	_, err := scratch.Start(t.Context(), opts)
	if err == nil {
		t.Fatal("Start = nil, want an error")
	}
	skipWithout(t, mysqltest.MariaDB, err)
	if !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("Start = %v, want the server's own words", err)
	}
	nothingLeft(t, opts.TempDir)
}

func TestStartIsCancelled(t *testing.T) {
	hangs := script(t, saysVersion+initializes+"exec sleep 600\n")
	for _, test := range []struct {
		name   string
		binary string
		after  time.Duration
	}{
		{"before", hangs, 0},
		{"when initializing", script(t, saysVersion+"sleep 600\n"), 300 * time.Millisecond},
		{"when waiting", hangs, 300 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			timer := time.AfterFunc(test.after, cancel)
			defer timer.Stop()
			if test.after == 0 {
				cancel()
			}
			_, err := scratch.Start(ctx, scratch.Options{Mode: scratch.ModeLocal, Binary: test.binary, TempDir: dir})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Start = %v, want context.Canceled", err)
			}
			nothingLeft(t, dir)
		})
	}
}

func TestServerGetsNoSecretOfTheEnvironment(t *testing.T) {
	t.Setenv("WALLETARCHIVE_SECRET", "hunter2")
	bin := script(t, "env; exit 1\n")
	_, err := scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeLocal, Binary: bin, TempDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "PATH=") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the server's environment: %v, want PATH and not the secret", err)
	}
}
