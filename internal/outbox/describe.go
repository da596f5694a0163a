package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// ErrNoTable is returned by [Describe] when the database has no such table, or
// the account may not see it.
var ErrNoTable = errors.New("no such table in this database, or not visible to this account")

// Describe reads the definition of table in the connection's own database. The
// error is [ErrNoTable], or what the server said.
func Describe(ctx context.Context, q mysqldb.Queryer, table string) (Table, error) {
	t := Table{Name: table}
	fail := func(err error) (Table, error) {
		return Table{}, fmt.Errorf("read the definition of table %s: %w", table, err)
	}
	var err error
	if t.Server, err = mysqldb.Identify(ctx, q); err != nil {
		return fail(err)
	}
	var options string
	err = q.QueryRowContext(ctx, `SELECT TABLE_TYPE, COALESCE(ENGINE, ''), COALESCE(CREATE_OPTIONS, '')
FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?`, table).
		Scan(&t.Kind, &t.Engine, &options)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoTable
	}
	if err != nil {
		return fail(err)
	}
	t.Partitioned = strings.Contains(options, "partitioned")
	for _, read := range []func(context.Context, mysqldb.Queryer) error{
		t.readColumns, t.readIndexes, t.readTriggers, t.readConstraints,
	} {
		if err := read(ctx, q); err != nil {
			return fail(err)
		}
	}
	return t, nil
}

func (t *Table) readColumns(ctx context.Context, q mysqldb.Queryer) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var c Column
		var nullable, extra, expression string
		var deflt sql.NullString
		err := rows.Scan(&c.Name, &c.DataType, &c.ColumnType, &c.Charset, &c.Collation, &c.MaxChars, &c.MaxBytes,
			&c.Precision, &c.Scale, &nullable, &deflt, &extra, &expression)
		if err != nil {
			return err
		}
		c.DataType = strings.ToLower(c.DataType)
		c.Extra = strings.ToLower(extra)
		c.Unsigned = strings.Contains(strings.ToLower(c.ColumnType), "unsigned")
		c.Nullable = nullable == "YES"
		c.Generated = expression != "" || strings.Contains(c.Extra, " generated")
		c.HasDefault = c.Nullable || deflt.Valid || c.Generated ||
			strings.Contains(c.Extra, "default_generated") || strings.Contains(c.Extra, "auto_increment")
		t.Columns = append(t.Columns, c)
		return nil
	}, `SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COALESCE(CHARACTER_OCTET_LENGTH, 0), COALESCE(NUMERIC_PRECISION, 0),
COALESCE(NUMERIC_SCALE, 0), IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COALESCE(GENERATION_EXPRESSION, '')
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, t.Name)
}

// readIndexes uses SHOW INDEX, since the columns of information_schema.STATISTICS
// that tell an unused index differ between the flavors.
func (t *Table) readIndexes(ctx context.Context, q mysqldb.Queryer) error {
	if t.Kind == "VIEW" {
		return nil
	}
	var names []string
	return each(ctx, q, func(rows *sql.Rows) error {
		if names == nil {
			var err error
			if names, err = rows.Columns(); err != nil {
				return err
			}
		}
		values := make([]sql.NullString, len(names))
		dest := make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		col := func(name string) sql.NullString {
			for i, n := range names {
				if strings.EqualFold(n, name) {
					return values[i]
				}
			}
			return sql.NullString{}
		}
		name := col("Key_name").String
		if n := len(t.Indexes); n == 0 || t.Indexes[n-1].Name != name {
			t.Indexes = append(t.Indexes, Index{
				Name: name, Unique: col("Non_unique").String == "0", Type: strings.ToUpper(col("Index_type").String),
				Usable: col("Visible").String != "NO" && col("Ignored").String != "YES",
			})
		}
		ix := &t.Indexes[len(t.Indexes)-1]
		ix.Columns = append(ix.Columns, IndexColumn{
			Name: col("Column_name").String, PrefixOnly: col("Sub_part").Valid, Descending: col("Collation").String == "D",
		})
		return nil
	}, "SHOW INDEX FROM "+mysqldb.QuoteName(t.Name))
}

func (t *Table) readTriggers(ctx context.Context, q mysqldb.Queryer) error {
	err := each(ctx, q, func(rows *sql.Rows) error {
		var tr Trigger
		if err := rows.Scan(&tr.Name, &tr.Timing, &tr.Event); err != nil {
			return err
		}
		t.Triggers = append(t.Triggers, tr)
		return nil
	}, `SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = ? ORDER BY TRIGGER_NAME`, t.Name)
	if err != nil {
		return err
	}
	// A privilege that comes from a role is not found here, which errs on the
	// side of "not all triggers may be visible".
	var n int
	err = q.QueryRowContext(ctx, `SELECT
(SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'TRIGGER' AND GRANTEE = g.me) +
(SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE PRIVILEGE_TYPE = 'TRIGGER' AND GRANTEE = g.me AND DATABASE() LIKE TABLE_SCHEMA) +
(SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE PRIVILEGE_TYPE = 'TRIGGER' AND GRANTEE = g.me AND TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?)
FROM (SELECT CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''') AS me) AS g`, t.Name).Scan(&n)
	t.TriggersVisible = n > 0
	return err
}

func (t *Table) readConstraints(ctx context.Context, q mysqldb.Queryer) error {
	err := each(ctx, q, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		t.ForeignKeys = append(t.ForeignKeys, name)
		return nil
	}, `SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND CONSTRAINT_TYPE = 'FOREIGN KEY' ORDER BY CONSTRAINT_NAME`, t.Name)
	if err != nil {
		return err
	}
	// MySQL's CHECK_CONSTRAINTS has no table, and names that are unique in the
	// schema; MariaDB's names are unique in the table.
	query := `SELECT c.CONSTRAINT_NAME, c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS c
JOIN information_schema.TABLE_CONSTRAINTS t ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME
WHERE t.CONSTRAINT_TYPE = 'CHECK' AND t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = ? ORDER BY c.CONSTRAINT_NAME`
	switch {
	case t.Server.Flavor == mysqldb.MariaDB:
		query = `SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY CONSTRAINT_NAME`
	case t.Server.Major < 8:
		return nil // MySQL 5.7 parses CHECK and forgets it
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var c Check
		if err := rows.Scan(&c.Name, &c.Clause); err != nil {
			return err
		}
		t.Checks = append(t.Checks, c)
		return nil
	}, query, t.Name)
}

// each runs a query and calls f for every row of its result.
func each(ctx context.Context, q mysqldb.Queryer, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
