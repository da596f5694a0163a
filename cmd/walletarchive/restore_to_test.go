package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/manifest"
)

// canonical returns the lines of every record of the archive.
func (a *testArchive) canonical() string {
	var b strings.Builder
	for _, records := range a.records {
		for i := range records {
			b.Write(append(records[i].AppendLine(nil), '\n'))
		}
	}
	return b.String()
}

func TestRestoreToFile(t *testing.T) {
	a := newArchive(t, 3, 20)
	dir := t.TempDir()
	base := []string{"restore", "--store", a.url, "--receipt", a.receipts}
	to := func(code int, args ...string) (out, errs string) {
		t.Helper()
		return runs(t, code, append(base[:len(base):len(base)], args...)...)
	}
	file := filepath.Join(dir, "rows.ndjson")
	out, _ := to(exitOK, "--json", "--dry-run", "--to", "ndjson:"+file)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("a dry run left %v, %v", left, err)
	}
	if !strings.Contains(out, `"written":20`) || !strings.Contains(out, `"dry_run":true`) {
		t.Errorf("dry run:\n%s", out)
	}
	out, _ = to(exitOK, "--json", "--to", "ndjson:"+file)
	got, err := os.ReadFile(file)
	if err != nil || string(got) != a.canonical() {
		t.Errorf("read %v, %d bytes, want %d", err, len(got), len(a.canonical()))
	}
	var doc struct {
		Batches []struct {
			Outcome string
			Details struct {
				Rows, Written int64
				File          struct {
					Rows, Bytes int64
					SHA256      string `json:"sha256"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Batches) != 3 {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, b := range doc.Batches {
		d := b.Details
		if b.Outcome != "passed" || d.Written != 20 || d.File.Rows != 60 || d.File.Bytes != int64(len(got)) || d.File.SHA256 != manifest.SumHash(got).String() {
			t.Errorf("batch: %+v", b)
		}
	}
	// No file is replaced, and the archive is not read for it.
	to(exitUsage, "--to", "ndjson:"+file)
	to(exitUsage, "--to", "ndjson:"+filepath.Join(dir, "none", "x"))
	to(exitUsage, "--to", "xml:"+file+"2")
	to(exitUsage, "--to", "csv:-", "--target-dsn", "u@unix(/s)/d")
	to(exitUsage, "--to", "csv:-", "--target-table", "t")

	// Rows on stdout are alone there.
	out, errs := to(exitOK, "--to", "ndjson:-")
	if out != a.canonical() || !strings.Contains(errs, "restore: proven") {
		t.Errorf("stdout has %d bytes, want %d; stderr:\n%s", len(out), len(a.canonical()), errs)
	}
	if out, _ := to(exitOK, "--to", "sql:-", "--target-table", "other", a.id(1)); strings.Count(out, "INSERT INTO `other`") != 1 || !strings.HasSuffix(out, "-- 20 rows\n") {
		t.Errorf("SQL:\n%s", out)
	}
	if out, _ := to(exitOK, "--to", "csv:-", a.id(1)); strings.Count(out, "\n") != 21 {
		t.Errorf("CSV:\n%s", out)
	}

	// A batch that is not whole keeps the others out, too: not a byte comes.
	a.flip(t, a.list[1].DataObjectKey)
	if out, errs := to(exitArchive, "--to", "ndjson:-"); out != "" || !strings.Contains(errs, "restore: failed") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", out, errs)
	}
	second := filepath.Join(dir, "second.csv")
	to(exitArchive, "--to", "csv:"+second)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestRestoreToFullDisk writes where there is no room.
func TestRestoreToFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	a := newArchive(t, 1, 20)
	var errs strings.Builder
	if code := run(t.Context(), []string{programName, "restore", "--store", a.url, "--receipt", a.receipts, "--to", "ndjson:-"}, full, &errs); code != exitUnfinished {
		t.Errorf("exit code %d, stderr:\n%s", code, &errs)
	}
	if !strings.Contains(errs.String(), "restore: not proven") {
		t.Errorf("stderr:\n%s", &errs)
	}
}

// TestRestoreToClosedStdout gives rows nowhere to go: the runtime opens the null
// device in the place of a stdout that is closed, and every write succeeds.
func TestRestoreToClosedStdout(t *testing.T) {
	a := newArchive(t, 1, 3)
	for _, tc := range []struct {
		args, stdout string
		want         int
	}{
		{"restore --store " + a.url + " --receipt " + a.receipts + " --to ndjson:-", ">&-", exitUsage},
		{"restore --store " + a.url + " --receipt " + a.receipts + " --to sql:-", ">/dev/null", exitOK},
		{"receipts export --all --receipt " + a.receipts, ">&-", exitUnfinished},
		{"receipts export --all --receipt " + a.receipts, ">/dev/null", exitOK},
		{"verify --store " + a.url + " --receipt " + a.receipts, ">&-", exitOK}, // the exit code says it
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", programName+" "+tc.args+" 2>&1 "+tc.stdout).CombinedOutput()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != tc.want || tc.want != exitOK && !strings.Contains(string(out), "stdout is closed") {
			t.Errorf("%s %s: exit code %d, want %d:\n%s", tc.args, tc.stdout, code, tc.want, out)
		}
	}
}
