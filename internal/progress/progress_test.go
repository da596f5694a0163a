package progress

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// buffer is a stream that may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Auto, Off, Lines, Bars} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m.String(), got, err)
		}
	}
	for _, s := range []string{"", "AUTO", "bar", "Mode(7)"} {
		if _, err := ParseMode(s); err == nil {
			t.Errorf("ParseMode(%q) gave no error", s)
		}
	}
}

func TestAutoOnWhatIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []io.Writer{&bytes.Buffer{}, null} {
		if got := Auto.resolve(w); got != Lines {
			t.Errorf("Auto.resolve(%T) = %v, want lines", w, got)
		}
	}
	if got := Off.resolve(null); got != Off {
		t.Errorf("Off.resolve = %v", got)
	}
}

func TestNilDoesNothing(t *testing.T) {
	r := New(NewOutput(&bytes.Buffer{}), Options{Mode: Off})
	if r != nil || r.Mode() != Off {
		t.Fatalf("New with Off = %v", r)
	}
	task := r.Task("x", Counts{Rows: 1})
	task.Add(Counts{Rows: 1})
	task.Grow(Counts{Rows: 1})
	task.Done()
	if task != nil || task.Status() != (Status{}) {
		t.Errorf("task = %v, status = %v", task, task.Status())
	}
	r.Close()
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf buffer
		out := NewOutput(&buf)
		logger := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		r := New(out, Options{Mode: Lines, Interval: 10 * time.Second, Logger: logger})
		defer r.Close()
		verify := r.Task("verify", Counts{Batches: 2, Rows: 1000, Bytes: 4000})
		unknown := r.Task("list", Counts{})
		verify.Add(Counts{Rows: 250, Bytes: 1000})
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if buf.String() != "" {
			t.Errorf("before the interval: %s", buf.String())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		unknown.Done()
		verify.Grow(Counts{Rows: 1000})
		verify.Add(Counts{Batches: 1, Rows: 1250})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		verify.Done()
		verify.Done()
		time.Sleep(time.Hour)
		synctest.Wait()

		var got []map[string]any
		for line := range strings.Lines(buf.String()) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			got = append(got, v)
		}
		want := []map[string]any{
			{"level": "INFO", "msg": "progress", "task": "verify", "batches_total": 2.0, "rows": 250.0, "rows_total": 1000.0,
				"bytes": 1000.0, "bytes_total": 4000.0, "percent": 25.0, "elapsed": 10e9, "rows_per_second": 25.0, "left": 30e9},
			{"level": "INFO", "msg": "progress", "task": "list", "elapsed": 10e9},
			{"level": "INFO", "msg": "progress", "task": "verify", "batches": 1.0, "batches_total": 2.0, "rows": 1500.0, "rows_total": 2000.0,
				"bytes": 1000.0, "bytes_total": 4000.0, "percent": 75.0, "elapsed": 20e9, "rows_per_second": 75.0, "left": 7e9},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestDefaultInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf buffer
		out := NewOutput(&buf)
		r := New(out, Options{Mode: Lines, Logger: slog.New(slog.NewTextHandler(out, nil))})
		r.Task("export", Counts{})
		time.Sleep(3*time.Minute + time.Second)
		r.Close()
		r.Close()
		if got := strings.Count(buf.String(), "msg=progress"); got != 3 {
			t.Errorf("%d lines in three minutes, want 3:\n%s", got, buf.String())
		}
		quiet := New(out, Options{Mode: Lines})
		quiet.Task("x", Counts{})
		time.Sleep(time.Hour)
		quiet.Close()
	})
}

// screen plays the control sequences that bars use and returns the lines that a
// terminal would show at the end, and every frame's text.
func screen(t *testing.T, stream string) (final []string) {
	t.Helper()
	lines := []string{""}
	for len(stream) > 0 {
		if rest, ok := strings.CutPrefix(stream, "\x1b["); ok {
			n, after, found := strings.Cut(rest, "A\x1b[J")
			if !found {
				t.Fatalf("unknown control sequence in %q", stream)
			}
			up := 0
			for _, c := range n {
				up = 10*up + int(c-'0')
			}
			lines = append(lines[:max(0, len(lines)-1-up)], "")
			stream = after
			continue
		}
		if stream[0] == '\n' {
			lines = append(lines, "")
		} else {
			lines[len(lines)-1] += stream[:1]
		}
		stream = stream[1:]
	}
	return lines
}

func TestBars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf buffer
		out := NewOutput(&buf)
		r := New(out, Options{Mode: Bars})
		first := r.Task("first\x1b[2J", Counts{Rows: 1000})
		second := r.Task("second", Counts{})
		first.Add(Counts{Rows: 500})
		second.Add(Counts{Bytes: 2000})
		time.Sleep(time.Second)
		synctest.Wait()
		io.WriteString(out, "a log ")
		io.WriteString(out, "record\n")
		time.Sleep(time.Second)
		synctest.Wait()
		shown := strings.Join(screen(t, buf.String()), "\n")
		for _, want := range []string{"a log record\n", "50%", "500 / 1,000 rows", "second", "2.0 kB", `first\x1b[2J`} {
			if !strings.Contains(shown, want) {
				t.Errorf("the screen lacks %q:\n%s", want, shown)
			}
		}
		second.Done()
		time.Sleep(time.Second)
		synctest.Wait()
		shown = strings.Join(screen(t, buf.String()), "\n")
		if strings.Contains(shown, "second") {
			t.Errorf("a task that is done is still shown:\n%s", shown)
		}
		io.WriteString(out, "the last record\n")
		io.WriteString(out, "half a line")
		r.Close()
		r.Close()
		io.WriteString(out, ", the rest\n")
		want := []string{"a log record", "the last record", "half a line, the rest", ""}
		if diff := cmp.Diff(want, screen(t, buf.String())); diff != "" {
			t.Errorf("the screen at the end (-want +got):\n%s", diff)
		}
		late := r.Task("late", Counts{Rows: 1})
		late.Add(Counts{Rows: 1})
		late.Done()
	})
}

func TestConcurrentUse(t *testing.T) {
	for _, mode := range []Mode{Lines, Bars} {
		var buf buffer
		out := NewOutput(&buf)
		r := New(out, Options{Mode: mode, Interval: time.Millisecond, Logger: slog.New(slog.NewTextHandler(out, nil))})
		shared := r.Task("shared", Counts{Rows: 1000})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				own := r.Task("own", Counts{Bytes: 100})
				for range 100 {
					shared.Add(Counts{Rows: 1})
					own.Add(Counts{Bytes: 1})
				}
				io.WriteString(out, "record\n")
				own.Done()
			})
		}
		wg.Go(r.Close) // while others work
		wg.Wait()
		r.Close()
		if got := shared.Status().Done.Rows; got != 1000 {
			t.Errorf("%v: %d rows, want 1000", mode, got)
		}
		if got := strings.Count(buf.String(), "record\n"); got != 10 {
			t.Errorf("%v: %d records, want 10", mode, got)
		}
	}
}

func TestStatus(t *testing.T) {
	tests := []struct {
		name   string
		status Status
		want   string
	}{
		{"nothing", Status{}, ""},
		{"rows", Status{Done: Counts{Rows: 500}, Total: Counts{Rows: 1000}, Elapsed: time.Second}, "500 / 1,000 rows, 500 rows/s, 1.0 s left"},
		{"bytes", Status{Done: Counts{Bytes: 5000}, Total: Counts{Bytes: 10_000}, Elapsed: time.Second}, "5.0 kB / 10.0 kB, 5.0 kB/s, 1.0 s left"},
		{"batches", Status{Done: Counts{Batches: 1}, Total: Counts{Batches: 4}, Elapsed: time.Minute}, "1 / 4 batches, 3m00s left"},
		{"no total", Status{Done: Counts{Rows: 500, Bytes: 5000}, Elapsed: 10 * time.Second}, "500 rows, 5.0 kB, 50 rows/s"},
		{"more than announced", Status{Done: Counts{Rows: 1500}, Total: Counts{Rows: 1000}, Elapsed: time.Second}, "1,500 / 1,000 rows, 1,500 rows/s, 0 ms left"},
		{"never", Status{Done: Counts{Rows: 1}, Total: Counts{Rows: 1 << 60}, Elapsed: time.Hour}, "1 / 1,152,921,504,606,846,976 rows, 0 rows/s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.status.String(); got != tt.want {
				t.Errorf("String() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	half := Status{Done: Counts{Rows: 1}, Total: Counts{Rows: 2}}
	for _, tt := range []struct {
		status Status
		width  int
		want   string
	}{
		{half, 17, "[=====     ]  50%"},
		{half, 9, ""},
		{half, 1000, "[" + strings.Repeat("=", 16) + strings.Repeat(" ", 17) + "]  50%"},
		{Status{}, 17, ""},
		{Status{Done: Counts{Rows: 3}, Total: Counts{Rows: 2}}, 17, "[==========] 100%"},
	} {
		var b strings.Builder
		if err := fill(&b, tt.status, tt.width); err != nil || b.String() != tt.want {
			t.Errorf("fill(%v, %d) = %q, %v, want %q", tt.status, tt.width, b.String(), err, tt.want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	r := New(NewOutput(io.Discard), Options{Mode: Bars})
	defer r.Close()
	task := r.Task("x", Counts{Rows: int64(b.N)})
	for b.Loop() {
		task.Add(Counts{Rows: 1, Bytes: 450})
	}
}

func TestLogNow(t *testing.T) {
	var none *Reporter
	if n := none.LogNow(); n != 0 {
		t.Errorf("a nil Reporter has %d tasks", n)
	}
	for _, mode := range []Mode{Lines, Bars} {
		var log, screen bytes.Buffer
		r := New(NewOutput(&screen), Options{Mode: mode, Interval: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		task := r.Task("restore", Counts{Rows: 10, Bytes: 1000})
		task.Add(Counts{Rows: 4, Bytes: 400})
		if n := r.LogNow(); n != 1 {
			t.Errorf("%s: %d tasks", mode, n)
		}
		for _, want := range []string{"task=restore", "rows=4", "rows_total=10", "bytes=400", "percent=40", "rows_per_second="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the record lacks %s: %s", mode, want, &log)
			}
		}
		task.Done()
		if n := r.LogNow(); n != 0 {
			t.Errorf("%s: %d tasks after the end", mode, n)
		}
		r.Close()
	}
}
