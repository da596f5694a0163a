package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/transparency-dev/merkle/rfc6962"
)

// ReaderOptions bound a [Reader]. The zero value has the default line limit and
// no other bound.
type ReaderOptions struct {
	// MaxLineBytes is the longest line, without its newline; 0 means
	// [DefaultMaxLineBytes].
	MaxLineBytes int
	// MaxCompressedBytes and MaxUncompressedBytes are what the manifest
	// declares: reading stops with [ErrTooLarge] at the first byte more, so
	// that a zip bomb stops there. 0 means no bound.
	MaxCompressedBytes   int64
	MaxUncompressedBytes int64
	// Workers is how many goroutines decode lines; 0 means one for each
	// processor, at most four.
	Workers int
}

func (o ReaderOptions) withDefaults() ReaderOptions {
	if o.MaxLineBytes <= 0 {
		o.MaxLineBytes = DefaultMaxLineBytes
	}
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 4)
	}
	return o
}

// Row is one record of a data object and where it stands. Its strings share the
// memory of the 256 KiB block of text that they came in: clone what is kept of a
// row for long.
type Row struct {
	Record
	Line int64 // counted from 1
	// Canonical is whether the line is the canonical line of the record.
	Canonical bool
	// LeafHash is the RFC 6962 leaf hash of the canonical line.
	LeafHash Hash
}

// Reader reads the rows of one data object and, in the same pass, every figure
// of its manifest. It decodes ahead in goroutines of its own, in memory bounded
// by the longest line and a few blocks of 256 KiB. Its methods must be called
// from one goroutine.
type Reader struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	queue  chan *decoded // in file order
	opts   ReaderOptions

	cur     *decoded
	at      int // next row of cur
	lines   int64
	err     error // sticky
	broken  bool  // a line did not decode, so that row figures are unknown
	tree    tree
	figures Figures
	object  Object
	whole   bool // object is known
}

// decoded is a block and what its lines decode to.
type decoded struct {
	block  block
	rows   []Row
	faults map[int]*SyntaxError // by index in rows
	ready  chan struct{}        // closed when rows and faults are filled
	// err ends the object; with it come object and, when err is io.EOF, ndjson.
	err    error
	object Object
	whole  bool
	ndjson Hash
	bytes  int64
}

// NewReader starts to read r from its first byte. r is not closed. The caller
// must call [Reader.Close], which waits until r is no longer read.
func NewReader(r io.Reader, opts ReaderOptions) *Reader {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	rd := &Reader{cancel: cancel, queue: make(chan *decoded, opts.Workers+1), opts: opts, tree: newTree()}
	work := make(chan *decoded)
	rd.wg.Go(func() {
		defer close(rd.queue)
		defer close(work)
		unpack(ctx, newUnpacker(r, opts), rd.queue, work)
	})
	for range opts.Workers {
		rd.wg.Go(func() {
			var scratch []byte
			for d := range work {
				scratch = d.decode(opts.MaxLineBytes, scratch)
				close(d.ready)
			}
		})
	}
	return rd
}

// unpack feeds blocks to the decoders and, in file order, to the caller.
func unpack(ctx context.Context, u *unpacker, queue, work chan<- *decoded) {
	send := func(c chan<- *decoded, d *decoded) bool {
		select {
		case c <- d:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		b, err := u.next()
		d := &decoded{block: b, err: err, ready: make(chan struct{})}
		if err != nil {
			if !errors.Is(err, ErrTooLarge) {
				d.whole = u.drain(ctx) == nil
			}
			d.object = u.object()
			d.bytes = u.bytes
			u.ndjson.Sum(d.ndjson[:0])
			close(d.ready)
			send(queue, d)
			return
		}
		if !send(queue, d) || !send(work, d) {
			return
		}
	}
}

// decode fills rows and faults. scratch is reused between calls.
func (d *decoded) decode(maxLine int, scratch []byte) []byte {
	if d.block.tooLong {
		d.rows = make([]Row, 1)
		d.faults = map[int]*SyntaxError{0: {Offset: maxLine, Err: ErrLineTooLong}}
		return scratch
	}
	text := d.block.text
	d.rows = make([]Row, 0, strings.Count(text, "\n")+1)
	for len(text) > 0 {
		line, rest, ended := strings.Cut(text, "\n")
		text = rest
		var row Row
		var err error
		switch {
		case len(line) > maxLine:
			err = &SyntaxError{Offset: maxLine, Err: ErrLineTooLong}
		case !ended:
			err = &SyntaxError{Offset: len(line), Err: ErrUnterminated}
		default:
			row.Record, row.Canonical, err = decodeLine(line)
		}
		if err != nil {
			if d.faults == nil {
				d.faults = make(map[int]*SyntaxError)
			}
			var se *SyntaxError
			if !errors.As(err, &se) {
				se = &SyntaxError{Err: err}
			}
			d.faults[len(d.rows)] = se
		} else {
			scratch = append(scratch[:0], rfc6962.RFC6962LeafHashPrefix)
			if row.Canonical {
				scratch = append(scratch, line...)
			} else {
				scratch = row.AppendLine(scratch)
			}
			row.LeafHash = leafHash(scratch)
		}
		d.rows = append(d.rows, row)
	}
	return scratch
}

// Next returns the next row; it stays valid after later calls. A
// [*SyntaxError] is about one line only, and Next may be called again for the
// line after it. Every other error is final and comes again from later calls:
// io.EOF at the clean end, a [*FramingError], [ErrTooManyAssets] with its line,
// or what the source returned.
func (r *Reader) Next() (*Row, error) {
	for r.err == nil {
		if r.cur == nil || r.at == len(r.cur.rows) {
			if !r.advance() {
				break
			}
			continue
		}
		i := r.at
		r.at++
		r.lines++
		if se := r.cur.faults[i]; se != nil {
			se.Line = r.lines
			r.broken = true
			return nil, se
		}
		row := &r.cur.rows[i]
		row.Line = r.lines
		if !r.broken {
			if err := r.count(row); err != nil {
				r.err = err
				break
			}
		}
		return row, nil
	}
	return nil, r.err
}

// advance takes the next block, or sets r.err and reports false.
func (r *Reader) advance() bool {
	d, ok := <-r.queue
	if !ok {
		r.err = errReaderClosed
		return false
	}
	<-d.ready
	r.cur, r.at = d, 0
	if d.err == nil {
		return true
	}
	r.err, r.object, r.whole = d.err, d.object, d.whole
	if d.err != io.EOF {
		return false
	}
	f := &r.figures
	f.NDJSONSHA256, f.UncompressedBytes = d.ndjson, d.bytes
	f.GzipSHA256, f.DataCRC64, f.CompressedBytes = d.object.GzipSHA256, d.object.DataCRC64, d.object.CompressedBytes
	if !r.broken {
		root, err := r.tree.root()
		if err != nil {
			r.err = err
		}
		f.RowsRoot = root
	}
	return false
}

var errReaderClosed = errors.New("reader is closed")

func (r *Reader) count(row *Row) error {
	f := &r.figures
	if f.All.RowCount == 0 {
		f.FirstCursor = row.Cursor()
	}
	f.LastCursor = row.Cursor()
	if err := f.Add(&row.Record); err != nil {
		return fmt.Errorf("line %d: %w", row.Line, err)
	}
	return r.tree.add(row.LeafHash)
}

// Figures returns what the pass over the object found. rowsKnown is false when
// a line did not decode: Totals, both cursors and RowsRoot are then of the rows
// before it and say nothing. It must be called after Next returned io.EOF.
func (r *Reader) Figures() (f Figures, rowsKnown bool) { return r.figures, !r.broken }

// Lines returns how many lines were read so far, broken ones included.
func (r *Reader) Lines() int64 { return r.lines }

// Object returns the figures of the object as it is stored. They are known, and
// ok is true, once Next has returned a final error and every byte of the source
// was read, even when the content is damaged.
func (r *Reader) Object() (o Object, ok bool) { return r.object, r.whole }

// Close stops reading and waits for the goroutines of r. It may be called more
// than once.
func (r *Reader) Close() {
	r.cancel()
	for range r.queue { // so that no decoder waits for a reader
	}
	r.wg.Wait()
}

// SumObject reads a whole data object without decoding its lines and returns the
// figures that need no decoding: both hashes, the CRC64 and both lengths. The
// error is a [*FramingError] or what the source returned; obj is then known
// when whole is true.
func SumObject(ctx context.Context, r io.Reader, opts ReaderOptions) (f Figures, obj Object, whole bool, err error) {
	u := newUnpacker(r, opts.withDefaults())
	buf := make([]byte, blockBytes)
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = u.read(buf)
		}
	}
	if !errors.Is(err, ErrTooLarge) {
		whole = u.drain(ctx) == nil
	}
	obj = u.object()
	if err != io.EOF {
		return Figures{}, obj, whole, err
	}
	f.GzipSHA256, f.DataCRC64, f.CompressedBytes = obj.GzipSHA256, obj.DataCRC64, obj.CompressedBytes
	f.UncompressedBytes = u.bytes
	u.ndjson.Sum(f.NDJSONSHA256[:0])
	return f, obj, whole, nil
}
