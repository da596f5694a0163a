package restore

import (
	"errors"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// A system-versioned table is refused by that name, and may still be compared.
func TestSystemVersionedTable(t *testing.T) {
	db := newTarget(t, mysqltest.Get(t, mysqltest.MariaDB))
	mustExec(t, db, "ALTER TABLE wallet_outbox ADD SYSTEM VERSIONING")
	rows := records(10)
	insert(t, db, rows[:9]...)
	v := open(t, rows, nil)
	opts := rehearsing(t)
	for _, dry := range []bool{true, false} {
		opts.DryRun = dry
		_, err := Batch(t.Context(), v, db, opts)
		var preflight *PreflightError
		if !errors.As(err, &preflight) || len(preflight.Problems) != 1 || preflight.Problems[0].Code != outbox.SystemVersioned {
			t.Errorf("dry run %t: error %v, want the problem %s", dry, err, outbox.SystemVersioned)
		}
	}
	checkContents(t, contents(t, db), linesOf(rows[:9]))
	opts = testOptions(t)
	opts.CompareOnly = true
	if r, err := Batch(t.Context(), v, db, opts); err != nil || r.Present != 9 || r.Missing != 1 {
		t.Errorf("compared: %d present, %d missing, %v", r.Present, r.Missing, err)
	}
}
