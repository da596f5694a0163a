package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// preparedRows is how many rows a prepared INSERT has, and any INSERT at most. The
// server takes its values as they are, without reading them as SQL, which is what
// most of a plain INSERT's time goes into. More rows gain nothing, and have more
// parameters than either server handles well.
const preparedRows = 500

// preparer is what of a session can prepare a statement: a *sql.Conn, a *sql.Tx.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statement returns the prepared INSERT, nil where there is none to be had: the
// session cannot, or the server refuses (max_prepared_stmt_count, a proxy).
func (w *Writer) statement(ctx context.Context) (*sql.Stmt, error) {
	if w.prepared != nil || w.unprepared {
		return w.prepared, nil
	}
	p, ok := w.s.(preparer)
	if !ok {
		w.unprepared = true
		return nil, nil
	}
	tuple := "(?" + strings.Repeat(",?", len(fields)-1) + ")"
	st, err := p.PrepareContext(ctx, w.head+tuple+strings.Repeat(","+tuple, w.full-1))
	switch {
	case err == nil:
		w.prepared = st
		return st, nil
	case mysqldb.Number(err) != 0 && !mysqldb.IsConnLost(err):
		// Should it be the table that is refused, the plain INSERT says so, too.
		w.unprepared = true
		return nil, nil
	}
	return nil, fmt.Errorf("prepare to write: %w", err)
}

func (w *Writer) insertPrepared(ctx context.Context, st *sql.Stmt) (affected int64, err error) {
	w.args = w.args[:0]
	for i := range w.rows {
		w.args = appendArgs(w.args, &w.rows[i].Record)
	}
	res, err := st.ExecContext(ctx, w.args...)
	clear(w.args) // they hold the rows' memory
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// placeless reports whether err is a refusal of the statement that says nothing of
// the place.
func placeless(err error) bool {
	var me *mysql.MySQLError
	if !errors.As(err, &me) || mysqldb.IsRetryable(err) || mysqldb.IsConnLost(err) {
		return false
	}
	return !atRow.MatchString(me.Message) && columnOf(me.Message) == "" && !isDuplicate(me.Number)
}

// appendArgs appends the values of r in the order of fields.
func appendArgs(dst []any, r *manifest.Record) []any {
	for i := range fields {
		f := &fields[i]
		switch {
		case f.str != nil:
			dst = append(dst, *f.str(r))
		case f.num != nil:
			dst = append(dst, *f.num(r))
		case f.optStr != nil:
			if p := *f.optStr(r); p != nil {
				dst = append(dst, *p)
			} else {
				dst = append(dst, nil)
			}
		default:
			if p := *f.optNum(r); p != nil {
				dst = append(dst, *p)
			} else {
				dst = append(dst, nil)
			}
		}
	}
	return dst
}

// tupleBound returns how long appendTuple's result is at most.
func tupleBound(r *manifest.Record) int {
	const number = 20 // digits and sign of the longest int64
	n := 2
	for i := range fields {
		f := &fields[i]
		switch {
		case f.str != nil:
			n += 2*len(*f.str(r)) + 2
		case f.optStr != nil && *f.optStr(r) != nil:
			n += 2*len(**f.optStr(r)) + 2
		default:
			n += number
		}
		n++ // the comma
	}
	return n
}
