package restore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// TargetState is what decides what a target makes of rows, so that a later change
// is seen.
type TargetState struct {
	TargetIdentity
	// DefinitionSHA256 is over SHOW CREATE TABLE, without the next AUTO_INCREMENT,
	// and the text of every trigger. It is zero when there is no such table.
	DefinitionSHA256 manifest.Hash `json:"definition_sha256"`
	// Settings are session variables, as a connection of mysqldb.Open has them.
	Settings map[string]string `json:"settings"`
}

// settingNames are the session variables that decide what a server makes of a
// value, or which values it takes; not every server has all.
const settingNames = "'sql_mode', 'time_zone', 'character_set_client', 'character_set_connection', 'collation_connection', " +
	"'max_allowed_packet', 'unique_checks', 'foreign_key_checks', 'check_constraint_checks'"

// nextNumber is the part of a definition that every row may change.
var nextNumber = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)

// DescribeTarget asks for the state of a table in the database of db, a pool of
// mysqldb.Open.
func DescribeTarget(ctx context.Context, db *sql.DB, table string) (t TargetState, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return t, fmt.Errorf("connect to the target: %w", err)
	}
	defer conn.Close()
	if t.TargetIdentity, err = IdentifyTarget(ctx, conn, table); err != nil {
		return t, err
	}
	t.Settings = map[string]string{}
	err = texts(ctx, conn, "SHOW SESSION VARIABLES WHERE Variable_name IN ("+settingNames+")", func(row []string) {
		t.Settings[row[0]] = row[1]
	})
	if err != nil {
		return t, fmt.Errorf("ask for the settings of the target: %w", err)
	}
	sum := sha256.New()
	err = texts(ctx, conn, "SHOW CREATE TABLE "+mysqldb.QuoteName(table), func(row []string) {
		addText(sum, nextNumber.ReplaceAllString(row[1], ""))
	})
	if mysqldb.IsError(err, mysqldb.ErNoSuchTable) {
		return t, nil
	}
	if err == nil {
		err = texts(ctx, conn, `SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER, ACTION_STATEMENT, SQL_MODE, DEFINER
FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = `+
			string(mysqldb.AppendString(nil, table))+" ORDER BY TRIGGER_NAME", func(row []string) {
			for _, text := range row {
				addText(sum, text)
			}
		})
	}
	if err != nil {
		return t, fmt.Errorf("read the definition of table %s: %w", table, err)
	}
	t.DefinitionSHA256 = manifest.Hash(sum.Sum(nil))
	return t, nil
}

// addText adds a text and where it ends.
func addText(sum hash.Hash, text string) { fmt.Fprintf(sum, "%d:%s\n", len(text), text) }

// texts calls f with every row of a result, as text; NULL is "".
func texts(ctx context.Context, q mysqldb.Queryer, query string, f func([]string)) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.NullString, len(names))
	dest, row := make([]any, len(names)), make([]string, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		for i := range values {
			row[i] = values[i].String
		}
		f(row)
	}
	return rows.Err()
}

// Changes says in words what is different in now; nil when nothing is.
func (t TargetState) Changes(now TargetState) (all []string) {
	differ := func(what, was, is string) {
		if was != is {
			all = append(all, fmt.Sprintf("%s was %q and is %q", what, was, is))
		}
	}
	differ("the server", t.Server, now.Server)
	differ("the server's version", t.Version, now.Version)
	differ("the database", t.Database, now.Database)
	differ("the table", t.Table, now.Table)
	if t.DefinitionSHA256 != now.DefinitionSHA256 {
		all = append(all, "the definition of the table or of its triggers is another one")
	}
	names := maps.Clone(t.Settings)
	maps.Copy(names, now.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ(name, t.Settings[name], now.Settings[name])
	}
	return all
}
