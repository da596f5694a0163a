package outbox

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Reasons of a *manifest.ExactnessError from this package; compare with errors.Is.
var (
	ErrNull         = errors.New("NULL where the archive has none")
	ErrNotUTF8      = errors.New("not UTF-8")
	ErrLossyCharset = errors.New("has bytes that the column's charset gives no character for")
	ErrNotInteger   = errors.New("not an integer")
	ErrOutOfRange   = errors.New("integer outside the signed 64 bits")
	ErrOtherText    = errors.New("is taken for the value asked for, but spelled otherwise")
)

// Row is one row as a source server gave it.
type Row struct {
	manifest.Record
	// TextUnstable and ValueUnstable are what the server itself found about the
	// payload (docs/FORMAT.md "payload_fidelity"). Both are false where it was
	// not asked; see [Reader.FidelityChecked].
	TextUnstable  bool
	ValueUnstable bool
}

// rowQuery is the select list that a decoder understands, and the decoder's
// view of it.
type rowQuery struct {
	list string
	// lossChecks are the fields, in the order of their flags at the end of the
	// list, whose charset may lack a character for a byte.
	lossChecks []int
	fidelity   bool
}

// exactCharsets have a character for every byte sequence that a column can
// hold, or none of ours to convert ("" is bytes). In every other charset a byte
// without a character would come out as a question mark.
var exactCharsets = map[string]bool{"": true, "utf8mb4": true, "utf8mb3": true, "utf8": true, "latin1": true}

// newRowQuery returns the query for the rows of t. With fidelity, which needs a
// server that parses JSON, it also asks how the payload would come back.
func newRowQuery(t *Table, fidelity bool) (rowQuery, error) {
	q := rowQuery{fidelity: fidelity}
	var list, extra []string
	for i := range fields {
		c, ok := t.Column(fields[i].name)
		if !ok || !readable(fields[i].kind, c) {
			return q, fmt.Errorf("table %s: column %s is missing or of a type that cannot be read exactly", t.Name, fields[i].name)
		}
		name := mysqldb.QuoteName(c.Name)
		if c.DataType == "json" {
			list = append(list, "CAST("+name+" AS CHAR)")
		} else {
			list = append(list, name)
		}
		if !exactCharsets[c.Charset] {
			q.lossChecks = append(q.lossChecks, i)
			extra = append(extra, fmt.Sprintf("CAST(CONVERT(CONVERT(%s USING utf8mb4) USING %s) AS BINARY) <=> CAST(%s AS BINARY)", name, c.Charset, name))
		}
	}
	if fidelity {
		c, _ := t.Column("payload")
		text := "CAST(" + mysqldb.QuoteName(c.Name) + " AS CHAR)"
		// As binary strings, since the collation of a CAST takes A for a.
		extra = append(extra,
			"CAST(CAST(CAST("+text+" AS JSON) AS CHAR) AS BINARY) = CAST("+text+" AS BINARY)",
			"CAST("+text+" AS JSON) = "+mysqldb.QuoteName(c.Name))
	}
	q.list = strings.Join(append(list, extra...), ", ")
	return q, nil
}

// decoder turns result rows into records. It is used by one goroutine.
type decoder struct {
	query rowQuery
	// appCode and status are what every row must have, byte for byte; "" asks
	// for nothing.
	appCode, status string

	cells []cell
	// payload holds the row's memory: a RawBytes among the destinations makes
	// database/sql keep the driver's buffer until the next row even when the
	// context ends meanwhile.
	payload sql.RawBytes
	dest    []any
	last    [len(manifest.Columns)]string
	buf     []byte
	ends    [len(manifest.Columns)]int
}

// cell takes a value from the driver as it is, without the copies and
// conversions of other destinations.
type cell struct{ v any }

// Scan implements sql.Scanner.
func (c *cell) Scan(v any) error {
	c.v = v
	return nil
}

func newDecoder(q rowQuery) *decoder {
	n := len(fields) + len(q.lossChecks)
	if q.fidelity {
		n += 2
	}
	d := &decoder{query: q, cells: make([]cell, n), dest: make([]any, n)}
	for i := range d.cells {
		d.dest[i] = &d.cells[i]
	}
	d.dest[payloadField] = &d.payload
	return d
}

// decode reads the current row of rows into r, which it overwrites whole.
func (d *decoder) decode(rows *sql.Rows, r *Row) error {
	if err := rows.Scan(d.dest...); err != nil {
		return fmt.Errorf("read row: %w", err)
	}
	*r = Row{}
	inexact := func(i int, err error) error {
		id, _ := d.bytes(eventIDField)
		return &manifest.ExactnessError{EventID: strings.ToValidUTF8(string(id), "?"), Column: fields[i].name, Err: err}
	}
	d.buf = d.buf[:0]
	for i := range fields {
		f := &fields[i]
		if f.kind == integer {
			if err := d.number(f, i, &r.Record); err != nil {
				return inexact(i, err)
			}
			continue
		}
		b, ok := d.bytes(i)
		if !ok && d.cells[i].v != nil {
			return inexact(i, fmt.Errorf("driver gave a %T", d.cells[i].v))
		}
		if !ok {
			if !f.nullable() {
				return inexact(i, ErrNull)
			}
			d.ends[i] = -1
			continue
		}
		if !utf8.Valid(b) {
			return inexact(i, ErrNotUTF8)
		}
		if f.str != nil && repeats(i) {
			if d.last[i] != string(b) { // compared without an allocation
				d.last[i] = string(b)
			}
			*f.str(&r.Record) = d.last[i]
			continue
		}
		if i == eventIDField {
			// Outlives the row in many hands, so not a part of the row's memory.
			r.EventID = string(b)
			continue
		}
		d.buf = append(d.buf, b...)
		d.ends[i] = len(d.buf)
	}
	d.strings(&r.Record)
	if d.appCode != "" && r.AppCode != d.appCode {
		return inexact(appCodeField, fmt.Errorf("%w: %q for %q", ErrOtherText, r.AppCode, d.appCode))
	}
	if d.status != "" && r.Status != d.status {
		return inexact(statusField, fmt.Errorf("%w: %q for %q", ErrOtherText, r.Status, d.status))
	}
	flags := d.cells[len(fields):]
	for k, i := range d.query.lossChecks {
		if !isTrue(flags[k].v) {
			return inexact(i, ErrLossyCharset)
		}
	}
	if d.query.fidelity {
		flags = flags[len(d.query.lossChecks):]
		// NULL, when the server could not tell, counts as unstable.
		r.TextUnstable = !isTrue(flags[0].v)
		r.ValueUnstable = !isTrue(flags[1].v)
	}
	return nil
}

// repeats reports whether rows next to each other often have the same value in
// field i, so that one string serves them all.
func repeats(i int) bool {
	switch fields[i].name {
	case "app_code", "event_type", "asset_type", "status", "worker_id":
		return true
	}
	return false
}

// strings gives the record its other strings, all in one allocation.
func (d *decoder) strings(r *manifest.Record) {
	all := string(d.buf)
	start := 0
	for i := range fields {
		f := &fields[i]
		if f.kind == integer || i == eventIDField || f.str != nil && repeats(i) || d.ends[i] < 0 {
			continue
		}
		s := all[start:d.ends[i]]
		start = d.ends[i]
		if f.str != nil {
			*f.str(r) = s
		} else {
			p := s
			*f.optStr(r) = &p
		}
	}
}

// bytes returns the text of field i; false for NULL and for what is no text.
func (d *decoder) bytes(i int) ([]byte, bool) {
	if i == payloadField {
		return d.payload, d.payload != nil
	}
	b, ok := d.cells[i].v.([]byte)
	return b, ok
}

func (d *decoder) number(f *field, i int, r *manifest.Record) error {
	var n int64
	switch v := d.cells[i].v.(type) {
	case nil:
		if !f.nullable() {
			return ErrNull
		}
		return nil
	case int64:
		n = v
	case uint64:
		if v > math.MaxInt64 {
			return fmt.Errorf("%w: %d", ErrOutOfRange, v)
		}
		n = int64(v)
	case []byte: // DECIMAL
		var err error
		n, err = strconv.ParseInt(string(v), 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%w: %s", ErrOutOfRange, v)
		}
		if err != nil {
			return ErrNotInteger
		}
	default:
		return ErrNotInteger
	}
	if f.num != nil {
		*f.num(r) = n
	} else {
		p := n // so that only a number that is kept behind a pointer is allocated
		*f.optNum(r) = &p
	}
	return nil
}

func isTrue(v any) bool {
	n, ok := v.(int64)
	return ok && n == 1
}
