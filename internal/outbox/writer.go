package outbox

import (
	"cmp"
	"context"
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
	// Auto is LoadData where the server allows it, else Insert.
	Auto Method = iota
	// Insert is INSERT with many rows a statement.
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
	// max_allowed_packet lets through.
	ChunkBytes int
	// SortByKey writes the rows of a chunk in the byte order of their keys, so
	// that they land side by side in the primary key.
	SortByKey bool
}

// Writer writes records to a table, many a statement. After an error the
// transaction that it writes in must be rolled back. It may be used by one
// goroutine at a time.
type Writer struct {
	s       mysqldb.Session
	table   *Table
	method  Method
	sort    bool
	most    int // bytes of a chunk
	head    string
	buf     []byte // the encoded rows of the chunk
	rows    []chunkRow
	added   int64
	written int64
}

// chunkRow is where in the chunk's buffer a row is, and which one it is.
type chunkRow struct {
	start, end int
	appCode    string
	eventID    string
	payload    string
	number     int64 // counted from 1 in the order of Add
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
	w := &Writer{s: session, table: t, method: opts.Method, sort: opts.SortByKey}
	if w.method == Auto {
		w.method = Insert
		if settings.LocalInfile {
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
		w.most = min(cmp.Or(opts.ChunkBytes, DefaultInsertBytes), settings.MaxAllowedPacket-len(w.head)-16)
	}
	w.most = min(w.most, maxChunkBytes)
	return w, nil
}

// Method returns how rows are written, never Auto.
func (w *Writer) Method() Method { return w.method }

// Written returns how many rows the server has confirmed.
func (w *Writer) Written() int64 { return w.written }

// Add takes r, which may be changed afterwards, and writes the rows that are
// waiting when they fill a chunk. Errors are those of [Writer.Flush], about
// rows added before, and a *[RowError] for a row that no statement can carry.
func (w *Writer) Add(ctx context.Context, r *manifest.Record) error {
	w.added++
	start := len(w.buf)
	w.encode(r)
	if start > 0 && len(w.buf) > w.most {
		w.buf = w.buf[:start]
		if err := w.Flush(ctx); err != nil {
			return err
		}
		start = 0
		w.encode(r)
	}
	row := chunkRow{start, len(w.buf), r.AppCode, r.EventID, r.PayloadJSON, w.added}
	if len(w.buf) > w.most && w.method == Insert {
		return &RowError{EventID: r.EventID, Row: w.added, Err: fmt.Errorf("%w: %d bytes as a statement, %d fit", ErrRowTooLarge, len(w.buf), w.most)}
	}
	w.rows = append(w.rows, row)
	return nil
}

func (w *Writer) encode(r *manifest.Record) {
	if w.method == LoadData {
		w.buf = appendLine(w.buf, r)
	} else {
		w.buf = appendTuple(w.buf, r)
	}
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
			return cmp.Or(strings.Compare(a.appCode, b.appCode), strings.Compare(a.eventID, b.eventID))
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
	w.buf, w.rows = w.buf[:0], w.rows[:0]
	return nil
}

func (w *Writer) insert(ctx context.Context) (affected int64, err error) {
	var b strings.Builder
	b.Grow(len(w.head) + len(w.buf) + len(w.rows))
	b.WriteString(w.head)
	for i, r := range w.rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(w.buf[r.start:r.end])
	}
	return exec(ctx, w.s, b.String())
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
