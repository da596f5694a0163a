// Package progress shows how far a long run is: bars on a terminal, a log
// record now and then elsewhere, or nothing. It writes to one [Output] that it
// shares with the log, never to stdout.
//
// A command makes one [Reporter] with [New] and hands it to the job, which asks
// it for a [Task] for each piece of work. Jobs need no special case for "no
// progress wanted": a nil Reporter gives nil Tasks, and a nil Task does nothing.
package progress

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// DefaultInterval is how often [Lines] says where a run stands.
const DefaultInterval = time.Minute

// Options are how a [Reporter] shows progress.
type Options struct {
	Mode Mode
	// Interval is how often Lines writes; 0 means DefaultInterval.
	Interval time.Duration
	// Logger takes the records of Lines and of LogNow, at level Info; nil writes
	// none.
	Logger *slog.Logger
}

// Reporter shows the tasks of one run. All methods may be called at once from
// many goroutines; on a nil Reporter they do nothing.
type Reporter struct {
	mode   Mode
	bars   *bars // nil unless mode is Bars
	logger *slog.Logger
	stop   chan struct{}
	wg     sync.WaitGroup
	once   sync.Once

	mu     sync.Mutex
	active []*Task // in the order of their start
	closed bool
}

// New returns a Reporter that shows progress on out until Close. It returns nil
// for [Off], which is a Reporter too.
func New(out *Output, opts Options) *Reporter {
	r := &Reporter{mode: opts.Mode.resolve(out.w), logger: opts.Logger, stop: make(chan struct{})}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	switch r.mode {
	case Off:
		return nil
	case Bars:
		r.bars = newBars(out)
	case Auto, Lines:
		interval := opts.Interval
		if interval <= 0 {
			interval = DefaultInterval
		}
		r.wg.Go(func() { r.logLines(interval) })
	}
	return r
}

// Mode returns what is shown: Off for a nil Reporter, never Auto.
func (r *Reporter) Mode() Mode {
	if r == nil {
		return Off
	}
	return r.mode
}

// Task starts a piece of work. A zero count in total is not known (yet). The
// caller ends it with [Task.Done].
func (r *Reporter) Task(name string, total Counts) *Task {
	if r == nil {
		return nil
	}
	t := &Task{name: name, started: time.Now(), end: func() {}}
	t.total.add(total)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return t
	}
	drop := func() {}
	if r.bars != nil {
		drop = r.bars.add(t)
	}
	t.end = func() {
		drop()
		r.remove(t)
	}
	r.active = append(r.active, t)
	return t
}

func (r *Reporter) remove(t *Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.active, t); i >= 0 {
		r.active = slices.Delete(r.active, i, i+1)
	}
}

func (r *Reporter) tasks() []*Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.active)
}

// Close takes everything off the display and waits until the last of it is
// written. Tasks may still be used afterwards, unseen. It may be called more
// than once.
func (r *Reporter) Close() {
	if r == nil {
		return
	}
	r.once.Do(func() {
		close(r.stop)
		r.wg.Wait()
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		for _, t := range r.tasks() {
			t.Done()
		}
		if r.bars != nil {
			r.bars.close()
		}
	})
}

func (r *Reporter) logLines(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.LogNow()
		case <-r.stop:
			return
		}
	}
}

// LogNow writes a record of where each task stands, in any mode but Off, and
// returns how many there were.
func (r *Reporter) LogNow() int {
	if r == nil {
		return 0
	}
	tasks := r.tasks()
	for _, t := range tasks {
		r.log(t.Status())
	}
	return len(tasks)
}

func (r *Reporter) log(s Status) {
	attrs := []slog.Attr{slog.String("task", s.Name)}
	num := func(key string, n int64) {
		if n > 0 {
			attrs = append(attrs, slog.Int64(key, n))
		}
	}
	num("batches", s.Done.Batches)
	num("batches_total", s.Total.Batches)
	num("rows", s.Done.Rows)
	num("rows_total", s.Total.Rows)
	num("bytes", s.Done.Bytes)
	num("bytes_total", s.Total.Bytes)
	if f, ok := s.Fraction(); ok {
		attrs = append(attrs, slog.Int("percent", int(100*f)))
	}
	attrs = append(attrs, slog.Duration("elapsed", s.Elapsed.Round(time.Second)))
	if sec := s.Elapsed.Seconds(); sec > 0 {
		num("rows_per_second", int64(float64(s.Done.Rows)/sec))
	}
	if left, ok := s.Left(); ok {
		attrs = append(attrs, slog.Duration("left", left.Round(time.Second)))
	}
	r.logger.LogAttrs(context.Background(), slog.LevelInfo, "progress", attrs...)
}
