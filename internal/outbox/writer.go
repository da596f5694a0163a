package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Method is how a [Writer] hands rows to the server.
type Method int

const (
	// Auto is the faster one: Insert on MariaDB, and on MySQL LoadData where the
	// server allows it, else Insert (docs/DESIGN.md "Writing rows").
	Auto Method = iota
	// Insert is INSERT with many rows a statement, prepared where the server
	// prepares statements.
	Insert
	// LoadData is LOAD DATA LOCAL INFILE, fed from memory. The server turns its
	// errors into warnings and skips duplicates; both are read back and fail.
	LoadData
)

// String returns the name of the statement.
func (m Method) String() string {
	switch m {
	case Insert:
		return "INSERT"
	case LoadData:
		return "LOAD DATA LOCAL"
	}
	return "auto"
}

// Bytes of encoded rows that one statement carries by default. More gains
// nothing (200,000 rows of 450 bytes, MySQL 9.7 and MariaDB 10.11).
const (
	DefaultInsertBytes = 1 << 20
	DefaultLoadBytes   = 8 << 20
)

// maxChunkBytes keeps a chunk addressable and memory small.
const maxChunkBytes = 256 << 20

// WriterOptions are the settings of [NewWriter]. The zero value is usable.
type WriterOptions struct {
	Method Method
	// ChunkBytes is about how many bytes of encoded rows one statement carries;
	// zero is [DefaultInsertBytes] or [DefaultLoadBytes]. It is lowered to what
	// max_allowed_packet lets through. A row of more bytes has a statement of its
	// own.
	ChunkBytes int
	// SortByKey writes the rows of a chunk in the byte order of their keys, so
	// that they land side by side in the primary key.
	SortByKey bool

	// rows, for tests, replaces preparedRows.
	rows int
}

// Writer writes records to a table, many a statement. After an error the
// transaction that it writes in must be rolled back. It may be used by one
// goroutine at a time. Close it.
type Writer struct {
	s       mysqldb.Session
	table   *Table
	method  Method
	sort    bool
	most    int // bytes of a chunk of more than one row
	longest int // bytes of a row, of Insert
	full    int // rows of a chunk of Insert
	head    string
	buf     []byte // the encoded rows of the chunk, of LoadData
	size    int    // bytes of the chunk, as a statement, at most
	rows    []chunkRow
	added   int64
	written int64

	prepared   *sql.Stmt // of full rows; nil before it is needed
	unprepared bool      // the server does not prepare statements
	args       []any
}

// chunkRow is a row of the chunk.
type chunkRow struct {
	start, end int // in the chunk's buffer, of LoadData
	manifest.Record
	number int64 // counted from 1 in the order of Add
}

// NewWriter prepares to write to t, which must have passed [Table.CheckTarget],
// on session: a transaction, or a connection in one. It asks the session for
// its settings and refuses one whose sql_mode is not strict, or LoadData where
// the server does not allow it.
func NewWriter(ctx context.Context, session mysqldb.Session, t *Table, opts WriterOptions) (*Writer, error) {
	settings, err := mysqldb.ReadSettings(ctx, session)
	if err != nil {
		return nil, err
	}
	if !settings.Strict() || slices.Contains(settings.SQLMode, "NO_BACKSLASH_ESCAPES") {
		return nil, fmt.Errorf("write to table %s: sql_mode %s lets the server change values", t.Name, strings.Join(settings.SQLMode, ","))
	}
	w := &Writer{s: session, table: t, method: opts.Method, sort: opts.SortByKey, full: cmp.Or(opts.rows, preparedRows)}
	if w.method == Auto {
		w.method = Insert
		if settings.LocalInfile && t.Server.Flavor == mysqldb.MySQL {
			w.method = LoadData
		}
	}
	if w.method == LoadData && !settings.LocalInfile {
		return nil, fmt.Errorf("write to table %s: the server does not allow LOAD DATA LOCAL (local_infile is off)", t.Name)
	}
	columns := make([]string, len(fields))
	for i := range fields {
		columns[i] = t.quoted(fields[i].name)
	}
	list := "(" + strings.Join(columns, ", ") + ")"
	if w.method == LoadData {
		w.most = cmp.Or(opts.ChunkBytes, DefaultLoadBytes)
		w.head = "INTO TABLE " + mysqldb.QuoteName(t.Name) +
			` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' ` + list
	} else {
		w.head = "INSERT INTO " + mysqldb.QuoteName(t.Name) + " " + list + " VALUES "
		// One byte of a packet is the command's; the rest is room to spare.
		w.longest = settings.MaxAllowedPacket - len(w.head) - 16
		w.most = min(cmp.Or(opts.ChunkBytes, DefaultInsertBytes), w.longest)
	}
	w.most = min(w.most, maxChunkBytes)
	return w, nil
}

// Method returns how rows are written, never Auto.
func (w *Writer) Method() Method { return w.method }

// Written returns how many rows the server has confirmed.
func (w *Writer) Written() int64 { return w.written }

// Close gives back what the server holds for the writer. It does not write what
// waits for a Flush.
func (w *Writer) Close() {
	if w.prepared != nil {
		_ = w.prepared.Close() // the server frees it with the connection at the latest
		w.prepared = nil
	}
}

// Add takes r, which may be changed afterwards, and writes the rows that are
// waiting when they fill a chunk. Errors are those of [Writer.Flush], about
// rows added before, and a *[RowError] for a row that no statement can carry.
func (w *Writer) Add(ctx context.Context, r *manifest.Record) error {
	w.added++
	if w.method == LoadData {
		return w.addLine(ctx, r)
	}
	size := tupleBound(r)
	if len(w.rows) == w.full || len(w.rows) > 0 && w.size+size > w.most {
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	if size > w.longest {
		if size = len(appendTuple(nil, r)); size > w.longest {
			return &RowError{EventID: r.EventID, Row: w.added, Err: fmt.Errorf("%w: %d bytes as a statement, %d fit", ErrRowTooLarge, size, w.longest)}
		}
	}
	w.size += size
	w.rows = append(w.rows, chunkRow{Record: detached(r), number: w.added})
	return nil
}

// detached returns a copy of r that does not share what its pointers point to.
func detached(r *manifest.Record) manifest.Record {
	own := *r
	own.LockUntilMS, own.NextRetryAtMS, own.LastError = copied(r.LockUntilMS), copied(r.NextRetryAtMS), copied(r.LastError)
	return own
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (w *Writer) addLine(ctx context.Context, r *manifest.Record) error {
	start := len(w.buf)
	w.buf = appendLine(w.buf, r)
	if start > 0 && len(w.buf) > w.most {
		w.buf = w.buf[:start]
		if err := w.Flush(ctx); err != nil {
			return err
		}
		start = 0
		w.buf = appendLine(w.buf, r)
	}
	// Of the record no more is needed than to name it.
	own := manifest.Record{AppCode: r.AppCode, EventID: r.EventID, PayloadJSON: r.PayloadJSON}
	w.rows = append(w.rows, chunkRow{start: start, end: len(w.buf), Record: own, number: w.added})
	return nil
}

// Flush writes the rows that are waiting, and must be called after the last
// Add. Every row was written as it was, as far as the server can tell, or there
// is an error: *[WarningError] for the first warning, *[RowError] for a row that
// was refused (ErrDuplicate among its reasons), [ErrRowCount], ctx.Err(), or
// what the server said.
func (w *Writer) Flush(ctx context.Context) error {
	if len(w.rows) == 0 {
		return nil
	}
	if w.sort {
		slices.SortFunc(w.rows, func(a, b chunkRow) int {
			return cmp.Or(strings.Compare(a.AppCode, b.AppCode), strings.Compare(a.EventID, b.EventID))
		})
	}
	var affected int64
	var err error
	if w.method == LoadData {
		affected, err = w.load(ctx)
	} else {
		affected, err = w.insert(ctx)
	}
	if err != nil {
		return w.explain(ctx, err)
	}
	warnings, err := mysqldb.Warnings(ctx, w.s)
	if err != nil {
		return err
	}
	if len(warnings) > 0 {
		return w.warningError(ctx, warnings)
	}
	if affected != int64(len(w.rows)) {
		return fmt.Errorf("%w: %d of %d in table %s", ErrRowCount, affected, len(w.rows), w.table.Name)
	}
	w.written += affected
	w.buf, w.rows, w.size = w.buf[:0], w.rows[:0], 0
	return nil
}

func (w *Writer) insert(ctx context.Context) (affected int64, err error) {
	if len(w.rows) == w.full {
		st, err := w.statement(ctx)
		if err != nil {
			return 0, err
		}
		if st != nil {
			affected, err := w.insertPrepared(ctx, st)
			if !placeless(err) {
				return affected, err
			}
			// None of the rows was written. The plain statement is refused, too, and
			// says more: MySQL's 3988 names neither row nor column.
		}
	}
	var b []byte
	b = append(slices.Grow(b, len(w.head)+w.size+len(w.rows)), w.head...)
	for i := range w.rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTuple(b, &w.rows[i].Record)
	}
	return exec(ctx, w.s, string(b))
}

func exec(ctx context.Context, s mysqldb.Session, statement string) (affected int64, err error) {
	res, err := s.ExecContext(ctx, statement)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Errors of [Writer]; compare with errors.Is.
var (
	// ErrDuplicate is the reason when a row with the same key, or the same
	// value in another unique key, is there already.
	ErrDuplicate = errors.New("duplicate key")
	// ErrRowTooLarge is the reason when a row is over max_allowed_packet.
	ErrRowTooLarge = errors.New("row too large for one statement")
	// ErrRowCount is returned when the server confirmed another number of rows
	// than it was given.
	ErrRowCount = errors.New("the server wrote another number of rows")
)
