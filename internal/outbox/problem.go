package outbox

import (
	"fmt"
	"strings"
)

// Problem is one thing about a table that stands, or may stand, in the way.
type Problem struct {
	Column string // "" when it is not about one column
	Code   Code
	Detail string // one sentence without its full stop
	// Fatal says that going on cannot end well. What is not fatal may end in an
	// error, but never in a silent change, as long as what was written is read
	// back and compared.
	Fatal bool
}

// String returns the problem as a line for people.
func (p Problem) String() string {
	if p.Column == "" {
		return p.Detail
	}
	return "column " + p.Column + ": " + p.Detail
}

// Code tells problems apart.
type Code string

// The codes of [Table.CheckSource] and [Table.CheckTarget].
const (
	MissingColumn     Code = "missing_column"
	WrongType         Code = "wrong_type"
	TooNarrow         Code = "too_narrow"
	NotNullable       Code = "not_nullable"
	CharsetTooSmall   Code = "charset_too_small"
	TrailingSpaceLost Code = "trailing_space_lost"
	ExtraColumn       Code = "extra_column"
	GeneratedColumn   Code = "generated_column"
	AutoUpdate        Code = "auto_update"
	NoIndex           Code = "no_retention_index"
	NoKey             Code = "no_key"
	OtherKey          Code = "other_unique_key"
	OtherCollation    Code = "other_collation"
	HasTrigger        Code = "trigger"
	TriggersHidden    Code = "triggers_hidden"
	HasForeignKey     Code = "foreign_key"
	HasCheck          Code = "check_constraint"
	NotTransactional  Code = "not_transactional"
	NotATable         Code = "not_a_table"
	SystemVersioned   Code = "system_versioned"
	NotStrict         Code = "sql_mode_not_strict"
	PacketTooSmall    Code = "max_allowed_packet_too_small"
	ServerReadOnly    Code = "server_read_only"
	JSONRendered      Code = "json_rendered_by_server"
)

// Fatal returns the fatal ones among problems.
func Fatal(problems []Problem) []Problem {
	var fatal []Problem
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	return fatal
}

// problems collects.
type problems []Problem

func (ps *problems) fatal(column string, code Code, format string, args ...any) {
	*ps = append(*ps, Problem{column, code, fmt.Sprintf(format, args...), true})
}

func (ps *problems) note(column string, code Code, format string, args ...any) {
	*ps = append(*ps, Problem{column, code, fmt.Sprintf(format, args...), false})
}

// CheckSource reports what keeps the rows of t from being archived, or from
// being archived whole. Nil means that nothing does, as far as the definition
// can tell; that every value can be carried is checked when it is read.
func (t *Table) CheckSource() []Problem {
	ps := problems(t.CheckReading())
	for _, c := range t.Columns {
		if !isArchived(c.Name) {
			ps.note(c.Name, ExtraColumn, "not one of the archive's columns, so its values are not archived")
		}
	}
	if _, ok := t.RetentionIndex(); !ok {
		ps.fatal("", NoIndex, "no usable index begins with (%s), so the export scan would read the whole table for every page",
			strings.Join(retentionColumns, ", "))
	}
	if ix, ok := t.keyIndex(); !ok {
		ps.fatal("", NoKey, "no unique key over (%s), so an event_id may occur twice", strings.Join(keyColumns, ", "))
	} else if ix.Name != "PRIMARY" {
		ps.note("", OtherKey, "the primary key is (%s); rows are told apart by the unique key %s", strings.Join(t.PrimaryKey(), ", "), ix.Name)
	}
	return ps
}

// String returns how the archive calls the kind.
func (k kind) String() string {
	switch k {
	case integer:
		return "a 64-bit integer"
	case document:
		return "a JSON text"
	}
	return "text"
}

// readable reports whether a column of this type gives exact values of kind k.
// A float is not among them (it is rendered with fewer digits than it has),
// nor is a number where the archive has text.
func readable(k kind, c Column) bool {
	switch c.DataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return k == integer
	case "decimal":
		return k == integer && c.Scale == 0
	case "json":
		return k == document
	case "varchar", "char", "tinytext", "text", "mediumtext", "longtext",
		"varbinary", "binary", "tinyblob", "blob", "mediumblob", "longblob":
		return k != integer
	case "enum", "set", "uuid":
		return k == text
	}
	return false
}
