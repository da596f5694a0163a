package manifest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

func sampleRecords(n int) []Record {
	rng := rand.New(rand.NewPCG(1, 2))
	recs := make([]Record, n)
	for i := range recs {
		recs[i] = Record{AppCode: "wallet", EventID: fmt.Sprintf("evt_%016x%08x", rng.Uint64(), i), EventType: "balance.changed", TransactionID: fmt.Sprintf("tx_%016x", rng.Uint64()), CommandID: fmt.Sprintf("cmd_%016x", rng.Uint64()), UserID: rng.Int64N(1 << 40), AssetType: []string{"COIN", "DIAMOND"}[i%2], AvailableDelta: rng.Int64N(1000000) - 500000, FrozenDelta: rng.Int64N(1000) - 500,
			PayloadJSON: fmt.Sprintf(`{"note": "gift to %d", "room": %d, "amount": "12.50", "balance_after": %d, "trace": "%016x%016x"}`, i, rng.Int32(), rng.Int64(), rng.Uint64(), rng.Uint64()), Status: StatusDelivered, WorkerID: "relay-7", RetryCount: 0, CreatedAtMS: 1700000000000 + int64(i), UpdatedAtMS: 1700000000500 + int64(i)}
	}
	return recs
}

func BenchmarkReader(b *testing.B) {
	recs := sampleRecords(200000)
	var buf bytes.Buffer
	w := NewWriter(&buf, "wallet")
	for i := range recs {
		if err := w.Write(&recs[i]); err != nil {
			b.Fatal(err)
		}
	}
	f, err := w.Close()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d -> %d", f.UncompressedBytes, f.CompressedBytes)
	b.Run("read", func(b *testing.B) {
		b.SetBytes(f.UncompressedBytes)
		for range b.N {
			r := NewReader(bytes.NewReader(buf.Bytes()), ReaderOptions{})
			for {
				row, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil || !row.Canonical {
					b.Fatal(err)
				}
			}
			g, ok := r.Figures()
			if !ok || g.RowsRoot != f.RowsRoot || g.NDJSONSHA256 != f.NDJSONSHA256 || g.GzipSHA256 != f.GzipSHA256 || g.DataCRC64 != f.DataCRC64 {
				b.Fatal("figures differ")
			}
			r.Close()
		}
	})
	b.Run("write", func(b *testing.B) {
		b.SetBytes(f.UncompressedBytes)
		for range b.N {
			w := NewWriter(io.Discard, "wallet")
			for i := range recs {
				w.Write(&recs[i])
			}
			w.Close()
		}
	})
}
