package restore

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/scratch"
	"github.com/hyapp/walletarchive/manifest"
)

// Each target would change or refuse row 17 (by its place in the batch, from 0):
// the preflight says so before anything is written, and when it is made to lie,
// the row is found out after all and nothing is kept.
func TestBatchRefused(t *testing.T) {
	const bad = 17
	cases := []struct {
		name   string
		alter  string
		row    func(*manifest.Record) // makes the row that does not fit
		code   outbox.Code            // "" when the preflight cannot know
		column string                 // that the refusal names; "" when it cannot
	}{
		{
			name: "narrow text", alter: "MODIFY transaction_id VARCHAR(12) NOT NULL",
			row:  func(r *manifest.Record) { r.TransactionID = "tx_0123456789" },
			code: outbox.TooNarrow, column: "transaction_id",
		},
		{
			name: "narrow number", alter: "MODIFY retry_count TINYINT NOT NULL",
			row:  func(r *manifest.Record) { r.RetryCount = 128 },
			code: outbox.TooNarrow, column: "retry_count",
		},
		{
			name: "unsigned number", alter: "MODIFY frozen_delta BIGINT UNSIGNED NOT NULL",
			row:  func(r *manifest.Record) { r.FrozenDelta = -1 },
			code: outbox.TooNarrow, column: "frozen_delta",
		},
		{
			name: "NULL into NOT NULL", alter: "MODIFY last_error TEXT NOT NULL",
			row:  func(r *manifest.Record) { r.LastError = nil },
			code: outbox.NotNullable, column: "last_error",
		},
		{
			name: "emoji into latin1", alter: "MODIFY worker_id VARCHAR(128) CHARACTER SET latin1 NOT NULL",
			row:  func(r *manifest.Record) { r.WorkerID = "worker 🪙" },
			code: outbox.CharsetTooSmall, column: "worker_id",
		},
		{
			name: "emoji into utf8mb3", alter: "MODIFY command_id VARCHAR(128) CHARACTER SET utf8mb3 NOT NULL",
			row:  func(r *manifest.Record) { r.CommandID = "🪙" },
			code: outbox.CharsetTooSmall, column: "command_id",
		},
		{
			name: "trailing space into CHAR", alter: "MODIFY worker_id CHAR(32) NOT NULL",
			row:  func(r *manifest.Record) { r.WorkerID = "worker " },
			code: outbox.TrailingSpaceLost, column: "worker_id",
		},
		{
			name: "word outside ENUM", alter: "MODIFY event_type ENUM('wallet.credited') NOT NULL",
			row:    func(r *manifest.Record) { r.EventType = "wallet.debited" },
			column: "event_type",
		},
		{
			name: "another unique key", alter: "ADD UNIQUE KEY uk_command (command_id)",
			row: func(r *manifest.Record) { r.CommandID = "cmd_00000003" }, // that of row 3
		},
		{
			name: "check constraint", alter: "ADD CONSTRAINT ck_user CHECK (user_id < 200000)",
			row: func(r *manifest.Record) { r.UserID = 200000 },
		},
	}
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				rows := records(40)
				for i := range rows {
					rows[i].LastError, rows[i].FrozenDelta = pointer("e"), 1
				}
				tc.row(&rows[bad])
				db := newTarget(t, s)
				mustExec(t, db, "ALTER TABLE wallet_outbox "+tc.alter)
				// The rest of the batch would do, with the same method.
				opts := testOptions(t)
				opts.Method = method
				good := append(append([]manifest.Record(nil), rows[:bad]...), rows[bad+1:]...)
				if r, err := Batch(t.Context(), open(t, good, nil), db, opts); err != nil || !r.Complete() {
					t.Fatalf("the other rows: %v", err)
				}
				mustExec(t, db, "DELETE FROM wallet_outbox")
				v := open(t, rows, nil)

				if tc.code != "" {
					r, err := Batch(t.Context(), v, db, opts)
					var preflight *PreflightError
					if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) {
						t.Fatalf("error %v, want a *PreflightError", err)
					}
					if p := preflight.Problems[0]; len(preflight.Problems) != 1 || p.Code != tc.code || p.Column != tc.column || !p.Fatal {
						t.Errorf("problems %+v, want %s of %s", preflight.Problems, tc.code, tc.column)
					}
					checkFigures(t, r, figures{Rows: 40})
					checkContents(t, contents(t, db), map[string]string{})
				}
				opts.ignore = without(tc.code)
				r, err := Batch(t.Context(), v, db, opts)
				var refused *RefusedError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &refused) {
					t.Fatalf("error %v, want a *RefusedError", err)
				}
				line, id := refused.Line, refused.EventID
				if tc.name == "another unique key" && line == 4 {
					line, id = bad+1, rows[bad].EventID // either of the two may be there first
				}
				if line != bad+1 || id != rows[bad].EventID {
					t.Errorf("refused line %d, event_id %q, want line %d, %q: %v", refused.Line, refused.EventID, bad+1, rows[bad].EventID, err)
				}
				if tc.column != "" && (len(refused.Columns) != 1 || refused.Columns[0].Column != tc.column) {
					t.Errorf("refused columns %+v, want %s: %v", refused.Columns, tc.column, err)
				}
				if r.State != RolledBack || r.Inserted != 0 || r.Complete() {
					t.Errorf("report %+v", figuresOf(r))
				}
				checkContents(t, contents(t, db), map[string]string{})
			})
		}
	})
}

// Triggers are refused; one that is not seen is found out when it changes a row,
// or takes one away.
func TestBatchTrigger(t *testing.T) {
	cases := []struct {
		name, trigger string
		reason        error
		column        string
	}{
		{"rewrites", "BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.frozen_delta = IF(NEW.frozen_delta = -5, 5, NEW.frozen_delta)", ErrChanged, "frozen_delta"},
		{"NULL for an empty text", "BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.last_error = NULLIF(NEW.last_error, '')", ErrChanged, "last_error"},
		{"another event_id", "BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.event_id = IF(NEW.frozen_delta = -5, 'evt_x', NEW.event_id)", ErrRowMissing, ""},
	}
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				rows := records(20)
				rows[5].LastError = pointer("")
				db := newTarget(t, s)
				mustExec(t, db, "CREATE TRIGGER tr "+tc.trigger)
				v := open(t, rows, nil)
				opts := testOptions(t)
				opts.Method = method
				_, err := Batch(t.Context(), v, db, opts)
				var preflight *PreflightError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) || preflight.Problems[0].Code != outbox.HasTrigger {
					t.Fatalf("error %v, want a *PreflightError", err)
				}
				opts.ignore = without(outbox.HasTrigger)
				r, err := Batch(t.Context(), v, db, opts)
				var refused *RefusedError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &refused) || !errors.Is(err, tc.reason) {
					t.Fatalf("error %v, want %v", err, tc.reason)
				}
				var column string
				for _, c := range refused.Columns {
					column += c.Column
				}
				if refused.Line != 6 || column != tc.column {
					t.Errorf("refused line %d, columns %q, want line 6, %q", refused.Line, column, tc.column)
				}
				if r.State != RolledBack {
					t.Errorf("state %s", r.State)
				}
				checkContents(t, contents(t, db), map[string]string{})
			})
		}
	})
}

// These definitions stop a restore whatever its rows are.
func TestBatchPreflight(t *testing.T) {
	cases := []struct {
		name, alter string
		want        map[outbox.Code]string // to the column
	}{
		{"missing column", "DROP COLUMN worker_id", map[outbox.Code]string{outbox.MissingColumn: "worker_id"}},
		{"no key", "DROP PRIMARY KEY", map[outbox.Code]string{outbox.NoKey: ""}},
		{"no transactions", "ENGINE=MyISAM", map[outbox.Code]string{outbox.NotTransactional: ""}},
		{"wrong type", "MODIFY user_id DOUBLE NOT NULL", map[outbox.Code]string{outbox.WrongType: "user_id"}},
		{"a column more", "ADD COLUMN tenant INT NOT NULL", map[outbox.Code]string{outbox.ExtraColumn: "tenant"}},
		{
			"two at once", "DROP COLUMN worker_id, MODIFY event_type VARCHAR(3) NOT NULL",
			map[outbox.Code]string{outbox.MissingColumn: "worker_id", outbox.TooNarrow: "event_type"},
		},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		v := open(t, records(5), nil)
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				db := newTarget(t, s)
				mustExec(t, db, "ALTER TABLE wallet_outbox "+tc.alter)
				r, err := Batch(t.Context(), v, db, testOptions(t))
				var preflight *PreflightError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) {
					t.Fatalf("error %v, want a *PreflightError", err)
				}
				got := map[outbox.Code]string{}
				for _, p := range preflight.Problems {
					got[p.Code] = p.Column
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("problems (-want +got):\n%s", diff)
				}
				checkFigures(t, r, figures{Rows: 5})
				var n int
				if err := db.QueryRow("SELECT COUNT(*) FROM wallet_outbox").Scan(&n); err != nil || n != 0 {
					t.Errorf("%d rows, error %v", n, err)
				}
			})
		}
	})
}

// A pool that is not strict is refused, by the preflight and by the loader.
func TestBatchNotStrict(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		pool, dsn := s.NewDB(t)
		mustExec(t, pool, outbox.Schema(outbox.DefaultTable, ""))
		loose, err := sql.Open("mysql", dsn+"?charset=utf8mb4&interpolateParams=true&sql_mode=''")
		if err != nil {
			t.Fatal(err)
		}
		defer loose.Close()
		v := open(t, records(5), nil)
		opts := testOptions(t)
		_, err = Batch(t.Context(), v, loose, opts)
		var preflight *PreflightError
		if !errors.Is(err, ErrConflict) || !errors.As(err, &preflight) || preflight.Problems[0].Code != outbox.NotStrict {
			t.Errorf("error %v, want sql_mode_not_strict", err)
		}
		opts.ignore = without(outbox.NotStrict)
		if _, err = Batch(t.Context(), v, loose, opts); err == nil || !strings.Contains(err.Error(), "sql_mode") {
			t.Errorf("error %v, want one about sql_mode", err)
		}
		checkContents(t, contents(t, pool), map[string]string{})
	})
}

// Without local_infile the loader is INSERT, and LOAD DATA LOCAL is an error
// rather than something else in silence.
func TestBatchLoader(t *testing.T) {
	server, err := scratch.Start(t.Context(), scratch.Options{
		Mode: scratch.ModeLocal, Binary: "mariadbd", ServerArgs: []string{"--local-infile=0"}, TempDir: t.TempDir(),
	})
	if errors.Is(err, scratch.ErrNotInstalled) {
		mysqltest.Missing(t, mysqltest.MariaDB, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	db, err := mysqldb.Open(t.Context(), server.DSN(server.Database), mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
	rows := records(30)
	v := open(t, rows, nil)
	opts := testOptions(t)
	opts.Method = outbox.LoadData
	if _, err := Batch(t.Context(), v, db, opts); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("error %v, want one about local_infile", err)
	}
	opts.Method = outbox.Auto
	r, err := Batch(t.Context(), v, db, opts)
	if err != nil || r.Loader != "INSERT" || !r.Complete() {
		t.Errorf("error %v, loader %q", err, r.Loader)
	}
	checkContents(t, contents(t, db), linesOf(rows))
}
