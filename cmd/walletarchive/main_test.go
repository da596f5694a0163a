package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestMain(m *testing.M) {
	testscript.Main(servers{m}, map[string]func(){programName: main})
}

// servers runs the tests and stops the servers that they started.
type servers struct{ m *testing.M }

// Run keeps the receipts of restores out of the home of whoever runs the tests.
func (s servers) Run() int {
	dir, err := os.MkdirTemp("", "walletarchive-state-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(stateDirEnv, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return mysqltest.Main(s.m)
}

// TestScript runs testdata/script: the binary as a user calls it. Scripts see
// none of the environment of the machine that runs the tests.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "receiptfile": receiptFileCommand},
	})
}

// exits is the script command "exits CODE PROGRAM ARGS...": the program must
// end with that very code. A usage error must leave stdout clean, and the value
// of $SECRET must be in neither stream.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if want == exitUsage && stdout != "" {
		ts.Fatalf("a usage error wrote to stdout")
	}
	if want == exitUsage && stderr == "" {
		ts.Fatalf("a usage error said nothing")
	}
	if secret := ts.Getenv("SECRET"); secret != "" && strings.Contains(stdout+stderr, secret) {
		ts.Fatalf("the secret %q was printed", secret)
	}
}

// receiptFileCommand is the script command "receiptfile FILE APP/DIGIT ...": it
// writes receipts of two rows, the first of day 0 to 10, the next of day 10 to
// 20 and so on, each batch_id one repeated digit. Those of app "old" have no
// members.
func receiptFileCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: receiptfile FILE APP/DIGIT ...")
	}
	var receipts []manifest.Receipt
	for i, arg := range args[1:] {
		app, digit, _ := strings.Cut(arg, "/")
		receipts = append(receipts, receiptOf(app, id(digit), int64(10*i), int64(10*i+10)))
	}
	ts.Check(writeReceiptFile(ts.MkAbs(args[0]), receipts...))
}
