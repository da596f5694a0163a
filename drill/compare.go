package drill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"

	"github.com/hyapp/walletarchive/internal/jsonvalue"
	"github.com/hyapp/walletarchive/manifest"
)

// DifferenceKind says how a row of the scratch table differs from the archive.
type DifferenceKind string

// The kinds of [Difference].
const (
	RowMissing DifferenceKind = "missing" // the archive has it, the table does not
	RowAdded   DifferenceKind = "added"   // the table has it, the archive does not
	RowChanged DifferenceKind = "changed" // a column holds another value
	// RowRespelled is a payload that the engine spelled otherwise although its
	// value is the same under exact decimal arithmetic. It is no fault where the
	// archive announced it, see [Options.StrictPayload].
	RowRespelled DifferenceKind = "respelled"
)

// Difference is one row that is not as archived. It never holds a payload.
type Difference struct {
	Kind        DifferenceKind `json:"kind"`
	EventID     string         `json:"event_id"`
	UpdatedAtMS int64          `json:"updated_at_ms"`
	Line        int64          `json:"line,omitempty"` // of the data object; 0 for an added row
	Columns     []string       `json:"columns,omitempty"`
	Got         manifest.Hash  `json:"got_row_hash,omitzero"`
	Want        manifest.Hash  `json:"want_row_hash,omitzero"`
}

// MaxDifferences is how many differences of each kind a Report names.
const MaxDifferences = 20

// progressRows is how many rows pass between two calls of Options.Progress.
const progressRows = 1000

// comparison holds the rows of a table against those of a batch, in memory
// bounded by the rows of one millisecond, and one row where both come in the
// same order.
type comparison struct {
	rows      int64 // rows of the archive that were compared
	identical int64
	counts    map[DifferenceKind]int64
	named     []Difference
	// respelled are the event_ids of respelled rows, at most one more than a
	// manifest names.
	respelled []string
	// reexport hashes the rows of the table in the order of the archive, with
	// the archive's spelling for a payload whose value was shown to be the same.
	reexport hash.Hash
	// archived hashes the canonical lines of the archive; it is ndjson_sha256
	// where canonical is true, that is, where the data object has no other lines.
	archived  hash.Hash
	canonical bool
	open      unpaired
	got, want []byte // lines, reused
}

func newComparison() *comparison {
	return &comparison{
		counts: make(map[DifferenceKind]int64), reexport: sha256.New(), archived: sha256.New(), canonical: true,
		open: unpaired{
			rows: make(map[string]*manifest.Row), recs: make(map[string]*manifest.Record),
			partner: make(map[*manifest.Row]*manifest.Record),
		},
	}
}

func (c *comparison) add(d Difference) {
	if c.counts[d.Kind]++; c.counts[d.Kind] <= MaxDifferences {
		c.named = append(c.named, d)
	}
	if d.Kind == RowRespelled && len(c.respelled) <= manifest.MaxUnstableEventIDs {
		c.respelled = append(c.respelled, d.EventID)
	}
}

// run compares archive with table. Both come with updated_at_ms never falling;
// within a millisecond the order of the table may be another one, since its
// server may lack the collation of the source.
func (c *comparison) run(ctx context.Context, archive iter.Seq2[*manifest.Row, error], table iter.Seq2[*manifest.Record, error], progress func(int64)) error {
	rows, stopRows := iter.Pull2(archive)
	defer stopRows()
	recs, stopRecs := iter.Pull2(table)
	defer stopRecs()
	row, haveRow, err := pull(rows, "the archive")
	if err != nil {
		return err
	}
	rec, haveRec, err := pull(recs, "the scratch table")
	if err != nil {
		return err
	}
	for haveRow || haveRec {
		if err := ctx.Err(); err != nil {
			return err
		}
		takeRow := haveRow && (!haveRec || row.UpdatedAtMS <= rec.UpdatedAtMS)
		takeRec := haveRec && (!haveRow || rec.UpdatedAtMS <= row.UpdatedAtMS)
		var ms int64
		if takeRow {
			ms = row.UpdatedAtMS
		} else {
			ms = rec.UpdatedAtMS
		}
		if takeRow && takeRec && c.open.empty() && row.EventID == rec.EventID {
			c.pair(row, rec) // the usual case: the same row is next on both sides
		} else {
			if takeRow {
				c.open.row(row)
			}
			if takeRec {
				c.open.rec(rec)
			}
		}
		if takeRow {
			if c.rows++; c.rows%progressRows == 0 {
				progress(progressRows)
			}
			if row, haveRow, err = pull(rows, "the archive"); err != nil {
				return err
			}
		}
		if takeRec {
			if rec, haveRec, err = pull(recs, "the scratch table"); err != nil {
				return err
			}
		}
		over := (!haveRow || row.UpdatedAtMS > ms) && (!haveRec || rec.UpdatedAtMS > ms)
		if over || c.open.settled() {
			c.settle()
		}
	}
	progress(c.rows % progressRows)
	return nil
}

// own yields the rows of table that may belong to the batch. The others, of
// another app_code or status, are added rows whatever their key.
func (c *comparison) own(table iter.Seq2[*manifest.Record, error], app string) iter.Seq2[*manifest.Record, error] {
	return func(yield func(*manifest.Record, error) bool) {
		for rec, err := range table {
			if err == nil && (rec.AppCode != app || rec.Status != manifest.StatusDelivered) {
				c.addRow(rec, "app_code", "status")
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// addRow counts a row that the archive does not have and exports it.
func (c *comparison) addRow(rec *manifest.Record, columns ...string) {
	c.add(Difference{Kind: RowAdded, EventID: rec.EventID, UpdatedAtMS: rec.UpdatedAtMS, Got: rec.RowHash(), Columns: columns})
	c.got = append(rec.AppendLine(c.got[:0]), '\n')
	c.reexport.Write(c.got)
}

func pull[T any](next func() (T, error, bool), what string) (v T, ok bool, err error) {
	v, err, ok = next()
	if err != nil {
		return v, false, fmt.Errorf("read %s: %w", what, err)
	}
	return v, ok, nil
}

// unpaired are the rows of one millisecond that came in different orders on
// both sides.
type unpaired struct {
	order   []*manifest.Row             // of the archive, also those with a partner
	rows    map[string]*manifest.Row    // without a partner yet, by event_id
	recs    map[string]*manifest.Record // without a partner yet, by event_id
	partner map[*manifest.Row]*manifest.Record
}

func (u *unpaired) empty() bool   { return len(u.order) == 0 && len(u.recs) == 0 }
func (u *unpaired) settled() bool { return !u.empty() && len(u.rows) == 0 && len(u.recs) == 0 }

func (u *unpaired) row(row *manifest.Row) {
	u.order = append(u.order, row)
	if rec, ok := u.recs[row.EventID]; ok {
		u.partner[row] = rec
		delete(u.recs, row.EventID)
		return
	}
	u.rows[row.EventID] = row
}

func (u *unpaired) rec(rec *manifest.Record) {
	own := rec.Clone() // it is kept past the next one
	if row, ok := u.rows[own.EventID]; ok {
		u.partner[row] = own
		delete(u.rows, own.EventID)
		return
	}
	u.recs[own.EventID] = own
}

// settle judges what the current millisecond left open.
func (c *comparison) settle() {
	u := &c.open
	for _, row := range u.order {
		c.pair(row, u.partner[row])
	}
	for _, id := range slices.Sorted(maps.Keys(u.recs)) {
		c.addRow(u.recs[id])
	}
	u.order = u.order[:0]
	clear(u.rows)
	clear(u.recs)
	clear(u.partner)
}

// pair compares one row of the archive with its partner, nil when the table has
// none. Lines are compared and not hashes: a row hash is the hash of the line,
// so nothing is lost, and it is computed only to be shown.
func (c *comparison) pair(row *manifest.Row, rec *manifest.Record) {
	c.want = append(row.AppendLine(c.want[:0]), '\n')
	c.archived.Write(c.want)
	c.canonical = c.canonical && row.Canonical
	d := Difference{EventID: row.EventID, UpdatedAtMS: row.UpdatedAtMS, Line: row.Line}
	if rec == nil {
		d.Kind, d.Want = RowMissing, row.RowHash()
		c.add(d)
		return
	}
	c.got = append(rec.AppendLine(c.got[:0]), '\n')
	if bytes.Equal(c.got, c.want) {
		c.identical++
		c.reexport.Write(c.got)
		return
	}
	d.Kind, d.Got, d.Want = RowChanged, rec.RowHash(), row.RowHash()
	d.Columns = row.Differs(rec)
	exported := c.got
	if slices.Equal(d.Columns, []string{"payload"}) {
		if same, err := jsonvalue.Compare(row.PayloadJSON, rec.PayloadJSON); err == nil && same == jsonvalue.SameValue {
			d.Kind, exported = RowRespelled, c.want
		}
	}
	c.add(d)
	c.reexport.Write(exported)
}
