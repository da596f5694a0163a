package outbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// Doubts returns what keeps it from being certain, by the definition alone, that
// records with these needs come back from t as they were written on a session
// with these settings, each under its own key. Nil is a proof: the server has no
// occasion to change a value, to merge two keys, or to run anything of its own.
// A record may still be refused, which nobody can overlook.
//
// Only what is known to be harmless is taken for harmless; whatever this function
// has not heard of is a doubt. payloadsCarry says that a server of exactly this
// version is known to render the payloads as they are spelled, and only matters
// where the server parses JSON. [Table.CheckTarget] must have passed.
func (t *Table) Doubts(needs *Needs, s mysqldb.Settings, payloadsCarry bool) []string {
	var d doubts
	d.server(t.Server, s)
	d.table(t)
	d.keys(t, needs)
	for _, c := range t.Columns {
		if i := slices.IndexFunc(fields[:], func(f field) bool { return strings.EqualFold(f.name, c.Name) }); i < 0 {
			d.add("column %s is none of the archive's", c.Name)
		} else {
			d.column(t, c, fields[i].kind, needs.Columns[i], payloadsCarry)
		}
	}
	for i := range fields {
		if _, ok := t.Column(fields[i].name); !ok {
			d.add("column %s is missing", fields[i].name)
		}
	}
	return d
}

type doubts []string

func (d *doubts) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// knownVersion takes the versions of MySQL, Percona Server and MariaDB, and those
// of their packages, "10.11.14-MariaDB-0+deb12u2". Other servers speak the protocol
// and name themselves, "8.0.11-TiDB-v7.5.0".
var knownVersion = regexp.MustCompile(`^\d+\.\d+\.\d+([-.+~:]+(\d+|log|debug|mariadb|maria|\d*ubuntu\d*|ubu\d+|deb\d+u?\d*|el\d+))*$`)

// knownModes are the sql_modes of mysqldb.Open.
var knownModes = []string{
	"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ERROR_FOR_DIVISION_BY_ZERO", "NO_ENGINE_SUBSTITUTION",
}

func (d *doubts) server(server mysqldb.Server, s mysqldb.Settings) {
	if !knownVersion.MatchString(strings.ToLower(server.Version)) {
		d.add("server version %s is none that is known", server.Version)
	}
	if !s.Strict() {
		d.add("sql_mode is not strict")
	}
	for _, mode := range s.SQLMode {
		if !slices.Contains(knownModes, mode) {
			d.add("sql_mode holds %s", mode)
		}
	}
	if s.Charset != "utf8mb4" {
		d.add("the session's charset is %s", s.Charset)
	}
}

func (d *doubts) table(t *Table) {
	if t.Kind != "BASE TABLE" {
		d.add("it is a %s", t.Kind)
	}
	if !strings.EqualFold(t.Engine, "InnoDB") {
		d.add("its engine is %s", t.Engine)
	}
	if t.Partitioned {
		d.add("it is partitioned")
	}
	for _, tr := range t.Triggers {
		d.add("it has trigger %s", tr.Name)
	}
	if !t.TriggersVisible {
		d.add("this account does not see triggers")
	}
	for _, name := range t.ForeignKeys {
		d.add("it has foreign key %s", name)
	}
	for _, c := range t.Checks {
		if !c.isJSON() {
			d.add("it has constraint %s", c.Name)
		}
	}
}

// isJSON reports whether c is what MariaDB makes of the type JSON.
func (c Check) isJSON() bool {
	return strings.EqualFold(strings.ReplaceAll(c.Clause, "`", ""), "json_valid(payload)")
}

// keys doubts that every record has a place of its own: the event_ids of one
// app_code are known to differ byte for byte, and no more.
func (d *doubts) keys(t *Table, needs *Needs) {
	primary := false
	for _, ix := range t.Indexes {
		key := ix.Name == "PRIMARY" && len(ix.Columns) == len(keyColumns) && ix.hasAll(keyColumns)
		for _, c := range ix.Columns {
			switch {
			case c.Name == "":
				d.add("index %s is over an expression", ix.Name)
			case key && c.PrefixOnly:
				d.add("the primary key holds only the beginning of %s", c.Name)
			}
		}
		switch {
		case ix.Type != "BTREE":
			d.add("index %s is of type %s", ix.Name, ix.Type)
		case ix.Unique && !key:
			d.add("unique key %s is not over (%s)", ix.Name, strings.Join(keyColumns, ", "))
		}
		primary = primary || key
	}
	if !primary {
		d.add("the primary key is not (%s)", strings.Join(keyColumns, ", "))
	}
	for _, name := range keyColumns {
		c, ok := t.Column(name)
		switch {
		case !ok:
		case ComparesByBytes(c.Collation):
		case c.Collation != "utf8mb4_bin":
			d.add("collation %s of %s may take two keys for one", c.Collation, name)
		case needs.column(name).TrailingSpace:
			d.add("collation %s of %s does not tell values apart that differ in spaces at their end", c.Collation, name)
		}
	}
}

// The types whose values come back as they were put in, when they fit. A word
// more in the definition (ZEROFILL, COMPRESSED) is a doubt.
var (
	knownInteger = regexp.MustCompile(`^(tinyint|smallint|mediumint|int|bigint)(\(\d+\))?( unsigned)?$`)
	knownText    = regexp.MustCompile(`^(varchar\(\d+\)|tinytext|text|mediumtext|longtext)$`)
)

func (d *doubts) column(t *Table, c Column, k kind, need ColumnNeeds, payloadsCarry bool) {
	kind := strings.ToLower(c.ColumnType)
	if c.Generated || c.Extra != "" {
		d.add("column %s is more than a value (%s)", c.Name, c.Extra)
	}
	if need.Null && !c.Nullable {
		d.add("column %s takes no NULL", c.Name)
	}
	switch {
	case k == integer && knownInteger.MatchString(kind):
		var ps problems
		checkNumber(&ps, c, need)
		for _, p := range ps {
			d.add("column %s: %s", c.Name, p.Detail)
		}
	case k == document && kind == "json" && !t.Server.KeepsJSONText():
		if !payloadsCarry {
			d.add("the server parses JSON, and nothing says how it spells these payloads")
		}
	case k != integer && knownText.MatchString(kind):
		if c.Charset != "utf8mb4" {
			d.add("column %s has charset %s", c.Name, c.Charset)
		}
		isText := strings.HasSuffix(c.DataType, "text")
		if !isText && int64(need.MaxChars) > c.MaxChars || isText && int64(need.MaxBytes) > c.MaxBytes {
			d.add("column %s is narrower than a value", c.Name)
		}
	default:
		d.add("column %s is of type %s", c.Name, c.ColumnType)
	}
}
