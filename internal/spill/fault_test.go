package spill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// faultyFile keeps a file in memory and fails the nth call.
type faultyFile struct {
	data   []byte
	calls  int
	failAt int // 0 never
	onRead func()
}

func (f *faultyFile) fail() error {
	if f.calls++; f.calls == f.failAt {
		return syscall.ENOSPC
	}
	return nil
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.fail(); err != nil {
		return len(p) / 2, err
	}
	f.data = append(f.data, p...)
	return len(p), nil
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if f.onRead != nil {
		f.onRead()
	}
	if err := f.fail(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *faultyFile) Close() error { return nil }

func withFile(f file, budget int) *Set {
	s := New("", Options{MemoryBytes: budget})
	s.create = func(string) (file, error) { return f, nil }
	return s
}

// TestFailingFile fails the nth write or read for every n: the error must come
// out, of this call or a later one, and never a result.
func TestFailingFile(t *testing.T) {
	entries := randomEntries(rand.New(rand.NewPCG(1, 1)), 120)
	attempt := func(failAt int) (calls int, err error) {
		f := &faultyFile{failAt: failAt}
		s := withFile(f, 500)
		defer s.Close()
		for _, e := range entries {
			err = errors.Join(err, s.Add(e))
		}
		d, cmpErr := Compare(context.Background(), s, nil, 3)
		if cmpErr != nil && !d.Empty() {
			t.Errorf("call %d: a result beside the error %v", failAt, cmpErr)
		}
		if err != nil && cmpErr == nil {
			t.Errorf("call %d: Compare succeeds after Add failed with %v", failAt, err)
		}
		return f.calls, errors.Join(err, cmpErr)
	}
	calls, err := attempt(0)
	if err != nil || calls < 10 {
		t.Fatalf("without a fault: %d calls, %v", calls, err)
	}
	for n := 1; n <= calls; n++ {
		if _, err := attempt(n); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("call %d fails: %v, want %v", n, err, syscall.ENOSPC)
		}
	}
}

// TestCorruptFile changes, drops and cuts every byte of the temporary file in
// turn: Compare must notice each.
func TestCorruptFile(t *testing.T) {
	f := &faultyFile{}
	s := withFile(f, 500)
	defer s.Close()
	for _, e := range randomEntries(rand.New(rand.NewPCG(2, 2)), 20) {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Compare(context.Background(), s, nil, 1); err != nil { // writes the last run
		t.Fatal(err)
	}
	whole := append([]byte(nil), f.data...)
	check := func(what string) {
		t.Helper()
		if _, err := Compare(context.Background(), s, nil, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want %v", what, err, ErrCorrupt)
		}
	}
	for i := range whole {
		for _, bit := range []byte{0x01, 0x80, 0xff} {
			f.data = append([]byte(nil), whole...)
			f.data[i] ^= bit
			check(fmt.Sprintf("byte %d changed by %#x", i, bit))
		}
		f.data = whole[:i]
		check(fmt.Sprintf("cut at byte %d", i))
	}
	f.data = whole
	if _, err := Compare(context.Background(), s, nil, 1); err != nil {
		t.Errorf("whole again: %v", err)
	}
}

// TestMemoryIsBounded holds the live heap of two sets that are many times their
// budget, while they are filled and while they are merged.
func TestMemoryIsBounded(t *testing.T) {
	const budget, n = 1 << 20, 400_000 // about 24 MB of entries a set
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base, most, reads := live(), int64(0), 0
	sets := [2]*Set{}
	for i := range sets {
		s := New(t.TempDir(), Options{MemoryBytes: budget})
		defer s.Close()
		s.create = func(dir string) (file, error) {
			f, err := createTemp(dir)
			return &watchedFile{f, func() {
				if reads++; reads%200 == 0 {
					most = max(most, live()-base)
				}
			}}, err
		}
		sets[i] = s
	}
	for i := range int64(n) {
		for _, s := range sets {
			if err := s.Add(Entry{fmt.Sprintf("5b0c9f5e-0e5b-4c93-9c54-%012d", i), 1_700_000_000_000 + i, i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if i%50_000 == 0 {
			most = max(most, live()-base)
		}
	}
	checkDiff(t, sets[0], sets[1], 1, Diff{})
	if len(sets[0].runs) < 20 || reads < 1000 {
		t.Errorf("%d runs, %d reads: the test does not do what it should", len(sets[0].runs), reads)
	}
	// Both budgets, and a quarter of slack for tables and write buffers.
	if most > 2*budget*5/4 {
		t.Errorf("%d bytes live, want at most %d", most, 2*budget*5/4)
	}
}

// watchedFile tells of every read.
type watchedFile struct {
	file
	onRead func()
}

func (f *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	f.onRead()
	return f.file.ReadAt(p, off)
}

func benchmarkIDs(n int) []string {
	r := rand.New(rand.NewPCG(9, 9))
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48))
	}
	return ids
}

// BenchmarkSets fills two sets with the same event_ids and compares them; the
// metrics split the time.
func BenchmarkSets(b *testing.B) {
	for _, n := range []int{500, 200_000, 2_000_000} {
		ids := benchmarkIDs(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var compared time.Duration
			for b.Loop() {
				rows := New(b.TempDir(), Options{Expect: int64(n)})
				members := New(b.TempDir(), Options{Expect: int64(n)})
				for i, id := range ids {
					if err := rows.Add(Entry{id, int64(i), int64(i + 1)}); err != nil {
						b.Fatal(err)
					}
				}
				for i, id := range ids {
					if err := members.Add(Entry{id, int64(i), int64(i + 1)}); err != nil {
						b.Fatal(err)
					}
				}
				filled := time.Now()
				if d, err := Compare(context.Background(), rows, members, 10); err != nil || !d.Empty() {
					b.Fatal(d, err)
				}
				compared += time.Since(filled)
				if err := errors.Join(rows.Close(), members.Close()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(compared)/float64(b.N)/float64(n), "ns/compared")
			b.ReportMetric(float64(b.Elapsed()-compared)/float64(b.N)/float64(2*n), "ns/added")
		})
	}
}
