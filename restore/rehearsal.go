package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// Rehearsal says what a temporary table of the target's definition, on the same
// server and connection, made of the rows to be written. It has the columns,
// charsets, collations, generated columns, CHECKs and unique keys of the target,
// but neither triggers nor foreign keys, nor the rows that are there already.
type Rehearsal struct {
	Rows int64 `json:"rows"` // written, or refused, and looked at
	// Changed rows came back with another value, and refused ones were not taken.
	// Either keeps the batch out.
	Changed   int64 `json:"changed"`
	Refused   int64 `json:"refused"`
	Respelled int64 `json:"respelled"` // payloads of the same value that are spelled otherwise
	// Dispatched rows are selected by the relay's condition.
	Dispatched int64 `json:"dispatched"`
	// Whole says that every row to be written was looked at. It is false after
	// maxRefused rows were refused.
	Whole      bool  `json:"whole"`
	DurationMS int64 `json:"duration_ms"` // of writing and reading back
	// Because says why the definition alone was not enough; empty when a dry run
	// rehearsed for its own sake.
	Because []string `json:"because"`
}

// rehearsalTable hides a table of that name, if there is one, from its own
// connection and from nobody else.
const rehearsalTable = "walletarchive_rehearsal"

// maxRefused is after how many refused rows a rehearsal ends: each costs a
// statement of its own.
const maxRefused = 1000

// Codes of problems that a rehearsal finds.
const (
	changedByServer  outbox.Code = "changed_by_server"
	refusedByServer  outbox.Code = "refused_by_server"
	keyMerged        outbox.Code = "event_ids_merged"
	payloadRespelled outbox.Code = "payload_respelled"
	notRehearsed     outbox.Code = "not_rehearsed"
)

// stage makes the table for the rehearsal, if there is to be one, before the
// transaction begins: some servers refuse it inside of one (1787, with GTIDs).
func (a *attempt) stage(ctx context.Context) error {
	if a.opts.Scratch || a.opts.Rehearsed || a.opts.CompareOnly || a.rehearsed || a.proven() {
		return nil
	}
	_, err := a.conn.ExecContext(ctx, "CREATE TEMPORARY TABLE "+mysqldb.QuoteName(rehearsalTable)+" LIKE "+mysqldb.QuoteName(a.table.Name))
	switch {
	case err == nil:
		a.staged = true
	case mysqldb.Number(err) == 0, mysqldb.IsConnLost(err), mysqldb.IsRetryable(err):
		a.broken = true
		return fmt.Errorf("make a temporary table: %w", err)
	default:
		// An account without the privilege, or a partitioned table.
		a.rehearsed = true
		a.problem(ctx, Problem{Code: notRehearsed, Detail: "the server makes no temporary table of the same definition, so that what it " +
			"would change in silence is only found once it was written, before the commit: " + err.Error()})
	}
	return nil
}

// strike drops the table of the rehearsal.
func (a *attempt) strike(ctx context.Context) {
	if !a.staged || a.broken {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := a.conn.ExecContext(ctx, "DROP TEMPORARY TABLE IF EXISTS "+mysqldb.QuoteName(rehearsalTable)); err != nil {
		a.broken = true // the server drops it with the connection
	}
}

// problem adds to what the preflight found.
func (r *restorer) problem(ctx context.Context, p Problem) {
	if r.opts.ignore(p) {
		return
	}
	r.report.Problems = append(r.report.Problems, p)
	if !p.Fatal {
		r.log.InfoContext(ctx, "preflight", "table", r.opts.Table, "problem", p.String())
	}
}

// rehearse finds out whether the account may write at all, and writes the rows that
// are to be written into the temporary table. The error is a *PreflightError when
// the server refuses, or changes or refuses a row, or when the relay would take one.
func (a *attempt) rehearse(ctx context.Context) error {
	if a.toWrite() == 0 {
		return nil
	}
	before := len(a.report.Problems)
	if err := a.tryToWrite(ctx); err != nil {
		return err
	}
	rehearse := a.spareRehearsal
	if a.staged {
		rehearse = a.rehearseStaged
	}
	if err := rehearse(ctx); err != nil {
		return err
	}
	fatal := &PreflightError{Table: a.table.Name}
	for _, p := range a.report.Problems[before:] {
		if p.Fatal {
			fatal.Problems = append(fatal.Problems, p)
		}
	}
	if len(fatal.Problems) > 0 {
		return fatal
	}
	return nil
}

// rehearseStaged is the rehearsal itself. What it finds it adds to the problems.
func (a *attempt) rehearseStaged(ctx context.Context) error {
	because := append([]string{}, a.doubts...)
	h := rehearsal{attempt: a, table: a.table, columns: map[columnCode]*trouble{}, found: Rehearsal{Whole: true, Because: because}}
	h.table.Name, h.table.Triggers, h.table.ForeignKeys = rehearsalTable, nil, nil
	h.target = target{q: a.conn, table: &h.table, appCode: a.manifest.AppCode, comparer: comparer{}}
	began := a.opts.Now()
	err := windows(ctx, a.rows.sorted(), a.opts.WindowBytes, func(w window) error { return h.window(ctx, w) })
	if h.writer != nil {
		h.writer.Close()
	}
	if errors.Is(err, errEnough) {
		h.found.Whole, err = false, nil
	}
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	h.found.DurationMS = max(a.opts.Now().Sub(began), time.Millisecond).Milliseconds()
	if err := h.askRelay(ctx); err != nil {
		return err
	}
	if n := h.found.Rows; h.found.Whole && n != a.toWrite() {
		return fmt.Errorf("rehearse: %d of %d rows were looked at", n, a.toWrite())
	}
	a.report.Rehearsal, a.rehearsed = &h.found, true
	for _, p := range h.problems() {
		a.problem(ctx, p)
	}
	return nil
}

var errEnough = errors.New("enough rows were refused")

// rehearsal is the work of one rehearse.
type rehearsal struct {
	*attempt
	table   outbox.Table
	target  target
	writer  *outbox.Writer
	found   Rehearsal
	order   []columnCode // of columns, as they were met
	columns map[columnCode]*trouble
	relayed string // event_id that the relay would take
}

type columnCode struct {
	column string
	code   outbox.Code
}

// trouble is what happened to rows in one column.
type trouble struct {
	rows  int64
	first string // what happened to the first of them
}

func (h *rehearsal) note(row *manifest.Row, column string, code outbox.Code, what string) {
	key := columnCode{column, code}
	t := h.columns[key]
	if t == nil {
		t = &trouble{first: fmt.Sprintf("line %d, event_id %q: %s", row.Line, clip(row.EventID), what)}
		h.columns[key] = t
		h.order = append(h.order, key)
	}
	t.rows++
}

func (h *rehearsal) window(ctx context.Context, w window) error {
	var todo window
	for _, row := range w {
		different := h.different.has(row.Line)
		if h.present.has(row.Line) || different && h.opts.OnConflict != Overwrite {
			continue
		}
		if different && h.unreadable.has(row.Line) {
			continue
		}
		todo = append(todo, row)
	}
	if len(todo) == 0 {
		return nil
	}
	h.found.Rows += int64(len(todo))
	if _, err := h.conn.ExecContext(ctx, "SAVEPOINT walletarchive"); err != nil {
		return err
	}
	err := h.write(ctx, todo)
	if err != nil {
		if mysqldb.IsRetryable(err) || mysqldb.IsConnLost(err) || ctx.Err() != nil {
			return err
		}
		h.writer.Close()
		h.writer = nil // it must not be used any more
		if _, err := h.conn.ExecContext(ctx, "ROLLBACK TO SAVEPOINT walletarchive"); err != nil {
			return err
		}
		if todo, err = h.oneByOne(ctx, todo); err != nil {
			return err
		}
	}
	if len(todo) == 0 {
		return nil
	}
	return h.target.compare(ctx, todo, h.report.Missing == h.report.Selected, visitor{
		row: func(row *manifest.Row, f found) error {
			switch {
			case f.missing:
				h.found.Changed++
				h.note(row, eventIDColumn, changedByServer, ErrRowMissing.Error())
			case f.likeness == differs:
				h.found.Changed++
				for _, c := range f.changes {
					h.note(row, c.Column, changedByServer, "archived "+c.Archived+", would become "+c.Found)
				}
			case f.likeness == sameValue:
				h.found.Respelled++
				h.note(row, payloadColumn, payloadRespelled, "archived "+mask(&row.PayloadJSON)+", would become "+mask(&f.got.PayloadJSON))
			}
			return nil
		},
		stranger: func(*manifest.Record) error { return nil }, // its row is missing then
	})
}

func (h *rehearsal) write(ctx context.Context, w window) error {
	if h.writer == nil {
		var err error
		h.writer, err = outbox.NewWriter(ctx, h.conn, &h.table, outbox.WriterOptions{Method: h.opts.Method, ChunkBytes: h.opts.StatementBytes})
		if err != nil {
			return err
		}
	}
	return add(ctx, h.writer, w)
}

// oneByOne writes each row of w with a statement of its own, and returns those
// that the server took, even if with a warning: what it made of them is read
// back.
func (h *rehearsal) oneByOne(ctx context.Context, w window) (taken window, err error) {
	for _, row := range w {
		if h.found.Refused >= maxRefused {
			return nil, errEnough
		}
		one, err := outbox.NewWriter(ctx, h.conn, &h.table, outbox.WriterOptions{Method: outbox.Insert})
		if err != nil {
			return nil, err
		}
		err = add(ctx, one, window{row})
		var warning *outbox.WarningError
		var rowErr *outbox.RowError
		column := ""
		switch {
		case err == nil:
			taken = append(taken, row)
			continue
		case mysqldb.IsRetryable(err), mysqldb.IsConnLost(err), ctx.Err() != nil:
			return nil, err
		case errors.As(err, &warning):
			column = warning.Column
		case errors.As(err, &rowErr):
			column = rowErr.Column
		case mysqldb.Number(err) == 0:
			return nil, err
		}
		h.found.Refused++
		code, what := refusedByServer, refusal(err)
		if errors.Is(err, outbox.ErrDuplicate) {
			other, err := h.takenFor(ctx, row)
			if err != nil {
				return nil, err
			}
			if other != "" {
				column, code, what = eventIDColumn, keyMerged, fmt.Sprintf("the collation takes it for event_id %q of the same batch", clip(other))
			}
		}
		h.note(row, column, code, what)
	}
	return taken, nil
}

// refusal returns what the server said, without the place, which is that in the
// temporary table.
func refusal(err error) string {
	var warning *outbox.WarningError
	var rowErr *outbox.RowError
	switch {
	case errors.As(err, &warning):
		return fmt.Sprintf("warning %d: %s", warning.Code, warning.Message)
	case errors.As(err, &rowErr):
		return rowErr.Err.Error()
	}
	return err.Error()
}

// takenFor returns the event_id under which the server finds row although it is
// that of another row; "" when there is none.
func (h *rehearsal) takenFor(ctx context.Context, row *manifest.Row) (other string, err error) {
	for got, err := range outbox.ReadByKeys(ctx, h.conn, &h.table, h.manifest.AppCode, []string{row.EventID}) {
		var inexact *manifest.ExactnessError
		if errors.As(err, &inexact) {
			return inexact.EventID, nil
		}
		if err != nil {
			return "", err
		}
		if got.EventID != row.EventID {
			other = got.EventID
		}
	}
	return other, nil
}

// askRelay counts the rows that the relay's condition selects.
func (h *rehearsal) askRelay(ctx context.Context) (err error) {
	h.found.Dispatched, h.relayed, err = dispatched(ctx, h.conn, rehearsalTable, h.opts.RelayQuery)
	return err
}

// problems returns what was found, a problem for each column and code.
func (h *rehearsal) problems() []Problem {
	var all []Problem
	for _, key := range h.order {
		t := h.columns[key]
		verb := map[outbox.Code]string{
			changedByServer: "would be changed in silence", refusedByServer: "would be refused", keyMerged: "would be taken for others",
			payloadRespelled: "would be spelled otherwise, with the same value",
		}[key.code]
		rows := fmt.Sprintf("%d rows", t.rows)
		if t.rows == 1 {
			rows = "1 row"
		}
		all = append(all, Problem{
			Column: key.column, Code: key.code, Fatal: key.code != payloadRespelled || h.opts.StrictPayload,
			Detail: fmt.Sprintf("%s %s, first %s", rows, verb, t.first),
		})
	}
	if h.found.Dispatched > 0 {
		all = append(all, Problem{Code: wouldDispatch, Fatal: true, Detail: fmt.Sprintf(
			"the relay's condition (%s) selects %d of the rows to be written, event_id %q among them: they would be dispatched again",
			h.opts.RelayQuery, h.found.Dispatched, clip(h.relayed))})
	}
	if !h.found.Whole {
		all = append(all, Problem{Code: refusedByServer, Fatal: true, Detail: fmt.Sprintf("more rows were not tried after %d were refused", h.found.Refused)})
	}
	return all
}
