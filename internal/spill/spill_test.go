package spill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// model does what Compare does, with maps and without care for memory.
func model(rows, members []Entry, limit int) Diff {
	type side struct {
		entries []Entry
		ms      map[int64]bool
	}
	collect := func(all []Entry) map[string]*side {
		m := map[string]*side{}
		for _, e := range all {
			if m[e.EventID] == nil {
				m[e.EventID] = &side{ms: map[int64]bool{}}
			}
			m[e.EventID].entries = append(m[e.EventID].entries, e)
			m[e.EventID].ms[e.UpdatedAtMS] = true
		}
		for _, s := range m {
			slices.SortFunc(s.entries, func(a, b Entry) int {
				return cmp.Or(cmp.Compare(a.UpdatedAtMS, b.UpdatedAtMS), cmp.Compare(a.Line, b.Line))
			})
		}
		return m
	}
	// alone returns the first entry whose time the other side lacks, else the first.
	alone := func(s, other *side) (Entry, bool) {
		for _, e := range s.entries {
			if other == nil || !other.ms[e.UpdatedAtMS] {
				return e, true
			}
		}
		return s.entries[0], false
	}
	var d Diff
	a, b := collect(rows), collect(members)
	duplicates := func(m map[string]*side) (l List[Duplicate]) {
		for id, s := range m {
			if len(s.entries) > 1 {
				lines := []int64{}
				for _, e := range s.entries {
					lines = append(lines, e.Line)
				}
				slices.Sort(lines)
				l.First = append(l.First, Duplicate{id, int64(len(lines)), lines[0], lines[1]})
			}
		}
		return clip(l, limit, func(d Duplicate) int64 { return d.SecondLine })
	}
	d.DuplicateRows = duplicates(a)
	if members == nil {
		return d
	}
	d.DuplicateMembers = duplicates(b)
	for id, s := range a {
		e, lacks := alone(s, b[id])
		if b[id] == nil {
			d.Extra.First = append(d.Extra.First, e)
			continue
		}
		m, more := alone(b[id], s)
		if lacks || more {
			d.Moved.First = append(d.Moved.First, Moved{e, m})
		}
	}
	for id, s := range b {
		if a[id] == nil {
			e, _ := alone(s, nil)
			d.Missing.First = append(d.Missing.First, e)
		}
	}
	d.Extra = clip(d.Extra, limit, entryLine)
	d.Missing = clip(d.Missing, limit, entryLine)
	d.Moved = clip(d.Moved, limit, func(m Moved) int64 { return m.Row.Line })
	return d
}

func clip[T any](l List[T], limit int, line func(T) int64) List[T] {
	slices.SortFunc(l.First, func(x, y T) int { return cmp.Compare(line(x), line(y)) })
	l.Total = int64(len(l.First))
	l.First = l.First[:min(limit, len(l.First))]
	return l
}

func newTestSet(t testing.TB, opts Options, entries ...Entry) *Set {
	t.Helper()
	s := New(t.TempDir(), opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, e := range entries {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != int64(len(entries)) {
		t.Errorf("Len() = %d, want %d", s.Len(), len(entries))
	}
	return s
}

func checkDiff(t *testing.T, rows, members *Set, limit int, want Diff) {
	t.Helper()
	got, err := Compare(context.Background(), rows, members, limit)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("Compare (-want +got):\n%s", d)
	}
	if got.Empty() != want.Empty() {
		t.Errorf("Empty() = %v, want %v", got.Empty(), want.Empty())
	}
}

func TestCompare(t *testing.T) {
	e := func(id string, ms, line int64) Entry { return Entry{id, ms, line} }
	equal := []Entry{e("a", 1, 1), e("b", 1, 2), e("é", 2, 3), e("", -7, 4)}
	tests := []struct {
		name          string
		rows, members []Entry
		want          Diff
	}{
		{name: "nothing at all"},
		{name: "equal", rows: equal, members: []Entry{equal[3], equal[1], equal[0], equal[2]}},
		{
			name: "missing", rows: equal[:2], members: equal,
			want: Diff{Missing: List[Entry]{2, []Entry{equal[2], equal[3]}}},
		},
		{
			name: "extra", rows: equal, members: equal[1:],
			want: Diff{Extra: List[Entry]{1, []Entry{equal[0]}}},
		},
		{
			name: "no members", rows: equal[:1], members: []Entry{},
			want: Diff{Extra: List[Entry]{1, equal[:1]}},
		},
		{
			name: "case counts", rows: []Entry{e("A", 1, 1)}, members: []Entry{e("a", 1, 1)},
			want: Diff{Missing: List[Entry]{1, []Entry{e("a", 1, 1)}}, Extra: List[Entry]{1, []Entry{e("A", 1, 1)}}},
		},
		{
			name: "moved", rows: []Entry{e("a", 1, 1), e("b", 5, 2)}, members: []Entry{e("b", 6, 1), e("a", 1, 2)},
			want: Diff{Moved: List[Moved]{1, []Moved{{e("b", 5, 2), e("b", 6, 1)}}}},
		},
		{
			name: "duplicate row", rows: []Entry{e("a", 1, 1), e("b", 2, 2), e("a", 1, 3), e("a", 1, 4)}, members: []Entry{e("a", 1, 1), e("b", 2, 2)},
			want: Diff{DuplicateRows: List[Duplicate]{1, []Duplicate{{"a", 3, 1, 3}}}},
		},
		{
			name: "duplicate member", rows: []Entry{e("a", 1, 1)}, members: []Entry{e("a", 1, 1), e("a", 1, 2)},
			want: Diff{DuplicateMembers: List[Duplicate]{1, []Duplicate{{"a", 2, 1, 2}}}},
		},
		{
			// As many of each as sets of pairs would need, and still not the same rows.
			name: "one id twice and another not at all", rows: []Entry{e("a", 1, 1), e("a", 1, 2)}, members: []Entry{e("a", 1, 1), e("b", 1, 2)},
			want: Diff{
				DuplicateRows: List[Duplicate]{1, []Duplicate{{"a", 2, 1, 2}}},
				Missing:       List[Entry]{1, []Entry{e("b", 1, 2)}},
			},
		},
		{
			name: "duplicate row with another time", rows: []Entry{e("a", 9, 1), e("a", 1, 2)}, members: []Entry{e("a", 1, 1)},
			want: Diff{
				DuplicateRows: List[Duplicate]{1, []Duplicate{{"a", 2, 1, 2}}},
				Moved:         List[Moved]{1, []Moved{{e("a", 9, 1), e("a", 1, 1)}}},
			},
		},
		{
			name: "lines out of order", rows: []Entry{e("z", 3, 30), e("z", 2, 10), e("z", 1, 20)}, members: []Entry{e("z", 1, 1), e("z", 2, 2), e("z", 3, 3)},
			want: Diff{
				DuplicateRows:    List[Duplicate]{1, []Duplicate{{"z", 3, 10, 20}}},
				DuplicateMembers: List[Duplicate]{1, []Duplicate{{"z", 3, 1, 2}}},
			},
		},
		{
			name: "extremes", rows: []Entry{e("a", math.MinInt64, math.MaxInt64)}, members: []Entry{e("a", math.MaxInt64, math.MinInt64)},
			want: Diff{Moved: List[Moved]{1, []Moved{{e("a", math.MinInt64, math.MaxInt64), e("a", math.MaxInt64, math.MinInt64)}}}},
		},
	}
	for _, tt := range tests {
		for _, budget := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/budget %d", tt.name, budget), func(t *testing.T) {
				rows := newTestSet(t, Options{MemoryBytes: budget}, tt.rows...)
				members := newTestSet(t, Options{MemoryBytes: budget}, tt.members...)
				checkDiff(t, rows, members, 10, tt.want)
				checkDiff(t, rows, nil, 10, Diff{DuplicateRows: tt.want.DuplicateRows})
			})
		}
	}
}

// TestCompareAgainstModel runs random sets with duplicates and differences
// through budgets from one run to a run for every entry, with an honest hash and
// with hashes that say next to nothing.
func TestCompareAgainstModel(t *testing.T) {
	hashes := map[string]func(string) uint64{
		"honest":   func(s string) uint64 { return maphash.String(seed, s) },
		"two bits": func(s string) uint64 { return maphash.String(seed, s) << 62 },
		"constant": func(string) uint64 { return 42 },
	}
	r := rand.New(rand.NewPCG(7, 8))
	for name, hash := range hashes {
		for _, budget := range []int{1, 200, 3000, 40_000, 0} {
			for _, n := range []int{0, 1, 30, 3000} {
				t.Run(fmt.Sprintf("%s/budget %d/%d entries", name, budget, n), func(t *testing.T) {
					rows, members := randomEntries(r, n), randomEntries(r, n)
					a := New(t.TempDir(), Options{MemoryBytes: budget, Expect: r.Int64N(int64(n) + 1)})
					b := New(t.TempDir(), Options{MemoryBytes: budget})
					defer a.Close()
					defer b.Close()
					a.hash, b.hash = hash, hash
					for i := range rows {
						if err := errors.Join(a.Add(rows[i]), b.Add(members[i])); err != nil {
							t.Fatal(err)
						}
						// A comparison in between must change nothing.
						if i == n/2 {
							checkDiff(t, a, b, 3, model(rows[:i+1], members[:i+1], 3))
						}
					}
					if spilled := len(a.runs) > 0; spilled != (n >= 3000 && budget != 0 || n > 1 && budget == 1 || n == 30 && budget == 200) {
						t.Errorf("spilled: %v, the test does not do what it should", spilled)
					}
					checkDiff(t, a, b, 5, model(rows, members, 5))
					checkDiff(t, a, nil, 5, model(rows, nil, 5))
					checkDiff(t, a, b, 0, model(rows, members, 0))
				})
			}
		}
	}
}

func randomEntries(r *rand.Rand, n int) []Entry {
	var all []Entry
	for i := range n {
		id := fmt.Sprintf("event-%d", r.IntN(2*n+1))
		if r.IntN(50) == 0 {
			id = strings.Repeat("long", r.IntN(200))
		}
		all = append(all, Entry{EventID: id, UpdatedAtMS: 1_700_000_000_000 + r.Int64N(2), Line: int64(i + 1)})
	}
	return all
}

// TestManyEqual holds a batch whose event_id is always the same: no bucket of the
// sort may turn it into quadratic work.
func TestManyEqual(t *testing.T) {
	const n = 300_000
	s := newTestSet(t, Options{})
	for i := range int64(n) {
		if err := s.Add(Entry{"same", i % 7, i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	checkDiff(t, s, nil, 10, Diff{DuplicateRows: List[Duplicate]{1, []Duplicate{{"same", n, 1, 2}}}})
}

func TestNoFileWhenSmall(t *testing.T) {
	s := newTestSet(t, Options{})
	s.create = func(string) (file, error) {
		t.Error("a temporary file was made")
		return nil, errors.New("no file")
	}
	for i := range int64(200_000) {
		if err := s.Add(Entry{fmt.Sprintf("5b0c9f5e-0e5b-4c93-9c54-%012d", i), 1_700_000_000_000 + i, i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	checkDiff(t, s, nil, 1, Diff{})
}

func TestTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, Options{MemoryBytes: 1})
	for i := range int64(10) {
		if err := s.Add(Entry{"x", i, i}); err != nil {
			t.Fatal(err)
		}
	}
	f := s.file.(*tempFile)
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("Stat = %v, %v, want a file with content that only the user can read", info, err)
	}
	names := func() int {
		t.Helper()
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	if n := names(); !f.named && n != 0 {
		t.Errorf("%d files have a name while the set is in use", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := names(); n != 0 {
		t.Errorf("%d files are left after Close", n)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
	if err := s.Add(Entry{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Add after Close = %v, want %v", err, os.ErrClosed)
	}
	if _, err := Compare(context.Background(), s, nil, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Compare after Close = %v, want %v", err, os.ErrClosed)
	}
}

// TestNamedTemporaryFile is a system that cannot unlink an open file.
func TestNamedTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	f, err := os.CreateTemp(dir, "*")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&tempFile{File: f, named: true}).Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat after Close = %v, want %v", err, os.ErrNotExist)
	}
}

func TestNoTemporaryFile(t *testing.T) {
	s := New(t.TempDir()+"/absent", Options{MemoryBytes: 1})
	defer s.Close()
	if err := s.Add(Entry{EventID: "a"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Add(Entry{EventID: "b"}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Add = %v, want %v", err, os.ErrNotExist)
		}
	}
	if _, err := Compare(context.Background(), s, nil, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Compare = %v, want %v", err, os.ErrNotExist)
	}
}

func TestTooLong(t *testing.T) {
	s := newTestSet(t, Options{}, Entry{EventID: "a"})
	s.longest = 3
	if err := s.Add(Entry{EventID: "bcd"}); err != nil {
		t.Error(err)
	}
	if err := s.Add(Entry{EventID: "bcde"}); !errors.Is(err, ErrTooLong) {
		t.Errorf("Add = %v, want %v", err, ErrTooLong)
	}
	checkDiff(t, s, nil, 1, Diff{})
}

func TestCancelled(t *testing.T) {
	s := newTestSet(t, Options{}, Entry{EventID: "a"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Compare(ctx, s, nil, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Compare = %v, want %v", err, context.Canceled)
	}
}
