package restore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

const (
	// commitTimeout bounds the wait for the answer to a COMMIT, which a cancelled
	// context does not cut short: its outcome would be unknown. A server writes
	// the whole transaction to its binary log in that time.
	commitTimeout = 30 * time.Minute
	// rollbackTimeout bounds the wait for a ROLLBACK. When it is over the
	// connection is closed, upon which the server rolls back by itself.
	rollbackTimeout = time.Minute
)

// attempt is one transaction.
type attempt struct {
	*restorer
	conn   *sql.Conn
	target target
	// present, inserted and overwritten are the lines that are known to be in the
	// target as archived; different are those that it held otherwise.
	present, inserted, overwritten, different lines

	differing []DifferentRow // where keepsDifferent says so

	unreadable lines  // of the different: what the target holds is no record
	staged     bool   // the temporary table is there
	stuck      int64  // conflicts that no OnConflict resolves
	respelled  int64  // of the inserted and overwritten
	first      string // event_id of the first row that was inserted
	broken     bool   // the connection must not be used again
}

// attempt begins a transaction and brings it to its end. careful looks up every
// key even when the target seems to hold nothing.
func (r *restorer) attempt(ctx context.Context, careful bool) error {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	a := &attempt{
		restorer: r, conn: conn,
		target: target{
			q: conn, table: &r.table, appCode: r.manifest.AppCode,
			comparer: comparer{strict: r.opts.StrictPayload},
		},
		present: newLines(r.report.Rows), inserted: newLines(r.report.Rows),
		overwritten: newLines(r.report.Rows), different: newLines(r.report.Rows), unreadable: newLines(r.report.Rows),
	}
	defer a.release()
	if err := a.stage(ctx); err != nil {
		return err
	}
	defer a.strike(ctx)
	// Each statement sees what is committed, and no gaps are locked.
	for _, s := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			a.broken = true
			return fmt.Errorf("begin the transaction: %w", err)
		}
	}
	if !r.opts.DryRun {
		if err := r.opts.begin(ctx); err != nil {
			return errors.Join(err, a.rollback(ctx))
		}
	}
	asked, err := a.transact(ctx, careful)
	if asked {
		return err
	}
	if rerr := a.rollback(ctx); rerr != nil {
		r.log.DebugContext(ctx, "roll back", "error", rerr)
	}
	return err
}

// release gives the connection back, or closes it.
func (a *attempt) release() {
	if a.broken {
		drop(a.conn)
		return
	}
	_ = a.conn.Close() // its error is that it was closed before
}

// drop closes a connection rather than give it back to its pool, which does so
// when it sees this error.
func drop(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// transact does what is between START TRANSACTION and its end; asked says that
// the end was asked for by COMMIT.
func (a *attempt) transact(ctx context.Context, careful bool) (asked bool, err error) {
	if err := a.look(ctx, careful); err != nil {
		return false, err
	}
	if err := a.asPlanned(ctx); err != nil {
		return false, err
	}
	judged := a.judge()
	if judged == nil || a.opts.DryRun { // a plan names all there is to name
		if err := a.rehearse(ctx); err != nil {
			return false, err
		}
	}
	if judged != nil || a.opts.DryRun {
		return false, judged
	}
	unchanged := a.toWrite() == 0
	if !unchanged {
		if err := a.load(ctx); err != nil {
			return false, err
		}
	}
	if err := a.account(); err != nil {
		return false, err
	}
	if unchanged && !a.opts.writes() {
		a.report.State = Unchanged
		return false, nil
	}
	if err := a.opts.beforeCommit(ctx, a.conn); err != nil {
		return false, err
	}
	return true, a.commit(ctx)
}

// look finds out which rows are in the target, and compares them.
func (a *attempt) look(ctx context.Context, careful bool) error {
	empty, err := a.target.empty(ctx)
	if err != nil {
		return err
	}
	if empty && !careful {
		a.report.Missing = a.report.Selected
		a.progress()
		return nil
	}
	strangers := make(map[string]bool)
	v := visitor{
		row: func(row *manifest.Row, f found) error {
			switch {
			case f.missing:
				a.report.Missing++
				return nil
			case f.likeness == differs:
				return a.differs(ctx, row, f)
			case f.likeness == sameValue:
				a.report.Respelled++
			}
			a.report.Present++
			if !a.present.add(row.Line) {
				return fmt.Errorf("%w: line %d twice", errSortedRows, row.Line)
			}
			return a.opts.row(ctx, RowOutcome{Row: row, Outcome: Present, Respelled: f.likeness == sameValue})
		},
		stranger: func(got *manifest.Record) error {
			if !strangers[got.EventID] {
				strangers[got.EventID] = true
				a.stuck++
				a.conflict(Conflict{EventID: got.EventID, Columns: []ColumnChange{{
					Column: eventIDColumn, Archived: "another event_id that the target's collation takes for this one", Found: show(got, eventIDColumn),
				}}})
			}
			return nil
		},
	}
	return windows(ctx, a.rows.sorted(), a.opts.WindowBytes, func(w window) error {
		err := a.target.compare(ctx, w, false, v)
		a.progress()
		return err
	})
}

// toWrite counts the rows to be inserted or overwritten.
func (a *attempt) toWrite() int64 {
	if a.opts.OnConflict == Overwrite {
		return a.report.Missing + a.report.ConflictCount - a.stuck
	}
	return a.report.Missing
}

func (a *attempt) conflict(c Conflict) {
	a.report.ConflictCount++
	if len(a.report.Conflicts) < MaxConflicts {
		a.report.Conflicts = append(a.report.Conflicts, c)
	}
}

// load writes the missing rows and reads them back, window by window.
func (a *attempt) load(ctx context.Context) error {
	writer, err := outbox.NewWriter(ctx, a.conn, &a.table, outbox.WriterOptions{Method: a.opts.Method, ChunkBytes: a.opts.StatementBytes})
	if err != nil {
		return err
	}
	defer writer.Close()
	a.report.Loader = writer.Method().String()
	l := loader{attempt: a, writer: writer, dense: a.report.Missing == a.report.Selected}
	readBack := "on a second connection, meanwhile"
	if l.witness, err = a.callWitness(ctx, l.dense); err != nil {
		readBack = "on the same connection, since " + err.Error()
	} else {
		defer l.witness.dismiss()
	}
	a.log.InfoContext(ctx, "loading rows", "table", a.table.Name, "rows", a.toWrite(), "loader", a.report.Loader, "read_back", readBack)
	err = windows(ctx, a.rows.sorted(), a.opts.WindowBytes, func(w window) error { return l.window(ctx, w) })
	if err != nil {
		return err
	}
	return l.finish(ctx)
}

// account proves that every selected line of the batch was found in the target
// as archived, once, but for those that were skipped.
func (a *attempt) account() error {
	var n, skipped int64
	for line := int64(1); line <= a.report.Rows; line++ {
		found := 0
		for _, set := range []lines{a.present, a.inserted, a.overwritten} {
			if set.has(line) {
				found++
			}
		}
		switch {
		case found == 1 && a.different.has(line) == a.overwritten.has(line):
			n++
		case found == 0 && a.different.has(line):
			skipped++
		case found != 0:
			return fmt.Errorf("line %d was found %d times", line, found)
		}
	}
	r := &a.report
	if skipped != r.Skipped || n+skipped != r.Selected || r.Present+r.Inserted+r.Overwritten != n {
		return fmt.Errorf("%d of %d rows were compared, %d present, %d inserted, %d overwritten and %d skipped",
			n+skipped, r.Selected, r.Present, r.Inserted, r.Overwritten, r.Skipped)
	}
	return nil
}

// commit asks for the end of the transaction. Whatever comes instead of an OK,
// the server is asked what it holds.
func (a *attempt) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		// Nothing was asked for yet; closing the connection undoes everything.
		a.broken = true
		a.undone()
		return err
	}
	commitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	_, err := a.conn.ExecContext(commitCtx, "COMMIT")
	if err == nil {
		a.done()
		return nil
	}
	a.broken = true
	a.release() // the pool may have room for no other connection
	a.log.WarnContext(ctx, "the commit was not confirmed, asking the server what it holds", "error", err)
	return a.settle(ctx, err)
}

// rollback ends a transaction that is not to be committed, or that only read.
func (a *attempt) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, err := a.conn.ExecContext(ctx, "ROLLBACK")
	a.broken = a.broken || err != nil
	a.undone()
	return err
}

// undone takes back what the report said of rows that were written.
func (a *attempt) undone() {
	if a.report.Loader != "" && a.report.State != Unchanged {
		a.report.State = RolledBack
	}
	a.report.Inserted, a.report.Overwritten = 0, 0
	a.report.Respelled -= a.respelled
	a.respelled = 0
}

// done notes that the transaction was committed.
func (a *attempt) done() {
	a.report.State = Committed
	if a.toWrite() == 0 {
		a.report.State = Unchanged
	}
}

// settleTimeout bounds how long the server is asked what became of a commit.
const settleTimeout = 5 * time.Minute

// settle finds out on another connection what became of the commit that was
// answered with cause. The result is nil when the server has every row, cause
// when it has none of those that were written, so that the transaction may be
// run again, and ErrOutcomeUnknown when it cannot tell.
func (a *attempt) settle(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opts.settle)
	defer cancel()
	undone, err := a.ask(ctx)
	written := a.toWrite()
	a.report.CommitReadBack = true
	switch {
	case err != nil:
		a.report.State = Unknown
		return fmt.Errorf("%w: commit: %w; asking the server afterwards: %w", ErrOutcomeUnknown, cause, err)
	case written == 0:
		// Only hooks wrote, so that the rows do not tell; and the rows were there.
		return fmt.Errorf("commit: %w", cause)
	case undone == 0:
		a.done()
		a.log.InfoContext(ctx, "the commit went through")
		return nil
	case undone == written:
		a.undone()
		return fmt.Errorf("commit: %w; the server holds none of the rows", cause)
	default:
		a.report.State = Unknown
		return fmt.Errorf("%w: commit: %w; the server holds %d of %d rows that were written", ErrOutcomeUnknown, cause,
			written-undone, written)
	}
}

// ask counts the rows that were written and are as they were before. It waits
// until the transaction whose fate is in question has ended on the server.
func (a *attempt) ask(ctx context.Context) (undone int64, err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := a.awaitEnd(ctx, conn); err != nil {
		return 0, err
	}
	t := target{q: conn, table: &a.table, appCode: a.manifest.AppCode, comparer: a.target.comparer}
	var differ int64
	v := visitor{
		row: func(row *manifest.Row, f found) error {
			switch {
			case f.missing && a.inserted.has(row.Line), f.likeness == differs && a.overwritten.has(row.Line) && !f.missing:
				undone++
			case (f.missing || f.likeness == differs) && !a.different.has(row.Line):
				differ++
			}
			return nil
		},
		stranger: func(*manifest.Record) error { return nil }, // its row counts as missing
	}
	err = windows(ctx, a.rows.sorted(), a.opts.WindowBytes, func(w window) error { return t.compare(ctx, w, false, v) })
	if err == nil && differ > 0 {
		err = fmt.Errorf("%d rows are missing or differ from the archive now", differ)
	}
	return undone, err
}

// connect tries for as long as ctx allows, since a server that went away may be
// coming back.
func (a *attempt) connect(ctx context.Context) (*sql.Conn, error) {
	for wait := a.opts.backoff; ; wait = min(2*wait, 5*time.Second) {
		conn, err := a.db.Conn(ctx)
		if err == nil {
			if err = conn.PingContext(ctx); err == nil {
				return conn, nil
			}
			_ = conn.Close() // the ping says why it is of no use
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the target: %w", err)
		}
	}
}

// awaitEnd waits for the lock on the first row that was inserted. The server
// holds it until the transaction has ended, one way or the other: a COMMIT that
// has arrived but is still at work, or a connection whose end it has not noticed.
func (a *attempt) awaitEnd(ctx context.Context, conn *sql.Conn) error {
	query := "SELECT 1 FROM " + mysqldb.QuoteName(a.table.Name) + " WHERE " + mysqldb.QuoteName("app_code") + " = ? AND " +
		mysqldb.QuoteName(eventIDColumn) + " = ? LOCK IN SHARE MODE"
	if a.first == "" {
		return nil
	}
	for {
		var one int
		err := conn.QueryRowContext(ctx, query, a.manifest.AppCode, a.first).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		if err == nil || !mysqldb.IsRetryable(err) {
			return err
		}
	}
}
