package restore

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hyapp/walletarchive/manifest"
)

// rowsOf returns rows as the reader of an archive gives them.
func rowsOf(records []manifest.Record) []*manifest.Row {
	all := make([]*manifest.Row, len(records))
	for i, r := range records {
		leaf := manifest.Hash(sha256.Sum256(append([]byte{0}, r.AppendLine(nil)...))) // RFC 6962 section 2.1
		all[i] = &manifest.Row{Record: r, Line: int64(i + 1), Canonical: true, LeafHash: leaf}
	}
	return all
}

func sortRows(t *testing.T, dir string, budget int, rows []*manifest.Row) *sorter {
	t.Helper()
	s := newSorter(dir, budget, 100)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	for _, r := range rows {
		if err := s.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	return s
}

func collect(s *sorter) (all []*manifest.Row, err error) {
	for r, err := range s.sorted() {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

func TestSorter(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 50, 700} {
		all := records(n)
		random.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		if n > 10 {
			all[3].LastError, all[3].LockUntilMS, all[4].EventID = pointer("\x00\n"), pointer(int64(-1)), ""
			all[5].EventID, all[6].EventID = "é\U0001F600", "zz"
			all[7].PayloadJSON = strings.Repeat(" ", 5000) + "1"
		}
		rows := rowsOf(all)
		want := slices.Clone(rows)
		slices.SortFunc(want, func(a, b *manifest.Row) int { return strings.Compare(a.EventID, b.EventID) })
		for _, budget := range []int{1, 3000, 100_000, 1 << 30} {
			dir := t.TempDir()
			s := sortRows(t, dir, budget, rows)
			for range 2 { // it may be read again
				got, err := collect(s)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%d rows, budget %d (-want +got):\n%s", n, budget, diff)
				}
			}
			if spilled := s.file != nil; spilled != (n > 1 && budget < n*300) {
				t.Errorf("%d rows, budget %d: spilled %t", n, budget, spilled)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the file has a name: %v, error %v", left, err)
			}
		}
	}
}

// No damage of the temporary file gives other rows than those that were added
// without being found, here or when a row is compared with the target.
func TestSorterDamage(t *testing.T) {
	rows := rowsOf(records(6))
	want := make(map[int64]*manifest.Row)
	for _, r := range rows {
		want[r.Line] = r
	}
	s := sortRows(t, t.TempDir(), 900, rows)
	whole := make([]byte, s.size)
	if _, err := s.file.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, bit := range []byte{1, 0x80} {
			if _, err := s.file.WriteAt([]byte{whole[at] ^ bit}, int64(at)); err != nil {
				t.Fatal(err)
			}
			got, err := collect(s)
			if err == nil && !damageFound(want, got) {
				t.Fatalf("byte %d, bit %#x: the damage is not found", at, bit)
			}
		}
		if _, err := s.file.WriteAt(whole[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.file.Truncate(s.size - 1); err != nil {
		t.Fatal(err)
	}
	if _, err := collect(s); !errors.Is(err, errSortedRows) {
		t.Errorf("cut file: error %v, want errSortedRows", err)
	}
}

// damageFound reports whether a restore of these rows could not end well, or
// whether they are the right ones after all (an event_id may be damaged where it
// is only used for sorting).
func damageFound(want map[int64]*manifest.Row, got []*manifest.Row) bool {
	seen := make(map[int64]bool)
	same := len(got) == len(want)
	var c comparer
	for _, r := range got {
		// The target gives back what it was given.
		like, _, err := c.compare(r, &r.Record)
		if err != nil || like != identical || seen[r.Line] { // confirm finds the last
			return true
		}
		seen[r.Line] = true
		same = same && r.LeafHash == want[r.Line].LeafHash
	}
	return same || len(got) != len(want) // account finds the last
}

func TestSorterNoRoom(t *testing.T) {
	s := newSorter(t.TempDir()+"/missing", 1, 0)
	var err error
	for _, r := range rowsOf(records(3)) {
		if err = s.add(r); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want one of the file", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
