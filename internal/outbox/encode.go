package outbox

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// appendTuple appends a record as a row of VALUES.
func appendTuple(dst []byte, r *manifest.Record) []byte {
	return appendRow(dst, r, '(', ',', ')', "NULL", mysqldb.AppendString)
}

// appendLine appends a record as a line of LOAD DATA.
func appendLine(dst []byte, r *manifest.Record) []byte {
	return appendRow(dst, r, 0, '\t', '\n', `\N`, appendField)
}

func appendRow(dst []byte, r *manifest.Record, open, sep, end byte, null string, str func([]byte, string) []byte) []byte {
	if open != 0 {
		dst = append(dst, open)
	}
	for i := range fields {
		if i > 0 {
			dst = append(dst, sep)
		}
		f := &fields[i]
		switch {
		case f.str != nil:
			dst = str(dst, *f.str(r))
		case f.num != nil:
			dst = strconv.AppendInt(dst, *f.num(r), 10)
		case f.optStr != nil:
			if p := *f.optStr(r); p != nil {
				dst = str(dst, *p)
			} else {
				dst = append(dst, null...)
			}
		default:
			if p := *f.optNum(r); p != nil {
				dst = strconv.AppendInt(dst, *p, 10)
			} else {
				dst = append(dst, null...)
			}
		}
	}
	return append(dst, end)
}

// appendField appends s as a field of LOAD DATA, where fields end at a tab,
// lines at a newline, and a backslash escapes. `\N` cannot come out, which alone
// would be NULL (MySQL Reference Manual, "LOAD DATA Statement").
func appendField(dst []byte, s string) []byte {
	done := 0
	for i := range len(s) {
		esc := lineEscapes[s[i]]
		if esc == 0 {
			continue
		}
		dst = append(dst, s[done:i]...)
		dst = append(dst, '\\', esc)
		done = i + 1
	}
	return append(dst, s[done:]...)
}

var lineEscapes = [256]byte{0: '0', '\t': 't', '\n': 'n', '\r': 'r', '\\': '\\'}

// readers numbers the names under which the driver finds what to send.
var readers atomic.Int64

// load sends the chunk by LOAD DATA LOCAL.
func (w *Writer) load(ctx context.Context) (affected int64, err error) {
	name := fmt.Sprintf("walletarchive-%d", readers.Add(1))
	mysql.RegisterReaderHandler(name, func() io.Reader { return &chunkReader{buf: w.buf, rows: w.rows} })
	defer mysql.DeregisterReaderHandler(name)
	return exec(ctx, w.s, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' "+w.head)
}

// chunkReader reads the rows of a chunk in their order.
type chunkReader struct {
	buf  []byte
	rows []chunkRow
	off  int // within the first of rows
}

// Read fills p as far as there are rows, so that no packet is sent half empty.
func (c *chunkReader) Read(p []byte) (n int, err error) {
	for len(c.rows) > 0 && n < len(p) {
		r := c.rows[0]
		k := copy(p[n:], c.buf[r.start+c.off:r.end])
		n += k
		c.off += k
		if r.start+c.off == r.end {
			c.rows, c.off = c.rows[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
