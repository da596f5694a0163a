package restore

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/hyapp/walletarchive/manifest"
)

// TimeSorter holds rows of a table and gives them back by updated_at_ms, and by
// the bytes of event_id within a millisecond, in about as much memory as a
// [Collector]. A row that is damaged on the way is an error. Close it. It is used
// by one goroutine.
type TimeSorter struct {
	rows     *sorter
	comparer comparer // for its hash
	key      []byte
}

// NewTimeSorter returns a TimeSorter whose file, if it needs one, is under dir; ""
// means os.TempDir.
func NewTimeSorter(dir string) *TimeSorter {
	const budget = sortedWindows * DefaultWindowBytes
	return &TimeSorter{rows: newSorter(dir, budget, budget)}
}

// Add copies r. The error is that of the file.
func (s *TimeSorter) Add(r *manifest.Record) error {
	s.key = binary.BigEndian.AppendUint64(s.key[:0], uint64(r.UpdatedAtMS)^1<<63) // negative numbers first
	s.key = append(s.key, r.EventID...)
	row := manifest.Row{Record: *r, Line: s.rows.rows + 1, LeafHash: s.comparer.leaf(r)}
	return s.rows.addUnder(s.key, &row)
}

// Rows yields the rows in order, each of which stays valid. It is called once,
// after the last Add.
func (s *TimeSorter) Rows() iter.Seq2[*manifest.Record, error] {
	return func(yield func(*manifest.Record, error) bool) {
		if err := s.rows.finish(); err != nil {
			yield(nil, err)
			return
		}
		s.sortedOnly()(yield)
	}
}

// sortedOnly is Rows after the rows were finished.
func (s *TimeSorter) sortedOnly() iter.Seq2[*manifest.Record, error] {
	return func(yield func(*manifest.Record, error) bool) {
		n, last := int64(0), int64(0)
		for row, err := range s.rows.sorted() {
			switch {
			case err != nil:
			case s.comparer.leaf(&row.Record) != row.LeafHash:
				err = fmt.Errorf("%w: another row", errSortedRows)
			case n > 0 && row.UpdatedAtMS < last:
				err = fmt.Errorf("%w: another order", errSortedRows)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			n, last = n+1, row.UpdatedAtMS
			if !yield(&row.Record, nil) {
				return
			}
		}
		if n != s.rows.rows {
			yield(nil, fmt.Errorf("%w: %d rows of %d", errSortedRows, n, s.rows.rows))
		}
	}
}

// Close removes the file, if there is one.
func (s *TimeSorter) Close() error { return s.rows.close() }
