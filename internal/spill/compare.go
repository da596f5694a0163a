package spill

import (
	"context"
	"errors"
	"io"
	"slices"
)

// Diff is what [Compare] found. The zero Diff is that of two equal sets without
// duplicates.
type Diff struct {
	// DuplicateRows and DuplicateMembers are the event_ids that one set has more
	// than once, in the order of the line that repeats them.
	DuplicateRows    List[Duplicate]
	DuplicateMembers List[Duplicate]
	// Missing are the members whose event_id no row has, in the order of the
	// members' lines; Extra are the rows whose event_id no member has.
	Missing List[Entry]
	Extra   List[Entry]
	// Moved are the event_ids that both sets have, with another updated_at_ms in
	// each, in the order of the rows' lines.
	Moved List[Moved]
}

// Empty reports whether there is nothing to report.
func (d *Diff) Empty() bool {
	return d.DuplicateRows.Total+d.DuplicateMembers.Total+d.Missing.Total+d.Extra.Total+d.Moved.Total == 0
}

// List counts findings and names the first of them.
type List[T any] struct {
	Total int64 // event_ids, however often each of them came
	First []T   // no more than the limit that was asked for
}

// Duplicate is an event_id that a set has more than once.
type Duplicate struct {
	EventID string
	Count   int64 // at least 2
	// FirstLine and SecondLine are the two lowest of its lines.
	FirstLine, SecondLine int64
}

// Moved is an event_id with another updated_at_ms as a row than as a member.
type Moved struct {
	Row, Member Entry
}

// Compare merges the rows of a batch with the members of its receipt and reports
// how they differ as sets of (event_id, updated_at_ms), and which event_ids
// repeat. With nil members only DuplicateRows is filled. Each list names the
// first limit findings, none when limit is zero.
//
// It may run again, and more entries may be added in between, but the two sets
// must not be used elsewhere meanwhile. An error says nothing about the rows: it
// is ctx.Err(), that of the temporary file, or wraps [ErrCorrupt].
func Compare(ctx context.Context, rows, members *Set, limit int) (Diff, error) {
	a, err := newMerge(rows.sources())
	if err != nil {
		return Diff{}, err
	}
	b := &merge{}
	if members != nil {
		if b, err = newMerge(members.sources()); err != nil {
			return Diff{}, err
		}
	}
	var d Diff
	var name []byte
	for n := 0; a.head != nil || b.head != nil; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return Diff{}, ctx.Err()
		}
		// The event_id that comes next, kept while the records that hold it go by.
		next := a.head
		if next == nil || b.head != nil && b.head.compareID(next) < 0 {
			next = b.head
		}
		name = append(name[:0], next.name...)
		id := &record{hash: next.hash, name: name}

		row, member, err := takeGroup(id, a, b)
		if err != nil {
			return Diff{}, err
		}
		row.duplicate(&d.DuplicateRows, limit, id)
		member.duplicate(&d.DuplicateMembers, limit, id)
		switch {
		case members == nil:
		case row.count == 0:
			keep(&d.Missing, limit, member.at.line, func() Entry { return member.entry(id) }, entryLine)
		case member.count == 0:
			keep(&d.Extra, limit, row.at.line, func() Entry { return row.entry(id) }, entryLine)
		case row.alone || member.alone:
			m := func() Moved { return Moved{Row: row.entry(id), Member: member.entry(id)} }
			keep(&d.Moved, limit, row.at.line, m, func(m Moved) int64 { return m.Row.Line })
		}
	}
	return d, nil
}

func entryLine(e Entry) int64 { return e.Line }

// group is what one set has of one event_id.
type group struct {
	count int64
	lines [2]int64 // the two lowest
	at    record   // the first record, or the first whose updated_at_ms the other set lacks
	alone bool     // at is such a record
}

func (g *group) entry(id *record) Entry {
	return Entry{EventID: string(id.name), UpdatedAtMS: g.at.ms, Line: g.at.line}
}

func (g *group) duplicate(l *List[Duplicate], limit int, id *record) {
	if g.count < 2 {
		return
	}
	keep(l, limit, g.lines[1], func() Duplicate {
		return Duplicate{EventID: string(id.name), Count: g.count, FirstLine: g.lines[0], SecondLine: g.lines[1]}
	}, func(d Duplicate) int64 { return d.SecondLine })
}

func (g *group) add(r *record) {
	switch {
	case g.count == 0:
		g.lines[0], g.at = r.line, record{ms: r.ms, line: r.line}
	case r.line < g.lines[0]:
		g.lines[0], g.lines[1] = r.line, g.lines[0]
	case g.count == 1 || r.line < g.lines[1]:
		g.lines[1] = r.line
	}
	g.count++
}

// takeGroup reads all records of one event_id from both sets, one updated_at_ms
// after the other.
func takeGroup(id *record, a, b *merge) (row, member group, err error) {
	for {
		inA, inB := a.at(id), b.at(id)
		var ms int64
		switch {
		case !inA && !inB:
			return row, member, nil
		case !inB || inA && a.head.ms < b.head.ms:
			ms = a.head.ms
		default:
			ms = b.head.ms
		}
		rowLine, isRow, errA := a.take(id, ms, &row)
		memberLine, isMember, errB := b.take(id, ms, &member)
		switch {
		case errA != nil:
			return row, member, errA
		case errB != nil:
			return row, member, errB
		case isRow && !isMember && !row.alone:
			row.at, row.alone = record{ms: ms, line: rowLine}, true
		case isMember && !isRow && !member.alone:
			member.at, member.alone = record{ms: ms, line: memberLine}, true
		}
	}
}

// keep counts a finding and names it if it is among the first by line.
func keep[T any](l *List[T], limit int, line int64, build func() T, lineOf func(T) int64) {
	l.Total++
	i := len(l.First)
	for i > 0 && line < lineOf(l.First[i-1]) {
		i--
	}
	if i >= limit {
		return
	}
	if len(l.First) == limit {
		l.First = l.First[:limit-1]
	}
	l.First = slices.Insert(l.First, i, build())
}

// merge reads several sorted sources as one.
type merge struct {
	heap []merged // the least record first
	head *record  // the next record, nil after the last
}

type merged struct {
	record
	from source
}

func newMerge(sources []source, err error) (*merge, error) {
	if err != nil {
		return nil, err
	}
	m := &merge{}
	for _, s := range sources {
		one := merged{from: s}
		switch err := s.next(&one.record); {
		case err == nil:
			m.heap = append(m.heap, one)
		case !errors.Is(err, io.EOF):
			return nil, err
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	if len(m.heap) > 0 {
		m.head = &m.heap[0].record
	}
	return m, nil
}

// advance goes on to the next record.
func (m *merge) advance() error {
	switch err := m.heap[0].from.next(&m.heap[0].record); {
	case err == nil:
	case errors.Is(err, io.EOF):
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		if m.heap = m.heap[:last]; last == 0 {
			m.head = nil
		}
	default:
		return err
	}
	m.down(0)
	return nil
}

// down restores the order of the heap below i.
func (m *merge) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(m.heap); c++ {
			if m.heap[c].compare(&m.heap[least].record) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// at reports whether the next record has this event_id.
func (m *merge) at(id *record) bool { return m.head != nil && m.head.compareID(id) == 0 }

// take adds to g all records of one event_id and updated_at_ms that come next,
// and returns the line of the first of them, if there are any.
func (m *merge) take(id *record, ms int64, g *group) (line int64, found bool, err error) {
	for m.at(id) && m.head.ms == ms {
		if !found {
			line, found = m.head.line, true
		}
		g.add(m.head)
		if err := m.advance(); err != nil {
			return 0, false, err
		}
	}
	return line, found, nil
}
