package main

import (
	"slices"
	"testing"

	"github.com/hyapp/walletarchive/drill"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/verify"
)

// TestDrilledNamesNoChecksThatWereNotMade: a restore that the scratch server
// refused leaves nothing to compare.
func TestDrilledNamesNoChecksThatWereNotMade(t *testing.T) {
	for _, checks := range [][]drill.Check{nil, {{Name: "rows", OK: true}}} {
		var b drill.Batch
		b.Verify.Objects = make([]verify.Object, 3)
		b.Checks = checks
		out := drilledBatch(&b, new(scratchServer))
		named := slices.ContainsFunc(out.Facts, func(f report.Fact) bool { return f.Label == "checks" || f.Label == "restored" })
		if named != (len(checks) > 0) {
			t.Errorf("%d checks: facts %+v", len(checks), out.Facts)
		}
	}
}
