package restore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/manifest"
)

func sequence(rows []*manifest.Row, last error) iter.Seq2[*manifest.Row, error] {
	return func(yield func(*manifest.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
		if last != nil {
			yield(nil, last)
		}
	}
}

func TestWindows(t *testing.T) {
	rows := rowsOf(records(100))
	rows[50].PayloadJSON = strings.Repeat("1", 5000)
	for _, bytes := range []int{1, 700, 3000, 1 << 20} {
		var got []*manifest.Row
		most := 0
		err := windows(t.Context(), sequence(rows, nil), bytes, func(w window) error {
			if len(w) == 0 {
				t.Error("an empty window")
			}
			most = max(most, len(w))
			got = append(got, w...)
			return nil
		})
		if err != nil || !slices.Equal(got, rows) {
			t.Errorf("%d bytes: %d rows, error %v", bytes, len(got), err)
		}
		if most > max(1, bytes/rowOverhead) {
			t.Errorf("%d bytes: a window has %d rows", bytes, most)
		}
	}
	if err := windows(t.Context(), sequence(nil, nil), 1, func(window) error { return errors.New("called") }); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func TestWindowsError(t *testing.T) {
	rows := rowsOf(records(100))
	broken := errors.New("broken")
	if err := windows(t.Context(), sequence(rows, broken), 1000, func(window) error { return nil }); err != broken {
		t.Errorf("error %v, want that of the rows", err)
	}
	n := 0
	err := windows(t.Context(), sequence(rows, nil), 1000, func(window) error {
		if n++; n == 3 {
			return broken
		}
		return nil
	})
	if err != broken || n != 3 {
		t.Errorf("error %v after %d windows, want that of the third", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = windows(ctx, sequence(rows, nil), 1000, func(window) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestWindowFind(t *testing.T) {
	var w window
	for i := range 20 {
		w = append(w, &manifest.Row{Record: manifest.Record{EventID: fmt.Sprintf("e%02d", i*2)}})
	}
	for i, row := range w {
		for _, hint := range []int{0, i, i + 1, len(w)} {
			if got, ok := w.find(row.EventID, hint); !ok || got != i {
				t.Errorf("find(%q, %d) = %d, %t", row.EventID, hint, got, ok)
			}
		}
	}
	for _, id := range []string{"", "e01", "e39", "E00", "z"} {
		if _, ok := w.find(id, 3); ok {
			t.Errorf("find(%q) finds something", id)
		}
	}
}

func TestLines(t *testing.T) {
	const rows = 200
	l := newLines(rows)
	for line := int64(1); line <= rows; line += 3 {
		if l.has(line) || !l.add(line) || !l.has(line) || l.add(line) {
			t.Errorf("line %d", line)
		}
	}
	for line := int64(1); line <= rows; line++ {
		if l.has(line) != (line%3 == 1) {
			t.Errorf("has(%d) = %t", line, l.has(line))
		}
	}
}
