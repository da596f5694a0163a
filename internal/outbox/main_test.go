package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

const app = "game"

// newTable creates a wallet_outbox in a fresh database.
func newTable(t testing.TB, s mysqltest.Server, collation string) (*sql.DB, *Table) {
	t.Helper()
	db, _ := s.NewDB(t)
	mustExec(t, db, Schema(DefaultTable, collation))
	return db, describe(t, db, DefaultTable)
}

func describe(t testing.TB, db *sql.DB, table string) *Table {
	t.Helper()
	tab, err := Describe(context.Background(), db, table)
	if err != nil {
		t.Fatal(err)
	}
	return &tab
}

func mustExec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement[:min(len(statement), 300)], err)
	}
}

// record returns a plain delivered row; n tells it apart.
func record(n int) manifest.Record {
	return manifest.Record{
		AppCode: app, EventID: fmt.Sprintf("evt_%08x", uint32(n)*2654435761), EventType: "wallet.credited",
		TransactionID: fmt.Sprintf("tx_%d", n), CommandID: fmt.Sprintf("cmd_%08x_%s", n, strings.Repeat("c", 24)), UserID: int64(100000 + n%5000), AssetType: "COIN",
		AvailableDelta: int64(n)*7 - 50, FrozenDelta: -int64(n),
		PayloadJSON: fmt.Sprintf(`{"ids": [%d, %d], "meta": {"gift": "rose", "room": "room-%d"}, "note": "%s", "amount": %d}`, n, n+1, n, strings.Repeat("x", 120), n*7-50),
		Status:      manifest.StatusDelivered, WorkerID: fmt.Sprintf("worker-%d", n%4),
		CreatedAtMS: 1700000000000 + int64(n)*10, UpdatedAtMS: 1700000000500 + int64(n)*10,
	}
}

// write writes records with one method in one transaction.
func write(t testing.TB, db *sql.DB, tab *Table, opts WriterOptions, records []manifest.Record) error {
	t.Helper()
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	w, err := NewWriter(ctx, tx, tab, opts)
	if err != nil {
		return err
	}
	defer w.Close()
	for i := range records {
		if err := w.Add(ctx, &records[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	if got := w.Written(); got != int64(len(records)) {
		t.Errorf("Written = %d, want %d", got, len(records))
	}
	return tx.Commit()
}

// recreate makes wallet_outbox anew in a database that tests share.
func recreate(t testing.TB, db *sql.DB) {
	t.Helper()
	mustExec(t, db, "DROP VIEW IF EXISTS wallet_outbox")
	mustExec(t, db, "DROP TABLE IF EXISTS wallet_outbox, t, u")
	mustExec(t, db, Schema(DefaultTable, ""))
}
