package restore

import (
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// A row that is larger than the default chunk of a statement, and one that is
// larger by far, are rehearsed, inserted, found again and put over other values.
func TestRowsOverTheChunk(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		rows := records(12)
		for i, size := range map[int]int{3: 3 << 20, 7: outbox.DefaultInsertBytes + 1} {
			rows[i].PayloadJSON = `{"s": "` + strings.Repeat("x", size-len(`{"s": ""}`)) + `"}`
		}
		v := open(t, rows, nil)
		db := newTarget(t, s)
		// A key that the definition cannot vouch for asks for a rehearsal.
		mustExec(t, db, "ALTER TABLE wallet_outbox ADD UNIQUE KEY uk (command_id)")
		opts := rehearsing(t)
		opts.Method = method
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil || !r.Complete() || r.Inserted != 12 || r.Rehearsal == nil || r.Loader != method.String() {
			t.Fatalf("error %v, %d inserted by %q, rehearsal %+v", err, r.Inserted, r.Loader, r.Rehearsal)
		}
		checkContents(t, contents(t, db), linesOf(rows))
		if r, err = Batch(t.Context(), v, db, opts); err != nil || r.Present != 12 {
			t.Errorf("again: error %v, %d present", err, r.Present)
		}
		mustExec(t, db, "UPDATE wallet_outbox SET user_id = 5")
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 12
		if r, err = Batch(t.Context(), v, db, opts); err != nil || !r.Complete() || r.Overwritten != 12 {
			t.Errorf("overwrite: error %v, %d overwritten", err, r.Overwritten)
		}
		checkContents(t, contents(t, db), linesOf(rows))
	})
}
