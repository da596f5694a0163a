package restore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// witness reads back what a transaction has written, on another connection and
// while the transaction writes on, which takes a third off the time of a restore
// (docs/DESIGN.md "Restoring").
//
// It reads at READ UNCOMMITTED, where InnoDB gives the newest version of a row in
// the primary key, committed or not. The rows that it is asked for were missing
// before and are locked by the transaction now, so nobody else can have written
// or can change them, and what it sees is what a commit would keep. It is only
// believed when it finds a row as archived; whatever else it finds or fails to
// find is left to the transaction's own connection.
type witness struct {
	conn   *sql.Conn
	target target
	in     chan window
	out    chan testimony
	cancel context.CancelFunc
	closed bool // in
}

// testimony is what the witness says of one window.
type testimony struct {
	same, respelled []*manifest.Row // as archived, or with the same payload spelled otherwise
	doubtful        window          // the others, in the order of windows
	err             error           // why all are doubtful
}

// witnessTimeout bounds the wait for the second connection.
const witnessTimeout = 5 * time.Second

var (
	errOneConnection = errors.New("the pool allows one connection only")
	errOtherEngine   = errors.New("not a table of InnoDB")
	errOtherServer   = errors.New("a second connection reaches another server")
)

// callWitness opens the second connection and makes sure that it leads to the
// server of the transaction. An error only says why there is no witness.
func (a *attempt) callWitness(ctx context.Context, dense bool) (*witness, error) {
	switch {
	case a.db.Stats().MaxOpenConnections == 1:
		return nil, errOneConnection
	case !strings.EqualFold(a.table.Engine, "InnoDB"):
		return nil, errOtherEngine
	}
	setup, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	conn, err := a.db.Conn(setup)
	if err != nil {
		return nil, err
	}
	if err := a.introduce(setup, conn); err != nil {
		drop(conn)
		return nil, err
	}
	w := &witness{
		conn: conn, in: make(chan window), out: make(chan testimony),
		target: target{q: conn, table: &a.table, appCode: a.manifest.AppCode, comparer: comparer{strict: a.opts.StrictPayload}},
	}
	ctx, w.cancel = context.WithCancel(ctx)
	go w.listen(ctx, dense)
	return w, nil
}

// introduce proves that conn leads to the same server, by a lock that the
// transaction's connection holds there, and begins a transaction on it. That
// transaction reads the table at once, so that an ALTER TABLE which comes later
// waits for it and never it for the ALTER TABLE.
func (a *attempt) introduce(ctx context.Context, conn *sql.Conn) (err error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	name := "walletarchive_restore:" + hex.EncodeToString(random)
	var got, mine sql.NullInt64
	if err := a.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0), CONNECTION_ID()", name).Scan(&got, &mine); err != nil {
		a.broken = true // the lock may be held
		return fmt.Errorf("take a lock: %w", err)
	}
	defer func() {
		if _, rerr := a.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", name); rerr != nil {
			a.broken = true
			err = errors.Join(err, rerr)
		}
	}()
	for _, s := range []string{"SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	var holder, one sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?), (SELECT 1 FROM "+mysqldb.QuoteName(a.table.Name)+" LIMIT 1)", name).Scan(&holder, &one)
	if err == nil && (got.Int64 != 1 || holder != mine) {
		err = errOtherServer
	}
	return err
}

// listen answers every window that comes in.
func (w *witness) listen(ctx context.Context, dense bool) {
	defer close(w.out)
	var lost error
	for rows := range w.in {
		t := testimony{err: lost}
		if lost == nil {
			t.err = w.target.compare(ctx, rows, dense, visitor{
				row: func(row *manifest.Row, f found) error {
					switch {
					case f.missing || f.likeness == differs:
						t.doubtful = append(t.doubtful, row)
					case f.likeness == sameValue:
						t.respelled = append(t.respelled, row)
					default:
						t.same = append(t.same, row)
					}
					return nil
				},
				stranger: func(*manifest.Record) error { return nil }, // its row is doubtful
			})
			lost = t.err
		}
		if t.err != nil {
			t.same, t.respelled, t.doubtful = nil, nil, rows
		}
		slices.SortFunc(t.doubtful, func(a, b *manifest.Row) int { return strings.Compare(a.EventID, b.EventID) })
		w.out <- t
	}
}

// dismiss stops the witness and waits for it. What it was still to say is lost.
func (w *witness) dismiss() {
	w.cancel()
	w.hangUp()
	for range w.out {
	}
	drop(w.conn)
}

// hangUp says that no window comes any more.
func (w *witness) hangUp() {
	if !w.closed {
		w.closed = true
		close(w.in)
	}
}
