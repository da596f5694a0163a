package verify_test

import (
	"fmt"
	"iter"
	"testing"

	"github.com/hyapp/walletarchive/internal/batchtest"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// batchOf makes a whole batch of n rows and its receipt.
func batchOf(tb testing.TB, n int) (batchtest.Store, verify.Target) {
	tb.Helper()
	b := batchtest.Pack(tb, "wallet", rowsOf(n), nil)
	return b.Store, verify.Target{Location: b.Location, Receipt: &b.Receipt}
}

func rowsOf(n int) iter.Seq[*manifest.Record] {
	return func(yield func(*manifest.Record) bool) {
		for i := range n {
			r := &manifest.Record{
				AppCode: "wallet", EventID: fmt.Sprintf("evt_%016x%08x", uint64(i)*0x9e3779b97f4a7c15, i), EventType: "balance.changed",
				TransactionID: fmt.Sprintf("tx_%016x", i), CommandID: fmt.Sprintf("cmd_%016x", i), UserID: int64(i), AssetType: "COIN",
				AvailableDelta: int64(i) - 100, FrozenDelta: 5, PayloadJSON: fmt.Sprintf(`{"note": "gift to %d", "amount": "12.50", "trace": "%032x"}`, i, uint64(i)*0x9e3779b97f4a7c15),
				Status: manifest.StatusDelivered, WorkerID: "relay-7", CreatedAtMS: 1700000000000 + int64(i), UpdatedAtMS: 1700000000500 + int64(i),
			}
			if !yield(r) {
				return
			}
		}
	}
}

func BenchmarkBatchRows(b *testing.B) {
	src, target := batchOf(b, 200_000)
	for b.Loop() {
		r, err := verify.Batch(b.Context(), src, target, verify.Options{})
		if err != nil || !r.Proven() {
			b.Fatalf("%v %v", err, r.Faults)
		}
		b.SetBytes(r.Manifest.UncompressedBytes)
	}
}
