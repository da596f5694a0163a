package outbox

import (
	"fmt"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// DefaultCollation is the collation of a table from [Schema] when none is
// given: known to every server of the family, and one that tells any two
// event_ids apart unless they differ in trailing spaces only.
const DefaultCollation = "utf8mb4_bin"

// Schema returns the CREATE TABLE statement of a wallet_outbox called table,
// with the columns and indexes of docs/FORMAT.md "Source table". It works on
// MySQL 5.7 and later and on MariaDB 10.2 and later. collation must be one of
// utf8mb4; "" is [DefaultCollation].
func Schema(table, collation string) string { return SchemaFor(table, collation, nil) }

// SchemaFor returns [Schema] with every column made as wide as needs asks for,
// where that is wider than usual. A nil needs asks for nothing.
//
// A server refuses the statement (1071, the key is too long) when app_code,
// status and event_id together are over 767 characters.
func SchemaFor(table, collation string, needs *Needs) string {
	if collation == "" {
		collation = DefaultCollation
	}
	if needs == nil {
		needs = new(Needs)
	}
	text := func(name string, chars int) string {
		chars = max(chars, roundUp(needs.column(name).MaxChars))
		// All columns of a row share 65,535 bytes; a TEXT counts for a few.
		if chars > 1024 && !isKeyPart(name) {
			return "LONGTEXT"
		}
		return fmt.Sprintf("VARCHAR(%d)", chars)
	}
	retries := "INT"
	if n := needs.column("retry_count"); n.Min < -1<<31 || n.Max > 1<<31-1 {
		retries = "BIGINT"
	}
	lastError := "TEXT"
	if needs.column("last_error").MaxBytes > 1<<16-1 {
		lastError = "LONGTEXT"
	}
	columns := []string{
		"app_code " + text("app_code", 64) + " NOT NULL",
		"event_id " + text("event_id", 128) + " NOT NULL",
		"event_type " + text("event_type", 64) + " NOT NULL",
		"transaction_id " + text("transaction_id", 128) + " NOT NULL",
		"command_id " + text("command_id", 128) + " NOT NULL",
		"user_id BIGINT NOT NULL",
		"asset_type " + text("asset_type", 32) + " NOT NULL",
		"available_delta BIGINT NOT NULL",
		"frozen_delta BIGINT NOT NULL",
		"payload JSON NOT NULL",
		"status " + text("status", 32) + " NOT NULL",
		"worker_id " + text("worker_id", 128) + " NOT NULL DEFAULT ''",
		"lock_until_ms BIGINT NULL",
		"retry_count " + retries + " NOT NULL DEFAULT 0",
		"next_retry_at_ms BIGINT NULL",
		"last_error " + lastError + " NULL",
		"created_at_ms BIGINT NOT NULL",
		"updated_at_ms BIGINT NOT NULL",
		"PRIMARY KEY (app_code, event_id)",
		"KEY " + RetentionIndex + " (" + strings.Join(retentionColumns, ", ") + ")",
	}
	return "CREATE TABLE " + mysqldb.QuoteName(table) + " (\n  " + strings.Join(columns, ",\n  ") +
		"\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=" + collation
}

func isKeyPart(name string) bool {
	for _, c := range retentionColumns {
		if c == name {
			return true
		}
	}
	return false
}

// roundUp leaves some room, in steps that keep one schema for similar batches.
func roundUp(chars int) int { return (chars + 63) / 64 * 64 }
