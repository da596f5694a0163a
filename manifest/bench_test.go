package manifest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// sampleRecords are n rows of some 620 bytes, as a wallet makes them: random ids,
// a payload of its own in each, the same n rows every time.
func sampleRecords(n int) []Record {
	rng := rand.New(rand.NewPCG(1, 2))
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = Record{
			AppCode: "wallet", EventID: fmt.Sprintf("evt_%016x%08x", rng.Uint64(), i), EventType: "balance.changed",
			TransactionID: fmt.Sprintf("tx_%016x", rng.Uint64()), CommandID: fmt.Sprintf("cmd_%016x", rng.Uint64()),
			UserID: rng.Int64N(1 << 40), AssetType: []string{"COIN", "DIAMOND"}[i%2],
			AvailableDelta: rng.Int64N(1000000) - 500000, FrozenDelta: rng.Int64N(1000) - 500,
			PayloadJSON: fmt.Sprintf(`{"note": "gift to %d", "room": %d, "amount": "12.50", "balance_after": %d, "trace": "%016x%016x"}`,
				i, rng.Int32(), rng.Int64(), rng.Uint64(), rng.Uint64()),
			Status: StatusDelivered, WorkerID: "relay-7", CreatedAtMS: 1700000000000 + int64(i), UpdatedAtMS: 1700000000500 + int64(i),
		}
	}
	return recs
}

// BenchmarkReader reads and writes a data object of 200,000 rows, every figure
// included; MB/s are of the text.
func BenchmarkReader(b *testing.B) {
	recs := sampleRecords(200_000)
	object, want := pack(b, recs)
	b.Run("read", func(b *testing.B) {
		b.SetBytes(want.UncompressedBytes)
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(bytes.NewReader(object), ReaderOptions{})
			var err error
			for err == nil {
				_, err = r.Next()
			}
			got, known := r.Figures()
			r.Close()
			if err != io.EOF || !known || got.RowsRoot != want.RowsRoot || got.GzipSHA256 != want.GzipSHA256 {
				b.Fatalf("figures %+v, %v", got, err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.SetBytes(want.UncompressedBytes)
		b.ReportAllocs()
		for b.Loop() {
			w := NewWriter(io.Discard, "wallet")
			for i := range recs {
				if err := w.Write(&recs[i]); err != nil {
					b.Fatal(err)
				}
			}
			if got, err := w.Close(); err != nil || got.GzipSHA256 != want.GzipSHA256 {
				b.Fatalf("figures %+v, %v", got, err)
			}
		}
	})
}
