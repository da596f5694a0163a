package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// archiveOf writes one batch of these records.
func archiveOf(t *testing.T, records []manifest.Record) *testArchive {
	t.Helper()
	dir := t.TempDir()
	a := &testArchive{dir: filepath.Join(dir, "archive"), receipts: filepath.Join(dir, "receipts.ndjson")}
	a.url = "file://" + a.dir
	a.list, a.records = []manifest.Receipt{a.write(t, records)}, [][]manifest.Record{records}
	f, err := os.Create(a.receipts)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := manifest.WriteReceipt(f, &a.list[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// fidelityRecords are rows that the table of the format takes as they are.
func fidelityRecords() []manifest.Record {
	records := make([]manifest.Record, 6)
	for i := range records {
		id := string(rune('a' + i))
		records[i] = manifest.Record{
			AppCode: "wallet", EventID: "evt-" + id, EventType: "wallet.credited", TransactionID: "tx-" + id, CommandID: "cmd-" + id,
			UserID: int64(i), AssetType: "COIN", AvailableDelta: int64(i), FrozenDelta: -1, PayloadJSON: `{"n": 1}`,
			Status: manifest.StatusDelivered, WorkerID: "w", CreatedAtMS: int64(i), UpdatedAtMS: int64(i),
		}
	}
	return records
}

// preflighted is what the documents of restore and of restore plan say of faults.
type preflighted struct {
	Details struct {
		Plan struct {
			Runnable bool
			Batches  []struct {
				Problems []struct {
					Column, Code string
					Fatal        bool
				}
			}
		}
	}
	Batches []struct {
		Faults []struct{ Check, Column string }
	}
}

func preflightOf(t *testing.T, out string) (d preflighted) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(d.Batches) != 1 {
		t.Fatalf("%d batches:\n%s", len(d.Batches), out)
	}
	return d
}

// fault is a problem by its code and column.
func (d *preflighted) fault(code, column string) bool {
	for _, f := range d.Batches[0].Faults {
		if f.Check == code && f.Column == column {
			return true
		}
	}
	return false
}

// Whatever a target would do to a row in silence, or refuse, a plan names by code
// and column, and a restore without one stops before it writes.
func TestFidelityPreflight(t *testing.T) {
	const bad = 4
	edit := func(f func(*manifest.Record)) func([]manifest.Record) {
		return func(records []manifest.Record) { f(&records[bad]) }
	}
	for _, tc := range []struct {
		name         string
		alter        string // what follows ALTER TABLE wallet_outbox, or statements
		rows         func([]manifest.Record)
		args         string
		code, column string
		only         string // the flavor that does so; the other takes the rows exactly
	}{
		{name: "narrower text", alter: "MODIFY transaction_id VARCHAR(4) NOT NULL", rows: edit(func(r *manifest.Record) { r.TransactionID = "tx-12" }),
			code: "too_narrow", column: "transaction_id"},
		{name: "narrower text, by characters", alter: "MODIFY worker_id VARCHAR(2) NOT NULL", rows: edit(func(r *manifest.Record) { r.WorkerID = "äöü" }),
			code: "too_narrow", column: "worker_id"},
		{name: "narrower number", alter: "MODIFY retry_count TINYINT NOT NULL", rows: edit(func(r *manifest.Record) { r.RetryCount = 128 }),
			code: "too_narrow", column: "retry_count"},
		{name: "no negative numbers", alter: "MODIFY frozen_delta BIGINT UNSIGNED NOT NULL", code: "too_narrow", column: "frozen_delta"},
		{name: "narrower payload", alter: "MODIFY payload VARCHAR(7) NOT NULL", code: "too_narrow", column: "payload"},
		{name: "narrower optional text", alter: "MODIFY last_error TINYTEXT", rows: edit(func(r *manifest.Record) { r.LastError = ptr(strings.Repeat("x", 256)) }),
			code: "too_narrow", column: "last_error"},
		{name: "missing column", alter: "DROP COLUMN last_error", code: "missing_column", column: "last_error"},
		{name: "missing key column", alter: "DROP PRIMARY KEY, DROP COLUMN command_id, ADD PRIMARY KEY (app_code, event_id)", code: "missing_column", column: "command_id"},
		{name: "a float", alter: "MODIFY available_delta DOUBLE NOT NULL", code: "wrong_type", column: "available_delta"},
		{name: "a decimal with a fraction", alter: "MODIFY available_delta DECIMAL(20,2) NOT NULL", code: "wrong_type", column: "available_delta"},
		{name: "a time, which has a zone", alter: "MODIFY next_retry_at_ms TIMESTAMP NULL", code: "wrong_type", column: "next_retry_at_ms"},
		{name: "padded bytes", alter: "MODIFY worker_id BINARY(8) NOT NULL", code: "wrong_type", column: "worker_id"},
		{name: "a generated column", alter: "DROP COLUMN retry_count, ADD retry_count BIGINT GENERATED ALWAYS AS (0) STORED", code: "generated_column", column: "retry_count"},
		{name: "a further column", alter: "ADD region VARCHAR(8) NOT NULL", code: "extra_column", column: "region"},
		{name: "no NULL", alter: "MODIFY lock_until_ms BIGINT NOT NULL", code: "not_nullable", column: "lock_until_ms"},
		{name: "charset", alter: "MODIFY worker_id VARCHAR(128) CHARACTER SET latin1 NOT NULL", rows: edit(func(r *manifest.Record) { r.WorkerID = "w 🪙" }),
			code: "charset_too_small", column: "worker_id"},
		{name: "charset of three bytes", alter: "MODIFY asset_type VARCHAR(64) CHARACTER SET utf8mb3 NOT NULL", rows: edit(func(r *manifest.Record) { r.AssetType = "🪙" }),
			code: "charset_too_small", column: "asset_type"},
		{name: "trailing space", alter: "MODIFY worker_id CHAR(32) NOT NULL", rows: edit(func(r *manifest.Record) { r.WorkerID = "w " }),
			code: "trailing_space_lost", column: "worker_id"},
		{name: "a word that is none of an ENUM", alter: "MODIFY event_type ENUM('wallet.credited') NOT NULL", rows: edit(func(r *manifest.Record) { r.EventType = "wallet.debited" }),
			code: "refused_by_server", column: "event_type"},
		{name: "a word of an ENUM in another case", alter: "MODIFY event_type ENUM('wallet.credited', 'Wallet.Debited') COLLATE utf8mb4_general_ci NOT NULL",
			rows: edit(func(r *manifest.Record) { r.EventType = "wallet.debited" }), code: "changed_by_server", column: "event_type"},
		{name: "a collation that merges letters", alter: "MODIFY event_id VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL",
			rows: edit(func(r *manifest.Record) { r.EventID = "EVT-Á" }), code: "event_ids_merged", column: "event_id"},
		{name: "a collation that merges trailing spaces", alter: "MODIFY event_id VARCHAR(128) COLLATE utf8mb4_bin NOT NULL",
			rows: edit(func(r *manifest.Record) { r.EventID = "evt-a " }), code: "event_ids_merged", column: "event_id"},
		{name: "a number of a payload", rows: edit(func(r *manifest.Record) { r.PayloadJSON = `{"n": 123456789012345678901234567890}` }),
			code: "changed_by_server", column: "payload", only: "MySQL"},
		{name: "a repeated member of a payload", rows: edit(func(r *manifest.Record) { r.PayloadJSON = `{"n": 1, "n": 2}` }),
			code: "changed_by_server", column: "payload", only: "MySQL"},
		{name: "the spelling of a payload", rows: edit(func(r *manifest.Record) { r.PayloadJSON = `{"n": 1.10}` }), args: "--strict-payload",
			code: "payload_respelled", column: "payload", only: "MySQL"},
		{name: "no JSON", rows: edit(func(r *manifest.Record) { r.PayloadJSON = `{"n": 1e400}` }), code: "refused_by_server", column: "payload", only: "MySQL"},
		{name: "a trigger that rewrites", alter: "CREATE TRIGGER tr BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.user_id = 5", code: "trigger"},
		{name: "another unique key", alter: "ADD UNIQUE KEY uk (command_id)", rows: edit(func(r *manifest.Record) { r.CommandID = "cmd-a" }), code: "refused_by_server"},
		{name: "a constraint", alter: "ADD CONSTRAINT ck CHECK (user_id <> 4)", code: "refused_by_server"},
		{name: "no key", alter: "DROP PRIMARY KEY", code: "no_key"},
		{name: "no transactions", alter: "ENGINE = MyISAM", code: "not_transactional"},
		{name: "a view", alter: "RENAME TABLE wallet_outbox TO base; CREATE VIEW wallet_outbox AS SELECT * FROM base", code: "not_a_table"},
		{name: "a relay", args: "--relay-query user_id=4", code: "relay_would_dispatch"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			records := fidelityRecords()
			if tc.rows != nil {
				tc.rows(records)
			}
			a := archiveOf(t, records)
			mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
				db, exec := newOutbox(t, s)
				exec("INSERT INTO wallet_outbox VALUES ('other', 'e', 'wallet.credited', 'x', 'c', 1, 'COIN', 0, 0, '{}', 'delivered', '', 5, 0, NULL, NULL, 1, 1)")
				switch {
				case tc.alter == "":
				case strings.HasPrefix(tc.alter, "CREATE"), strings.HasPrefix(tc.alter, "RENAME"):
					for _, statement := range strings.Split(tc.alter, "; ") {
						exec(statement)
					}
				default:
					exec("ALTER TABLE wallet_outbox " + tc.alter)
				}
				before := dump(t, db)
				from := append([]string{"--json", "--store", a.url, "--receipt", a.receipts}, strings.Fields(tc.args)...)
				code := exitTarget
				if tc.only != "" && tc.only != s.Flavor().String() {
					code = exitOK
				}
				planned, _ := runs(t, code, append([]string{"restore", "plan"}, from...)...)
				if after := dump(t, db); after != before {
					t.Errorf("the plan changed the target to\n%s", after)
				}
				restored, _ := runs(t, code, append([]string{"restore"}, from...)...)
				if code == exitOK {
					checkRestored(t, s, db, records)
					return
				}
				if after := dump(t, db); after != before {
					t.Errorf("a restore that stopped changed the target to\n%s", after)
				}
				plan, stopped := preflightOf(t, planned), preflightOf(t, restored)
				if !plan.fault(tc.code, tc.column) || !stopped.fault(tc.code, tc.column) {
					t.Errorf("want %s of column %q in\n%s\nand\n%s", tc.code, tc.column, planned, restored)
				}
				named := slices.ContainsFunc(plan.Details.Plan.Batches[0].Problems, func(p struct {
					Column, Code string
					Fatal        bool
				}) bool {
					return p.Code == tc.code && p.Column == tc.column && p.Fatal
				})
				if !named || plan.Details.Plan.Runnable {
					t.Errorf("the plan lacks %s of column %q, or can be run:\n%s", tc.code, tc.column, planned)
				}
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

// checkRestored wants the rows of app wallet to be exactly these.
func checkRestored(t *testing.T, s mysqltest.Server, db mysqldb.Queryer, records []manifest.Record) {
	t.Helper()
	table, err := outbox.Describe(t.Context(), db, outbox.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]manifest.Hash{}
	for r, err := range outbox.ReadAll(t.Context(), db, &table, "wallet", outbox.AnyOrder) {
		if err != nil {
			t.Fatal(err)
		}
		got[r.EventID] = r.RowHash()
	}
	for i := range records {
		if got[records[i].EventID] != records[i].RowHash() {
			t.Errorf("%s: row %s is another one", s.Flavor(), records[i].EventID)
		}
	}
	if len(got) != len(records) {
		t.Errorf("%s: %d rows, want %d", s.Flavor(), len(got), len(records))
	}
}

// A payload of the same value that MySQL spells otherwise is named by the plan,
// and restored, since nothing of its value is lost.
func TestFidelityRespelled(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MySQL)
	_, _ = newOutbox(t, s)
	records := fidelityRecords()
	records[2].PayloadJSON = `{"n": 1.10}`
	a := archiveOf(t, records)
	out, _ := runs(t, exitOK, "restore", "plan", "--json", "--store", a.url, "--receipt", a.receipts)
	wantText(t, out, `"column":"payload","code":"payload_respelled","detail":"1 row would be spelled otherwise, with the same value`)
	out, _ = runs(t, exitOK, "restore", "--store", a.url, "--receipt", a.receipts)
	wantText(t, out, "1 with the payload spelled otherwise")
}

// A trigger that was allowed and rewrites rows is not seen by a rehearsal, which
// has no triggers, but by the reading back before the commit.
func TestFidelityAllowedTrigger(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		a := archiveOf(t, fidelityRecords())
		exec("CREATE TRIGGER tr BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.user_id = 5")
		from := []string{"--store", a.url, "--receipt", a.receipts, "--allow-triggers"}
		path := filepath.Join(t.TempDir(), "plan")
		out, _ := runs(t, exitOK, append([]string{"restore", "plan", "--out", path}, from...)...)
		wantText(t, out, "trigger tr runs before every row that is inserted")
		for _, args := range [][]string{append([]string{"restore"}, from...), {"restore", "run", "--yes", "--plan", path, "--store", a.url, "--receipt", a.receipts}} {
			out, _ = runs(t, exitTarget, args...)
			wantText(t, out, "the server changed the row without a warning", "user_id")
			if rows := dump(t, db); rows != "" {
				t.Errorf("rows were written:\n%s", rows)
			}
		}
	})
}

// What a server does by default is of no account: every connection says itself
// what it wants. (docs/CLI.md "What is found before anything is written")
func TestFidelityServerSettings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, exec := newOutbox(t, s)
		for name, value := range map[string]string{
			"sql_mode": "''", "time_zone": "'-11:00'", "character_set_client": "latin1", "character_set_connection": "latin1",
			"character_set_results": "latin1", "collation_connection": "latin1_german1_ci",
		} {
			var was string
			if err := db.QueryRowContext(t.Context(), "SELECT @@GLOBAL."+name).Scan(&was); err != nil {
				t.Fatal(err)
			}
			exec("SET GLOBAL " + name + " = " + value)
			defer exec("SET GLOBAL " + name + " = '" + was + "'")
		}
		records := fidelityRecords()
		records[1].WorkerID, records[2].PayloadJSON = "Grüße 🪙", `{"text": "\\ ' 🪙"}`
		a := archiveOf(t, records)
		path := filepath.Join(t.TempDir(), "plan")
		runs(t, exitOK, "restore", "plan", "--out", path, "--store", a.url, "--receipt", a.receipts)
		runs(t, exitOK, "restore", "run", "--yes", "--plan", path, "--store", a.url, "--receipt", a.receipts)
		checkRestored(t, s, db, records)
	})
}
