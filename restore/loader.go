package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// loader writes windows and reads them back.
type loader struct {
	*attempt
	writer  *outbox.Writer
	witness *witness // nil when the rows are read back on the transaction's own connection
	warned  bool     // that the witness was no good
	// dense says that the target had no row of the app_code, so that nothing but
	// this batch lies between two of its keys.
	dense bool
	added int64 // rows given to the writer before the window at hand
	// doubtful is what the witness said while the connection was busy.
	doubtful []testimony
}

// window writes the rows of w that were missing and reads them back, or has the
// witness do so.
func (l *loader) window(ctx context.Context, w window) error {
	todo, over := w, window(nil)
	if !l.dense {
		todo = nil
		for _, row := range w {
			switch {
			case l.present.has(row.Line):
			case !l.different.has(row.Line):
				todo = append(todo, row)
			case l.opts.OnConflict == Overwrite:
				over = append(over, row)
			}
		}
	}
	if err := l.replace(ctx, over); err != nil {
		return err
	}
	if err := l.relay(ctx, over); err != nil {
		return err
	}
	if len(todo) == 0 {
		if len(over) == 0 {
			return nil
		}
		return l.opts.pause(ctx, len(over))
	}
	if l.first == "" {
		l.first = todo[0].EventID
	}
	werr, err := l.write(ctx, todo)
	switch {
	case werr != nil:
		return l.blame(ctx, todo, werr)
	case err != nil:
		return err
	}
	if err := l.settleDoubts(ctx); err != nil {
		return err
	}
	l.added += int64(len(todo))
	if err := l.relay(ctx, todo); err != nil {
		return err
	}
	if err := l.opts.pause(ctx, len(todo)+len(over)); err != nil {
		return err
	}
	for l.witness != nil {
		select {
		case l.witness.in <- todo:
			return nil
		case t := <-l.witness.out:
			if err := l.hear(ctx, t); err != nil {
				return err
			}
		}
	}
	return l.readBack(ctx, todo)
}

// finish hears what the witness has still to say.
func (l *loader) finish(ctx context.Context) error {
	if l.witness == nil {
		return nil
	}
	l.witness.hangUp()
	for t := range l.witness.out {
		if err := l.hear(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// hear takes down what the witness says, and looks for itself at what it doubts.
func (l *loader) hear(ctx context.Context, t testimony) error {
	if err := l.note(ctx, t); err != nil {
		return err
	}
	return l.settleDoubts(ctx)
}

// note takes down what the witness says. What it doubts is left to settleDoubts.
func (l *loader) note(ctx context.Context, t testimony) error {
	for _, row := range t.same {
		if err := l.confirm(ctx, row, identical); err != nil {
			return err
		}
	}
	for _, row := range t.respelled {
		if err := l.confirm(ctx, row, sameValue); err != nil {
			return err
		}
	}
	l.progress()
	if len(t.doubtful) > 0 {
		l.doubtful = append(l.doubtful, t)
	}
	return nil
}

// settleDoubts looks at the rows that the witness doubts. The transaction's own
// connection must be free.
func (l *loader) settleDoubts(ctx context.Context) error {
	for _, t := range l.doubtful {
		if err := l.readBack(ctx, t.doubtful); err != nil {
			return err
		}
		if !l.warned { // it was wrong, or cannot see any more
			l.warned = true
			l.log.WarnContext(ctx, "the second connection does not see what the first one has written", "rows", len(t.doubtful), "error", t.err)
		}
	}
	l.doubtful = nil
	return nil
}

// write gives the rows of w to the writer and notes meanwhile what the witness
// says of those before. werr is the writer's error, err any other; both are only
// returned once the connection is free.
func (l *loader) write(ctx context.Context, w window) (werr, err error) {
	if l.witness == nil {
		return add(ctx, l.writer, w), nil
	}
	written := make(chan error, 1)
	go func() { written <- add(ctx, l.writer, w) }()
	for {
		select {
		case werr := <-written:
			return werr, err
		case t := <-l.witness.out:
			if err == nil {
				err = l.note(ctx, t)
			}
		}
	}
}

// add gives the rows of w to a writer and sees them written.
func add(ctx context.Context, writer *outbox.Writer, w window) error {
	for _, row := range w {
		if err := writer.Add(ctx, &row.Record); err != nil {
			return err
		}
	}
	return writer.Flush(ctx)
}

// readBack finds every row of w in the target, as it was written.
func (l *loader) readBack(ctx context.Context, w window) error {
	err := l.target.compare(ctx, w, l.dense, visitor{
		row: func(row *manifest.Row, f found) error {
			if err := l.refuse(row, f); err != nil {
				return err
			}
			return l.confirm(ctx, row, f.likeness)
		},
		stranger: func(*manifest.Record) error { return nil }, // its row is missing then
	})
	l.progress()
	return err
}

// refuse returns an error when a row was not found as it was written.
func (l *loader) refuse(row *manifest.Row, f found) error {
	switch {
	case f.missing:
		return &RefusedError{Table: l.table.Name, Line: row.Line, EventID: row.EventID, Err: ErrRowMissing}
	case f.likeness == differs:
		return &RefusedError{Table: l.table.Name, Line: row.Line, EventID: row.EventID, Columns: f.changes, Err: ErrChanged}
	}
	return nil
}

// confirm notes that row is in the target.
func (l *loader) confirm(ctx context.Context, row *manifest.Row, like likeness) error {
	if row.Status != manifest.StatusDelivered { // verify has seen to it; see relay
		return &RefusedError{Table: l.table.Name, Line: row.Line, EventID: row.EventID, Err: ErrWouldDispatch}
	}
	if !l.inserted.add(row.Line) {
		return fmt.Errorf("line %d was read back twice", row.Line)
	}
	l.report.Inserted++
	if like == sameValue {
		l.report.Respelled++
		l.respelled++
	}
	return l.opts.row(ctx, RowOutcome{Row: row, Outcome: Inserted, Respelled: like == sameValue})
}

// blame says for which row of w, and which of its columns, the server gave err.
// The transaction is rolled back after it.
func (l *loader) blame(ctx context.Context, w window, err error) error {
	if mysqldb.IsRetryable(err) || mysqldb.IsConnLost(err) || ctx.Err() != nil {
		return err
	}
	refused := &RefusedError{Table: l.table.Name, Err: err}
	column, row := "", (*manifest.Row)(nil)
	var rowErr *outbox.RowError
	var warning *outbox.WarningError
	switch {
	case errors.As(err, &rowErr):
		column, row = rowErr.Column, l.numbered(w, rowErr.Row)
		if row == nil {
			row = l.findRefused(ctx, w)
		}
	case errors.As(err, &warning):
		column, row = warning.Column, l.numbered(w, warning.Row)
		if row == nil {
			return l.findChanged(ctx, w, refused)
		}
	case errors.Is(err, outbox.ErrRowCount):
		return l.findChanged(ctx, w, refused)
	default:
		if mysqldb.Number(err) == 0 {
			return err
		}
		// An error about the statement as a whole, unless one row alone gives it, too.
		if row = l.findRefused(ctx, w); row == nil {
			return err
		}
	}
	if column != "" {
		refused.Columns = []ColumnChange{{Column: column}}
	}
	if row != nil {
		refused.Line, refused.EventID = row.Line, row.EventID
		if column != "" {
			refused.Columns[0].Archived = show(&row.Record, column)
		}
	}
	return refused
}

// numbered returns the row of w that the writer counts as number; nil for none.
func (l *loader) numbered(w window, number int64) *manifest.Row {
	if i := number - l.added - 1; i >= 0 && i < int64(len(w)) {
		return w[i]
	}
	return nil
}

// findRefused writes the rows of w one by one, after a statement that wrote none
// of them, and returns the first that is refused; nil when none is.
func (l *loader) findRefused(ctx context.Context, w window) *manifest.Row {
	if l.writer.Method() != outbox.Insert {
		return nil
	}
	one, err := outbox.NewWriter(ctx, l.conn, &l.table, outbox.WriterOptions{Method: outbox.Insert})
	if err != nil {
		return nil // the first error is the one to show
	}
	for _, row := range w {
		if one.Add(ctx, &row.Record) != nil || one.Flush(ctx) != nil {
			return row
		}
	}
	return nil
}

// findChanged names the first row of w that is not in the target as it was
// written, after a statement that took it with a warning.
func (l *loader) findChanged(ctx context.Context, w window, refused *RefusedError) error {
	var found *RefusedError
	if errors.As(l.readBack(ctx, w), &found) {
		refused.Line, refused.EventID, refused.Columns = found.Line, found.EventID, found.Columns
	}
	return refused
}
