// Package throttle slows writers down: to a number of rows a second, while the
// server is busy, and while its replicas lag behind. Start with [New].
package throttle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hyapp/walletarchive/internal/clock"
	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// Defaults of [Options].
const (
	DefaultPoll    = time.Second
	DefaultMaxWait = 10 * time.Minute
	// DefaultMaxHold is short, since whoever waits for the locks of a transaction
	// that waits is what keeps the server busy.
	DefaultMaxHold = 5 * time.Second
)

// Errors of [Throttle]; compare with errors.Is.
var (
	// ErrBusy is returned when the server or a replica did not come below its
	// bound in MaxWait.
	ErrBusy = errors.New("still too busy")
	// ErrNotReplica is returned by [Throttle.Check] for a server that replicates
	// from no other.
	ErrNotReplica = errors.New("not a replica")
)

// Options are what bounds a writer. The zero value bounds nothing.
type Options struct {
	MaxRowsPerSecond int64 // 0 means no bound
	// MaxThreadsRunning is the greatest Threads_running of Server that is taken
	// for idle enough, this program's own among them; 0 means no bound.
	MaxThreadsRunning int64
	Server            *sql.DB // needed with MaxThreadsRunning
	// MaxReplicaLag is how far Replicas may be behind. A replica whose lag is not
	// known, since its replication has stopped, is over any bound. 0 means no bound.
	MaxReplicaLag time.Duration
	Replicas      []Replica
	// Poll is how often a server is asked while it is waited for, and how long an
	// answer holds; 0 means DefaultPoll.
	Poll time.Duration
	// MaxWait is how long [Throttle.Before] waits; 0 means DefaultMaxWait.
	MaxWait time.Duration
	// MaxHold is how long [Throttle.Within] waits for the server; 0 means
	// DefaultMaxHold.
	MaxHold time.Duration
	Logger  *slog.Logger // nil discards

	// For tests.
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// Replica is a server that replicates from the one that is written to.
type Replica struct {
	Name string // for people, without a password
	DB   *sql.DB
}

// Throttle makes a writer wait. It is used by one goroutine.
type Throttle struct {
	opts  Options
	next  time.Time // before which no further row may be written
	asked time.Time // when the server was idle enough last
}

// New returns a Throttle. The error is about the options.
func New(opts Options) (*Throttle, error) {
	if opts.MaxRowsPerSecond < 0 || opts.MaxThreadsRunning < 0 || opts.MaxReplicaLag < 0 || opts.Poll < 0 || opts.MaxWait < 0 || opts.MaxHold < 0 {
		return nil, errors.New("throttle options: a negative bound")
	}
	if opts.MaxThreadsRunning > 0 && opts.Server == nil {
		return nil, errors.New("throttle options: no server to ask for its threads")
	}
	if opts.MaxReplicaLag > 0 && len(opts.Replicas) == 0 {
		return nil, errors.New("throttle options: no replicas to ask for their lag")
	}
	opts.Poll = cmp.Or(opts.Poll, DefaultPoll)
	opts.MaxWait = cmp.Or(opts.MaxWait, DefaultMaxWait)
	opts.MaxHold = cmp.Or(opts.MaxHold, DefaultMaxHold)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.now == nil {
		opts.now = time.Now
	}
	if opts.sleep == nil {
		opts.sleep = clock.Sleep
	}
	return &Throttle{opts: opts}, nil
}

// Check asks every server once, so that a run does not find out in its middle
// that one cannot be asked. The error is [ErrNotReplica] or of the server.
func (t *Throttle) Check(ctx context.Context) error {
	if t.opts.MaxThreadsRunning > 0 {
		if _, err := threadsRunning(ctx, t.opts.Server); err != nil {
			return err
		}
	}
	if t.opts.MaxReplicaLag == 0 {
		return nil
	}
	for _, r := range t.opts.Replicas {
		if _, _, err := lag(ctx, r.DB); err != nil {
			return fmt.Errorf("replica %s: %w", r.Name, err)
		}
	}
	return nil
}

// Before waits, before a transaction writes, until the server and its replicas
// are within their bounds. The error is [ErrBusy] after MaxWait, ctx.Err(), or of
// a server.
func (t *Throttle) Before(ctx context.Context) error {
	end := t.opts.now().Add(t.opts.MaxWait)
	for told := false; ; {
		why, err := t.busy(ctx, true)
		if err != nil || why == "" {
			return err
		}
		if !t.opts.now().Before(end) {
			return fmt.Errorf("%w after %s: %s", ErrBusy, t.opts.MaxWait, why)
		}
		if !told {
			t.opts.Logger.InfoContext(ctx, "waiting", "why", why, "at_most", t.opts.MaxWait)
			told = true
		}
		if err := t.opts.sleep(ctx, t.opts.Poll); err != nil {
			return err
		}
	}
}

// Within waits, inside a transaction that has written so many more rows: as long
// as MaxRowsPerSecond asks for, and a little while the server is busy. Replicas
// are not asked, since they do not have the transaction before it is committed.
// The error is ctx.Err() or of the server.
func (t *Throttle) Within(ctx context.Context, rows int) error {
	if rate := t.opts.MaxRowsPerSecond; rate > 0 {
		now := t.opts.now()
		if t.next.Before(now) {
			t.next = now
		}
		t.next = t.next.Add(time.Duration(float64(rows) / float64(rate) * float64(time.Second)))
		if err := t.opts.sleep(ctx, t.next.Sub(now)); err != nil {
			return err
		}
	}
	if t.opts.MaxThreadsRunning == 0 || t.opts.now().Sub(t.asked) < t.opts.Poll {
		return nil
	}
	end := t.opts.now().Add(t.opts.MaxHold)
	for {
		why, err := t.busy(ctx, false)
		if err != nil || why == "" {
			return err
		}
		if !t.opts.now().Before(end) {
			t.opts.Logger.InfoContext(ctx, "going on, since waiting would hold the locks", "why", why)
			return nil
		}
		if err := t.opts.sleep(ctx, t.opts.Poll); err != nil {
			return err
		}
	}
}

// busy says why a writer has to wait, "" when it has not.
func (t *Throttle) busy(ctx context.Context, replicas bool) (why string, err error) {
	if most := t.opts.MaxThreadsRunning; most > 0 {
		n, err := threadsRunning(ctx, t.opts.Server)
		if err != nil {
			return "", err
		}
		if n > most {
			return fmt.Sprintf("the server has %d threads running, over %d", n, most), nil
		}
	}
	if most := t.opts.MaxReplicaLag; replicas && most > 0 {
		for _, r := range t.opts.Replicas {
			behind, known, err := lag(ctx, r.DB)
			switch {
			case err != nil:
				return "", fmt.Errorf("replica %s: %w", r.Name, err)
			case !known:
				return fmt.Sprintf("how far replica %s is behind is not known: its replication has stopped", r.Name), nil
			case behind > most:
				return fmt.Sprintf("replica %s is %s behind, over %s", r.Name, behind, most), nil
			}
		}
	}
	t.asked = t.opts.now()
	return "", nil
}

func threadsRunning(ctx context.Context, q mysqldb.Queryer) (int64, error) {
	var name string
	var n int64
	if err := q.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_running'").Scan(&name, &n); err != nil {
		return 0, fmt.Errorf("ask for the running threads: %w", err)
	}
	return n, nil
}
