package restore

import (
	"errors"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

func TestCheckRelayQuery(t *testing.T) {
	for _, query := range []string{
		DefaultRelayQuery, "1=1", `status = 'a;b--c#' AND (x = "(" OR ` + "`y;\\` = 1)", `a = 'it''s \' ('`, "a - 1 < b / 2 * 3",
		"event_id IN (SELECT event_id FROM t)",
	} {
		if err := CheckRelayQuery(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	for _, query := range []string{
		"", " \n", "a = 1; DELETE FROM t", "1) OR (1", "(a", "a)", "a = 'b", "a = 1 -- b", "a = 1 # b", "a /* b */", "a */", "a\x00", "\xff",
		`a = 'b\'`, "a = `b\\` OR `",
	} {
		if err := CheckRelayQuery(query); !errors.Is(err, ErrRelayQuery) {
			t.Errorf("%q: %v, want ErrRelayQuery", query, err)
		}
	}
}

// The default takes in whatever a relay might pick up now or later.
func TestDefaultRelayQuery(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY status VARCHAR(32) NULL")
		rows := records(6)
		rows[0].Status = "pending"
		rows[1].Status, rows[1].NextRetryAtMS = "pending", pointer(int64(1)<<60)
		rows[2].Status, rows[2].LockUntilMS = "processing", pointer(int64(1))
		rows[3].Status, rows[3].LockUntilMS = "processing", pointer(int64(1)<<60)
		rows[5].LockUntilMS, rows[5].NextRetryAtMS = pointer(int64(1)), pointer(int64(1)) // delivered all the same
		insert(t, db, rows...)
		if n, _, err := dispatched(t.Context(), db, outbox.DefaultTable, DefaultRelayQuery); n != 4 || err != nil {
			t.Errorf("%d rows, error %v, want 4", n, err)
		}
		mustExec(t, db, "UPDATE wallet_outbox SET status = NULL")
		if n, _, err := dispatched(t.Context(), db, outbox.DefaultTable, DefaultRelayQuery); n != 6 || err != nil {
			t.Errorf("%d rows, error %v, want 6", n, err)
		}
	})
}

// What the relay's condition selects is refused before anything is written, and
// again after the writing, when the rehearsal did not see it.
func TestRelay(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		db := newTarget(t, s)
		v := open(t, rows, nil)
		opts := rehearsing(t)
		opts.RelayQuery = "worker_id = 'what?' OR command_id = '" + rows[17].CommandID + "'"
		for _, dry := range []bool{true, false} {
			opts.DryRun = dry
			r, err := Batch(t.Context(), v, db, opts)
			var preflight *PreflightError
			if !errors.As(err, &preflight) || len(preflight.Problems) != 1 || preflight.Problems[0].Code != wouldDispatch || r.Rehearsal.Dispatched != 1 {
				t.Errorf("dry run %t: error %v", dry, err)
			}
			checkContents(t, contents(t, db), map[string]string{})
		}
		after := opts
		after.ignore = without(wouldDispatch)
		r, err := Batch(t.Context(), v, db, after)
		var refused *RefusedError
		if !errors.Is(err, ErrWouldDispatch) || !errors.As(err, &refused) || refused.Line != 18 || r.State != RolledBack {
			t.Errorf("error %v, state %s", err, r.State)
		}
		checkContents(t, contents(t, db), map[string]string{})

		// A trigger changes the row after the rehearsal, and no rehearsal sees it.
		mustExec(t, db, "CREATE TABLE seen (n INT)")
		mustExec(t, db, "CREATE TRIGGER tr AFTER INSERT ON wallet_outbox FOR EACH ROW INSERT INTO seen VALUES (1)")
		opts.RelayQuery = "EXISTS (SELECT 1 FROM seen)"
		if _, err = Batch(t.Context(), v, db, opts); !errors.As(err, new(*PreflightError)) {
			t.Errorf("error %v, want the trigger refused", err)
		}
		opts.AllowTriggers = true
		if _, err = Batch(t.Context(), v, db, opts); !errors.Is(err, ErrWouldDispatch) {
			t.Errorf("error %v, want ErrWouldDispatch", err)
		}
		checkContents(t, contents(t, db), map[string]string{})
		mustExec(t, db, "DROP TRIGGER tr")

		// Only what is restored counts: what is there already is as it was, and so
		// are the rows of others.
		pending := record(1000)
		pending.Status = "pending"
		insert(t, db, pending, rows[17])
		opts.RelayQuery = "status = 'pending' OR command_id = '" + rows[17].CommandID + "'"
		if r, err := Batch(t.Context(), v, db, opts); err != nil || r.Inserted != 39 {
			t.Errorf("error %v, %d inserted", err, r.Inserted)
		}

		// Overwritten rows count.
		mustExec(t, db, "UPDATE wallet_outbox SET user_id = 1 WHERE command_id = ?", rows[17].CommandID)
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 1
		if _, err := Batch(t.Context(), v, db, opts); !errors.As(err, new(*PreflightError)) {
			t.Errorf("error %v, want a *PreflightError", err)
		}
		opts.Rehearsed = true
		if _, err := Batch(t.Context(), v, db, opts); !errors.Is(err, ErrWouldDispatch) {
			t.Errorf("error %v, want ErrWouldDispatch", err)
		}
		checkContents(t, contents(t, db), func() map[string]string {
			changed := append([]manifest.Record{pending}, rows...)
			changed[18].UserID = 1
			return linesOf(changed)
		}())

		// A condition that the server does not understand says nothing of the data.
		opts = rehearsing(t)
		opts.RelayQuery = "no_such_column = 1"
		mustExec(t, db, "DELETE FROM wallet_outbox")
		if _, err := Batch(t.Context(), v, db, opts); !errors.Is(err, ErrRelayQuery) || errors.Is(err, ErrConflict) {
			t.Errorf("error %v, want ErrRelayQuery", err)
		}
		checkContents(t, contents(t, db), map[string]string{})
	})
}
