package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// faults breaks connections of a pool at the nth packet that goes to the server;
// each statement is one.
type faults struct {
	mu     sync.Mutex
	left   int  // packets until the fault, 0 when disarmed
	after  bool // the packet still arrives, only the answer never does
	noDial bool // no connection can be made after the fault
	down   bool
	fired  bool
}

var errFault = errors.New("the connection broke, as the test has it")

func (f *faults) arm(n int, after, noDial bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.after, f.noDial, f.down, f.fired = n, after, noDial, false, false
}

// disarm reports whether the fault has happened.
func (f *faults) disarm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.down = 0, false
	return f.fired
}

// strike reports whether the next packet is the one, and whether it arrives.
func (f *faults) strike() (now, arrives bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return false, true
	}
	if f.left--; f.left > 0 {
		return false, true
	}
	f.fired, f.down = true, f.noDial
	return true, f.after
}

type faultyConn struct {
	net.Conn
	faults *faults
}

func (c *faultyConn) Write(p []byte) (int, error) {
	now, arrives := c.faults.strike()
	if !now {
		return c.Conn.Write(p)
	}
	if arrives {
		if n, err := c.Conn.Write(p); err != nil {
			return n, err
		}
		// The server has the statement once it answers; the answer is lost. It never
		// answers to the closing of a prepared statement.
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = c.Conn.Read(make([]byte, 1))
		_ = c.Conn.Close()
		return len(p), nil
	}
	_ = c.Conn.Close()
	return 0, errFault
}

// newFaultyDB returns a pool on the database of dsn whose connections f breaks.
func newFaultyDB(t *testing.T, dsn string, f *faults) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, address := cfg.Net, cfg.Addr
	name := fmt.Sprintf("faulty%p", f)
	mysql.RegisterDialContext(name, func(ctx context.Context, _ string) (net.Conn, error) {
		f.mu.Lock()
		down := f.down
		f.mu.Unlock()
		if down {
			return nil, errFault
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &faultyConn{conn, f}, err
	})
	t.Cleanup(func() { mysql.DeregisterDialContext(name) })
	cfg.Net = name
	db, err := mysqldb.Open(t.Context(), cfg.FormatDSN(), mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestRecordInterrupted breaks the connection at every packet of Record, before
// the server has it and after, for a batch that is new and for one that is there
// already. Whatever Record said must be so, and the same call again must end with
// one receipt and all its members.
func TestRecordInterrupted(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tt := range []struct {
			name            string
			after, recorded bool
		}{
			{"before the server has it", false, false},
			{"after the server has it", true, false},
			{"recorded already, before", false, true},
			{"recorded already, after", true, true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				plain, dsn := s.NewDB(t)
				if err := New(plain).CreateTables(t.Context()); err != nil {
					t.Fatal(err)
				}
				f := &faults{}
				l := New(newFaultyDB(t, dsn, f))
				b := newBatch(t, "game", "b", 2*chunkRows+1)
				if tt.recorded {
					mustRecord(t, New(plain), b)
				}
				committed, broken := 0, 0
				n := 1
				for ; ; n++ {
					if !tt.recorded {
						exec(t, plain, "DELETE FROM "+ReceiptsTable)
						exec(t, plain, "DELETE FROM "+MembersTable)
					}
					if n == 1 {
						if err := l.CheckTables(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					f.arm(n, tt.after, false)
					existed, err := l.Record(t.Context(), b.receipt, each(b.members))
					if !f.disarm() {
						if err != nil || existed != tt.recorded {
							t.Fatalf("Record without a fault = %v, %v", existed, err)
						}
						break
					}
					switch {
					case errors.Is(err, ErrOutcomeUnknown):
						t.Errorf("packet %d: %v, though the server can be asked", n, err)
					case err != nil:
						broken++
						if !tt.recorded {
							checkHolds(t, plain)
						}
					default:
						committed++
						checkHolds(t, plain, b)
					}
					again, err := l.Record(t.Context(), b.receipt, each(b.members))
					if err != nil {
						t.Errorf("packet %d: Record again = %v, %v", n, again, err)
					}
					checkHolds(t, plain, b)
				}
				t.Logf("%d packets, %d broken, %d committed", n-1, broken, committed)
				// Isolation, begin, receipt and its reading; then orphans, three chunks,
				// commit, or the members that are there and the rollback.
				if least := map[bool]int{false: 12, true: 5}[tt.recorded]; n-1 < least {
					t.Errorf("Record sent %d packets, want at least %d: the test does not reach them", n-1, least)
				}
				if tt.after && !tt.recorded && committed == 0 {
					t.Error("the commit whose answer was lost was never found")
				}
			})
		}
	})
}

// TestRecordOutcomeUnknown loses the answer of the commit, and the server as well.
func TestRecordOutcomeUnknown(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		plain, dsn := s.NewDB(t)
		if err := New(plain).CreateTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := &faults{}
		l := New(newFaultyDB(t, dsn, f))
		if err := l.CheckTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for n := 1; ; n++ {
			b := newBatch(t, "game", fmt.Sprint("b", n), 1)
			f.arm(n, true, true)
			_, err := l.Record(t.Context(), b.receipt, each(b.members))
			if !f.disarm() {
				break
			}
			if errors.Is(err, ErrOutcomeUnknown) {
				unknown++
				existed, err := l.Record(t.Context(), b.receipt, each(b.members))
				if err != nil || !existed {
					t.Errorf("Record again = %v, %v, want true, nil", existed, err)
				}
			}
		}
		if unknown != 1 {
			t.Errorf("%d packets leave the outcome unknown, want only that of the commit", unknown)
		}
	})
}

// TestOutcome holds what is made of a commit that failed.
func TestOutcome(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		b, absent := newBatch(t, "game", "b", 1), newBatch(t, "game", "absent", 1)
		mustRecord(t, l, b)
		if err := l.outcome(t.Context(), &b.receipt, errFault); err != nil {
			t.Errorf("outcome of a receipt that is there = %v", err)
		}
		if err := l.outcome(t.Context(), &absent.receipt, errFault); !errors.Is(err, errFault) {
			t.Errorf("outcome of a receipt that is not there = %v, want %v", err, errFault)
		}
		later := b.at(1).receipt
		if err := l.outcome(t.Context(), &later, errFault); !errors.Is(err, errFault) || !strings.Contains(err.Error(), "verified_at_ms") {
			t.Errorf("outcome of a receipt that another run recorded = %v, want %v and the column", err, errFault)
		}

		// A transaction that is still alive is waited for, not taken for absent.
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), insertReceipt, receiptArgs(&absent.receipt)...); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		go func() { done <- l.outcome(cancelled, &absent.receipt, errFault) }()
		waitForLockWait(t, db)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("outcome of a transaction that committed meanwhile = %v", err)
		}
	})
}

// waitForLockWait returns once the locking read of the receipts is on the server.
func waitForLockWait(t *testing.T, db *sql.DB) {
	t.Helper()
	for n := 0; n == 0; {
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.processlist
			WHERE db = DATABASE() AND info LIKE 'SELECT%LOCK IN SHARE MODE' AND id <> CONNECTION_ID()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecordCancelled cancels while members are read: nothing is written.
func TestRecordCancelled(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		l.window = chunkRows
		b := newBatch(t, "game", "b", chunkRows+1)
		ctx, cancel := context.WithCancel(t.Context())
		members := func(yield func(manifest.Member, error) bool) {
			for i, m := range b.members {
				if i == chunkRows { // a window is written, and one is not full
					cancel()
				}
				if !yield(m, nil) {
					return
				}
			}
		}
		if _, err := l.Record(ctx, b.receipt, members); !errors.Is(err, context.Canceled) {
			t.Errorf("Record = %v, want %v", err, context.Canceled)
		}
		mustRecord(t, l, b)
		checkHolds(t, db, b)
	})
}
