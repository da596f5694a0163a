// Package batchtest makes whole batches in memory for tests: a store to read
// them from, and the manifest, marker and receipt that go with a data object.
// It imports no job of the program, so that the tests of all of them can use it.
package batchtest

import (
	"bytes"
	"context"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Store holds objects by key. It can be read as verify.Source wants; it names a
// CRC64 for each object and knows no versions.
type Store map[string][]byte

// Head returns what a store says of the object, or objstore.ErrNotExist.
func (s Store) Head(_ context.Context, key, _ string) (objstore.Info, error) {
	b, ok := s[key]
	if !ok {
		return objstore.Info{}, objstore.ErrNotExist
	}
	crc := manifest.SumCRC64(b)
	return objstore.Info{Key: key, Size: int64(len(b)), CRC64: &crc}, nil
}

// Get opens the object, or gives objstore.ErrNotExist.
func (s Store) Get(ctx context.Context, key, version string) (io.ReadCloser, objstore.Info, error) {
	info, err := s.Head(ctx, key, version)
	return io.NopCloser(bytes.NewReader(s[key])), info, err
}

// Batch is one whole batch under the root of Store.
type Batch struct {
	Store    Store
	Location manifest.Location
	Manifest manifest.Manifest
	Receipt  manifest.Receipt
}

// Pack makes the batch of rows, whose manifest is changed by edit when that is
// not nil; marker and receipt follow the manifest. It fails the test when the
// rows make no batch.
func Pack(tb testing.TB, app string, rows iter.Seq[*manifest.Record], edit func(*manifest.Manifest)) Batch {
	tb.Helper()
	var data bytes.Buffer
	w := manifest.NewWriter(&data, app)
	for r := range rows {
		if err := w.Write(r); err != nil {
			tb.Fatal(err)
		}
	}
	f, err := w.Close()
	if err != nil {
		tb.Fatal(err)
	}
	m, err := manifest.New("", app, f, time.UnixMilli(1_700_000_001_000))
	if err != nil {
		tb.Fatal(err)
	}
	if edit != nil {
		edit(&m)
	}
	return Describe(tb, m, data.Bytes())
}

// Describe makes the batch of a data object and its manifest.
func Describe(tb testing.TB, m manifest.Manifest, data []byte) Batch {
	tb.Helper()
	loc, err := m.Location()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := manifest.EncodeManifest(&m)
	if err != nil {
		tb.Fatal(err)
	}
	mark, err := manifest.EncodeSuccess(&manifest.Success{
		BatchID: m.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(raw), RowCount: m.RowCount,
	})
	if err != nil {
		tb.Fatal(err)
	}
	rc, err := manifest.NewReceipt(&m, raw, mark, 1_700_000_002_000)
	if err != nil {
		tb.Fatal(err)
	}
	return Batch{
		Store:    Store{loc.DataKey(): data, loc.ManifestKey(): raw, loc.SuccessKey(): mark},
		Location: loc, Manifest: m, Receipt: rc,
	}
}
