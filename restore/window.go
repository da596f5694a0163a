package restore

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/hyapp/walletarchive/manifest"
)

// window is a run of rows in the byte order of their event_ids, all of one
// app_code, that are loaded and read back together.
type window []*manifest.Row

// rowOverhead is about what a row takes in memory beside its line.
const rowOverhead = 600

// windows cuts rows into windows of about so many bytes and calls f for each,
// while the next one is made ready in another goroutine. It returns the first
// error of rows or f, or ctx.Err().
func windows(ctx context.Context, rows iter.Seq2[*manifest.Row, error], bytes int, f func(window) error) error {
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan window)
	g.Go(func() error {
		defer close(ready)
		var w window
		size := 0
		send := func() error {
			select {
			case ready <- w:
				w, size = make(window, 0, len(w)), 0
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for row, err := range rows {
			if err != nil {
				return err
			}
			n := len(row.PayloadJSON) + rowOverhead
			if len(w) > 0 && size+n > bytes {
				if err := send(); err != nil {
					return err
				}
			}
			w = append(w, row)
			size += n
		}
		if len(w) == 0 {
			return nil
		}
		return send()
	})
	g.Go(func() error {
		for w := range ready {
			if err := f(w); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// find returns the index of the row with this event_id, byte for byte. hint is
// looked at first.
func (w window) find(eventID string, hint int) (int, bool) {
	if hint < len(w) && w[hint].EventID == eventID {
		return hint, true
	}
	lo, hi := 0, len(w)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if w[mid].EventID < eventID {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(w) && w[lo].EventID == eventID
}

// lines is a set of line numbers, counted from 1.
type lines []uint64

func newLines(rows int64) lines { return make(lines, rows/64+1) }

func (l lines) has(line int64) bool { return l[line/64]>>(line%64)&1 != 0 }

// add reports whether line is new to the set.
func (l lines) add(line int64) bool {
	if l.has(line) {
		return false
	}
	l[line/64] |= 1 << (line % 64)
	return true
}
