package report

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrForeignMetrics is returned by [WriteMetrics] when the file that is already
// there is not one that it wrote for the same command.
var ErrForeignMetrics = errors.New("file holds other metrics")

// WriteMetrics writes the run to path in the Prometheus text format, for the
// textfile collector of node_exporter (whose files must end in .prom). The file
// appears whole: it is written beside path, synced and renamed.
//
// walletarchive_last_success_timestamp_seconds moves only when the run exits
// with 0 and is proven; after any other run it keeps the value of the file that
// was there, and is left out when there was none. An alert on its age therefore
// also fires when runs stop, fail, or find nothing to look at.
func WriteMetrics(path string, run Run) error {
	success, err := lastSuccess(path, run)
	if err != nil {
		return fmt.Errorf("read metrics %s: %w", path, err)
	}
	if run.succeeded() {
		success = seconds(run.Ended)
	}
	if err := replaceFile(path, metricsText(run, success)); err != nil {
		return fmt.Errorf("write metrics %s: %w", path, err)
	}
	return nil
}

const successMetric = "walletarchive_last_success_timestamp_seconds"

func metricsText(run Run, success string) []byte {
	var b bytes.Buffer
	labels := metricLabels(run)
	put := func(name, help, extra, value string) {
		if help != "" {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		}
		fmt.Fprintf(&b, "%s{%s%s} %s\n", name, labels, extra, value)
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	put("walletarchive_last_run_timestamp_seconds", "When the last run ended, whatever its result.", "", seconds(run.Ended))
	put("walletarchive_last_run_exit_code", "Exit code of the last run; 0 is the only success.", "", num(int64(run.ExitCode)))
	put("walletarchive_last_run_duration_seconds", "How long the last run took.", "",
		strconv.FormatFloat(run.Ended.Sub(run.Started).Seconds(), 'f', 3, 64))
	put("walletarchive_last_run_batches", "Batches of the last run by verdict.", `,verdict="proven"`, num(run.Summary.Proven))
	put("walletarchive_last_run_batches", "", `,verdict="not proven"`, num(run.Summary.NotProven))
	put("walletarchive_last_run_batches", "", `,verdict="failed"`, num(run.Summary.Failed))
	put("walletarchive_last_run_rows", "Rows that the last run decoded and hashed.", "", num(run.Summary.Examined.Rows))
	put("walletarchive_last_run_bytes", "Bytes of objects that the last run downloaded.", "", num(run.Summary.Examined.Bytes))
	if success != "" {
		put(successMetric, "When a run last ended proven with exit code 0.", "", success)
	}
	return b.Bytes()
}

func metricLabels(run Run) string {
	s := `command="` + labelValue(run.Command) + `"`
	if run.AppCode != "" {
		s += `,app_code="` + labelValue(run.AppCode) + `"`
	}
	if run.Store != "" {
		s += `,store="` + labelValue(run.Store) + `"`
	}
	return s
}

// labelValue escapes as the exposition format asks: backslash, quote, newline.
func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// maxMetricsBytes bounds what lastSuccess reads of a file that may be anything.
const maxMetricsBytes = 1 << 20

// lastSuccess returns the value of the last success in the file at path, "" when
// there is no file or no success yet. A file of another command, app_code or
// store is refused: overwriting it would forge the freshness of that one.
func lastSuccess(path string, run Run) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	want := metricLabels(run)
	found, ours := "", false
	lines := bufio.NewScanner(io.LimitReader(f, maxMetricsBytes))
	empty := true
	for lines.Scan() {
		text := lines.Text()
		empty = empty && strings.TrimSpace(text) == ""
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, rest, _ := strings.Cut(text, "{")
		rest, ok := strings.CutPrefix(rest, want)
		if !ok || !strings.HasPrefix(rest, "}") && !strings.HasPrefix(rest, ",verdict=") {
			return "", ErrForeignMetrics
		}
		ours = true
		if name != successMetric {
			continue
		}
		value := text[strings.LastIndexByte(text, ' ')+1:]
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "", fmt.Errorf("value of %s: %w", successMetric, err)
		}
		found = value
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if !ours && !empty {
		return "", ErrForeignMetrics
	}
	return found, nil
}

// replaceFile puts data at path in one step: a reader sees the old file or the
// new one, also after a crash.
func replaceFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	// The name must not end in .prom, or node_exporter reads half a file.
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	// CreateTemp makes the file 0600, but the collector is another user.
	if err = tmp.Chmod(0o644); err == nil {
		_, err = tmp.Write(data)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
