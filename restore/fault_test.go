package restore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// fault breaks one connection of the driver: that which makes the nth write, all
// connections together, or the first write with a certain text.
type fault struct {
	mu     sync.Mutex
	writes int
	at     int // 0 breaks none
	text   []byte
	sent   bool // the write still goes out, so that only the answer is lost
	hit    bool
}

// set starts to count anew.
func (f *fault) set(at int, sent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes, f.at, f.text, f.sent, f.hit = 0, at, nil, sent, false
}

func (f *fault) state() (writes int, hit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes, f.hit
}

// next counts a write.
func (f *fault) next(p []byte) (lost, sent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.writes != f.at && (f.hit || f.text == nil || !bytes.Contains(p, f.text)) {
		return false, false
	}
	f.hit = true
	return true, f.sent
}

type faultyConn struct {
	net.Conn
	fault *fault
}

var errLost = errors.New("connection lost by the test")

func (c *faultyConn) Write(p []byte) (int, error) {
	lost, sent := c.fault.next(p)
	if !lost {
		return c.Conn.Write(p)
	}
	if sent {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
		// The end that the server sees comes after what it was sent.
		if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			if err := h.CloseWrite(); err != nil {
				return 0, err
			}
		}
		return 0, errLost
	}
	if err := c.Close(); err != nil {
		return 0, err
	}
	return 0, errLost
}

// faulty opens a pool on dsn whose connections f can break.
func faulty(t *testing.T, dsn string, f *fault) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, address := cfg.Net, cfg.Addr
	cfg.Net = "faulty_" + strings.ToLower(strings.NewReplacer("/", "_", " ", "_", "#", "_").Replace(t.Name()))
	mysql.RegisterDialContext(cfg.Net, func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &faultyConn{conn, f}, nil
	})
	t.Cleanup(func() { mysql.DeregisterDialContext(cfg.Net) })
	db, err := mysqldb.Open(t.Context(), cfg.FormatDSN(), mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// The connection is lost at every write that a restore makes, before or after
// the server has it. Whatever the restore says then is true, nothing is there by
// halves, and the same restore run again completes it.
func TestBatchLostConnection(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := records(12)
		v := open(t, rows, nil)
		db, dsn := s.NewDB(t)
		mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		full := linesOf(rows)
		before := linesOf(rows[:3]) // these are there before
		var f fault
		fdb := faulty(t, dsn, &f)
		opts := testOptions(t)
		opts.Method, opts.Logger = method, nil
		reset := func() {
			mustExec(t, db, "DELETE FROM wallet_outbox")
			insert(t, db, rows[:3]...)
		}

		reset()
		f.set(0, false)
		if _, err := Batch(t.Context(), v, fdb, opts); err != nil {
			t.Fatal(err)
		}
		total, _ := f.state()
		readBack := map[State]int{}
		for _, attempts := range []int{1, DefaultMaxAttempts} {
			for _, sent := range []bool{false, true} {
				for n := 1; n <= total; n++ {
					name := fmt.Sprintf("write %d of %d, sent %t, at most %d attempts", n, total, sent, attempts)
					reset()
					f.set(n, sent)
					opts.MaxAttempts = attempts
					r, err := Batch(t.Context(), v, fdb, opts)
					_, hit := f.state()
					got := contents(t, db)
					done := maps.Equal(got, full)
					switch {
					case !hit:
						t.Fatalf("%s: no write was broken", name)
					case !done && !maps.Equal(got, before):
						t.Fatalf("%s: the target has %d rows", name, len(got))
					case r.Complete() != (err == nil) || err == nil && !done:
						t.Errorf("%s: error %v, complete %t, done %t", name, err, r.Complete(), done)
					case err != nil && done && !errors.Is(err, ErrOutcomeUnknown):
						t.Errorf("%s: all rows are there, and yet: %v", name, err)
					case err != nil && attempts > 1:
						t.Errorf("%s: %v", name, err)
					case errors.Is(err, ErrConflict):
						t.Errorf("%s: blames the target: %v", name, err)
					}
					if r.CommitReadBack {
						readBack[r.State]++
					}
					f.set(0, false)
					if r, err := Batch(t.Context(), v, fdb, opts); err != nil || !r.Complete() {
						t.Fatalf("%s: run again: %v", name, err)
					}
					checkContents(t, contents(t, db), full)
				}
			}
		}
		if readBack[Committed] == 0 || readBack[RolledBack] == 0 {
			t.Errorf("commits of which the answer was lost: %v, want some committed and some rolled back", readBack)
		}
	})
}

// The server is gone for good once the commit was sent.
func TestBatchOutcomeUnknown(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(12)
		v := open(t, rows, nil)
		db, dsn := s.NewDB(t)
		mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		var f fault
		fdb := faulty(t, dsn, &f)
		opts := testOptions(t)
		opts.WindowBytes = 1 << 20
		f.text, f.sent = []byte("\x03COMMIT"), true // COM_QUERY
		opts.settle = time.Nanosecond
		r, err := Batch(t.Context(), v, fdb, opts)
		if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrConflict) {
			t.Fatalf("error %v, want ErrOutcomeUnknown", err)
		}
		checkFigures(t, r, figures{Rows: 12, Missing: 12, Inserted: 12, State: Unknown, Attempts: 1})
		if r, err := Batch(t.Context(), v, fdb, opts); err != nil || !r.Complete() {
			t.Errorf("run again: %v", err)
		}
		checkContents(t, contents(t, db), linesOf(rows))
	})
}

// waitForLock waits until a transaction in the database of db waits for a lock.
func waitForLock(ctx context.Context, t *testing.T, db *sql.DB) {
	t.Helper()
	for {
		var n int
		err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.INNODB_TRX t
JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id WHERE p.DB = DATABASE() AND t.trx_state = 'LOCK WAIT'`).Scan(&n)
		if err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			return
		}
		select {
		// Asked more often than every 100 ms, the server shows its first answer.
		case <-time.After(120 * time.Millisecond):
		case <-ctx.Done():
			t.Error("nobody waited for the lock")
			return
		}
	}
}

// Another session holds a row of the batch that was not there yet.
func TestBatchRowAppears(t *testing.T) {
	rows := records(30)
	cases := []struct {
		name  string
		row   func() manifest.Record
		end   string // how the other session ends
		check func(t *testing.T, r Report, err error)
	}{
		{
			"undone", func() manifest.Record { return rows[11] }, "ROLLBACK",
			func(t *testing.T, r Report, err error) {
				if err != nil || !r.Complete() || r.Inserted != 30 || r.Attempts != 1 {
					t.Errorf("error %v, report %+v", err, figuresOf(r))
				}
			},
		},
		{
			"the same row", func() manifest.Record { return rows[11] }, "COMMIT",
			func(t *testing.T, r Report, err error) {
				if err != nil || !r.Complete() || r.Inserted != 29 || r.Present != 1 || r.Attempts != 2 {
					t.Errorf("error %v, report %+v", err, figuresOf(r))
				}
			},
		},
		{
			"another row", func() manifest.Record { r := rows[11]; r.UserID++; return r }, "COMMIT",
			func(t *testing.T, r Report, err error) {
				var conflict *ConflictError
				if !errors.As(err, &conflict) || r.Conflicts[0].Line != 12 || r.Attempts != 2 || r.State != RolledBack {
					t.Errorf("error %v, report %+v", err, figuresOf(r))
				}
			},
		},
	}
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				db := newTarget(t, s)
				other, err := db.Conn(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				mustExec(t, other, "START TRANSACTION")
				row := tc.row()
				insertOn(t, other, row)
				var wg sync.WaitGroup
				wg.Go(func() {
					waitForLock(ctx, t, db)
					mustExec(t, other, tc.end)
				})
				opts := testOptions(t)
				opts.Method = method
				r, err := Batch(ctx, open(t, rows, nil), db, opts)
				wg.Wait()
				tc.check(t, r, err)
				want := linesOf(rows)
				if err != nil {
					want = linesOf([]manifest.Record{row})
				}
				checkContents(t, contents(t, db), want)
			})
		}
	})
}

// A lock that is not given up ends the restore after its attempts, and says
// nothing against the target.
func TestBatchLockWait(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(30)
		_, dsn := s.NewDB(t)
		db, err := mysqldb.Open(t.Context(), dsn+"?innodb_lock_wait_timeout=1", mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		other, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		mustExec(t, other, "START TRANSACTION")
		insertOn(t, other, rows[11])
		opts := testOptions(t)
		opts.MaxAttempts = 2
		r, err := Batch(t.Context(), open(t, rows, nil), db, opts)
		if !mysqldb.IsError(err, mysqldb.ErLockWaitTimeout) || errors.Is(err, ErrConflict) {
			t.Errorf("error %v, want a lock wait timeout", err)
		}
		checkFigures(t, r, figures{Rows: 30, Missing: 30, State: RolledBack, Attempts: 2})
		mustExec(t, other, "ROLLBACK")
		checkContents(t, contents(t, db), map[string]string{})
	})
}

// Whatever goes wrong with the connection that reads back, the rows are read back
// on the other one and nothing else changes.
func TestBatchWitness(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(60)
		v := open(t, rows, nil)
		for _, tc := range []struct {
			name  string
			text  string // of the write at which a connection is lost
			conns int
		}{
			{name: "second connection"},
			{name: "one connection", conns: 1},
			{name: "lost at the introduction", text: "IS_USED_LOCK"},
			{name: "lost in between", text: "BETWEEN"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				db, dsn := s.NewDB(t)
				mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
				var f fault
				fdb := faulty(t, dsn, &f)
				fdb.SetMaxOpenConns(tc.conns)
				if tc.text != "" {
					f.text = []byte(tc.text)
				}
				r, err := Batch(t.Context(), v, fdb, testOptions(t))
				if err != nil {
					t.Fatal(err)
				}
				checkFigures(t, r, figures{Rows: 60, Missing: 60, Inserted: 60, State: Committed, Attempts: 1, Complete: true})
				checkContents(t, contents(t, db), linesOf(rows))
				if _, hit := f.state(); hit != (tc.text != "") {
					t.Errorf("connection lost: %t", hit)
				}
				// A server may take a moment to end a statement of which all was read.
				n, deadline := 1, time.Now().Add(5*time.Second)
				for err == nil && n > 0 && time.Now().Before(deadline) {
					time.Sleep(time.Millisecond)
					err = fdb.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND COMMAND <> 'Sleep'").Scan(&n)
				}
				if err != nil || n > 0 {
					t.Errorf("%d statements still run, error %v", n, err)
				}
			})
		}
	})
}

// A second connection that leads to another server is no witness.
func TestBatchWitnessElsewhere(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		conns := make([]*sql.Conn, 2)
		for i := range conns {
			var err error
			if conns[i], err = db.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close()
		}
		table, err := outbox.Describe(t.Context(), db, outbox.DefaultTable)
		if err != nil {
			t.Fatal(err)
		}
		a := &attempt{restorer: &restorer{table: table}, conn: conns[0]}
		if err := a.introduce(t.Context(), conns[1]); err != nil {
			t.Errorf("introduce a second connection: %v", err)
		}
		for _, other := range mysqltest.Names() {
			if other == s.Name {
				continue
			}
			odb := newTarget(t, mysqltest.Get(t, other))
			conn, err := odb.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := a.introduce(t.Context(), conn); !errors.Is(err, errOtherServer) {
				t.Errorf("introduce %s to %s: %v", other, s.Name, err)
			}
		}
		mustExec(t, conns[1], "ROLLBACK")
		// Nothing is left of the locks.
		if err := a.introduce(t.Context(), conns[1]); err != nil || a.broken {
			t.Errorf("introduce it again: %v", err)
		}
	})
}
