package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/batchtest"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

const app = "wallet"

// exported packs what a source table holds, as export does, and returns the
// objects and the batch.
func exported(t *testing.T, db *sql.DB, table string) batchtest.Batch {
	t.Helper()
	def, err := outbox.Describe(t.Context(), db, table)
	if err != nil {
		t.Fatal(err)
	}
	rd, err := outbox.NewReader(db, &def, outbox.ReaderOptions{AppCode: app, CutoffMS: 1 << 50, Fidelity: true})
	if err != nil {
		t.Fatal(err)
	}
	fidelity := manifest.PayloadFidelity{Checked: rd.FidelityChecked(), TextUnstableEventIDs: []string{}, ValueUnstableEventIDs: []string{}}
	rows := func(yield func(*manifest.Record) bool) {
		for row, err := range rd.Rows(t.Context(), manifest.Cursor{}) {
			if err != nil {
				t.Fatal(err)
			}
			if row.TextUnstable {
				fidelity.TextUnstableRows++
				if len(fidelity.TextUnstableEventIDs) < manifest.MaxUnstableEventIDs {
					fidelity.TextUnstableEventIDs = append(fidelity.TextUnstableEventIDs, row.EventID)
				}
			}
			if !yield(&row.Record) {
				return
			}
		}
	}
	return batchtest.Pack(t, app, rows, func(m *manifest.Manifest) {
		m.PayloadFidelity, m.EventIDCollation = &fidelity, def.EventIDCollation()
	})
}

// target is what verify is asked about b.
func target(b batchtest.Batch) verify.Target {
	return verify.Target{Location: b.Location, Receipt: &b.Receipt}
}

// source fills a wallet_outbox with rows of the given collation.
func source(t *testing.T, s mysqltest.Server, collation string, rows int, span time.Duration) *sql.DB {
	t.Helper()
	db, _ := s.NewDB(t)
	if _, err := db.ExecContext(t.Context(), outbox.Schema(outbox.DefaultTable, collation)); err != nil {
		t.Fatal(err)
	}
	_, err := sample.Fill(t.Context(), db, outbox.DefaultTable, sample.Options{
		Apps: []string{app}, Rows: rows, Seed: 1, Start: time.UnixMilli(1_700_000_000_000), Span: span, Awkward: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func scratchOn(t *testing.T, s mysqltest.Server) func(context.Context) (Scratch, error) {
	db, _ := s.NewDB(t)
	return func(ctx context.Context) (Scratch, error) { return Scratch{DB: db, Server: s.Identity}, nil }
}

func drillOne(t *testing.T, batch batchtest.Batch, start func(context.Context) (Scratch, error), opts Options) Batch {
	t.Helper()
	r, err := Run(t.Context(), batch.Store, []verify.Target{target(batch)}, start, opts)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if len(r.Batches) != 1 {
		t.Fatalf("Run reports %d batches, want 1", len(r.Batches))
	}
	return r.Batches[0]
}

func failedChecks(b Batch) []string {
	var names []string
	for _, c := range b.Checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestRunProvesAnUntouchedBatch(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tc := range []struct {
			name      string
			collation string
			span      time.Duration
		}{
			{"one row a millisecond", "utf8mb4_bin", 10 * time.Second},
			{"many rows a millisecond", "utf8mb4_general_ci", 3 * time.Millisecond},
			{"all rows in one millisecond", "utf8mb4_unicode_ci", 0},
		} {
			t.Run(tc.name, func(t *testing.T) {
				batch := exported(t, source(t, s, tc.collation, 2_000, tc.span), outbox.DefaultTable)
				b := drillOne(t, batch, scratchOn(t, s), Options{})
				if !b.Proven() || b.Differs() || b.Identical != 2_000 || b.Rows != 2_000 || b.Collate != tc.collation {
					t.Errorf("Run = proven %t, %d of %d identical on %s, failed %v, fault %q, notes %q, verify %v", b.Proven(), b.Identical, b.Rows, b.Collate, failedChecks(b), b.RestoreFault, b.Notes, b.Verify.Faults)
				}
				for _, step := range []Step{StepVerify, StepRestore, StepCompare} {
					if b.Took[step] <= 0 {
						t.Errorf("step %s took no time", step)
					}
				}
			})
		}
	})
}

// Rows over the default chunk of a statement are proven like others.
func TestRunProvesLargeRows(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := source(t, s, "utf8mb4_bin", 50, time.Second)
		for i, size := range []int{3 << 20, outbox.DefaultInsertBytes + 1} {
			_, err := db.ExecContext(t.Context(), "UPDATE wallet_outbox SET payload = CONCAT('{\"s\": \"', REPEAT('x', ?), '\"}') WHERE payload NOT LIKE '%xxxxxxxx%' LIMIT 1",
				size-len(`{"s": ""}`))
			if err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
		}
		var longest, over int
		err := db.QueryRowContext(t.Context(), "SELECT MAX(LENGTH(payload)), SUM(LENGTH(payload) > ?) FROM wallet_outbox", outbox.DefaultInsertBytes).Scan(&longest, &over)
		if err != nil || longest != 3<<20 || over != 2 {
			t.Fatalf("longest payload %d, %d over the chunk, %v", longest, over, err)
		}
		batch := exported(t, db, outbox.DefaultTable)
		b := drillOne(t, batch, scratchOn(t, s), Options{})
		if !b.Proven() || b.Identical != b.Rows || b.Rows != batch.Receipt.RowCount {
			t.Errorf("proven %t, %d of %d identical, failed %v, fault %q, notes %q", b.Proven(), b.Identical, b.Rows, failedChecks(b), b.RestoreFault, b.Notes)
		}
	})
}

// TestRunFindsWhatChanged plants one fault a case into the restored table.
func TestRunFindsWhatChanged(t *testing.T) {
	// Every statement has the table for %s. The rows that it picks are the same
	// in every run, since the sample is.
	const first = "event_id = (SELECT event_id FROM (SELECT MIN(event_id) event_id FROM %[1]s) x)"
	const last = "event_id = (SELECT event_id FROM (SELECT MAX(event_id) event_id FROM %[1]s) x)"
	cases := []struct {
		name       string
		statements []string
		checks     []string // these, among others perhaps, must fail
		missing    int64
		added      int64
		changed    int64
		columns    []string // of the first changed row
	}{
		{name: "a row missing", statements: []string{"DELETE FROM %[1]s WHERE " + first}, missing: 1,
			checks: []string{"rows missing", "re-export ndjson_sha256", "server COUNT(*)"}},
		{name: "a row added", added: 1, checks: []string{"rows added", "re-export ndjson_sha256", "server COUNT(*)"},
			statements: []string{"INSERT INTO %[1]s SELECT app_code, 'evt_more', event_type, transaction_id, command_id, user_id, asset_type, 0, 0, payload, status, worker_id, lock_until_ms, retry_count, next_retry_at_ms, last_error, created_at_ms, updated_at_ms FROM %[1]s t WHERE " + first}},
		{name: "a row of another app added", added: 1, checks: []string{"rows added", "server COUNT(*)"},
			statements: []string{"INSERT INTO %[1]s SELECT 'other', event_id, event_type, transaction_id, command_id, user_id, asset_type, 0, 0, payload, status, worker_id, lock_until_ms, retry_count, next_retry_at_ms, last_error, created_at_ms, updated_at_ms FROM %[1]s t WHERE " + first}},
		{name: "a status changed", added: 1, missing: 1, checks: []string{"rows added", "rows missing", "re-export ndjson_sha256"},
			statements: []string{"UPDATE %[1]s SET status = 'pending' WHERE " + first}},
		{name: "one delta more, another less", changed: 2, columns: []string{"available_delta"},
			checks: []string{"rows changed", "re-export ndjson_sha256"},
			statements: []string{
				"UPDATE %[1]s SET available_delta = available_delta + 1 WHERE " + first,
				"UPDATE %[1]s SET available_delta = available_delta - 1 WHERE " + last,
			}},
		{name: "a delta changed", changed: 1, columns: []string{"frozen_delta"}, checks: []string{"rows changed", "server SUM(frozen_delta)"},
			statements: []string{"UPDATE %[1]s SET frozen_delta = frozen_delta + 1 WHERE " + first}},
		{name: "a payload value changed", changed: 1, columns: []string{"payload"}, checks: []string{"rows changed", "re-export ndjson_sha256"},
			statements: []string{"UPDATE %[1]s SET payload = JSON_SET(payload, '$.room', 1) WHERE " + first}},
		{name: "NULL became empty", changed: 1, columns: []string{"last_error"}, checks: []string{"rows changed"},
			statements: []string{"UPDATE %[1]s SET last_error = '' WHERE " + first + " AND last_error IS NULL"}},
		{name: "NULL became zero", changed: 1, columns: []string{"lock_until_ms"}, checks: []string{"rows changed"},
			statements: []string{"UPDATE %[1]s SET lock_until_ms = 0 WHERE " + first + " AND lock_until_ms IS NULL"}},
		{name: "two payloads swapped", changed: 2, columns: []string{"payload"}, checks: []string{"rows changed", "re-export ndjson_sha256"},
			statements: []string{
				"CREATE TABLE swap AS SELECT (SELECT payload FROM %[1]s WHERE " + first + ") a, (SELECT payload FROM %[1]s WHERE " + last + ") b",
				"UPDATE %[1]s SET payload = (SELECT b FROM swap) WHERE " + first,
				"UPDATE %[1]s SET payload = (SELECT a FROM swap) WHERE " + last,
				"DROP TABLE swap",
			}},
		{name: "a row moved in time", missing: 1, added: 1, checks: []string{"rows missing", "rows added", "server last cursor"},
			statements: []string{"UPDATE %[1]s SET updated_at_ms = updated_at_ms + 100000 WHERE " + first}},
		{name: "a created_at_ms changed", changed: 1, columns: []string{"created_at_ms"}, checks: []string{"rows changed", "server MIN(created_at_ms)"},
			statements: []string{"UPDATE %[1]s SET created_at_ms = 1 WHERE " + first}},
		{name: "a row moved before all others", missing: 1, added: 1, checks: []string{"rows missing", "rows added", "server first cursor"},
			statements: []string{"UPDATE %[1]s SET updated_at_ms = 1 WHERE " + last}},
		{name: "a later created_at_ms", changed: 1, columns: []string{"created_at_ms"}, checks: []string{"rows changed", "server MAX(created_at_ms)"},
			statements: []string{"UPDATE %[1]s SET created_at_ms = created_at_ms + 100000000 WHERE " + first}},
		{name: "an asset type changed", changed: 1, columns: []string{"asset_type"}, checks: []string{"rows changed", `server totals of "COIN"`, `server totals of "DIAMOND"`},
			statements: []string{"UPDATE %[1]s SET asset_type = IF(asset_type = 'COIN', 'DIAMOND', 'COIN') WHERE " + first}},
		{name: "an asset type of another spelling", changed: 1, columns: []string{"asset_type"}, checks: []string{"rows changed", `server totals of "COIN "`},
			statements: []string{"UPDATE %[1]s SET asset_type = 'COIN ' WHERE " + first}},
		{name: "two asset types swapped", changed: 2, columns: []string{"asset_type"}, checks: []string{"rows changed"},
			statements: []string{"UPDATE %[1]s SET asset_type = IF(asset_type = 'COIN', 'DIAMOND', 'COIN') WHERE " + first + " OR " + last}},
		{name: "every row gone", missing: 300, checks: []string{"rows missing", "server COUNT(*)", "server SUM(available_delta)"},
			statements: []string{"DELETE FROM %[1]s"}},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		batch := exported(t, source(t, s, "utf8mb4_bin", 300, 100*time.Millisecond), outbox.DefaultTable)
		start := scratchOn(t, s)
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				b := drillOne(t, batch, start, Options{afterRestore: func(ctx context.Context, db *sql.DB, table string) error {
					for _, st := range tc.statements {
						st = strings.ReplaceAll(st, "%[1]s", mysqldb.QuoteName(table))
						if _, err := db.ExecContext(ctx, st); err != nil {
							return fmt.Errorf("%s: %w", st, err)
						}
					}
					return nil
				}})
				if b.Proven() || !b.Differs() {
					t.Errorf("the drill is proven = %t, differs = %t", b.Proven(), b.Differs())
				}
				for _, want := range tc.checks {
					if failed := failedChecks(b); !slices.Contains(failed, want) {
						t.Errorf("check %q passed; failed are %v", want, failed)
					}
				}
				got := [3]int64{b.Missing, b.Added, b.Changed}
				if diff := cmp.Diff([3]int64{tc.missing, tc.added, tc.changed}, got); diff != "" {
					t.Errorf("missing, added, changed (-want +got):\n%s", diff)
				}
				for _, d := range b.Differences {
					if d.Kind == RowChanged && tc.columns != nil && !slices.Equal(d.Columns, tc.columns) {
						t.Errorf("row %s differs in %v, want %v", d.EventID, d.Columns, tc.columns)
					}
				}
			})
		}
		var left int
		sc, err := start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := sc.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()").Scan(&left); err != nil || left != 0 {
			t.Errorf("%d tables are left in the scratch database (%v)", left, err)
		}
	})
}

func TestRunExpectsTheRespelledPayloadsThatTheExportCounted(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := source(t, s, "utf8mb4_bin", 3_000, time.Second)
		changed, err := sample.AddDecimals(t.Context(), db, outbox.DefaultTable, app)
		if err != nil || changed == 0 {
			t.Fatalf("AddDecimals = %d, %v", changed, err)
		}
		batch := exported(t, db, outbox.DefaultTable)
		want := changed
		if s.Identity.KeepsJSONText() {
			want = 0
		}
		b := drillOne(t, batch, scratchOn(t, s), Options{})
		if !b.Proven() || b.Respelled != want || b.RespelledAllowed != want || b.Identical != b.Rows-want {
			t.Errorf("Run = proven %t, %d respelled of %d allowed, want %d; failed %v", b.Proven(), b.Respelled, b.RespelledAllowed, want, failedChecks(b))
		}
		strict := drillOne(t, batch, scratchOn(t, s), Options{StrictPayload: true})
		if strict.Proven() != (want == 0) || strict.Differs() != (want > 0) {
			t.Errorf("strict: proven %t, differs %t with %d respelled rows", strict.Proven(), strict.Differs(), want)
		}
		if want == 0 {
			return
		}
		// A manifest that announces fewer makes the others a fault.
		lie := batch.Manifest
		lie.PayloadFidelity = &manifest.PayloadFidelity{
			Checked: true, TextUnstableRows: 1, ValueUnstableEventIDs: []string{},
			TextUnstableEventIDs: batch.Manifest.PayloadFidelity.TextUnstableEventIDs[:1],
		}
		batch = batchtest.Describe(t, lie, batch.Store[batch.Location.DataKey()])
		if b := drillOne(t, batch, scratchOn(t, s), Options{}); b.Proven() || !slices.Equal(failedChecks(b), []string{"payloads respelled"}) {
			t.Errorf("with one announced row: proven %t, failed %v", b.Proven(), failedChecks(b))
		}
	})
}

func TestRunDoesNotStartAServerForABrokenBatch(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		batch := exported(t, source(t, s, "utf8mb4_bin", 50, time.Second), outbox.DefaultTable)
		batch.Store[batch.Location.DataKey()][100] ^= 1
		b := drillOne(t, batch, func(context.Context) (Scratch, error) {
			t.Error("the scratch server was started")
			return Scratch{}, errors.New("not to be started")
		}, Options{})
		if b.Proven() || !b.Verify.Failed() || b.Restore != nil {
			t.Errorf("Run = proven %t, verify failed %t, restored %t", b.Proven(), b.Verify.Failed(), b.Restore != nil)
		}
	})
}

func TestRunGivesErrorsOfTheScratchServer(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		batch := exported(t, source(t, s, "utf8mb4_bin", 50, time.Second), outbox.DefaultTable)
		broken := errors.New("no room")
		r, err := Run(t.Context(), batch.Store, []verify.Target{target(batch)}, func(context.Context) (Scratch, error) { return Scratch{}, broken }, Options{})
		if !errors.Is(err, broken) || len(r.Batches) != 0 {
			t.Errorf("Run = %d batches, %v; want the error of start", len(r.Batches), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		start := scratchOn(t, s)
		_, err = Run(ctx, batch.Store, []verify.Target{target(batch)}, start, Options{afterRestore: func(context.Context, *sql.DB, string) error { cancel(); return nil }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Run after cancelling = %v, want context.Canceled", err)
		}
		sc, err := start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var left int
		if err := sc.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()").Scan(&left); err != nil || left != 0 {
			t.Errorf("%d tables are left in the scratch database (%v)", left, err)
		}
	})
}

// TestRunKnowsCollationsByTheirFullName: since 10.10, MariaDB lists those that
// several charsets share without the charset that a column's collation names.
func TestRunKnowsCollationsByTheirFullName(t *testing.T) {
	const shared = "utf8mb4_uca1400_ai_ci"
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db, _ := s.NewDB(t)
	if _, err := db.ExecContext(t.Context(), outbox.Schema(outbox.DefaultTable, shared)); err != nil {
		mysqltest.Missing(t, mysqltest.MariaDB, fmt.Errorf("an older one without collation %s: %w", shared, err))
	}
	_, err := sample.Fill(t.Context(), db, outbox.DefaultTable, sample.Options{
		Apps: []string{app}, Rows: 100, Seed: 1, Start: time.UnixMilli(1_700_000_000_000), Awkward: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := drillOne(t, exported(t, db, outbox.DefaultTable), scratchOn(t, s), Options{})
	if !b.Proven() || b.Collate != shared {
		t.Errorf("the drill is proven = %t on %s, want %s; failed %v, notes %q", b.Proven(), b.Collate, shared, failedChecks(b), b.Notes)
	}
}
