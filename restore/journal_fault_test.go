package restore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// The connection is lost at every write that a restore with a journal makes, and
// the run ends there. The receipt knows of all that is in the target: an undo by
// it gives the table back as it was, at once or after the same command has run
// again.
func TestJournalLostConnection(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, journalTable := range []string{"", "restores"} {
			if journalTable != "" && s.Name == mysqltest.MySQL {
				continue // once is enough, and this is slow
			}
			t.Run("table_"+journalTable, func(t *testing.T) {
				rows := records(12)
				v := open(t, rows, nil)
				db, dsn := s.NewDB(t)
				mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
				before := linesOf(rows[:3])
				var f fault
				fdb := faulty(t, dsn, &f)
				opts := testOptions(t)
				opts.Method, opts.Logger, opts.MaxAttempts, opts.settle = outbox.Insert, nil, 1, time.Nanosecond
				dir := t.TempDir()
				o := journalOptions(t, db, "")
				o.Table = journalTable
				// restored runs a restore, which the fault may end.
				restored := func(path string) error {
					o := o
					o.Path = path
					j := openJournal(t, db, o)
					opts := opts
					opts.Hooks = []Hooks{j.Hooks(app, v.Manifest().BatchID)}
					r, err := Batch(t.Context(), v, fdb, opts)
					if err != nil {
						err = errors.Join(err, j.Settle(r.State))
					}
					if cerr := j.Close(err == nil && r.Complete()); cerr != nil {
						t.Fatal(cerr)
					}
					return err
				}
				undone := func(name, path string) {
					t.Helper()
					u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
					if err != nil || u.LeftCount != 0 {
						t.Errorf("%s: undo %+v, %v", name, u, err)
					}
					checkContents(t, contents(t, db), before)
				}
				mustExec(t, db, "DELETE FROM wallet_outbox")
				insert(t, db, rows[:3]...)
				f.set(0, false)
				if err := restored(filepath.Join(dir, "whole")); err != nil {
					t.Fatal(err)
				}
				total, _ := f.state()
				undone("no fault", filepath.Join(dir, "whole"))
				unknown := 0
				for _, sent := range []bool{false, true} {
					for n := 1; n <= total; n++ {
						name := fmt.Sprintf("write %d of %d, sent %t", n, total, sent)
						path := filepath.Join(dir, fmt.Sprintf("%d-%t", n, sent))
						f.set(n, sent)
						err := restored(path)
						if _, hit := f.state(); !hit {
							t.Fatalf("%s: no write was broken", name)
						}
						f.set(0, false)
						if errors.Is(err, ErrOutcomeUnknown) {
							unknown++
						}
						// At once, and after the same command.
						undone(name, path)
						if err := restored(path); err != nil {
							t.Fatalf("%s: run again: %v", name, err)
						}
						checkContents(t, contents(t, db), linesOf(rows))
						undone(name+", run again", path)
					}
				}
				if unknown < 2 {
					t.Errorf("%d commits had no answer, want some", unknown)
				}
			})
		}
	})
}

// The connection is lost at every write of an undo. What it says is true, and an
// undo after it finishes the work.
func TestUndoLostConnection(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(12)
		v := open(t, rows, nil)
		db, dsn := s.NewDB(t)
		mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		old := *rows[0].Clone()
		old.WorkerID = "before"
		insert(t, db, old, rows[1])
		before := contents(t, db)
		path := filepath.Join(t.TempDir(), "receipt")
		j := openJournal(t, db, journalOptions(t, db, path))
		opts := testOptions(t)
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
		journaled(t, db, v, j, opts)
		receipt, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r *Receipt
		var f fault
		fdb := faulty(t, dsn, &f)
		again := func() {
			mustExec(t, db, "DELETE FROM wallet_outbox")
			insert(t, db, rows...)
			if err := os.WriteFile(path, receipt, 0o600); err != nil {
				t.Fatal(err)
			}
			r = readReceipt(t, path)
		}
		again()
		f.set(0, false)
		if u, err := Undo(t.Context(), fdb, r, UndoOptions{RowsPerTransaction: 4}); err != nil || !u.Complete() {
			t.Fatalf("%+v, %v", u, err)
		}
		total, _ := f.state()
		finished := 0
		for _, sent := range []bool{false, true} {
			for n := 1; n <= total; n++ {
				again()
				f.set(n, sent)
				u, err := Undo(t.Context(), fdb, r, UndoOptions{RowsPerTransaction: 4})
				f.set(0, false)
				name := fmt.Sprintf("write %d of %d, sent %t", n, total, sent)
				if err == nil {
					finished++
					if !u.Complete() {
						t.Errorf("%s: %+v", name, u)
					}
					checkContents(t, contents(t, db), before)
				}
				if u, err := Undo(t.Context(), fdb, readReceipt(t, path), UndoOptions{}); err != nil || !u.Complete() {
					t.Errorf("%s: again: %+v, %v", name, u, err)
				}
				checkContents(t, contents(t, db), before)
			}
		}
		if finished == 0 {
			t.Error("no undo went on after its connection was lost")
		}
	})
}
