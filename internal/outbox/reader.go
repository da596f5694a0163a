package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Page sizes of docs/FORMAT.md "Cursor".
const (
	DefaultPageRows = 100
	MaxPageRows     = 500
)

// MaxConnections bounds ReaderOptions.Connections.
const MaxConnections = 16

// segmentPages is how many pages one connection reads before it takes other
// work, when several read at once.
const segmentPages = 8

// ErrOrder is wrapped by the error of [Reader.Rows] when the server gave rows
// in an order that cannot be, or one row twice: its index is damaged, or rows
// that were delivered are still being changed.
var ErrOrder = errors.New("rows came out of order")

// ReaderOptions are the settings of [NewReader].
type ReaderOptions struct {
	AppCode string
	// CutoffMS is exclusive: rows with updated_at_ms before it are read. Unix
	// milliseconds.
	CutoffMS int64
	// PageRows is how many rows one statement reads; zero is
	// [DefaultPageRows], and more than [MaxPageRows] is refused.
	PageRows int
	// MaxRows is how many rows [Reader.Rows] yields at most; zero is no limit.
	// Where the consumer would stop by itself a statement is cut off, and with
	// it its connection.
	MaxRows int64
	// Connections is how many pages are read at once; zero is 1. Each takes a
	// connection of the pool, and with more than one there is another that
	// walks ahead through the index: the pool must allow that many.
	Connections int
	// Fidelity asks the server, where it parses JSON, how payloads would come
	// back: each one about which there can be a doubt.
	Fidelity bool
}

// Reader reads the delivered rows of one app in cursor order, page by page
// (docs/FORMAT.md "Cursor"). It may be used by one goroutine at a time.
type Reader struct {
	db      *sql.DB
	opts    ReaderOptions
	table   *Table
	query   rowQuery // without the fidelity flags
	asking  rowQuery // with them
	where   string   // FROM … WHERE … without the bounds
	ms, id  string   // quoted names
	byBytes bool
}

// NewReader prepares to read from t, which must have passed [Table.CheckSource].
// Nothing is asked of the server yet.
func NewReader(db *sql.DB, t *Table, opts ReaderOptions) (*Reader, error) {
	if opts.PageRows == 0 {
		opts.PageRows = DefaultPageRows
	}
	if opts.PageRows < 1 || opts.PageRows > MaxPageRows {
		return nil, fmt.Errorf("page of %d rows: want 1 to %d", opts.PageRows, MaxPageRows)
	}
	if opts.Connections == 0 {
		opts.Connections = 1
	}
	if opts.Connections < 1 || opts.Connections > MaxConnections {
		return nil, fmt.Errorf("%d connections: want 1 to %d", opts.Connections, MaxConnections)
	}
	if opts.MaxRows == 0 {
		opts.MaxRows = math.MaxInt64
	}
	if opts.MaxRows < 0 {
		return nil, fmt.Errorf("at most %d rows: want a positive number", opts.MaxRows)
	}
	if err := manifest.CheckAppCode(opts.AppCode); err != nil {
		return nil, err
	}
	opts.Fidelity = opts.Fidelity && t.nativeJSON()
	q, err := newRowQuery(t, false)
	if err != nil {
		return nil, err
	}
	asking := q
	if opts.Fidelity {
		if asking, err = newRowQuery(t, true); err != nil {
			return nil, err
		}
	}
	index, ok := t.RetentionIndex()
	if !ok {
		return nil, fmt.Errorf("table %s has no index for the export scan", t.Name)
	}
	where := " FROM " + mysqldb.QuoteName(t.Name) + " FORCE INDEX (" + mysqldb.QuoteName(index) + ") WHERE " +
		t.quoted("app_code") + " = " + literal(opts.AppCode) + " AND " + t.quoted("status") + " = " + literal(manifest.StatusDelivered)
	return &Reader{
		db: db, opts: opts, table: t, query: q, asking: asking, where: where,
		ms: t.quoted("updated_at_ms"), id: t.quoted("event_id"), byBytes: ComparesByBytes(t.EventIDCollation()),
	}, nil
}

// FidelityChecked reports whether rows carry what the server found about their
// payloads: it was asked for, and the server is one that parses JSON.
func (r *Reader) FidelityChecked() bool { return r.opts.Fidelity }

// Rows yields the rows after the position after, in cursor order, up to the
// cutoff. The zero Cursor stands before every row. Some pages are read ahead.
// A Row is valid until the next one is asked for; its strings stay valid.
//
// The first error ends the sequence: a *manifest.ExactnessError for a value
// that cannot be carried, one that wraps [ErrOrder], ctx.Err(), or what the
// server said. Statements that were under way are stopped before Rows returns.
func (r *Reader) Rows(ctx context.Context, after manifest.Cursor) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		g, gctx := errgroup.WithContext(ctx)
		pages := r.start(gctx, g, after)
		stopped, err := r.deliver(gctx, pages, after, yield)
		cancel()
		// The error of the group is the reason why deliver saw its context end.
		// Without an error of deliver, what the group says comes from cancel.
		if werr := g.Wait(); werr != nil && err != nil && errors.Is(err, gctx.Err()) {
			err = werr
		}
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// deliver yields the rows of pages in order and checks that order; stopped says
// that the consumer wants no more.
func (r *Reader) deliver(ctx context.Context, pages <-chan (<-chan page), after manifest.Cursor, yield func(*Row, error) bool) (stopped bool, err error) {
	prev := after
	first := after == manifest.Cursor{}
	for segment := range receive(ctx, pages) {
		for p := range receive(ctx, segment) {
			for i := range p.rows {
				row := &p.rows[i]
				if !first {
					if err := r.checkOrder(prev, row.Cursor()); err != nil {
						return false, err
					}
				}
				first, prev = false, row.Cursor()
				if !yield(row, nil) {
					return true, nil
				}
			}
			p.free <- p.rows
		}
	}
	return false, ctx.Err()
}

// receive yields what comes from ch until it is closed or ctx ends.
func receive[T any](ctx context.Context, ch <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			select {
			case v, ok := <-ch:
				if !ok || !yield(v) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// checkOrder refuses what no undamaged index gives. Within a millisecond the
// order is the collation's, of which only the equality of bytes is known here
// unless it is the order of bytes.
func (r *Reader) checkOrder(prev, next manifest.Cursor) error {
	switch {
	case next.UpdatedAtMS > prev.UpdatedAtMS:
		return nil
	case next.UpdatedAtMS < prev.UpdatedAtMS:
	case next.EventID == prev.EventID:
	case r.byBytes && next.EventID < prev.EventID:
	default:
		return nil
	}
	return fmt.Errorf("%w: (%d, %q) after (%d, %q)", ErrOrder, next.UpdatedAtMS, next.EventID, prev.UpdatedAtMS, prev.EventID)
}

// page is some rows in order. Whoever is done with them returns the slice by
// free.
type page struct {
	rows []Row
	free chan<- []Row
}

func pageError(after manifest.Cursor, err error) error {
	return fmt.Errorf("read the page after (%d, %q): %w", after.UpdatedAtMS, after.EventID, err)
}

// bounds returns the rest of a page's statement up to its LIMIT
// (docs/FORMAT.md "Cursor"). The zero Cursor has no lower bound, so that not
// even a row from before 1970 is passed over.
func (r *Reader) bounds(after manifest.Cursor) string {
	q := r.where
	if after != (manifest.Cursor{}) {
		ms, id := strconv.FormatInt(after.UpdatedAtMS, 10), literal(after.EventID)
		q += " AND " + r.ms + " >= " + ms
		q += " AND (" + r.ms + " > " + ms + " OR (" + r.ms + " = " + ms + " AND " + r.id + " > " + id + "))"
	}
	return q + " AND " + r.ms + " < " + strconv.FormatInt(r.opts.CutoffMS, 10) + " ORDER BY " + r.ms + ", " + r.id
}

func literal(s string) string { return string(mysqldb.AppendString(nil, s)) }

// quoted returns the name of one of the archive's columns as the table spells
// it, between backticks.
func (t *Table) quoted(name string) string {
	if c, ok := t.Column(name); ok {
		name = c.Name
	}
	return mysqldb.QuoteName(name)
}
