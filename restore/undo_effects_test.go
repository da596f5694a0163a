package restore

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// TestUndoRefusesSideEffects has triggers and foreign keys that an undo would run.
func TestUndoRefusesSideEffects(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		rows := records(4)
		old := *rows[0].Clone()
		old.WorkerID = "before"
		insert(t, db, old)
		path := filepath.Join(t.TempDir(), "receipt")
		opts := testOptions(t)
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
		journaled(t, db, open(t, rows, nil), openJournal(t, db, journalOptions(t, db, path)), opts)
		mustExec(t, db, "CREATE TABLE counted (n INT NOT NULL)")
		mustExec(t, db, `CREATE TABLE child (app_code VARCHAR(64) NOT NULL, event_id VARCHAR(128) NOT NULL, KEY (app_code, event_id)) ENGINE=InnoDB`)
		key := "ALTER TABLE child ADD CONSTRAINT of_event FOREIGN KEY (app_code, event_id) REFERENCES wallet_outbox (app_code, event_id) "
		mustExec(t, db, "ALTER TABLE child MODIFY app_code VARCHAR(64) CHARACTER SET "+charsetOf(t, db, "app_code")+" NOT NULL, MODIFY event_id VARCHAR(128) CHARACTER SET "+charsetOf(t, db, "event_id")+" NOT NULL")
		mustExec(t, db, "INSERT INTO child VALUES (?, ?)", app, rows[3].EventID)
		after := contents(t, db)
		refused := func(want ...SideEffect) {
			t.Helper()
			for _, dry := range []bool{true, false} {
				u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{DryRun: dry})
				if !errors.Is(err, ErrSideEffects) || dry != (u.Removed == 3) {
					t.Errorf("dry %t: %+v, %v", dry, u, err)
				}
				if diff := cmp.Diff(want, u.SideEffects); diff != "" {
					t.Errorf("dry %t: side effects (-want +got)\n%s", dry, diff)
				}
			}
			if diff := cmp.Diff(after, contents(t, db)); diff != "" {
				t.Errorf("a refused undo changed (-before +after)\n%s", diff)
			}
		}
		allowed := func(o UndoOptions) {
			t.Helper()
			o.DryRun = true
			if u, err := Undo(t.Context(), db, readReceipt(t, path), o); err != nil || u.Removed != 3 || u.PutBack != 1 {
				t.Errorf("%+v, %v", u, err)
			}
		}
		mustExec(t, db, "CREATE TRIGGER on_insert AFTER INSERT ON wallet_outbox FOR EACH ROW INSERT INTO counted VALUES (1)")
		allowed(UndoOptions{}) // it does not run
		for _, event := range []string{"DELETE", "UPDATE"} {
			mustExec(t, db, "CREATE TRIGGER count_it AFTER "+event+" ON wallet_outbox FOR EACH ROW INSERT INTO counted VALUES (1)")
			refused(SideEffect{EffectTrigger, "count_it", "runs after " + event})
			allowed(UndoOptions{AllowTriggers: true})
			mustExec(t, db, "DROP TRIGGER count_it")
		}
		mustExec(t, db, key+"ON DELETE RESTRICT ON UPDATE CASCADE")
		allowed(UndoOptions{})
		mustExec(t, db, "ALTER TABLE child DROP FOREIGN KEY of_event")
		mustExec(t, db, key+"ON DELETE CASCADE")
		var name string
		if err := db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		refused(SideEffect{EffectCascade, "of_event", "table " + name + ".child: ON DELETE CASCADE"})
		allowed(UndoOptions{AllowCascades: true})
		u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{AllowCascades: true})
		if err != nil || !u.Complete() || len(u.SideEffects) != 1 {
			t.Errorf("%+v, %v", u, err)
		}
		// Nothing stands any more, so that nothing would run.
		if u, err := Undo(t.Context(), db, readReceipt(t, path), UndoOptions{}); err != nil || !u.Complete() || len(u.SideEffects) != 0 {
			t.Errorf("again: %+v, %v", u, err)
		}
	})
}

// charsetOf returns the character set and collation of a column of the target.
func charsetOf(t *testing.T, db *sql.DB, column string) string {
	t.Helper()
	var s string
	if err := db.QueryRowContext(t.Context(), `SELECT CONCAT(CHARACTER_SET_NAME, ' COLLATE ', COLLATION_NAME) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'wallet_outbox' AND COLUMN_NAME = ?`, column).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}
