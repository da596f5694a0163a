package restore

import (
	"errors"
	"fmt"
	"strings"
)

// ErrConflict is returned by [Batch] when the target refuses the batch, or holds
// or makes something else of it: every [*PreflightError], [*ConflictError] and
// [*RefusedError] is one. Nothing of the batch was kept.
var ErrConflict = errors.New("the target refuses the batch or differs from it")

// ErrOutcomeUnknown is returned by [Batch] when the answer to the commit was lost
// and the server could not be asked afterwards. Running the same restore again is
// safe and tells.
var ErrOutcomeUnknown = errors.New("whether the batch was committed is not known")

// PreflightError says why nothing was tried: the target's definition or settings
// would refuse or change rows of the batch. It is an [ErrConflict].
type PreflightError struct {
	Table string
	// Problems are the fatal ones; the report has the others, too.
	Problems []Problem
}

// Error lists the problems.
func (e *PreflightError) Error() string {
	all := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p.String()
	}
	return fmt.Sprintf("table %s cannot take the batch: %s", e.Table, strings.Join(all, "; "))
}

// Is reports ErrConflict.
func (e *PreflightError) Is(target error) bool { return target == ErrConflict }

// ConflictError says that rows are in the target already and are not those of
// the archive. It is an [ErrConflict].
type ConflictError struct {
	Table string
	Count int64      // at least 1
	First []Conflict // the first MaxConflicts of them
}

// Error counts the conflicts and names the first.
func (e *ConflictError) Error() string {
	s := fmt.Sprintf("table %s holds %d rows of the batch otherwise than the archive", e.Table, e.Count)
	if len(e.First) > 0 {
		s += ", first " + e.First[0].String()
	}
	return s
}

// Is reports ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// String names the row and the columns, without their values.
func (c Conflict) String() string {
	columns := make([]string, len(c.Columns))
	for i, x := range c.Columns {
		columns[i] = x.Column
	}
	return fmt.Sprintf("line %d, event_id %q: %s", c.Line, clip(c.EventID), strings.Join(columns, ", "))
}

// RefusedError says that the server did not take a row as it is: it gave an error
// or a warning, or the row that was read back is another one or is missing. It
// is an [ErrConflict].
type RefusedError struct {
	Table   string
	Line    int64  // of the data object, counted from 1; 0 when no single row is to blame
	EventID string // "" when no single row is to blame
	// Columns are what differs in the row that was read back, or the one column
	// that the server named; nil when it named none or the row is missing.
	Columns []ColumnChange
	Err     error // what the server said, ErrChanged or ErrRowMissing
}

// Reasons of a [RefusedError] that are not the server's own words; compare with
// errors.Is.
var (
	// ErrChanged is the reason when a row that was written came back otherwise,
	// although the server said nothing.
	ErrChanged = errors.New("the server changed the row without a warning")
	// ErrRowMissing is the reason when a row that was written is not there.
	ErrRowMissing = errors.New("the row is not there after it was written")
)

// Error names the row, the columns and the reason.
func (e *RefusedError) Error() string {
	s := "table " + e.Table + " does not take the batch as it is"
	if e.EventID != "" {
		s += fmt.Sprintf(": line %d, event_id %q", e.Line, clip(e.EventID))
	}
	for i, c := range e.Columns {
		if i == 0 {
			s += ", column "
		} else {
			s += ", "
		}
		s += c.Column
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is reports ErrConflict.
func (e *RefusedError) Is(target error) bool { return target == ErrConflict }

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
