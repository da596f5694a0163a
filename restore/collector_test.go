package restore

import (
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// Rows that were collected during the verification are restored, more than once,
// without another reading of the batch, out of memory or a file.
func TestBatchCollected(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, window := range []int{1 << 20, 600} { // one in memory, the other in runs
			rows := records(1200)
			opts := testOptions(t)
			opts.WindowBytes = window
			c := NewCollector(opts, &manifest.Receipt{UncompressedBytes: 1 << 16})
			v := openWith(t, rows, nil, verify.Options{TempDir: t.TempDir(), Collect: c})
			db := newTarget(t, s)
			if err := v.Close(); err != nil { // so that it cannot be read
				t.Fatal(err)
			}
			if got := c.Needs().Rows; got != 1200 {
				t.Errorf("needs of %d rows", got)
			}
			for _, dry := range []bool{true, false} {
				opts.DryRun = dry
				r, err := Batch(t.Context(), v, db, opts)
				if err != nil || r.Selected != 1200 || r.Complete() == dry {
					t.Fatalf("dry run %t: error %v, report %+v", dry, err, r)
				}
			}
			checkContents(t, contents(t, db), linesOf(rows))
			if (len(c.rows.runs) > 1) != (window == 600) {
				t.Errorf("%d runs in the file with windows of %d bytes", len(c.rows.runs), window)
			}
			// A selection is of the archive's own rows.
			opts.Select = func(*manifest.Record) bool { return false }
			if _, err := Batch(t.Context(), v, db, opts); err == nil {
				t.Error("a selection was made of what was collected")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A collector that does not hold every row of the batch restores none.
func TestBatchCollectedTooFew(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		opts := testOptions(t)
		c := NewCollector(opts, nil)
		defer c.Close()
		v := openWith(t, records(10), nil, verify.Options{TempDir: t.TempDir(), Collect: c})
		if err := c.Reset(); err != nil {
			t.Fatal(err)
		}
		row := manifest.Row{Record: record(1), Line: 1}
		if err := c.Add(&row); err != nil {
			t.Fatal(err)
		}
		db := newTarget(t, s)
		if _, err := Batch(t.Context(), v, db, opts); err == nil || !strings.Contains(err.Error(), "1 of 10") {
			t.Errorf("error %v", err)
		}
		checkContents(t, contents(t, db), map[string]string{})
	})
}
