package restore

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/hyapp/walletarchive/internal/tempfile"
	"github.com/hyapp/walletarchive/manifest"
)

// sorter holds the rows of a batch and gives them back, as often as asked, in the
// byte order of their event_ids, which is the order of the primary key or close
// to it: a batch comes in cursor order, and would land all over the tree. Rows
// beyond the budget are kept in sorted runs in a temporary file.
//
// A row that is damaged in the file differs from its own leaf hash, and so from
// what was verified; see comparer.compare.
type sorter struct {
	dir    string
	budget int // bytes of arena
	expect int64

	key     []byte  // reused
	arena   []byte  // for each entry the key, most often the event_id, and the canonical line
	entries []entry // of the arena, sorted once finish was called
	file    *os.File
	size    int64
	runs    []run
	rows    int64
	last    int64 // the greatest line that was added
}

// entry is one row in the arena.
type entry struct {
	start, key, end int // the key is [start, key), the line is [key, end)
	line            int64
	leaf            manifest.Hash
}

// run is a sorted section of the file.
type run struct {
	start, size int64
	entries     int
}

// maxRunBuffer bounds what reading one run takes in memory.
const maxRunBuffer = 256 << 10

var errSortedRows = errors.New("temporary file does not hold what was written to it")

// newSorter returns a sorter that holds about budget bytes of lines in memory. It
// expects about as many bytes in all as expect says, which limits nothing.
func newSorter(dir string, budget int, expect int64) *sorter {
	return &sorter{dir: dir, budget: budget, expect: expect}
}

// add copies r, to be sorted by its event_id.
func (s *sorter) add(r *manifest.Row) error {
	s.key = append(s.key[:0], r.EventID...)
	return s.addUnder(s.key, r)
}

// addUnder copies r, to be sorted by the bytes of key.
func (s *sorter) addUnder(key []byte, r *manifest.Row) error {
	if len(s.arena) > 0 && len(s.arena) >= s.budget {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.arena == nil {
		const slack = 64 << 10 // the last line goes over the budget
		s.arena = make([]byte, 0, min(int64(s.budget), max(s.expect, 0))+slack)
	}
	e := entry{start: len(s.arena), line: r.Line, leaf: r.LeafHash}
	s.arena = append(s.arena, key...)
	e.key = len(s.arena)
	s.arena = r.AppendLine(s.arena)
	e.end = len(s.arena)
	s.entries = append(s.entries, e)
	s.rows++
	s.last = max(s.last, r.Line)
	return nil
}

// finish must be called after the last add and before sorted.
func (s *sorter) finish() error {
	if len(s.runs) == 0 {
		s.sortArena()
		return nil
	}
	err := s.spill()
	s.arena, s.entries = nil, nil // the memory is for the buffers of the runs now
	return err
}

// close removes the file.
func (s *sorter) close() error {
	s.arena, s.entries, s.runs = nil, nil, nil
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

func (s *sorter) sortArena() {
	slices.SortFunc(s.entries, func(a, b entry) int {
		return bytes.Compare(s.arena[a.start:a.key], s.arena[b.start:b.key])
	})
}

func (s *sorter) spill() error {
	if s.file == nil {
		f, err := tempfile.New(s.dir)
		if err != nil {
			return fmt.Errorf("make a file for sorted rows: %w", err)
		}
		s.file = f
	}
	s.sortArena()
	w := bufio.NewWriterSize(s.file, maxRunBuffer)
	r := run{start: s.size, entries: len(s.entries)}
	var head []byte
	for i := range s.entries {
		e := &s.entries[i]
		head = binary.AppendUvarint(head[:0], uint64(e.line))
		head = binary.AppendUvarint(head, uint64(e.key-e.start))
		head = binary.AppendUvarint(head, uint64(e.end-e.key))
		head = append(head, e.leaf[:]...)
		w.Write(head) // a bufio.Writer keeps its first error for Flush
		w.Write(s.arena[e.start:e.end])
		r.size += int64(len(head) + e.end - e.start)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write sorted rows: %w", err)
	}
	s.size += r.size
	s.runs = append(s.runs, r)
	s.arena, s.entries = s.arena[:0], s.entries[:0]
	return nil
}

// sorted yields all rows in order. Each stays valid. The sequence may be ranged
// over more than once, not at once with add or close.
func (s *sorter) sorted() iter.Seq2[*manifest.Row, error] {
	if len(s.runs) == 0 {
		return func(yield func(*manifest.Row, error) bool) {
			for i := range s.entries {
				e := &s.entries[i]
				if row, err := s.decode(s.arena[e.key:e.end], e.line, e.leaf); !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
	return func(yield func(*manifest.Row, error) bool) {
		buffer := min(max(s.budget/4/len(s.runs), 4<<10), maxRunBuffer)
		var h mergeHeap
		for _, r := range s.runs {
			c := &cursor{in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.start, r.size), buffer), left: r.entries}
			if err := c.next(); err != nil {
				yield(nil, err)
				return
			}
			h = append(h, c)
		}
		heap.Init(&h)
		for len(h) > 0 {
			c := h[0]
			row, err := s.decode(c.text, c.line, c.leaf)
			if !yield(row, err) || err != nil {
				return
			}
			switch err := c.next(); err {
			case nil:
				heap.Fix(&h, 0)
			case io.EOF:
				heap.Pop(&h)
			default:
				yield(nil, err)
				return
			}
		}
	}
}

func (s *sorter) decode(line []byte, number int64, leaf manifest.Hash) (*manifest.Row, error) {
	if number < 1 || number > s.last {
		return nil, fmt.Errorf("%w: line %d of %d", errSortedRows, number, s.last)
	}
	r, err := manifest.DecodeLine(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSortedRows, err)
	}
	return &manifest.Row{Record: r, Line: number, Canonical: true, LeafHash: leaf}, nil
}

// cursor reads a run.
type cursor struct {
	in   *bufio.Reader
	left int

	line int64
	leaf manifest.Hash
	buf  []byte
	id   []byte // part of buf
	text []byte // part of buf
}

// next reads the next entry; io.EOF after the last.
func (c *cursor) next() error {
	if c.left == 0 {
		return io.EOF
	}
	c.left--
	var head [3]uint64
	for i := range head {
		v, err := binary.ReadUvarint(c.in)
		if err != nil {
			return readError(err)
		}
		head[i] = v
	}
	const most = 1 << 31 // a longer line is not in any archive
	if head[1] > most || head[2] > most {
		return fmt.Errorf("%w: a row of impossible size", errSortedRows)
	}
	c.line = int64(head[0])
	if _, err := io.ReadFull(c.in, c.leaf[:]); err != nil {
		return readError(err)
	}
	n := int(head[1] + head[2])
	c.buf = slices.Grow(c.buf[:0], n)[:n]
	if _, err := io.ReadFull(c.in, c.buf); err != nil {
		return readError(err)
	}
	c.id, c.text = c.buf[:head[1]], c.buf[head[1]:]
	return nil
}

func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", errSortedRows)
	}
	return fmt.Errorf("read sorted rows: %w", err)
}

// mergeHeap has the run whose next event_id is the least at its top.
type mergeHeap []*cursor

func (h mergeHeap) Len() int      { return len(h) }
func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h mergeHeap) Less(i, j int) bool {
	return bytes.Compare(h[i].id, h[j].id) < 0
}

// Push adds x, for container/heap.
func (h *mergeHeap) Push(x any) { *h = append(*h, x.(*cursor)) }

// Pop removes the last, for container/heap.
func (h *mergeHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
