package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

const password = "s3cr/et:p@ss\"word"

const goodDSN = "archive:" + password + "@tcp(127.0.0.1:1)/wallet"

// dsnRun runs a command that does nothing but resolve --source-dsn.
func dsnRun(t *testing.T, args ...string) (dsn, stderr string, err error) {
	t.Helper()
	var buf bytes.Buffer
	p := newProgram(io.Discard, &buf)
	app := newApp(p)
	probe := &cli.Command{Name: "probe", Flags: flags(dsnFlags(sourceDSNFlag, "the source"), logFlags())}
	probe.Action = p.action(func(_ context.Context, c *cli.Context) (err error) {
		dsn, err = p.needDSN(c, sourceDSNFlag)
		return err
	})
	finish(probe)
	app.Commands = []*cli.Command{probe}
	args, err = arrange(app, append([]string{programName, "probe"}, args...))
	if err == nil {
		err = app.RunContext(t.Context(), args)
	}
	p.reportError(err, exitCode(t.Context(), err))
	return dsn, buf.String(), err
}

func secretFileFor(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDSN(t *testing.T) {
	const variable = "WALLETARCHIVE_SOURCE_DSN"
	private := secretFileFor(t, goodDSN+"\n", 0o600)
	open := secretFileFor(t, goodDSN+"\r\n", 0o644)
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
		warn string // part of a warning; "" for none
	}{
		{name: "environment", env: map[string]string{variable: goodDSN}, want: goodDSN},
		{name: "file by flag", args: []string{"--source-dsn-file", private}, want: goodDSN},
		{name: "file by environment", env: map[string]string{variable + "_FILE": private}, want: goodDSN},
		{name: "file that everybody reads", args: []string{"--source-dsn-file", open}, want: goodDSN, warn: "secret file is readable"},
		{name: "flag with a password", args: []string{"--source-dsn", goodDSN}, want: goodDSN, warn: "password in a flag"},
		{name: "flag without a password", args: []string{"--source-dsn", "u@unix(/s)/d"}, want: "u@unix(/s)/d"},
		{name: "flag before environment", env: map[string]string{variable: goodDSN}, args: []string{"--source-dsn=u@unix(/s)/d"}, want: "u@unix(/s)/d"},
		{name: "flag's file before environment", env: map[string]string{variable: "u@unix(/s)/d"}, args: []string{"--source-dsn-file", private}, want: goodDSN},
		{name: "empty variable", env: map[string]string{variable: "", variable + "_FILE": private}, want: goodDSN},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			got, stderr, err := dsnRun(t, tt.args...)
			if err != nil || got != tt.want {
				t.Errorf("dsn = %q, %v, want %q", got, err, tt.want)
			}
			if warned := stderr != ""; warned != (tt.warn != "") || !strings.Contains(stderr, tt.warn) {
				t.Errorf("stderr = %q, want a warning with %q", stderr, tt.warn)
			}
			noSecret(t, stderr)
		})
	}
}

func TestDSNRefused(t *testing.T) {
	const variable = "WALLETARCHIVE_SOURCE_DSN"
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"none", nil, nil, "--source-dsn is missing"},
		{"no DSN", nil, []string{"--source-dsn", "root:" + password}, "--source-dsn is not a DSN"},
		{"no DSN in the environment", map[string]string{variable: "root:" + password + "@host"}, nil, variable + " is not a DSN"},
		{"a network that is none", nil, []string{"--source-dsn", "s3cr-et/d"}, "--source-dsn is not a DSN"},
		{"a bad parameter", nil, []string{"--source-dsn", "root@tcp(h)/d?parseTime=" + password}, "--source-dsn is not a DSN"},
		{"no DSN in the file", nil, []string{"--source-dsn-file", secretFileFor(t, password, 0o600)}, "the file of --source-dsn-file is not a DSN"},
		{"flag and file", nil, []string{"--source-dsn", goodDSN, "--source-dsn-file", "x"}, "give one"},
		{"variable and file", map[string]string{variable: goodDSN, variable + "_FILE": "x"}, nil, "set one"},
		{"no such file", nil, []string{"--source-dsn-file", "/nonexistent"}, "no such file"},
		{"a folder", nil, []string{"--source-dsn-file", t.TempDir()}, "is a directory"},
		{"an empty file", nil, []string{"--source-dsn-file", secretFileFor(t, "\n", 0o600)}, "is empty"},
		{"two lines", nil, []string{"--source-dsn-file", secretFileFor(t, goodDSN+"\n"+goodDSN, 0o600)}, "more than one line"},
		{"a huge file", nil, []string{"--source-dsn-file", secretFileFor(t, strings.Repeat("x", maxSecretBytes+1), 0o600)}, "larger than"},
		{"an argument", nil, []string{"root:" + password + "@tcp(h)/d"}, "takes no arguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			got, stderr, err := dsnRun(t, tt.args...)
			if got != "" || err == nil || exitCode(t.Context(), err) != exitUsage {
				t.Fatalf("dsn = %q, %v, want a usage error", got, err)
			}
			if !strings.Contains(stderr, tt.want) {
				t.Errorf("stderr = %q, want %q in it", stderr, tt.want)
			}
			noSecret(t, stderr)
		})
	}
}

// noSecret fails when text holds a part of password.
func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"s3cr", "et:p", `ss"w`, `ss\"w`, "word"} {
		if part == "word" {
			text = strings.ReplaceAll(text, "password", "")
		}
		if strings.Contains(text, part) {
			t.Errorf("%q holds %q, a part of the password", text, part)
		}
	}
}

func TestRedactor(t *testing.T) {
	var r redactor
	r.hide(goodDSN)
	r.hide(password)
	r.hide("abc") // too short to hide
	r.hide("")
	var buf bytes.Buffer
	w := r.writer(&buf)
	for _, text := range []string{
		"open " + goodDSN + ": refused\n",
		`{"dsn":"archive:s3cr/et:p@ss\"word@tcp(127.0.0.1:1)/wallet"}` + "\n",
		"password " + password + " abc\n",
	} {
		n, err := w.Write([]byte(text))
		if n != len(text) || err != nil {
			t.Errorf("Write = %d, %v, want %d", n, err, len(text))
		}
	}
	want := "open ***: refused\n{\"dsn\":\"***\"}\npassword *** abc\n"
	if buf.String() != want {
		t.Errorf("written %q, want %q", buf.String(), want)
	}
	noSecret(t, buf.String())
}
