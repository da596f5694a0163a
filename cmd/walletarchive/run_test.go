package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	args := []string{programName, "receipts", "list", "--app", "wallet", "--ledger-dsn", "u@tcp(127.0.0.1:1)/d"}
	if got := run(ctx, args, &out, &errs); got != exitCancelled {
		t.Errorf("exit code %d, want %d; stderr: %s", got, exitCancelled, errs.String())
	}
	if out.Len() > 0 {
		t.Errorf("stdout: %s", out.String())
	}
}

// TestEveryCommandIsFinished walks all commands: each must refuse what it does
// not know, in the program's own way, and end its help with its exit codes.
func TestEveryCommandIsFinished(t *testing.T) {
	var walk func(path []string, c *cli.Command)
	walk = func(path []string, c *cli.Command) {
		path = append(path, c.Name)
		name := strings.Join(path, " ")
		if len(c.Subcommands) == 0 {
			if !strings.Contains(c.CustomHelpTemplate, "EXIT CODES:\n     0  ") {
				t.Errorf("%s: the help does not end with exit codes", name)
			}
			for _, f := range c.Flags {
				if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() {
					t.Errorf("%s: flag %s is Required, which prints help on stdout", name, f.Names()[0])
				}
			}
			if out, _ := runs(t, exitOK, append([]string{"help"}, path...)...); !strings.Contains(out, "EXIT CODES:") {
				t.Errorf("help %s lacks exit codes:\n%s", name, out)
			}
		}
		if c.OnUsageError == nil || !c.HideHelpCommand || c.Action == nil {
			t.Errorf("%s was not given to finish", name)
		}
		for _, args := range [][]string{append(path[:len(path):len(path)], "--no-such-flag"), append(path[:len(path):len(path)], "no such argument")} {
			if out, _ := runs(t, exitUsage, args...); out != "" {
				t.Errorf("%q wrote to stdout: %s", args, out)
			}
		}
		for _, sub := range c.Subcommands {
			walk(path, sub)
		}
	}
	for _, c := range newApp(newProgram(io.Discard, io.Discard)).Commands {
		walk(nil, c)
	}
}

func TestResultWriter(t *testing.T) {
	var buf bytes.Buffer
	r := &resultWriter{w: &buf}
	io.WriteString(r, "a")
	r.hold()
	io.WriteString(r, "b")
	if buf.String() != "a" {
		t.Errorf("while held back: %q, want %q", buf.String(), "a")
	}
	if err := r.release(); err != nil || buf.String() != "ab" {
		t.Errorf("release = %v, written %q", err, buf.String())
	}
	io.WriteString(r, "c")
	if err := r.release(); err != nil || buf.String() != "abc" {
		t.Errorf("second release = %v, written %q", err, buf.String())
	}

	full := errors.New("full")
	r = &resultWriter{w: failing{full}}
	r.hold()
	if _, err := io.WriteString(r, "x"); err != nil {
		t.Errorf("held write = %v", err)
	}
	if err := r.release(); !errors.Is(err, full) {
		t.Errorf("release = %v, want %v", err, full)
	}
	if _, err := io.WriteString(r, "y"); !errors.Is(err, full) {
		t.Errorf("write after an error = %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// judged runs a command that judges what work prints.
func judged(t *testing.T, stdout io.Writer, work func(*report.Printer) error, args ...string) (code int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	p := newProgram(stdout, &errs)
	app := newApp(p)
	probe := &cli.Command{Name: "probe", Flags: flags(jsonFlags(), recordFlags(), logFlags())}
	probe.Action = p.action(func(ctx context.Context, c *cli.Context) error {
		return p.judge(ctx, c, report.PrinterOptions{}, work)
	})
	finish(probe)
	app.Commands = []*cli.Command{probe}
	code = p.run(t.Context(), app, append([]string{programName, "probe"}, args...))
	return code, errs.String()
}

func TestJudge(t *testing.T) {
	boom := errors.New("no server")
	batch := func(o report.Outcome) report.Batch {
		return report.Batch{AppCode: "wallet", BatchID: id("a"), Outcome: o, Examined: report.Examined{Rows: 1}}
	}
	tests := []struct {
		name    string
		batches []report.Batch
		err     error
		code    int
		stderr  string
	}{
		{"proven", []report.Batch{batch(report.Passed)}, nil, exitOK, ""},
		{"nothing selected", nil, nil, exitNoBatch, ""},
		{"could not begin", nil, boom, exitUnfinished, "walletarchive: no server\n"},
		{"stopped", []report.Batch{batch(report.Passed)}, boom, exitUnfinished, "walletarchive: no server\n"},
		{"fault", []report.Batch{batch(report.Passed), batch(report.ArchiveWrong), batch(report.NoBatch)}, nil, exitArchive, ""},
		{"fault, then stopped", []report.Batch{batch(report.ArchiveWrong)}, boom, exitArchive, "walletarchive: no server\n"},
		{"target and missing", []report.Batch{batch(report.NoBatch), batch(report.TargetDiffers)}, nil, exitTarget, ""},
		{"missing and unfinished", []report.Batch{batch(report.Unfinished), batch(report.NoBatch)}, nil, exitNoBatch, ""},
		{"unfinished", []report.Batch{batch(report.Passed), batch(report.Unfinished)}, nil, exitUnfinished, ""},
		{"a bad receipt file", nil, manifest.ErrBadReceipt, exitUnfinished, "walletarchive: " + manifest.ErrBadReceipt.Error() + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			work := func(pr *report.Printer) error {
				for _, b := range tt.batches {
					if err := pr.Batch(b); err != nil {
						return err
					}
				}
				return tt.err
			}
			dir := t.TempDir()
			var out bytes.Buffer
			code, stderr := judged(t, &out, work, "--json", "--history-file", dir+"/h", "--metrics-file", dir+"/m.prom")
			if code != tt.code || stderr != tt.stderr {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", code, tt.code, stderr, tt.stderr)
			}
			if !strings.Contains(out.String(), `"schema":"walletarchive.probe/v1"`) {
				t.Errorf("stdout: %s", out.String())
			}
			history := readFile(t, dir+"/h")
			if want := `"exit_code":` + strconv.Itoa(tt.code); !strings.Contains(history, want) {
				t.Errorf("history lacks %s: %s", want, history)
			}
			if got := strings.Contains(readFile(t, dir+"/m.prom"), "\nwalletarchive_last_success"); got != (tt.code == exitOK) {
				t.Errorf("last success is there: %v", got)
			}
			code, stderr = judged(t, failing{boom}, work)
			if code == exitOK {
				t.Error("with a full disk: exit code 0")
			}
			if !strings.Contains(stderr, "no server") {
				t.Errorf("with a full disk: stderr %q", stderr)
			}
		})
	}
	pass := func(pr *report.Printer) error { return pr.Batch(batch(report.Passed)) }
	if code, stderr := judged(t, io.Discard, pass, "--metrics-file", "/dev/null/m"); code != exitUnfinished || !strings.Contains(stderr, "/dev/null/m") {
		t.Errorf("metrics that cannot be written: exit code %d, stderr %q", code, stderr)
	}
	var out bytes.Buffer
	usage := func(*report.Printer) error { return usagef("no such store") }
	if code, stderr := judged(t, &out, usage, "--json"); code != exitUsage || out.Len() > 0 || stderr != "walletarchive: no such store\n" {
		t.Errorf("a store that makes no sense: exit code %d, stdout %q, stderr %q", code, out.String(), stderr)
	}
	history := t.TempDir() + "/h"
	judged(t, io.Discard, pass, "--metrics-file", "/dev/null/m", "--history-file", history)
	if got := readFile(t, history); !strings.Contains(got, `"exit_code":1`) {
		t.Errorf("history of a run whose metrics could not be written: %s", got)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
