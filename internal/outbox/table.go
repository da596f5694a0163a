package outbox

import (
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// DefaultTable is the table of docs/FORMAT.md "Source table".
const DefaultTable = "wallet_outbox"

// RetentionIndex is the index that serves the export scan.
const RetentionIndex = "idx_wallet_outbox_retention"

// retentionColumns are the first columns that such an index must have.
var retentionColumns = []string{"app_code", "status", "updated_at_ms", "event_id"}

// keyColumns identify a row.
var keyColumns = []string{"app_code", "event_id"}

// Table is the definition of a table as its server reports it.
type Table struct {
	Name        string
	Kind        string // information_schema.TABLES.TABLE_TYPE: "BASE TABLE", "VIEW", …
	Engine      string // "" for a view
	Partitioned bool
	Columns     []Column // in the table's order
	Indexes     []Index  // the primary key among them, as PRIMARY
	Triggers    []Trigger
	// TriggersVisible says that Triggers can be believed to be all: MySQL shows
	// none without the TRIGGER privilege.
	TriggersVisible bool
	ForeignKeys     []string // names of the constraints in which this table refers to another
	Checks          []Check
	Server          mysqldb.Server
}

// Column is one column of a [Table].
type Column struct {
	Name       string
	DataType   string // lower case, without width: "varchar", "bigint", "json"
	ColumnType string // in full: "bigint unsigned"
	Unsigned   bool
	Charset    string // "" for what is not text
	Collation  string // "" for what is not text
	MaxChars   int64  // zero for what is not text or bytes
	MaxBytes   int64  // zero for what is not text or bytes
	Precision  int64  // digits of a number, zero for what is none
	Scale      int64  // digits after the point
	Nullable   bool
	HasDefault bool // a row may be inserted without naming the column
	Generated  bool
	Extra      string // information_schema.COLUMNS.EXTRA, lower case
}

// Index is one index of a [Table].
type Index struct {
	Name    string
	Unique  bool
	Type    string // BTREE, HASH, FULLTEXT, …
	Usable  bool   // false for one that is invisible or ignored
	Columns []IndexColumn
}

// IndexColumn is one part of an [Index].
type IndexColumn struct {
	Name       string // "" for an expression
	PrefixOnly bool   // the index holds the beginning of the value
	Descending bool
}

// Trigger is one trigger of a [Table].
type Trigger struct {
	Name   string
	Timing string // BEFORE or AFTER
	Event  string // INSERT, UPDATE or DELETE
}

// Check is a CHECK constraint of a [Table].
type Check struct {
	Name   string
	Clause string
}

// Column returns the column of that name, in any case, as servers compare it.
func (t *Table) Column(name string) (Column, bool) {
	for _, c := range t.Columns {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return Column{}, false
}

// PrimaryKey returns the names of its columns; nil when there is none.
func (t *Table) PrimaryKey() []string {
	for _, ix := range t.Indexes {
		if ix.Name == "PRIMARY" {
			return ix.names()
		}
	}
	return nil
}

// RetentionIndex returns the name of an index that serves the export scan: a
// usable ascending BTREE index that begins with app_code, status, updated_at_ms
// and event_id, each in full. The one called [RetentionIndex] is preferred.
func (t *Table) RetentionIndex() (name string, ok bool) {
	for _, ix := range t.Indexes {
		if ix.serves(retentionColumns) && (name == "" || ix.Name == RetentionIndex) {
			name = ix.Name
		}
	}
	return name, name != ""
}

// keyIndex returns the name of a unique index over exactly app_code and
// event_id, the primary key if it is one.
func (t *Table) keyIndex() (Index, bool) {
	var found Index
	for _, ix := range t.Indexes {
		if ix.Unique && len(ix.Columns) == len(keyColumns) && ix.hasAll(keyColumns) && (found.Name == "" || ix.Name == "PRIMARY") {
			found = ix
		}
	}
	return found, found.Name != ""
}

// OtherKeys returns the unique indexes that may refuse rows which differ in
// app_code and event_id.
func (t *Table) OtherKeys() []Index {
	key, _ := t.keyIndex()
	var all []Index
	for _, ix := range t.Indexes {
		if ix.Unique && ix.Name != key.Name && !ix.hasAll(keyColumns) {
			all = append(all, ix)
		}
	}
	return all
}

// EventIDCollation returns the collation of event_id, which decides the order
// of a batch within one millisecond and which event_ids are the same; "" when
// the column is missing, "binary" when it holds bytes.
func (t *Table) EventIDCollation() string {
	c, ok := t.Column("event_id")
	if ok && c.Collation == "" {
		return "binary"
	}
	return c.Collation
}

// ComparesByBytes reports whether a column of this collation is ordered and
// compared by the bytes of its UTF-8 text. utf8mb4_bin is not among them: it
// pads with spaces, so that "a" equals "a " and sorts after "a\t".
func ComparesByBytes(collation string) bool {
	switch strings.ToLower(collation) {
	case "binary", "utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb3_nopad_bin", "utf8_nopad_bin":
		return true
	}
	return false
}

// nativeJSON reports whether payload is parsed and rendered by the server.
func (t *Table) nativeJSON() bool {
	c, ok := t.Column("payload")
	return ok && c.DataType == "json" && !t.Server.KeepsJSONText()
}

func (ix Index) names() []string {
	names := make([]string, len(ix.Columns))
	for i, c := range ix.Columns {
		names[i] = c.Name
	}
	return names
}

func (ix Index) serves(columns []string) bool {
	if !ix.Usable || ix.Type != "BTREE" || len(ix.Columns) < len(columns) {
		return false
	}
	for i, name := range columns {
		c := ix.Columns[i]
		if !strings.EqualFold(c.Name, name) || c.PrefixOnly || c.Descending {
			return false
		}
	}
	return true
}

func (ix Index) hasAll(columns []string) bool {
	for _, name := range columns {
		found := false
		for _, c := range ix.Columns {
			found = found || strings.EqualFold(c.Name, name)
		}
		if !found {
			return false
		}
	}
	return true
}

// isArchived reports whether name is one of the columns of the archive.
func isArchived(name string) bool {
	for _, c := range manifest.Columns {
		if strings.EqualFold(c, name) {
			return true
		}
	}
	return false
}
