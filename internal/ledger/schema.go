package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Columns of ids compare by bytes, whatever the source's collation is: two
// event_ids that the source tells apart must be two members. utf8mb4_bin is the
// one such collation that MySQL and MariaDB both have; it ignores trailing spaces,
// so event_ids that differ in nothing else are a conflict and not two members.
//
// Widths: an app_code has at most 42 characters, an object key 850 bytes, a total
// of int64 values over any table 40. event_id is as wide as MySQL lets a VARCHAR
// be in the keys of old tables (255); a wider id is refused by the server, as the
// session is strict. The longest key is 1,360 bytes, of the 3,072 that InnoDB takes.

const receiptsDDL = `CREATE TABLE IF NOT EXISTS wallet_outbox_archive_receipts (
  app_code              VARCHAR(64)  NOT NULL,
  batch_id              CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state                 VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  data_object_key       VARCHAR(850) NOT NULL,
  manifest_object_key   VARCHAR(850) NOT NULL,
  success_object_key    VARCHAR(850) NOT NULL,
  schema_version        INT          NOT NULL,
  row_count             BIGINT       NOT NULL,
  first_updated_at_ms   BIGINT       NOT NULL,
  first_event_id        VARCHAR(255) NOT NULL,
  last_updated_at_ms    BIGINT       NOT NULL,
  last_event_id         VARCHAR(255) NOT NULL,
  min_created_at_ms     BIGINT       NOT NULL,
  max_created_at_ms     BIGINT       NOT NULL,
  available_delta_total VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  frozen_delta_total    VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ndjson_sha256         CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  gzip_sha256           CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  data_crc64            VARCHAR(20)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  manifest_crc64        VARCHAR(20)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  success_crc64         VARCHAR(20)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  manifest_sha256       CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  uncompressed_bytes    BIGINT       NOT NULL,
  compressed_bytes      BIGINT       NOT NULL,
  verified_at_ms        BIGINT       NOT NULL,
  created_at_ms         BIGINT       NOT NULL,
  updated_at_ms         BIGINT       NOT NULL,
  PRIMARY KEY (app_code, batch_id),
  KEY idx_wallet_outbox_archive_cursor (app_code, state, last_updated_at_ms, last_event_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`

// The second key of the members is not in the contract: without it, the members
// of one batch are found by reading those of every batch. Nothing fails without it.
const membersDDL = `CREATE TABLE IF NOT EXISTS wallet_outbox_archive_members (
  app_code               VARCHAR(64)  NOT NULL,
  event_id               VARCHAR(255) NOT NULL,
  updated_at_ms          BIGINT       NOT NULL,
  batch_id               CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  manifest_sha256        CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  receipt_verified_at_ms BIGINT       NOT NULL,
  PRIMARY KEY (app_code, event_id),
  KEY idx_wallet_outbox_archive_members_batch (app_code, batch_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`

// batchKey is the name of that key.
const batchKey = "idx_wallet_outbox_archive_members_batch"

// Schema returns the DDL of both tables, each statement ended by a semicolon and
// a newline. MySQL 5.7 and later and MariaDB 10.5 and later take it, again and
// again: a table that exists is left as it is.
func Schema() string { return receiptsDDL + ";\n\n" + membersDDL + ";\n" }

// ErrSchema is wrapped by every [*SchemaError].
var ErrSchema = errors.New("ledger tables are not fit for recording")

// SchemaError lists why receipts cannot be recorded in the tables that exist.
// It wraps [ErrSchema].
type SchemaError struct {
	Problems []string // never empty
}

// Error lists the problems.
func (e *SchemaError) Error() string {
	return ErrSchema.Error() + ": " + strings.Join(e.Problems, "; ")
}

// Unwrap returns [ErrSchema].
func (e *SchemaError) Unwrap() error { return ErrSchema }

// CreateTables creates the tables that are not there yet and then checks both
// as [Ledger.CheckTables] does.
func (l *Ledger) CreateTables(ctx context.Context) error {
	for _, ddl := range []string{receiptsDDL, membersDDL} {
		if _, err := l.db.ExecContext(ctx, ddl); err != nil {
			return fmt.Errorf("create ledger tables: %w", err)
		}
	}
	return l.CheckTables(ctx)
}

// CheckTables reports whether the tables that exist can hold what the ledger
// promises: every column is there, the primary keys are those of the contract
// (they alone keep an event from being archived twice), ids compare by bytes, and
// the engine has transactions. Widths are left to the server, which refuses what
// does not fit. The error is a [*SchemaError] or the server's.
//
// Reading needs no more than the columns, so only [Ledger.Record] and
// [Ledger.Latest] insist on it, once for each Ledger.
func (l *Ledger) CheckTables(ctx context.Context) error {
	var problems []string
	for _, t := range []struct {
		name    string
		columns []string
		key     []string
	}{
		{ReceiptsTable, receiptColumnNames(), []string{"app_code", "batch_id"}},
		{MembersTable, memberColumns, []string{"app_code", "event_id"}},
	} {
		found, err := l.describe(ctx, t.name)
		if err != nil {
			return fmt.Errorf("describe %s: %w", t.name, err)
		}
		for _, p := range found.problems(t.columns, t.key) {
			problems = append(problems, t.name+" "+p)
		}
	}
	if len(problems) > 0 {
		return &SchemaError{Problems: problems}
	}
	var columns int
	err := l.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE()
		AND table_name = ? AND index_name = ? AND (seq_in_index = 1 AND column_name = 'app_code' OR seq_in_index = 2 AND column_name = 'batch_id')`,
		MembersTable, batchKey).Scan(&columns)
	if err != nil {
		return fmt.Errorf("describe %s: %w", MembersTable, err)
	}
	l.batchKey.Store(columns == 2)
	l.checked.Store(true)
	return nil
}

// ready is CheckTables, asked of the server until the answer was once yes.
func (l *Ledger) ready(ctx context.Context) error {
	if l.checked.Load() {
		return nil
	}
	return l.CheckTables(ctx)
}

// table is what the server says of a table; the zero table does not exist.
type table struct {
	transactional string            // YES or not
	collation     map[string]string // of each column, "" where it has none
	key           []string          // columns of the primary key, a prefix as "name(3)"
}

func (t *table) problems(columns, key []string) []string {
	if len(t.collation) == 0 {
		return []string{"does not exist"}
	}
	var list []string
	for _, c := range columns {
		collation, ok := t.collation[c]
		switch {
		case !ok:
			list = append(list, "has no column "+c)
		case slices.Contains(key, c) && collation != "" && collation != "binary" && !strings.HasSuffix(collation, "_bin"):
			list = append(list, fmt.Sprintf("compares %s by %s, not by bytes", c, collation))
		}
	}
	if !slices.Equal(t.key, key) {
		list = append(list, fmt.Sprintf("has the primary key (%s), not (%s)", strings.Join(t.key, ", "), strings.Join(key, ", ")))
	}
	if t.transactional != "YES" {
		list = append(list, "has an engine without transactions")
	}
	return list
}

func (l *Ledger) describe(ctx context.Context, name string) (table, error) {
	t := table{collation: map[string]string{}}
	err := l.each(ctx, `SELECT c.column_name, COALESCE(c.collation_name, ''), COALESCE(e.transactions, 'NO')
		FROM information_schema.tables t
		JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
		LEFT JOIN information_schema.engines e ON e.engine = t.engine
		WHERE t.table_schema = DATABASE() AND t.table_name = ?`, name, func(f [3]string) {
		t.collation[f[0]], t.transactional = f[1], f[2]
	})
	if err != nil {
		return table{}, err
	}
	err = l.each(ctx, `SELECT column_name, COALESCE(CONCAT('(', sub_part, ')'), ''), seq_in_index
		FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index`, name, func(f [3]string) {
		t.key = append(t.key, f[0]+f[1])
	})
	return t, err
}

// each calls f with every row of a query about a table.
func (l *Ledger) each(ctx context.Context, query, table string, f func([3]string)) error {
	rows, err := l.db.QueryContext(ctx, query, table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var fields [3]string
		if err := rows.Scan(&fields[0], &fields[1], &fields[2]); err != nil {
			return err
		}
		f(fields)
	}
	return rows.Err()
}
