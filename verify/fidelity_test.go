package verify_test

import (
	"slices"
	"testing"

	"github.com/hyapp/walletarchive/internal/batchtest"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// TestFidelityNamesRows: the event_ids of payload_fidelity, by which a drill
// excuses payloads, are rows of the batch in the order of its lines.
func TestFidelityNamesRows(t *testing.T) {
	rows := func(yield func(*manifest.Record) bool) {
		for _, id := range []string{"a", "b", "c"} {
			if !yield(&manifest.Record{AppCode: "wallet", EventID: id, Status: manifest.StatusDelivered, PayloadJSON: "{}", UpdatedAtMS: 1, CreatedAtMS: 1}) {
				return
			}
		}
	}
	for _, tt := range []struct {
		name        string
		text, value []string
		level       verify.Level
		faults      int
	}{
		{name: "none"},
		{name: "rows in their order", text: []string{"a", "c"}, value: []string{"a", "b", "c"}},
		{name: "no row", text: []string{"a", "x"}, faults: 1},
		{name: "no row of either list", text: []string{"x"}, value: []string{"y"}, faults: 2},
		{name: "twice", value: []string{"b", "b"}, faults: 1},
		{name: "in another order", value: []string{"c", "a"}, faults: 1},
		{name: "only rows can show it", text: []string{"x"}, level: verify.LevelContent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := batchtest.Pack(t, "wallet", rows, func(m *manifest.Manifest) {
				m.PayloadFidelity = &manifest.PayloadFidelity{
					Checked:          true,
					TextUnstableRows: int64(len(tt.text)), TextUnstableEventIDs: append([]string{}, tt.text...),
					ValueUnstableRows: int64(len(tt.value)), ValueUnstableEventIDs: append([]string{}, tt.value...),
				}
			})
			rep, err := verify.Batch(t.Context(), b.Store, verify.Target{Location: b.Location}, verify.Options{Level: tt.level})
			if err != nil {
				t.Fatal(err)
			}
			other := slices.ContainsFunc(rep.Faults, func(f verify.Fault) bool { return f.Check != verify.CheckFidelity })
			if len(rep.Faults) != tt.faults || other {
				t.Errorf("faults %v, want %d of %s", rep.Faults, tt.faults, verify.CheckFidelity)
			}
		})
	}
}
