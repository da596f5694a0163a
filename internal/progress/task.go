package progress

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/hyapp/walletarchive/internal/report"
)

// Counts is an amount of work. What a task does not count stays zero.
type Counts struct {
	Batches int64
	Rows    int64
	Bytes   int64
}

// Task is one piece of work that counts what it has done. All methods may be
// called at once from many goroutines, cost a few nanoseconds, and do nothing
// on a nil Task.
type Task struct {
	name    string
	started time.Time
	done    counters
	total   counters
	end     func() // set before the task is shared; called once
	ended   atomic.Bool
}

type counters struct{ batches, rows, bytes atomic.Int64 }

func (c *counters) add(n Counts) {
	if n.Batches != 0 {
		c.batches.Add(n.Batches)
	}
	if n.Rows != 0 {
		c.rows.Add(n.Rows)
	}
	if n.Bytes != 0 {
		c.bytes.Add(n.Bytes)
	}
}

func (c *counters) load() Counts {
	return Counts{Batches: c.batches.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load()}
}

// Add counts work that is done.
func (t *Task) Add(n Counts) {
	if t != nil {
		t.done.add(n)
	}
}

// Grow adds to the total, when more work turns up than was known.
func (t *Task) Grow(n Counts) {
	if t != nil {
		t.total.add(n)
	}
}

// Done takes the task off the display, whether its work was finished or not.
// It may be called more than once.
func (t *Task) Done() {
	if t != nil && t.ended.CompareAndSwap(false, true) {
		t.end()
	}
}

// Status returns where the task stands now; the zero Status for a nil Task.
func (t *Task) Status() Status {
	if t == nil {
		return Status{}
	}
	return Status{Name: t.name, Done: t.done.load(), Total: t.total.load(), Elapsed: time.Since(t.started)}
}

// Status is where a task stands. A zero count in Total is not known.
type Status struct {
	Name    string
	Done    Counts
	Total   Counts
	Elapsed time.Duration
}

// measure returns done and total of what the task is best measured by: rows
// where their total is known, else bytes, else batches.
func (s Status) measure() (done, total int64) {
	switch {
	case s.Total.Rows > 0:
		return s.Done.Rows, s.Total.Rows
	case s.Total.Bytes > 0:
		return s.Done.Bytes, s.Total.Bytes
	}
	return s.Done.Batches, s.Total.Batches
}

// Fraction returns how much is done, from 0 to 1, and false when the total is
// not known. More work than was announced is 1.
func (s Status) Fraction() (float64, bool) {
	done, total := s.measure()
	if total <= 0 {
		return 0, false
	}
	return min(1, max(0, float64(done)/float64(total))), true
}

// Left returns how long the rest takes at the average rate so far, and false
// when that cannot be said.
func (s Status) Left() (time.Duration, bool) {
	f, ok := s.Fraction()
	if !ok || f <= 0 || s.Elapsed <= 0 {
		return 0, false
	}
	left := float64(s.Elapsed) * (1 - f) / f
	// A year is as good as never, and keeps the conversion in range.
	if left > float64(365*24*time.Hour) {
		return 0, false
	}
	return time.Duration(left), true
}

// String returns the status on one line for people.
func (s Status) String() string {
	var parts []string
	of := func(done, total int64, show func(int64) string, unit string) {
		switch {
		case total > 0:
			parts = append(parts, show(done)+" / "+show(total)+unit)
		case done > 0:
			parts = append(parts, show(done)+unit)
		}
	}
	of(s.Done.Batches, s.Total.Batches, report.Count, " batches")
	of(s.Done.Rows, s.Total.Rows, report.Count, " rows")
	of(s.Done.Bytes, s.Total.Bytes, report.Bytes, "")
	if sec := s.Elapsed.Seconds(); sec > 0 {
		if s.Done.Rows > 0 {
			parts = append(parts, report.Count(int64(float64(s.Done.Rows)/sec))+" rows/s")
		} else if s.Done.Bytes > 0 {
			parts = append(parts, report.Bytes(int64(float64(s.Done.Bytes)/sec))+"/s")
		}
	}
	if left, ok := s.Left(); ok {
		parts = append(parts, report.Duration(left)+" left")
	}
	return strings.Join(parts, ", ")
}
