package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hyapp/walletarchive/manifest"
)

// RowStates say of every selected row of a batch what the target holds under its
// key: nothing, another row, or, when neither names it, the row as archived.
type RowStates struct {
	Missing   LineRanges     `json:"missing_lines"`
	Different []DifferentRow `json:"different_rows"` // by line
}

// DifferentRow is a row that the target holds otherwise than the archive.
type DifferentRow struct {
	Line    int64    `json:"line"` // of the data object, counted from 1
	EventID string   `json:"event_id"`
	Columns []string `json:"columns"` // that differ
	// FoundHash is the row hash of what the target holds; nil when that is no record
	// of any archive.
	FoundHash *manifest.Hash `json:"found_hash"`
}

// LineRanges are line numbers in rising order, as ranges of which both ends
// belong to it. Its text is "1-500,502"; that of none is "".
type LineRanges []LineRange

// LineRange is the lines First to Last, both among them.
type LineRange struct{ First, Last int64 }

// add appends a line that is greater than all others.
func (l *LineRanges) add(line int64) {
	if n := len(*l); n > 0 && (*l)[n-1].Last == line-1 {
		(*l)[n-1].Last = line
		return
	}
	*l = append(*l, LineRange{line, line})
}

// Count returns how many lines they are.
func (l LineRanges) Count() (n int64) {
	for _, r := range l {
		n += r.Last - r.First + 1
	}
	return n
}

// MarshalText returns the text of the ranges.
func (l LineRanges) MarshalText() ([]byte, error) {
	var text []byte
	for i, r := range l {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, r.First, 10)
		if r.Last > r.First {
			text = strconv.AppendInt(append(text, '-'), r.Last, 10)
		}
	}
	return text, nil
}

// UnmarshalText is the inverse of MarshalText, and takes nothing else.
func (l *LineRanges) UnmarshalText(text []byte) error {
	*l = nil
	if len(text) == 0 {
		return nil
	}
	for _, part := range strings.Split(string(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		r := LineRange{lineNumber(first), lineNumber(last)}
		switch n := len(*l); {
		case r.First < 1, r.Last < r.First, isRange && r.Last == r.First, n > 0 && r.First <= (*l)[n-1].Last+1:
			return fmt.Errorf("lines %q: want ranges such as 1-500,502 in rising order", clip(string(text)))
		}
		*l = append(*l, r)
	}
	return nil
}

// lineNumber returns 0 for what is no line number in its shortest spelling.
func lineNumber(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0
	}
	return n
}

// RowChange is a row that the target holds otherwise than when a plan was made.
type RowChange struct {
	Line    int64
	EventID string
	Planned string // missing, as archived or different
	Found   string // one of these, or "different in another way"
}

// ChangedError says that the target has changed since a plan was made: see
// [Options.Expect]. It is an [ErrConflict].
type ChangedError struct {
	Table string
	Count int64       // at least 1
	First []RowChange // the first MaxConflicts of them
}

// Error counts the changes and names the first.
func (e *ChangedError) Error() string {
	s := fmt.Sprintf("table %s has changed since the plan was made: %d rows", e.Table, e.Count)
	if len(e.First) > 0 {
		f := e.First[0]
		s += fmt.Sprintf(", first line %d, event_id %q: %s then, %s now", f.Line, clip(f.EventID), f.Planned, f.Found)
	}
	return s
}

// Is reports ErrConflict.
func (e *ChangedError) Is(target error) bool { return target == ErrConflict }

// The states of a row, as a RowChange names them.
const (
	stateMissing    = "missing"
	stateArchived   = "as archived"
	stateDifferent  = "different"
	stateDifferent2 = "different in another way"
)

// expected is a RowStates that lines can be looked up in.
type expected struct {
	missing   lines
	different map[int64]*DifferentRow
}

// errStates says that states are not of the batch they are used with.
var errStates = errors.New("the plan is not of this batch")

// expect prepares the states of a plan for a batch of so many rows, of which
// selected were chosen.
func expect(s *RowStates, rows int64, selected lines) (*expected, error) {
	e := &expected{missing: newLines(rows), different: make(map[int64]*DifferentRow, len(s.Different))}
	for _, r := range s.Missing {
		if r.First < 1 || r.Last > rows {
			return nil, fmt.Errorf("%w: it has %d rows, none on line %d", errStates, rows, r.Last)
		}
		for line := r.First; line <= r.Last; line++ {
			if !selected.has(line) || !e.missing.add(line) {
				return nil, fmt.Errorf("%w: line %d is not chosen, or named twice", errStates, line)
			}
		}
	}
	for i := range s.Different {
		d := &s.Different[i]
		if d.Line < 1 || d.Line > rows || !selected.has(d.Line) || e.missing.has(d.Line) || e.different[d.Line] != nil {
			return nil, fmt.Errorf("%w: line %d is not chosen, or named twice", errStates, d.Line)
		}
		e.different[d.Line] = d
	}
	return e, nil
}

// was reports whether the plan has found got in the place of the row on line.
func (e *expected) was(line int64, got *manifest.Record) bool {
	d := e.different[line]
	return d != nil && d.FoundHash != nil && *d.FoundHash == got.RowHash()
}

// keepsDifferent reports whether rows that differ are remembered one by one.
func (r *restorer) keepsDifferent() bool { return r.opts.DryRun || r.expected != nil }

// remember keeps what the target holds in the place of row.
func (a *attempt) remember(row *manifest.Row, f found) {
	if !a.keepsDifferent() {
		return
	}
	d := DifferentRow{Line: row.Line, EventID: row.EventID, Columns: make([]string, len(f.changes))}
	for i, c := range f.changes {
		d.Columns[i] = c.Column
	}
	if f.got != nil {
		hash := f.got.RowHash()
		d.FoundHash = &hash
	}
	a.differing = append(a.differing, d)
}

// asPlanned reports what the target holds, in a dry run, and compares it with
// what a plan has found. A row that has become as archived since, and that the
// plan was going to write, is what an earlier run of the plan has done.
func (a *attempt) asPlanned(ctx context.Context) error {
	if !a.keepsDifferent() {
		return nil
	}
	slices.SortFunc(a.differing, func(x, y DifferentRow) int { return cmp.Compare(x.Line, y.Line) })
	if a.opts.DryRun {
		a.report.States = a.states()
	}
	if a.expected == nil {
		return nil
	}
	changed := &ChangedError{Table: a.table.Name}
	byLine := map[int64]int{} // of First
	next := 0
	for line := int64(1); line <= a.report.Rows; line++ {
		if !a.selected.has(line) {
			continue
		}
		c := RowChange{Line: line, Planned: stateArchived, Found: stateMissing}
		if a.expected.missing.has(line) {
			c.Planned = stateMissing
		}
		planned := a.expected.different[line]
		if planned != nil {
			c.Planned = stateDifferent
		}
		switch {
		case a.present.has(line):
			c.Found = stateArchived
		case a.different.has(line):
			c.Found = stateDifferent
			if planned != nil && !sameHash(planned.FoundHash, a.differing[next].FoundHash) {
				c.Found = stateDifferent2
			}
			next++
		}
		done := c.Found == stateArchived && (c.Planned == stateMissing || c.Planned == stateDifferent && a.opts.OnConflict == Overwrite)
		if c.Found == c.Planned || done {
			continue
		}
		if changed.Count++; len(changed.First) < MaxConflicts {
			byLine[line] = len(changed.First)
			changed.First = append(changed.First, c)
		}
	}
	if changed.Count == 0 {
		return nil
	}
	for row, err := range a.rows.sorted() { // only to name them
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if i, ok := byLine[row.Line]; ok {
			changed.First[i].EventID = row.EventID
		}
	}
	return changed
}

func sameHash(a, b *manifest.Hash) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// states returns what was found of each selected row.
func (a *attempt) states() *RowStates {
	s := &RowStates{Different: slices.Clone(a.differing)}
	for line := int64(1); line <= a.report.Rows; line++ {
		if a.selected.has(line) && !a.present.has(line) && !a.different.has(line) {
			s.Missing.add(line)
		}
	}
	return s
}
