package manifest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/transparency-dev/merkle/rfc6962"
)

// gzipLevel was chosen by measurement, see docs/DESIGN.md "Compression".
const gzipLevel = 2

// Errors of [Writer.Write]: a batch that verify would refuse is never made.
var (
	// ErrOrder is returned when updated_at_ms falls, or the same event_id comes
	// twice in a row.
	ErrOrder = errors.New("row out of export order")
	// ErrForeignRow is returned when a row has another app_code or is not delivered.
	ErrForeignRow = errors.New("row does not belong into the batch")
)

var errWriterClosed = errors.New("batch writer is closed")

// Writer makes one data object and, in the same pass, every figure of its
// manifest. It compresses in a goroutine of its own, in memory bounded by the
// longest line and a few blocks of 256 KiB. The same rows give the same bytes.
// Its methods must be called from one goroutine.
type Writer struct {
	app     string
	figures Figures
	tree    tree
	text    []byte // lines not yet handed to the packer
	scratch []byte
	full    chan []byte
	free    chan []byte
	failed  chan struct{} // closed when packer.err is set, which is then final
	packer  packer
	wg      sync.WaitGroup
	err     error // sticky
	closed  bool
}

// packer hashes and compresses blocks. It belongs to one goroutine until the
// writer is closed.
type packer struct {
	gz     *gzip.Writer
	out    objectWriter
	ndjson hash.Hash
	bytes  int64
	err    error
	abort  bool // set before the end: write no gzip trailer
}

type objectWriter struct {
	w   io.Writer
	sha hash.Hash
	crc uint64
	n   int64
}

func (o *objectWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.sha.Write(p[:n])
	o.crc = crc64.Update(o.crc, CRC64Table, p[:n])
	o.n += int64(n)
	return n, err
}

// NewWriter returns a Writer of rows of app_code app to w, which is not closed.
// The caller must call [Writer.Close] also after an error, since a goroutine
// waits for it.
func NewWriter(w io.Writer, app string) *Writer {
	wr := &Writer{app: app, tree: newTree(), full: make(chan []byte), free: make(chan []byte, 3), failed: make(chan struct{})}
	for range cap(wr.free) {
		wr.free <- make([]byte, 0, blockBytes+blockBytes/4)
	}
	wr.text = <-wr.free
	p := &wr.packer
	p.out = objectWriter{w: w, sha: sha256.New()}
	p.ndjson = sha256.New()
	gz, err := gzip.NewWriterLevel(&p.out, gzipLevel)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	p.gz = gz
	wr.wg.Go(func() {
		for b := range wr.full {
			if p.err == nil {
				if p.err = p.pack(b); p.err != nil {
					close(wr.failed)
				}
			}
			wr.free <- b[:0]
		}
		if p.err == nil && !p.abort {
			p.err = p.gz.Close()
		}
	})
	return wr
}

func (p *packer) pack(b []byte) error {
	p.ndjson.Write(b)
	p.bytes += int64(len(b))
	_, err := p.gz.Write(b)
	return err
}

// Write adds one row. The error is an [*ExactnessError] for a string that is
// not UTF-8, [ErrOrder], [ErrForeignRow], [ErrTooManyAssets], [ErrLineTooLong]
// for a line over [DefaultMaxLineBytes], or what w returned, which may come some
// rows late; after an error every later call gives the same one. r is not kept,
// its strings are.
func (w *Writer) Write(r *Record) error {
	if w.err == nil {
		w.err = w.write(r)
	}
	return w.err
}

func (w *Writer) write(r *Record) error {
	if w.closed {
		return errWriterClosed
	}
	if err := r.CheckExact(); err != nil {
		return err
	}
	f := &w.figures
	if f.All.RowCount == 0 {
		f.FirstCursor = r.Cursor()
	}
	switch {
	case r.AppCode != w.app || r.Status != StatusDelivered:
		return fmt.Errorf("row %q of app_code %q, status %q: %w", clip(r.EventID), clip(r.AppCode), clip(r.Status), ErrForeignRow)
	case f.All.RowCount > 0 && (r.UpdatedAtMS < f.LastCursor.UpdatedAtMS || r.Cursor() == f.LastCursor):
		return fmt.Errorf("row %q at %d after %q at %d: %w", clip(r.EventID), r.UpdatedAtMS,
			clip(f.LastCursor.EventID), f.LastCursor.UpdatedAtMS, ErrOrder)
	}
	w.scratch = append(w.scratch[:0], rfc6962.RFC6962LeafHashPrefix)
	w.scratch = r.AppendLine(w.scratch)
	line := w.scratch[1:]
	if len(line) > DefaultMaxLineBytes {
		return fmt.Errorf("row %q, %d bytes: %w", clip(r.EventID), len(line), ErrLineTooLong)
	}
	if err := f.Add(r); err != nil {
		return err
	}
	f.LastCursor = r.Cursor()
	if err := w.tree.add(leafHash(w.scratch)); err != nil {
		return err
	}
	w.text = append(append(w.text, line...), '\n')
	if len(w.text) >= blockBytes {
		return w.flush()
	}
	return nil
}

func (w *Writer) flush() error {
	select {
	case <-w.failed: // the packer takes blocks even then, so that this is asked first
		return w.packError()
	default:
	}
	select {
	case <-w.failed:
		return w.packError()
	case w.full <- w.text:
		w.text = <-w.free
		return nil
	}
}

func (w *Writer) packError() error { return fmt.Errorf("write data object: %w", w.packer.err) }

// Close writes what is left and the gzip trailer, and returns the figures of
// the data object. A batch without rows is [ErrNoRows]. After an error of Write
// it returns that error and leaves the object without a trailer, so that nobody
// takes it for whole. A second call is an error.
func (w *Writer) Close() (Figures, error) {
	if w.closed {
		return Figures{}, errors.Join(w.err, errWriterClosed)
	}
	w.closed = true
	if w.err == nil && w.figures.All.RowCount == 0 {
		w.err = ErrNoRows
	}
	if w.err == nil && len(w.text) > 0 {
		w.err = w.flush()
	}
	p := &w.packer
	p.abort = w.err != nil
	close(w.full)
	w.wg.Wait()
	if w.err == nil && p.err != nil {
		w.err = w.packError()
	}
	if w.err != nil {
		return Figures{}, w.err
	}
	root, err := w.tree.root()
	if err != nil {
		return Figures{}, err
	}
	f := w.figures
	f.RowsRoot = root
	p.ndjson.Sum(f.NDJSONSHA256[:0])
	p.out.sha.Sum(f.GzipSHA256[:0])
	f.UncompressedBytes, f.CompressedBytes = p.bytes, p.out.n
	f.DataCRC64 = CRC64(p.out.crc)
	return f, nil
}
