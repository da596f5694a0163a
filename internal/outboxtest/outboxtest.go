// Package outboxtest looks at whole tables for tests, each at once: what a program
// must not do with a table of any size.
package outboxtest

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/outbox"
)

// RowHashes returns the row hash (docs/FORMAT.md "Row hash") of every row of
// wallet_outbox in db, by app_code and event_id with a slash between.
func RowHashes(tb testing.TB, db *sql.DB) map[string]string {
	tb.Helper()
	table, err := outbox.Describe(tb.Context(), db, outbox.DefaultTable)
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]string{}
	for r, err := range outbox.ReadAll(tb.Context(), db, &table, "", outbox.AnyOrder) {
		if err != nil {
			tb.Fatal(err)
		}
		all[r.AppCode+"/"+r.EventID] = r.RowHash().String()
	}
	return all
}

// Checksum returns CHECKSUM TABLE of wallet_outbox, which is over the stored bytes.
func Checksum(tb testing.TB, db *sql.DB) int64 {
	tb.Helper()
	var name string
	var sum int64
	if err := db.QueryRowContext(tb.Context(), "CHECKSUM TABLE "+outbox.DefaultTable).Scan(&name, &sum); err != nil {
		tb.Fatal(err)
	}
	return sum
}

// Exec runs one statement, of which it takes the semicolon that ends it away.
func Exec(tb testing.TB, db *sql.DB, statement string) {
	tb.Helper()
	if _, err := db.ExecContext(tb.Context(), strings.TrimRight(statement, "; \n")); err != nil {
		tb.Fatalf("%.200s: %v", statement, err)
	}
}
