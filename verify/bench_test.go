package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// memory is a Source of objects by key.
type memory map[string][]byte

func (m memory) Head(_ context.Context, key, _ string) (objstore.Info, error) {
	b, ok := m[key]
	if !ok {
		return objstore.Info{}, objstore.ErrNotExist
	}
	crc := manifest.SumCRC64(b)
	return objstore.Info{Key: key, Size: int64(len(b)), CRC64: &crc}, nil
}

func (m memory) Get(ctx context.Context, key, version string) (io.ReadCloser, objstore.Info, error) {
	info, err := m.Head(ctx, key, version)
	return io.NopCloser(bytes.NewReader(m[key])), info, err
}

// batchOf makes a whole batch of n rows and its receipt.
func batchOf(tb testing.TB, n int) (memory, verify.Target) {
	tb.Helper()
	var data bytes.Buffer
	w := manifest.NewWriter(&data, "wallet")
	for i := range n {
		err := w.Write(&manifest.Record{
			AppCode: "wallet", EventID: fmt.Sprintf("evt_%016x%08x", uint64(i)*0x9e3779b97f4a7c15, i), EventType: "balance.changed",
			TransactionID: fmt.Sprintf("tx_%016x", i), CommandID: fmt.Sprintf("cmd_%016x", i), UserID: int64(i), AssetType: "COIN",
			AvailableDelta: int64(i) - 100, FrozenDelta: 5, PayloadJSON: fmt.Sprintf(`{"note": "gift to %d", "amount": "12.50", "trace": "%032x"}`, i, uint64(i)*0x9e3779b97f4a7c15),
			Status: manifest.StatusDelivered, WorkerID: "relay-7", CreatedAtMS: 1700000000000 + int64(i), UpdatedAtMS: 1700000000500 + int64(i),
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	f, err := w.Close()
	if err != nil {
		tb.Fatal(err)
	}
	m, err := manifest.New("", "wallet", f, time.UnixMilli(1700000001000))
	if err != nil {
		tb.Fatal(err)
	}
	loc, err := m.Location()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := manifest.EncodeManifest(&m)
	if err != nil {
		tb.Fatal(err)
	}
	mark, err := manifest.EncodeSuccess(&manifest.Success{BatchID: m.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(raw), RowCount: m.RowCount})
	if err != nil {
		tb.Fatal(err)
	}
	rc, err := manifest.NewReceipt(&m, raw, mark, 1700000002000)
	if err != nil {
		tb.Fatal(err)
	}
	return memory{loc.DataKey(): data.Bytes(), loc.ManifestKey(): raw, loc.SuccessKey(): mark}, verify.Target{Location: loc, Receipt: &rc}
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
