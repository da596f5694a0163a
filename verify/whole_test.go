package verify_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// TestReadGivesTheCursorsOfAProvenBatch also has a first read that is damaged
// on the way: what it decoded is not among the cursors.
func TestReadGivesTheCursorsOfAProvenBatch(t *testing.T) {
	good, target := batchOf(t, 20_000)
	data := target.Location.DataKey()
	want := map[manifest.Cursor]bool{}
	v, _, err := verify.Open(t.Context(), good, target, verify.Options{})
	if err != nil || v == nil {
		t.Fatalf("Open = %v, %v", v, err)
	}
	defer v.Close()
	for row, err := range v.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		want[row.Cursor()] = true
	}
	for name, gets := range map[string][]answer{
		"read once":               nil,
		"damaged on the way":      {{body: flipped(good[data])}},
		"cut off on the way":      {{body: good[data][:len(good[data])/2], end: &objstore.CorruptError{Key: data, Kind: objstore.ShortBody}}},
		"a connection that fails": {{body: good[data][:len(good[data])/2], end: errors.New("reset")}},
	} {
		src := &faulty{Store: good, gets: map[string][]answer{data: gets}}
		w, r, err := verify.Read(t.Context(), src, target, verify.Options{TempDir: t.TempDir()})
		if name == "a connection that fails" {
			if w != nil || err == nil {
				t.Errorf("%s: Read = %v, %v", name, w, err)
			}
			continue
		}
		if err != nil || w == nil || !r.Proven() {
			t.Fatalf("%s: Read = %v, %v, %v", name, w, r.Faults, err)
		}
		n := 0
		for c, err := range w.Cursors(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; !want[c] {
				t.Fatalf("%s: cursor %v is of no row", name, c)
			}
		}
		if n != len(want) || w.Manifest().RowCount != int64(n) || len(w.ManifestBytes()) == 0 || len(w.SuccessBytes()) == 0 {
			t.Errorf("%s: %d cursors, want %d", name, n, len(want))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var last error
		for _, err := range w.Cursors(ctx) {
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("cursors of a cancelled context end with %v", last)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	good[data] = flipped(good[data])
	if w, r, err := verify.Read(t.Context(), good, target, verify.Options{}); w != nil || err != nil || !r.Failed() {
		t.Errorf("Read of a damaged batch = %v, %v, failed %t", w, err, r.Failed())
	}
}
