package restore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

func journalOptions(t *testing.T, db *sql.DB, path string) JournalOptions {
	t.Helper()
	target, err := IdentifyTarget(t.Context(), db, outbox.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	if target.Server == "" || target.Database == "" {
		t.Fatalf("identity %+v", target)
	}
	return JournalOptions{
		Path: path, PlanID: "plan", Tool: manifest.Program{Name: "test", Version: "1"}, Operator: "root@here", Ticket: "INC-1", Target: target,
		Now: func() time.Time { return time.UnixMilli(1700000000000) },
	}
}

func openJournal(t *testing.T, db *sql.DB, o JournalOptions) *Journal {
	t.Helper()
	j, err := OpenJournal(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// journaled restores v with j and ends j.
func journaled(t *testing.T, db *sql.DB, v *verify.Verified, j *Journal, opts Options) Report {
	t.Helper()
	opts.Hooks = append(opts.Hooks, j.Hooks(app, v.Manifest().BatchID))
	r, err := Batch(t.Context(), v, db, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(r.Complete()); err != nil {
		t.Fatal(err)
	}
	return r
}

func readReceipt(t *testing.T, path string) *Receipt {
	t.Helper()
	r, err := ReadReceipt(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReceiptAndUndo(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, journalTable := range []string{"", "wallet_outbox_restores"} {
			db := newTarget(t, s)
			rows := records(60)
			v := open(t, rows, nil)
			insert(t, db, rows[:20]...)
			other := record(1000)
			other.EventID = "not of the archive"
			insert(t, db, other)
			before, sum := contents(t, db), outboxtest.Checksum(t, db)
			path := filepath.Join(t.TempDir(), "receipt")
			o := journalOptions(t, db, path)
			o.Table = journalTable
			j := openJournal(t, db, o)
			journaled(t, db, v, j, testOptions(t))
			if got := j.Counts(); got != (ReceiptCounts{Present: 20, Inserted: 40}) {
				t.Errorf("counts %+v", got)
			}
			r := readReceipt(t, path)
			if h := r.Header; h.Operator != "root@here" || h.Ticket != "INC-1" || h.RunID != j.RunID() || !r.Ended || !r.Complete || len(r.Transactions) != 1 || r.Transactions[0].State != Committed {
				t.Errorf("receipt %+v", r)
			}
			hashes := map[string]string{}
			for row, err := range r.rows(&r.Transactions[0]) {
				if err != nil {
					t.Fatal(err)
				}
				hashes[app+"/"+row.EventID] = row.RowHash.String()
			}
			for i := range rows {
				if got, want := hashes[app+"/"+rows[i].EventID], rows[i].RowHash().String(); got != want {
					t.Errorf("row %d has hash %s in the receipt, want %s", i, got, want)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if journalTable != "" {
				var run string
				var n int64
				if err := db.QueryRowContext(t.Context(), "SELECT run_id, inserted_rows FROM "+journalTable).Scan(&run, &n); err != nil || run != j.RunID() || n != 40 {
					t.Errorf("journal table: run %s, %d rows, %v", run, n, err)
				}
			}

			after := contents(t, db)
			u, err := Undo(t.Context(), db, r, UndoOptions{DryRun: true, RowsPerTransaction: 7})
			if err != nil || u.Removed != 40 || u.Complete() {
				t.Errorf("dry run: %+v, %v", u, err)
			}
			if diff := cmp.Diff(after, contents(t, db)); diff != "" {
				t.Errorf("a dry run changed (-before +after)\n%s", diff)
			}
			var told int64
			u, err = Undo(t.Context(), db, r, UndoOptions{RowsPerTransaction: 7, Progress: func(n int64) { told += n }})
			if err != nil || u.Removed != 40 || u.Rows != 40 || !u.Complete() || told != 40 {
				t.Errorf("undo: %+v, %v, told %d", u, err, told)
			}
			if diff := cmp.Diff(before, contents(t, db)); diff != "" {
				t.Errorf("the table before and after (-before +after)\n%s", diff)
			}
			if got := outboxtest.Checksum(t, db); got != sum {
				t.Errorf("CHECKSUM TABLE %d, was %d", got, sum)
			}
			if u, err = Undo(t.Context(), db, r, UndoOptions{}); err != nil || u.UndoneBefore != 40 || u.Gone != 0 || !u.Complete() {
				t.Errorf("undo again: %+v, %v", u, err)
			}
			if diff := cmp.Diff(before, contents(t, db)); diff != "" {
				t.Errorf("a second undo changed (-before +after)\n%s", diff)
			}
		}
	})
}

func TestUndoLeavesWhatWasChanged(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		rows := records(30)
		path := filepath.Join(t.TempDir(), "receipt")
		j := openJournal(t, db, journalOptions(t, db, path))
		journaled(t, db, open(t, rows, nil), j, testOptions(t))
		mustExec(t, db, "UPDATE wallet_outbox SET retry_count = 7 WHERE event_id = ?", rows[3].EventID)
		mustExec(t, db, "UPDATE wallet_outbox SET payload = '{\"note\": \"x\"}' WHERE event_id = ?", rows[9].EventID)
		mustExec(t, db, "DELETE FROM wallet_outbox WHERE event_id = ?", rows[5].EventID)
		u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
		if err != nil || u.Removed != 27 || u.Gone != 1 || u.LeftCount != 2 || len(u.Left) != 2 || u.Complete() {
			t.Fatalf("%+v, %v", u, err)
		}
		got := contents(t, db)
		for _, l := range u.Left {
			if _, ok := got[app+"/"+l.EventID]; !ok || (l.EventID != rows[3].EventID && l.EventID != rows[9].EventID) || l.Outcome != Inserted {
				t.Errorf("left %+v", l)
			}
		}
		if len(got) != 2 {
			t.Errorf("%d rows in the table, want the two", len(got))
		}
	})
}

// TestUndoKnowsRespelledRows restores payloads that MySQL spells in its own way.
func TestUndoKnowsRespelledRows(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MySQL)
	db := newTarget(t, s)
	rows := records(20)
	for i := range rows {
		if i%2 == 0 {
			rows[i].PayloadJSON = `{"b":1,"a":1.50}`
		}
	}
	path := filepath.Join(t.TempDir(), "receipt")
	j := openJournal(t, db, journalOptions(t, db, path))
	if r := journaled(t, db, open(t, rows, nil), j, testOptions(t)); r.Respelled != 10 {
		t.Fatalf("%d rows respelled, want 10", r.Respelled)
	}
	u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
	if err != nil || u.Removed != 20 || !u.Complete() || len(contents(t, db)) != 0 {
		t.Errorf("%+v, %v, %d rows left", u, err, len(contents(t, db)))
	}
}

// TestCrashPoints cuts the journal off after each of its lines, and within them,
// for a target that did and one that did not commit, and wants of undo and of a
// resumed run what is right for that moment.
func TestCrashPoints(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, journalTable := range []string{"", "wallet_outbox_restores"} {
			db := newTarget(t, s)
			rows := records(6)
			v := open(t, rows, nil)
			insert(t, db, rows[0])
			dir := t.TempDir()
			o := journalOptions(t, db, filepath.Join(dir, "whole"))
			o.Table = journalTable
			journaled(t, db, v, openJournal(t, db, o), testOptions(t))
			whole, err := os.ReadFile(o.Path)
			if err != nil {
				t.Fatal(err)
			}
			committed := contents(t, db)
			if len(committed) != 6 {
				t.Fatalf("%d rows", len(committed))
			}
			pending := bytes.Index(whole, []byte(`{"pending"`))
			pendingEnd := pending + bytes.IndexByte(whole[pending:], '\n') + 1
			header := bytes.IndexByte(whole, '\n') + 1
			cuts := []int{header, header + 10, pending - 1, pending, pending + 30, pendingEnd - 1, pendingEnd, pendingEnd + 5, len(whole)}
			for _, cut := range cuts {
				for _, inTarget := range []bool{true, false} {
					if inTarget != (cut >= pendingEnd) && !(cut >= pendingEnd && cut <= pendingEnd+5) {
						continue // cannot be: it is durable before the commit, and after it the outcome is known
					}
					mustExec(t, db, "DELETE FROM wallet_outbox")
					if inTarget {
						insert(t, db, rows...)
					} else {
						insert(t, db, rows[0])
					}
					if journalTable != "" {
						mustExec(t, db, "DELETE FROM "+journalTable)
						if inTarget {
							r := readReceipt(t, o.Path)
							tr := &r.Transactions[0]
							conn, err := db.Conn(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if err := insertJournalRow(t.Context(), conn, &r.Header, &receiptPending{Seq: 1, Counts: tr.Rows}, app, tr.BatchID, time.Now()); err != nil {
								t.Fatal(err)
							}
							conn.Close()
						}
					}
					path := filepath.Join(dir, "cut")
					if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
						t.Fatal(err)
					}
					want := int64(0)
					if inTarget {
						want = 5
					}
					dry, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{DryRun: true})
					if err != nil || dry.Removed != want || dry.LeftCount != 0 {
						t.Errorf("cut at %d of %d, committed %v: undo would %+v, %v", cut, len(whole), inTarget, dry, err)
					}
					// The same command again ends with one receipt of all.
					again := o
					again.Path = path
					j := openJournal(t, db, again)
					if got, resumed := j.Resumed(); !resumed || got.Inserted != want {
						t.Errorf("cut at %d, committed %v: resumed %v after %+v", cut, inTarget, resumed, got)
					}
					journaled(t, db, v, j, testOptions(t))
					if diff := cmp.Diff(committed, contents(t, db)); diff != "" {
						t.Errorf("cut at %d (-want +got)\n%s", cut, diff)
					}
					u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{})
					if err != nil || u.Removed != 5 || !u.Complete() {
						t.Errorf("cut at %d, committed %v: undo %+v, %v", cut, inTarget, u, err)
					}
					if diff := cmp.Diff(linesOf(rows[:1]), contents(t, db)); diff != "" {
						t.Errorf("cut at %d, after the undo (-want +got)\n%s", cut, diff)
					}
				}
			}
		}
	})
}

func TestJournalRefusesAnotherRun(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		path := filepath.Join(t.TempDir(), "receipt")
		o := journalOptions(t, db, path)
		j := openJournal(t, db, o)
		if _, err := OpenJournal(t.Context(), db, o); !errors.Is(err, ErrJournalBusy) {
			t.Errorf("a second run at once: %v", err)
		}
		journaled(t, db, open(t, records(2), nil), j, testOptions(t))
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, edit := range map[string]func(*JournalOptions){
			"another plan":          func(o *JournalOptions) { o.PlanID = "other" },
			"another server":        func(o *JournalOptions) { o.Target.Server = "other" },
			"another database":      func(o *JournalOptions) { o.Target.Database = "other" },
			"another table":         func(o *JournalOptions) { o.Target.Table = "other" },
			"another journal table": func(o *JournalOptions) { o.Table = "other" },
		} {
			wrong := o
			edit(&wrong)
			if _, err := OpenJournal(t.Context(), db, wrong); !errors.Is(err, ErrOtherRun) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("a journal that was refused has changed, %v", err)
		}
		// So does an undo.
		r := readReceipt(t, path)
		r.Header.Target.Server = "other"
		if _, err := Undo(t.Context(), db, r, UndoOptions{}); !errors.Is(err, ErrOtherTarget) {
			t.Errorf("undo on another server: %v", err)
		}
		if n := len(contents(t, db)); n != 2 {
			t.Errorf("%d rows are left after that", n)
		}
		if u, err := Undo(t.Context(), db, r, UndoOptions{AnyServer: true}); err != nil || u.Removed != 2 {
			t.Errorf("undo with AnyServer: %+v, %v", u, err)
		}
		r.Header.Target.Database = "other"
		if _, err := Undo(t.Context(), db, r, UndoOptions{AnyServer: true}); !errors.Is(err, ErrOtherTarget) {
			t.Errorf("undo in another database: %v", err)
		}
	})
}

// TestJournalStopsTheBatch shows that nothing is committed that could not be
// written down.
func TestJournalStopsTheBatch(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		j := openJournal(t, db, journalOptions(t, db, filepath.Join(t.TempDir(), "receipt")))
		v := open(t, records(5), nil)
		opts := testOptions(t)
		opts.Hooks = []Hooks{{Row: func(context.Context, RowOutcome) error { return j.file.Close() }}, j.Hooks(app, v.Manifest().BatchID)}
		opts.MaxAttempts = 1
		if _, err := Batch(t.Context(), v, db, opts); err == nil {
			t.Error("a batch was restored whose journal could not be written")
		}
		if n := len(contents(t, db)); n != 0 {
			t.Errorf("%d rows were kept", n)
		}
	})
}

// TestJournalOfAttempts has a transaction undone after it was pending: the next
// attempt is the one that counts.
func TestJournalOfAttempts(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		path := filepath.Join(t.TempDir(), "receipt")
		j := openJournal(t, db, journalOptions(t, db, path))
		v := open(t, records(5), nil)
		failed := errors.New("not now")
		r, err := Batch(t.Context(), v, db, Options{TempDir: t.TempDir(), Hooks: []Hooks{
			j.Hooks(app, v.Manifest().BatchID),
			{BeforeCommit: func(context.Context, mysqldb.Session) error { return failed }},
		}})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if err := j.Settle(r.State); err != nil {
			t.Fatal(err)
		}
		journaled(t, db, v, j, testOptions(t))
		rec := readReceipt(t, path)
		if len(rec.Transactions) != 2 || rec.Transactions[0].State != RolledBack || rec.Transactions[1].State != Committed {
			t.Errorf("%+v", rec.Transactions)
		}
		if u, err := Undo(t.Context(), db, rec, UndoOptions{}); err != nil || u.Rows != 5 || u.Removed != 5 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// TestJournalTableThatCannotBeMade undoes the batch at its first row.
func TestJournalTableThatCannotBeMade(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		o := journalOptions(t, db, filepath.Join(t.TempDir(), "receipt"))
		o.Table = strings.Repeat("x", 65)
		j := openJournal(t, db, o)
		v := open(t, records(3), nil)
		opts := testOptions(t)
		opts.Hooks = append(opts.Hooks, j.Hooks(app, v.Manifest().BatchID))
		r, err := Batch(t.Context(), v, db, opts)
		if err == nil || !strings.Contains(err.Error(), "make the journal table") || r.State != RolledBack {
			t.Errorf("state %s, %v", r.State, err)
		}
		if err := errors.Join(j.Settle(r.State), j.Close(false)); err != nil {
			t.Error(err)
		}
		if n := len(contents(t, db)); n != 0 {
			t.Errorf("%d rows are there", n)
		}
	})
}

func TestAppendRow(t *testing.T) {
	old := record(7)
	for _, id := range []string{"evt_1", "", `a"b\c`, "é漢🎁", "a\x01\x7f", "<&>"} {
		for _, r := range []receiptRow{
			{EventID: id, Outcome: Inserted, RowHash: manifest.SumHash([]byte(id))},
			{EventID: id, Outcome: Overwritten, Respelled: true, Old: old.AppendLine(nil)},
		} {
			line, err := appendRow(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeReceiptLine(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if diff := cmp.Diff(&r, got.Row); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	}
}
