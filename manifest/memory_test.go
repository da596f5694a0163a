package manifest

import (
	"io"
	"runtime"
	"testing"
)

// Memory must not grow with the batch: ten times the rows may take no more than
// a few blocks more. Rows are made on the fly and the object goes through a pipe,
// so that nothing but Writer and Reader holds any of it.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	small, large := peakOf(t, 10_000), peakOf(t, 100_000)
	t.Logf("peak heap: %d KiB for 10,000 rows, %d KiB for 100,000", small>>10, large>>10)
	if large > small+4<<20 {
		t.Errorf("peak heap grew from %d to %d KiB", small>>10, large>>10)
	}
}

// peakOf returns the largest live heap, sampled right after collections, while n
// rows are written and read at once.
func peakOf(t *testing.T, n int) (peak uint64) {
	t.Helper()
	pr, pw := io.Pipe()
	go func() {
		w := NewWriter(pw, "wallet")
		recs := sampleRecords(1000)
		for i := range n {
			r := recs[i%len(recs)]
			r.UpdatedAtMS = 1_700_000_000_000 + int64(i)
			if err := w.Write(&r); err != nil {
				t.Error(err)
				break
			}
		}
		_, err := w.Close()
		pw.CloseWithError(err) // nil gives io.EOF
	}()
	r := NewReader(pr, ReaderOptions{})
	defer r.Close()
	for i := 0; ; i++ {
		_, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%2500 == 0 {
			runtime.GC()
			var ms runtime.MemStats
			runtime.ReadMemStats(&ms)
			peak = max(peak, ms.HeapAlloc)
		}
	}
	if r.Lines() != int64(n) {
		t.Fatalf("%d of %d rows", r.Lines(), n)
	}
	return peak
}
