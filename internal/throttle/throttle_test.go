package throttle

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// testClock is a time that passes only when somebody sleeps.
type testClock struct {
	at    time.Time
	slept time.Duration
}

func (c *testClock) options(o Options) Options {
	o.now = func() time.Time { return c.at }
	o.sleep = func(ctx context.Context, d time.Duration) error {
		c.at = c.at.Add(max(d, 0))
		c.slept += max(d, 0)
		return ctx.Err()
	}
	return o
}

func newThrottle(t *testing.T, o Options) *Throttle {
	t.Helper()
	th, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

func TestRowsPerSecond(t *testing.T) {
	c := &testClock{at: time.Unix(1000, 0)}
	th := newThrottle(t, c.options(Options{MaxRowsPerSecond: 500}))
	for range 10 {
		if err := th.Within(t.Context(), 250); err != nil {
			t.Fatal(err)
		}
	}
	if c.slept != 5*time.Second {
		t.Errorf("slept %s over 2,500 rows, want 5s", c.slept)
	}
	// Time that the writer took by itself is not waited again, and not saved up.
	c.at = c.at.Add(time.Hour)
	c.slept = 0
	for range 2 {
		if err := th.Within(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
	}
	if c.slept != 2*time.Second {
		t.Errorf("slept %s after an idle hour, want 2s", c.slept)
	}
	free := newThrottle(t, c.options(Options{}))
	c.slept = 0
	if err := errors.Join(free.Within(t.Context(), 1e9), free.Before(t.Context()), free.Check(t.Context())); err != nil || c.slept != 0 {
		t.Errorf("no bounds: slept %s, %v", c.slept, err)
	}
}

func TestSleepEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	th := newThrottle(t, Options{MaxRowsPerSecond: 1})
	if err := th.Within(ctx, 3600); !errors.Is(err, context.Canceled) {
		t.Errorf("Within = %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{MaxRowsPerSecond: -1}, {MaxThreadsRunning: 1}, {MaxReplicaLag: 1}, {Poll: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) went through", o)
		}
	}
}

func TestThreadsRunning(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := &testClock{at: time.Unix(1000, 0)}
		many := newThrottle(t, c.options(Options{MaxThreadsRunning: 1000, Server: db}))
		if err := errors.Join(many.Check(t.Context()), many.Before(t.Context()), many.Within(t.Context(), 1)); err != nil || c.slept != 0 {
			t.Errorf("an idle server: slept %s, %v", c.slept, err)
		}
		// Somebody keeps a second thread running, so that one is over the bound.
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var id int64
		if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = conn.ExecContext(t.Context(), "DO SLEEP(60)") // it is killed below
		}()
		deadline := time.Now().Add(10 * time.Second)
		for {
			if n, err := threadsRunning(t.Context(), db); err != nil || time.Now().After(deadline) {
				t.Fatal("the thread does not run", err)
			} else if n >= 2 {
				break
			}
		}
		few := newThrottle(t, c.options(Options{MaxThreadsRunning: 1, Server: db, MaxWait: 20 * time.Second}))
		if err := few.Before(t.Context()); !errors.Is(err, ErrBusy) || c.slept != 20*time.Second {
			t.Errorf("Before a busy server = %v after %s", err, c.slept)
		}
		c.slept = 0
		if err := few.Within(t.Context(), 1); err != nil || c.slept != DefaultMaxHold {
			t.Errorf("Within on a busy server = %v after %s", err, c.slept)
		}
		if _, err := db.ExecContext(t.Context(), "KILL ?", id); err != nil {
			t.Fatal(err)
		}
		<-done
		gone, _ := sql.Open("mysql", "u@unix(/none)/d")
		defer gone.Close()
		if err := newThrottle(t, Options{MaxThreadsRunning: 1, Server: gone}).Check(t.Context()); err == nil {
			t.Error("a server that is not there passed")
		}
	})
}

func TestReplicaLag(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := &testClock{at: time.Unix(1000, 0)}
		th := newThrottle(t, c.options(Options{MaxReplicaLag: time.Second, Replicas: []Replica{{"r1", db}}, MaxWait: 3 * time.Second}))
		if err := th.Check(t.Context()); !errors.Is(err, ErrNotReplica) {
			t.Errorf("Check of a server that is no replica = %v", err)
		}
		if err := th.Before(t.Context()); !errors.Is(err, ErrNotReplica) {
			t.Errorf("Before with a server that is no replica = %v", err)
		}
		setUp, reset := "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1", "RESET REPLICA ALL"
		if s.Flavor() == mysqldb.MariaDB {
			setUp, reset = "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1", "RESET SLAVE ALL"
		}
		for _, statement := range []string{setUp} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if behind, known, err := lag(t.Context(), db); known || err != nil {
			t.Errorf("lag of a replica that has stopped = %s, %v, %v", behind, known, err)
		}
		if err := th.Check(t.Context()); err != nil {
			t.Errorf("Check of a replica = %v", err)
		}
		if err := th.Before(t.Context()); !errors.Is(err, ErrBusy) || c.slept != 3*time.Second {
			t.Errorf("Before with a replica that has stopped = %v after %s", err, c.slept)
		}
		if err := th.Within(t.Context(), 10); err != nil {
			t.Errorf("Within asks the replica: %v", err)
		}
		if _, err := db.ExecContext(t.Context(), reset); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBehindOf(t *testing.T) {
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	names := []string{"Replica_IO_State", "Seconds_Behind_Source"}
	tests := []struct {
		name   string
		names  []string
		values []sql.NullString
		want   time.Duration
		known  bool
		fails  bool
	}{
		{"in time", names, []sql.NullString{text("x"), text("0")}, 0, true, false},
		{"behind", names, []sql.NullString{text("x"), text("17")}, 17 * time.Second, true, false},
		{"stopped", names, []sql.NullString{text("x"), {}}, 0, false, false},
		{"older name", []string{"Seconds_Behind_Master"}, []sql.NullString{text("3")}, 3 * time.Second, true, false},
		{"no number", names, []sql.NullString{text("x"), text("many")}, 0, false, true},
		{"no such column", names[:1], []sql.NullString{text("x")}, 0, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, known, err := behindOf(tt.names, tt.values)
			if got != tt.want || known != tt.known || (err != nil) != tt.fails {
				t.Errorf("behindOf = %s, %v, %v", got, known, err)
			}
		})
	}
}
