package restore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// rehearsing are the options of a restore as the command makes it.
func rehearsing(t testing.TB) Options {
	opts := testOptions(t)
	opts.Scratch = false
	return opts
}

// Each target changes or refuses a row. A dry run names the column, and a restore
// without one stops before it writes; with and without what the definition tells.
func TestRehearsal(t *testing.T) {
	const bad = 17
	cases := []struct {
		name   string
		alter  string
		row    func(rows []manifest.Record)
		blind  []outbox.Code // that the definition tells, and the rehearsal has to find by itself
		code   outbox.Code
		column string
		mysql  bool // only MySQL does so
		strict bool // and only with StrictPayload it matters
	}{
		{
			name: "narrow text", alter: "MODIFY transaction_id VARCHAR(12) NOT NULL",
			row:   func(rows []manifest.Record) { rows[bad].TransactionID = "tx_0123456789" },
			blind: []outbox.Code{outbox.TooNarrow}, code: refusedByServer, column: "transaction_id",
		},
		{
			name: "narrow number", alter: "MODIFY retry_count TINYINT NOT NULL",
			row:   func(rows []manifest.Record) { rows[bad].RetryCount = 128 },
			blind: []outbox.Code{outbox.TooNarrow}, code: refusedByServer, column: "retry_count",
		},
		{
			name: "charset", alter: "MODIFY worker_id VARCHAR(128) CHARACTER SET latin1 NOT NULL",
			row:   func(rows []manifest.Record) { rows[bad].WorkerID = "worker 🪙" },
			blind: []outbox.Code{outbox.CharsetTooSmall}, code: refusedByServer, column: "worker_id",
		},
		{
			name: "trailing space", alter: "MODIFY worker_id CHAR(32) NOT NULL",
			row:   func(rows []manifest.Record) { rows[bad].WorkerID = "worker " },
			blind: []outbox.Code{outbox.TrailingSpaceLost}, code: changedByServer, column: "worker_id",
		},
		{
			name: "a word that is none of an ENUM", alter: "MODIFY event_type ENUM('wallet.credited') NOT NULL",
			row:  func(rows []manifest.Record) { rows[bad].EventType = "wallet.debited" },
			code: refusedByServer, column: "event_type",
		},
		{
			name: "case of a word of an ENUM", alter: "MODIFY event_type ENUM('wallet.credited', 'Wallet.Debited') COLLATE utf8mb4_general_ci NOT NULL",
			row:  func(rows []manifest.Record) { rows[bad].EventType = "wallet.debited" },
			code: changedByServer, column: "event_type",
		},
		{
			name: "a collation that merges event_ids", alter: "MODIFY event_id VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL",
			row:  func(rows []manifest.Record) { rows[3].EventID, rows[bad].EventID = "evt_É", "EVT_e" },
			code: keyMerged, column: "event_id",
		},
		{
			name: "another unique key", alter: "ADD UNIQUE KEY uk_command (command_id)",
			row:  func(rows []manifest.Record) { rows[bad].CommandID = rows[3].CommandID },
			code: refusedByServer,
		},
		{
			name: "constraint", alter: "ADD CONSTRAINT ck_user CHECK (user_id < 200000)",
			row:  func(rows []manifest.Record) { rows[bad].UserID = 200000 },
			code: refusedByServer,
		},
		{
			name: "a number of a payload", alter: "COMMENT ''",
			row:  func(rows []manifest.Record) { rows[bad].PayloadJSON = `{"n": 123456789012345678901234567890}` },
			code: changedByServer, column: "payload", mysql: true,
		},
		{
			name: "the spelling of a payload", alter: "COMMENT ''",
			row:  func(rows []manifest.Record) { rows[bad].PayloadJSON = `{"n": 1.10}` },
			code: payloadRespelled, column: "payload", mysql: true, strict: true,
		},
	}
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				rows := records(40)
				tc.row(rows)
				v := open(t, rows, nil)
				db := newTarget(t, s)
				mustExec(t, db, "ALTER TABLE wallet_outbox "+tc.alter)
				opts := rehearsing(t)
				opts.Method, opts.StrictPayload = method, tc.strict
				opts.ignore = without(tc.blind...)
				if tc.mysql && s.Flavor() == mysqldb.MariaDB {
					if r, err := Batch(t.Context(), v, db, opts); err != nil || !r.Complete() || r.Rehearsal != nil || r.NoRehearsal == "" {
						t.Errorf("error %v, rehearsal %+v, not needed %q", err, r.Rehearsal, r.NoRehearsal)
					}
					return
				}
				for _, dry := range []bool{true, false} {
					opts.DryRun = dry
					r, err := Batch(t.Context(), v, db, opts)
					var preflight *PreflightError
					if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) {
						t.Fatalf("dry run %t: error %v, want a *PreflightError", dry, err)
					}
					if p := preflight.Problems[0]; len(preflight.Problems) != 1 || p.Code != tc.code || p.Column != tc.column || !p.Fatal {
						t.Errorf("dry run %t: problems %+v, want %s of %q", dry, preflight.Problems, tc.code, tc.column)
					}
					if r.Loader != "" || r.State != Untouched || r.Rehearsal == nil || r.Rehearsal.Rows != 40 {
						t.Errorf("dry run %t: loader %q, state %s, rehearsal %+v", dry, r.Loader, r.State, r.Rehearsal)
					}
					checkContents(t, contents(t, db), map[string]string{})
				}
				if len(tc.blind) == 0 {
					return
				}
				// The definition alone tells, too.
				opts.ignore = nil
				if r, err := Batch(t.Context(), v, db, opts); !errors.As(err, new(*PreflightError)) || r.Rehearsal != nil || r.Attempts != 0 {
					t.Errorf("error %v, rehearsal %+v, %d attempts", err, r.Rehearsal, r.Attempts)
				}
			})
		}
	})
}

// A rehearsal leaves nothing behind, looks only at what is to be written, and is
// not made twice.
func TestRehearsalPasses(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		db := newTarget(t, s)
		db.SetMaxOpenConns(1)
		other := rows[20]
		other.UserID = -1
		insert(t, db, append([]manifest.Record{other}, rows[:10]...)...)
		v := open(t, rows, nil)
		opts := rehearsing(t)
		opts.OnConflict, opts.DryRun = Overwrite, true
		r, err := Batch(t.Context(), v, db, opts)
		if err != nil {
			t.Fatal(err)
		}
		want := &Rehearsal{Rows: 30, Whole: true, DurationMS: r.Rehearsal.DurationMS, Because: r.Rehearsal.Because}
		if diff := cmp.Diff(want, r.Rehearsal); diff != "" || r.Rehearsal.DurationMS < 1 {
			t.Errorf("rehearsal (-want +got):\n%s", diff)
		}
		opts.DryRun, opts.ConfirmOverwrite = false, 1
		for _, again := range []bool{false, true} {
			opts.Rehearsed = again
			r, err = Batch(t.Context(), v, db, opts)
			if err != nil || !r.Complete() || (r.Rehearsal == nil) != again {
				t.Errorf("error %v, rehearsal %+v", err, r.Rehearsal)
			}
			if again {
				break
			}
			checkContents(t, contents(t, db), linesOf(rows))
			mustExec(t, db, "DELETE FROM wallet_outbox WHERE event_id <> ?", rows[20].EventID)
			mustExec(t, db, "UPDATE wallet_outbox SET user_id = 5")
		}
		checkContents(t, contents(t, db), linesOf(rows))
		if _, err := db.Exec("SELECT 1 FROM " + rehearsalTable); !mysqldb.IsError(err, mysqldb.ErNoSuchTable) {
			t.Errorf("the temporary table is still there: %v", err)
		}
	})
}

// Where there can be no temporary table, the restore says so and goes on, and
// what it would have found is found before the commit.
func TestNotRehearsed(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(10)
		db := newTarget(t, s)
		mustExec(t, db, "ALTER TABLE wallet_outbox PARTITION BY KEY (app_code) PARTITIONS 2")
		opts := rehearsing(t)
		r, err := Batch(t.Context(), open(t, rows, nil), db, opts)
		if err != nil || !r.Complete() || r.Rehearsal != nil {
			t.Fatalf("error %v, rehearsal %+v", err, r.Rehearsal)
		}
		var codes []outbox.Code
		for _, p := range r.Problems {
			codes = append(codes, p.Code)
		}
		if len(codes) == 0 || codes[len(codes)-1] != notRehearsed {
			t.Errorf("problems %v, want %s", codes, notRehearsed)
		}
		mustExec(t, db, "ALTER TABLE wallet_outbox MODIFY event_type ENUM('wallet.credited') NOT NULL")
		mustExec(t, db, "DELETE FROM wallet_outbox")
		rows[4].EventType = "other"
		if _, err = Batch(t.Context(), open(t, rows, nil), db, opts); !errors.As(err, new(*RefusedError)) {
			t.Errorf("error %v, want a *RefusedError", err)
		}
		checkContents(t, contents(t, db), map[string]string{})
	})
}
