package spill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestAll(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 20_000} { // the last one spills
		s := New(t.TempDir(), Options{MemoryBytes: 64 << 10})
		var want []Entry
		for i := range n {
			e := Entry{EventID: fmt.Sprintf("event %d", i%9000), UpdatedAtMS: int64(-i), Line: int64(i + 1)} // some twice
			want = append(want, e)
			if err := s.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if n == 20_000 && len(s.runs) < 2 {
			t.Fatalf("%d runs on disk", len(s.runs))
		}
		for range 2 {
			var got []Entry
			for e, err := range s.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			slices.SortFunc(got, func(a, b Entry) int { return int(a.Line - b.Line) })
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("All of %d entries (-want +got):\n%s", n, d)
			}
			if _, err := Compare(t.Context(), s, nil, 1); err != nil { // before and after
				t.Fatal(err)
			}
		}
		for range s.All(t.Context()) {
			break // and again, whole, for the next one
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllEndsInItsError fails each call of the file: all entries come, or the
// error does, last.
func TestAllEndsInItsError(t *testing.T) {
	const n = 5000
	entry := func(i int) Entry { return Entry{EventID: fmt.Sprintf("event %d", i), Line: int64(i + 1)} }
	last := func(ctx context.Context, s *Set) (count int, err error) {
		for e, aerr := range s.All(ctx) {
			if err != nil {
				t.Fatal("a pair came after the error")
			}
			if err = aerr; err == nil {
				count++
			} else if e != (Entry{}) {
				t.Errorf("entry %+v came with %v", e, err)
			}
		}
		return count, err
	}
	for fail := 1; ; fail++ {
		f := &faultyFile{failAt: fail}
		s := withFile(f, 16<<10)
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = s.Add(entry(i))
		}
		count, aerr := last(t.Context(), s)
		if f.calls < fail {
			if aerr != nil || count != n {
				t.Fatalf("without a fault: %d entries, %v", count, aerr)
			}
			break
		}
		if !errors.Is(aerr, syscall.ENOSPC) {
			t.Fatalf("call %d failed, %d entries, %v", fail, count, aerr)
		}
	}
	f := &faultyFile{}
	s := withFile(f, 16<<10)
	for i := range n {
		if err := s.Add(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	at := len(f.data) / 3
	f.data[at] ^= 1
	if count, err := last(t.Context(), s); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a flipped bit: %d entries, %v", count, err)
	}
	f.data[at] ^= 1
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if count, err := last(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d entries, %v", count, err)
	}
}
