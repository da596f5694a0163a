package restore

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hyapp/walletarchive/manifest"
)

func timeSorted(t *testing.T, budget int, all []manifest.Record) *TimeSorter {
	t.Helper()
	s := NewTimeSorter(t.TempDir())
	s.rows.budget = budget
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range all {
		r := all[i]
		if err := s.Add(&r); err != nil {
			t.Fatal(err)
		}
		r.EventID = "changed" // it was copied
	}
	return s
}

func TestTimeSorter(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{0, 1, 700} {
		all := records(n)
		for i := range all {
			all[i].UpdatedAtMS = int64(i/3) - 100 // negative ones, and several of a time
		}
		if n > 1 {
			all[1].EventID, all[2].PayloadJSON, all[3].Status = "", "", "no status" // a table may hold what it likes
		}
		want := slices.Clone(all)
		slices.SortFunc(want, func(a, b manifest.Record) int {
			return cmp.Or(cmp.Compare(a.UpdatedAtMS, b.UpdatedAtMS), strings.Compare(a.EventID, b.EventID))
		})
		random.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, budget := range []int{3000, 1 << 30} {
			var got []manifest.Record
			for r, err := range timeSorted(t, budget, all).Rows() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, *r)
			}
			if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%d rows, budget %d (-want +got):\n%s", n, budget, diff)
			}
		}
	}
}

// Whatever is damaged in the file is an error, unless the rows come as they were
// nevertheless.
func TestTimeSorterDamage(t *testing.T) {
	all := records(6)
	s := timeSorted(t, 900, all)
	for range s.Rows() { // writes the last run
	}
	whole := make([]byte, s.rows.size)
	if _, err := s.rows.file.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := range whole {
		if _, err := s.rows.file.WriteAt([]byte{whole[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
		var got []string
		var failed error
		again := TimeSorter{rows: s.rows}
		for r, err := range again.sortedOnly() {
			if failed = err; err != nil {
				break
			}
			got = append(got, string(r.AppendLine(nil)))
		}
		if failed != nil {
			found++
			if !errors.Is(failed, errSortedRows) {
				t.Errorf("byte %d: error %v", at, failed)
			}
		} else {
			slices.Sort(got)
			want := make([]string, len(all))
			for i := range all {
				want[i] = string(all[i].AppendLine(nil))
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("byte %d: the damage is not found", at)
			}
		}
		if _, err := s.rows.file.WriteAt(whole[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if found < len(whole)/2 {
		t.Errorf("%d of %d damaged bytes were found", found, len(whole))
	}
}
