package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func runAt(sec int64, code int, outcome Outcome) Run {
	return Run{
		Command: "verify", AppCode: "wallet", Store: "file:///a",
		Started: time.Unix(sec-2, 0), Ended: time.Unix(sec, 0), ExitCode: code,
		Summary: Summary{Outcome: outcome, Verdict: outcome.Verdict(), Batches: 1, Proven: 1, Examined: whole},
	}
}

func TestWriteMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.prom")
	if err := WriteMetrics(path, runAt(100, 0, Passed)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `# HELP walletarchive_last_run_timestamp_seconds When the last run ended, whatever its result.
# TYPE walletarchive_last_run_timestamp_seconds gauge
walletarchive_last_run_timestamp_seconds{command="verify",app_code="wallet",store="file:///a"} 100.000
# HELP walletarchive_last_run_exit_code Exit code of the last run; 0 is the only success.
# TYPE walletarchive_last_run_exit_code gauge
walletarchive_last_run_exit_code{command="verify",app_code="wallet",store="file:///a"} 0
# HELP walletarchive_last_run_duration_seconds How long the last run took.
# TYPE walletarchive_last_run_duration_seconds gauge
walletarchive_last_run_duration_seconds{command="verify",app_code="wallet",store="file:///a"} 2.000
# HELP walletarchive_last_run_batches Batches of the last run by verdict.
# TYPE walletarchive_last_run_batches gauge
walletarchive_last_run_batches{command="verify",app_code="wallet",store="file:///a",verdict="proven"} 1
walletarchive_last_run_batches{command="verify",app_code="wallet",store="file:///a",verdict="not proven"} 0
walletarchive_last_run_batches{command="verify",app_code="wallet",store="file:///a",verdict="failed"} 0
# HELP walletarchive_last_run_rows Rows that the last run decoded and hashed.
# TYPE walletarchive_last_run_rows gauge
walletarchive_last_run_rows{command="verify",app_code="wallet",store="file:///a"} 500
# HELP walletarchive_last_run_bytes Bytes of objects that the last run downloaded.
# TYPE walletarchive_last_run_bytes gauge
walletarchive_last_run_bytes{command="verify",app_code="wallet",store="file:///a"} 225000
# HELP walletarchive_last_success_timestamp_seconds When a run last ended proven with exit code 0.
# TYPE walletarchive_last_success_timestamp_seconds gauge
walletarchive_last_success_timestamp_seconds{command="verify",app_code="wallet",store="file:///a"} 100.000
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode = %v, %v, want 0644", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func successLine(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, successMetric+"{") {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:])
		}
	}
	return ""
}

func TestLastSuccessMovesOnlyOnSuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.prom")
	steps := []struct {
		run  Run
		want string
	}{
		{runAt(100, 4, ArchiveWrong), ""},
		{runAt(200, 0, Passed), "200.000"},
		{runAt(300, 4, ArchiveWrong), "200.000"},
		{runAt(400, 1, Unfinished), "200.000"},
		{runAt(500, 5, NoBatch), "200.000"},
		// The words and the code must both say so.
		{runAt(600, 0, NoBatch), "200.000"},
		{runAt(700, 8, Passed), "200.000"},
		{runAt(800, 0, Passed), "800.000"},
	}
	for _, s := range steps {
		if err := WriteMetrics(path, s.run); err != nil {
			t.Fatal(err)
		}
		if got := successLine(t, path); got != s.want {
			t.Errorf("after exit code %d at %v: last success %q, want %q", s.run.ExitCode, s.run.Ended.Unix(), got, s.want)
		}
	}
}

func TestForeignMetricsAreKept(t *testing.T) {
	other := runAt(100, 0, Passed)
	other.Command = "drill"
	longer := runAt(100, 0, Passed)
	longer.AppCode = `wallet",x="`
	tests := []struct{ name, text string }{
		{"another command", string(metricsText(other, "1"))},
		{"another app", string(metricsText(longer, "1"))},
		{"another program", "node_load1 0.5\n"},
		{"comments only", "# precious\n"},
		{"no number", successMetric + "{" + metricLabels(runAt(1, 0, Passed)) + "} soon\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.prom")
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := WriteMetrics(path, runAt(200, 0, Passed)); err == nil {
				t.Error("WriteMetrics over foreign metrics gave no error")
			}
			if got, _ := os.ReadFile(path); string(got) != tt.text {
				t.Errorf("file became %q", got)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "m.prom")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteMetrics(path, runAt(200, 0, Passed)); err != nil {
		t.Errorf("WriteMetrics over an empty file = %v", err)
	}
	if err := WriteMetrics(filepath.Join(path, "x"), runAt(1, 0, Passed)); err == nil {
		t.Error("WriteMetrics below a file gave no error")
	}
	if err := WriteMetrics(filepath.Join(t.TempDir(), "none", "x"), runAt(1, 0, Passed)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("WriteMetrics into a folder that is not there = %v", err)
	}
}

func TestLabelValue(t *testing.T) {
	if got, want := labelValue("a\\b\"c\nd\xff"), `a\\b\"c\nd`+"\uFFFD"; got != want {
		t.Errorf("labelValue = %q, want %q", got, want)
	}
}

func TestAppendHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, []byte(`{"cut sho`), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := AppendHistory(path, runAt(int64(1000+i), 4, ArchiveWrong)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range bytes.Lines(data) {
		var v map[string]any
		if json.Unmarshal(line, &v) != nil {
			continue
		}
		if v["schema"] != "walletarchive.verify.run/v1" || v["verdict"] != "failed" || v["exit_code"] != 4.0 ||
			v["outcome"] != "archive_wrong" || v["app_code"] != "wallet" {
			t.Errorf("line = %s", line)
		}
		seen[v["ended_at"].(string)] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d whole lines, want 20:\n%s", len(seen), data)
	}
	if err := AppendHistory(filepath.Join(path, "x"), runAt(1, 0, Passed)); err == nil {
		t.Error("AppendHistory below a file gave no error")
	}
}
