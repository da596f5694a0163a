package restore

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// A DSN or server that chains transactions, or ends the connection with each
// (completion_type 1 and 2), is restored to and undone like any other.
func TestCompletionType(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(30)
		v := open(t, rows, nil)
		for _, kind := range []int{1, 2} {
			plain, dsn := s.NewDB(t)
			mustExec(t, plain, outbox.Schema(outbox.DefaultTable, ""))
			db, err := mysqldb.Open(t.Context(), fmt.Sprintf("%s?completion_type=%d", dsn, kind), mysqldb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			insert(t, db, rows[:20]...)
			mustExec(t, db, "UPDATE wallet_outbox SET user_id = 5")
			before := contents(t, db)
			path := filepath.Join(t.TempDir(), "receipt")
			opts := rehearsing(t)
			opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 20
			if r := journaled(t, db, v, openJournal(t, db, journalOptions(t, db, path)), opts); !r.Complete() || r.Overwritten != 20 || r.Inserted != 10 {
				t.Errorf("completion_type %d: %d overwritten, %d inserted", kind, r.Overwritten, r.Inserted)
			}
			checkContents(t, contents(t, db), linesOf(rows))
			if r, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{RowsPerTransaction: 7}); err != nil || r.PutBack != 20 || r.Removed != 10 {
				t.Errorf("completion_type %d: %d put back, %d removed, %v", kind, r.PutBack, r.Removed, err)
			}
			checkContents(t, contents(t, db), before)
		}
	})
}
