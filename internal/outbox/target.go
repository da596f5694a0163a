package outbox

import (
	"math/big"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// CheckTarget reports what would keep records with these needs from being
// written to t on a session with these settings, or from coming back as they
// were. eventIDCollation is that of the table they were read from, "" when it is
// not known. Nil means that nothing is in the way.
func (t *Table) CheckTarget(needs *Needs, settings mysqldb.Settings, eventIDCollation string) []Problem {
	var ps problems
	t.checkServer(&ps, needs, settings)
	if t.Kind == "VIEW" {
		ps.fatal("", NotATable, "%s is a view", t.Name)
		return ps
	}
	if t.Kind == "SYSTEM VERSIONED" { // MariaDB
		ps.fatal("", SystemVersioned, "the table is system-versioned: the server keeps every row that it replaces or removes, "+
			"so that no restore could be undone, and a temporary table of its definition lacks its keys")
	}
	for i := range fields {
		f := &fields[i]
		c, ok := t.Column(f.name)
		switch {
		case !ok:
			ps.fatal(f.name, MissingColumn, "the table has no such column")
		case c.Generated:
			ps.fatal(f.name, GeneratedColumn, "the server computes the value (%s), so it cannot be written", c.Extra)
		case !readable(f.kind, c):
			ps.fatal(f.name, WrongType, "type %s cannot hold %s", c.ColumnType, f.kind)
		case f.kind == integer:
			checkNumber(&ps, c, needs.Columns[i])
		default:
			checkText(&ps, c, needs.Columns[i])
		}
		if ok && needs.Columns[i].Null && !c.Nullable {
			ps.fatal(f.name, NotNullable, "there are NULLs to write and the column takes none")
		}
	}
	t.checkExtraColumns(&ps)
	t.checkKeys(&ps, eventIDCollation)
	t.checkSideEffects(&ps)
	if t.nativeJSON() {
		ps.note("payload", JSONRendered, "the server parses JSON and renders its own text, which may be spelled otherwise")
	}
	return ps
}

func (t *Table) checkServer(ps *problems, needs *Needs, s mysqldb.Settings) {
	if !s.Strict() {
		ps.fatal("", NotStrict, "sql_mode %q lets the server change values that do not fit", strings.Join(s.SQLMode, ","))
	}
	if s.ReadOnly {
		ps.note("", ServerReadOnly, "the server is read only for most accounts")
	}
	if needs.MaxRowBytes > int64(s.MaxAllowedPacket) {
		ps.fatal("", PacketTooSmall, "the longest row has %d bytes and max_allowed_packet is %d", needs.MaxRowBytes, s.MaxAllowedPacket)
	}
	switch strings.ToLower(t.Engine) {
	case "innodb", "rocksdb", "tokudb", "ndbcluster", "":
	default:
		ps.fatal("", NotTransactional, "engine %s has no transactions, so a failed restore could not be undone", t.Engine)
	}
}

func checkNumber(ps *problems, c Column, need ColumnNeeds) {
	lo, hi := numberRange(c)
	for _, v := range []int64{need.Min, need.Max} {
		if b := big.NewInt(v); b.Cmp(lo) < 0 || b.Cmp(hi) > 0 {
			ps.fatal(c.Name, TooNarrow, "%d does not fit into %s", v, c.ColumnType)
			return
		}
	}
}

// numberRange returns the least and greatest value of an integer type, or of
// DECIMAL(n,0).
func numberRange(c Column) (lo, hi *big.Int) {
	one := big.NewInt(1)
	if c.DataType == "decimal" {
		hi = new(big.Int).Exp(big.NewInt(10), big.NewInt(c.Precision), nil)
		hi.Sub(hi, one)
		lo = new(big.Int).Neg(hi)
	} else {
		bits := map[string]uint{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[c.DataType]
		if c.Unsigned {
			hi = new(big.Int).Lsh(one, bits)
			return new(big.Int), hi.Sub(hi, one)
		}
		hi = new(big.Int).Lsh(one, bits-1)
		lo = new(big.Int).Neg(hi)
		hi.Sub(hi, one)
	}
	if c.Unsigned {
		lo = new(big.Int)
	}
	return lo, hi
}

func checkText(ps *problems, c Column, need ColumnNeeds) {
	name := c.Name
	switch c.DataType {
	case "json", "uuid":
		return // the server refuses what is none
	case "enum", "set":
		ps.note(name, WrongType, "type %s takes its own words only", c.ColumnType)
		return
	case "binary":
		ps.fatal(name, WrongType, "type %s fills values up with zero bytes", c.ColumnType)
		return
	case "char":
		if need.TrailingSpace {
			ps.fatal(name, TrailingSpaceLost, "there are values that end with a space, which %s does not keep", c.ColumnType)
		}
	}
	if c.Charset == "" { // bytes
		if int64(need.MaxBytes) > c.MaxBytes {
			ps.fatal(name, TooNarrow, "the longest value has %d bytes and %s takes %d", need.MaxBytes, c.ColumnType, c.MaxBytes)
		}
		return
	}
	if limit, ok := repertoires[c.Charset]; !ok {
		if need.Repertoire > ASCII {
			ps.note(name, CharsetTooSmall, "charset %s may lack characters that are to be written", c.Charset)
		}
	} else if need.Repertoire > limit.most {
		ps.fatal(name, CharsetTooSmall, "charset %s lacks characters that are to be written (%s)", c.Charset, need.Repertoire)
	}
	// For the TEXT types both limits are a number of bytes.
	isText := strings.HasSuffix(c.DataType, "text")
	if !isText && int64(need.MaxChars) > c.MaxChars {
		ps.fatal(name, TooNarrow, "the longest value has %d characters and %s takes %d", need.MaxChars, c.ColumnType, c.MaxChars)
	}
	size := int64(need.MaxBytes)
	if limit := repertoires[c.Charset]; !limit.utf8 {
		size = int64(need.MaxChars)
	}
	if isText && size > c.MaxBytes {
		ps.fatal(name, TooNarrow, "the longest value has %d bytes and %s takes %d", size, c.ColumnType, c.MaxBytes)
	}
}

// repertoires are the charsets whose extent is known. utf8 says that text takes
// as many bytes in it as in UTF-8.
var repertoires = map[string]struct {
	most Repertoire
	utf8 bool
}{
	"ascii":   {ASCII, true},
	"latin1":  {Latin1, false},
	"utf8":    {BMP, true},
	"utf8mb3": {BMP, true},
	"ucs2":    {BMP, false},
	"utf8mb4": {Supplementary, true},
	"utf16":   {Supplementary, false},
	"utf16le": {Supplementary, false},
	"utf32":   {Supplementary, false},
}

// String names the largest characters of the repertoire.
func (r Repertoire) String() string {
	switch r {
	case ASCII:
		return "ASCII"
	case Latin1:
		return "Latin-1"
	case BMP:
		return "characters of three bytes"
	}
	return "characters of four bytes, such as an emoji"
}

func (t *Table) checkExtraColumns(ps *problems) {
	for _, c := range t.Columns {
		switch {
		case isArchived(c.Name) || c.Generated:
		case !c.HasDefault:
			ps.fatal(c.Name, ExtraColumn, "not one of the archive's columns, takes no NULL and has no default")
		case strings.Contains(c.Extra, "on update"):
			ps.note(c.Name, AutoUpdate, "not one of the archive's columns, and the server sets it whenever the row is changed")
		default:
			ps.note(c.Name, ExtraColumn, "not one of the archive's columns, so it gets its default")
		}
	}
}

func (t *Table) checkKeys(ps *problems, eventIDCollation string) {
	if _, ok := t.keyIndex(); !ok {
		ps.fatal("", NoKey, "no unique key over (%s), so a row could be written twice", strings.Join(keyColumns, ", "))
	}
	for _, ix := range t.OtherKeys() {
		ps.note("", OtherKey, "unique key %s over (%s) may refuse rows that differ in (%s)",
			ix.Name, strings.Join(ix.names(), ", "), strings.Join(keyColumns, ", "))
	}
	here := t.EventIDCollation()
	if here == "" || eventIDCollation == "" || strings.EqualFold(here, eventIDCollation) || ComparesByBytes(here) && ComparesByBytes(eventIDCollation) {
		return
	}
	ps.note("event_id", OtherCollation, "collation %s, and %s where the rows come from: rows may sort otherwise, and event_ids that were two may be one",
		here, eventIDCollation)
}

func (t *Table) checkSideEffects(ps *problems) {
	for _, tr := range t.Triggers {
		if tr.Event == "INSERT" {
			ps.fatal("", HasTrigger, "trigger %s runs %s every row that is inserted", tr.Name, strings.ToLower(tr.Timing))
		}
	}
	if !t.TriggersVisible && len(t.Triggers) == 0 {
		ps.note("", TriggersHidden, "this account has no TRIGGER privilege of its own, so a trigger would not be seen")
	}
	for _, name := range t.ForeignKeys {
		ps.note("", HasForeignKey, "foreign key %s may refuse rows", name)
	}
	for _, c := range t.Checks {
		// MariaDB's JSON is LONGTEXT with this check.
		if !c.isJSON() {
			ps.note("", HasCheck, "constraint %s may refuse rows: CHECK (%s)", c.Name, c.Clause)
		}
	}
}
