package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// OnConflict says what becomes of a row that the target holds otherwise than the
// archive.
type OnConflict int

const (
	// Fail writes nothing of the batch; the error is a [*ConflictError].
	Fail OnConflict = iota
	// Skip leaves the row and restores the others. The report is not complete.
	Skip
	// Overwrite makes the row as archived, if there are as many of them as
	// [Options.ConfirmOverwrite] says.
	Overwrite
)

// String returns the word of the command line.
func (c OnConflict) String() string {
	switch c {
	case Fail:
		return "fail"
	case Skip:
		return "skip"
	case Overwrite:
		return "overwrite"
	}
	return fmt.Sprintf("OnConflict(%d)", int(c))
}

// ParseOnConflict is the inverse of [OnConflict.String].
func ParseOnConflict(word string) (OnConflict, error) {
	for _, c := range []OnConflict{Fail, Skip, Overwrite} {
		if word == c.String() {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q is none of fail, skip and overwrite", word)
}

// OverwriteError says that another number of rows would have been overwritten
// than was confirmed. It is an [ErrConflict].
type OverwriteError struct {
	Table            string
	Found, Confirmed int64
	// Before is how many rows an earlier run of the same restore has overwritten,
	// which going on may count among those that were confirmed; 0 for none.
	Before int64
}

// Error names both numbers.
func (e *OverwriteError) Error() string {
	before := ""
	if e.Before > 0 {
		before = fmt.Sprintf(" (after %d by an earlier run of this receipt)", e.Before)
	}
	return fmt.Sprintf("%d rows in table %s would be overwritten%s, and %d were confirmed", e.Found, e.Table, before, e.Confirmed)
}

// Is reports ErrConflict.
func (e *OverwriteError) Is(target error) bool { return target == ErrConflict }

// errMeanwhile is why a transaction is begun again.
var errMeanwhile = errors.New("another session changed a row meanwhile")

// judge refuses conflicts that opts.OnConflict does not resolve.
func (a *attempt) judge() error {
	switch {
	case a.stuck > 0, a.opts.OnConflict == Fail && a.report.ConflictCount > 0:
		return &ConflictError{Table: a.table.Name, Count: a.report.ConflictCount, First: a.report.Conflicts}
	case a.opts.OnConflict == Overwrite && !a.opts.DryRun && a.report.ConflictCount != a.opts.ConfirmOverwrite:
		return &OverwriteError{Table: a.table.Name, Found: a.report.ConflictCount, Confirmed: a.opts.ConfirmOverwrite}
	}
	return nil
}

// differs notes that the target holds row otherwise.
func (a *attempt) differs(ctx context.Context, row *manifest.Row, f found) error {
	a.conflict(Conflict{EventID: row.EventID, Line: row.Line, Columns: f.changes})
	for _, c := range f.changes {
		a.report.ConflictColumns[c.Column]++
	}
	if !a.different.add(row.Line) {
		return fmt.Errorf("%w: line %d twice", errSortedRows, row.Line)
	}
	a.remember(row, f)
	if f.got == nil {
		a.unreadable.add(row.Line)
	}
	switch a.opts.OnConflict {
	case Skip:
		a.report.Skipped++
		return a.opts.row(ctx, RowOutcome{Row: row, Outcome: Skipped, Old: f.got})
	case Overwrite:
		if f.got == nil { // what is there could not be put back
			a.stuck++
		}
	}
	return nil
}

// replace makes the rows of w, which the target holds otherwise, as archived.
func (l *loader) replace(ctx context.Context, w window) error {
	if len(w) == 0 {
		return nil
	}
	ids := make([]string, len(w))
	for i, row := range w {
		ids[i] = row.EventID
	}
	// What is locked now stays until the commit, so that what the hooks are told
	// is what was overwritten.
	old := make([]*manifest.Record, len(w))
	for got, err := range outbox.LockByKeys(ctx, l.conn, &l.table, l.manifest.AppCode, ids) {
		if err != nil {
			return err
		}
		if i, ok := w.find(got.EventID, 0); ok && old[i] == nil {
			old[i] = got.Clone()
		}
	}
	for i, row := range w {
		if old[i] == nil {
			return errMeanwhile
		}
		if like, _, err := l.target.comparer.compare(row, old[i]); err != nil || like != differs {
			return errors.Join(err, errMeanwhile)
		}
		if l.expected != nil && !l.expected.was(row.Line, old[i]) {
			return errMeanwhile // the next attempt says so
		}
	}
	for _, row := range w {
		n, err := outbox.Update(ctx, l.conn, &l.table, &row.Record)
		var warning *outbox.WarningError
		switch {
		case err == nil && n == 1:
		case err == nil:
			err = fmt.Errorf("%w: %d for one", outbox.ErrRowCount, n)
		case mysqldb.IsRetryable(err), mysqldb.IsConnLost(err), ctx.Err() != nil:
			return err
		case mysqldb.Number(err) == 0 && !errors.As(err, &warning):
			return err
		}
		if err != nil {
			return &RefusedError{Table: l.table.Name, Line: row.Line, EventID: row.EventID, Err: err}
		}
	}
	if l.first == "" {
		l.first = w[0].EventID
	}
	return l.target.compare(ctx, w, false, visitor{
		row: func(row *manifest.Row, f found) error {
			if err := l.refuse(row, f); err != nil {
				return err
			}
			if !l.overwritten.add(row.Line) {
				return fmt.Errorf("line %d was read back twice", row.Line)
			}
			l.report.Overwritten++
			if f.likeness == sameValue {
				l.report.Respelled++
				l.respelled++
			}
			i, _ := w.find(row.EventID, 0)
			return l.opts.row(ctx, RowOutcome{Row: row, Outcome: Overwritten, Respelled: f.likeness == sameValue, Old: old[i]})
		},
		stranger: func(*manifest.Record) error { return nil }, // its row is missing then
	})
}
