package manifest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
)

const (
	blockBytes  = 256 << 10 // how much text is handled at once
	sourceBytes = 128 << 10 // how much of the object is read at once

	// DefaultMaxLineBytes bounds one line unless the caller says otherwise. A
	// MySQL JSON value is at most 1 GiB, one of a wallet event some hundred
	// bytes (docs/FORMAT.md "Limits").
	DefaultMaxLineBytes = 16 << 20
)

// maxBlockLines bounds the lines of one block. A line with all its members has
// over 250 bytes, so only a damaged object has more in a block, and it must not
// take the memory of as many rows.
const maxBlockLines = 4096

// block is a run of whole lines, the unterminated rest of a data object, or the
// place of one line that is over the limit and was not kept.
type block struct {
	text    string
	tooLong bool // one line was skipped; text is ""
}

// unpacker turns a data object into blocks and keeps the figures that need no
// parsing. It belongs to one goroutine.
type unpacker struct {
	src      *objectReader
	buf      *bufio.Reader
	gz       *gzip.Reader
	opts     ReaderOptions
	ndjson   hash.Hash
	bytes    int64
	pending  []byte // text read but not yet given out
	searched int    // how many bytes of pending are known to hold no newline
	skipping bool   // pending belongs to a line that was given out as too long
	done     bool   // the trailer was checked; pending is the rest
}

// objectReader hashes the object as it is stored.
type objectReader struct {
	r   io.Reader
	sha hash.Hash
	crc uint64
	n   int64
	max int64 // 0 for no limit
	err error // the first error of r that is not io.EOF
}

func (o *objectReader) Read(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.r.Read(p)
	o.sha.Write(p[:n])
	o.crc = crc64.Update(o.crc, CRC64Table, p[:n])
	o.n += int64(n)
	switch {
	case o.max > 0 && o.n > o.max:
		o.err = &FramingError{fmt.Errorf("over %d compressed bytes: %w", o.max, ErrTooLarge)}
		err = o.err
	case err != nil && err != io.EOF:
		o.err = fmt.Errorf("read data object: %w", err)
		err = o.err
	}
	return n, err
}

func newUnpacker(r io.Reader, opts ReaderOptions) *unpacker {
	src := &objectReader{r: r, sha: sha256.New(), max: opts.MaxCompressedBytes}
	return &unpacker{src: src, buf: bufio.NewReaderSize(src, sourceBytes), opts: opts, ndjson: sha256.New()}
}

// next returns the next block, or io.EOF after the last one, once the gzip
// trailer was checked and nothing stands behind it. Any other error is final: a
// *FramingError or what the source returned.
func (u *unpacker) next() (block, error) {
	for !u.done {
		if u.skipping {
			u.skip()
		}
		if len(u.pending) >= blockBytes {
			if i := bytes.LastIndexByte(u.pending[u.searched:], '\n'); i >= 0 {
				return u.cut(u.searched + i + 1), nil
			}
			u.searched = len(u.pending)
			if len(u.pending) > u.opts.MaxLineBytes {
				u.pending, u.searched, u.skipping = u.pending[:0], 0, true
				return block{tooLong: true}, nil
			}
		}
		used := len(u.pending)
		u.pending = slices.Grow(u.pending, max(blockBytes-used, blockBytes/4))
		n, err := u.read(u.pending[used:cap(u.pending)])
		u.pending = u.pending[:used+n]
		switch {
		case err == io.EOF:
			u.done = true
		case err != nil:
			return block{}, err
		}
	}
	if u.skipping {
		u.skip()
	}
	if len(u.pending) == 0 {
		return block{}, io.EOF
	}
	return u.cut(len(u.pending)), nil
}

// skip drops what pending holds of a line that is too long.
func (u *unpacker) skip() {
	i := bytes.IndexByte(u.pending, '\n')
	u.skipping = i < 0
	if u.skipping {
		i = len(u.pending) - 1
	}
	u.pending = u.pending[:copy(u.pending, u.pending[i+1:])]
	u.searched = 0
}

// cut gives out the first n bytes of pending, or as many of them as hold
// maxBlockLines lines.
func (u *unpacker) cut(n int) block {
	if bytes.Count(u.pending[:n], newline) > maxBlockLines {
		n = 0
		for range maxBlockLines {
			n += bytes.IndexByte(u.pending[n:], '\n') + 1
		}
	}
	b := block{text: string(u.pending[:n])}
	u.pending = u.pending[:copy(u.pending, u.pending[n:])]
	u.searched = 0
	return b
}

var newline = []byte{'\n'}

// read unpacks at least one byte into p and counts it, or returns an error:
// io.EOF once the trailer was checked.
func (u *unpacker) read(p []byte) (int, error) {
	if u.gz == nil {
		if err := u.open(); err != nil {
			return 0, err
		}
	}
	n, err := io.ReadAtLeast(u.gz, p, 1)
	u.bytes += int64(n)
	if most := u.opts.MaxUncompressedBytes; most > 0 && u.bytes > most {
		return 0, &FramingError{fmt.Errorf("over %d uncompressed bytes: %w", most, ErrTooLarge)}
	}
	u.ndjson.Write(p[:n])
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		return 0, u.trailer()
	}
	return 0, u.fault(err)
}

// Bits of the FLG byte of a gzip header, RFC 1952 section 2.3.1.
const (
	gzipExtra   = 1 << 2
	gzipName    = 1 << 3
	gzipComment = 1 << 4
)

// open reads the gzip header. It looks at the bytes, since a name may be there
// and empty.
func (u *unpacker) open() error {
	var carries bool
	if h, err := u.buf.Peek(10); err == nil { // else NewReader says what is wrong
		carries = h[3]&(gzipExtra|gzipName|gzipComment) != 0 || binary.LittleEndian.Uint32(h[4:]) != 0
	}
	gz, err := gzip.NewReader(u.buf)
	switch {
	case err != nil:
		return u.fault(err)
	case carries:
		return &FramingError{ErrGzipHeader}
	}
	gz.Multistream(false)
	u.gz = gz
	return nil
}

// trailer refuses anything behind the one gzip member, and returns io.EOF when
// there is nothing.
func (u *unpacker) trailer() error {
	rest, err := u.buf.Peek(2)
	switch {
	case u.src.err != nil:
		return u.src.err
	case len(rest) == 0 && err == io.EOF:
		return io.EOF
	case len(rest) == 2 && rest[0] == 0x1f && rest[1] == 0x8b:
		return &FramingError{ErrSecondMember}
	}
	return &FramingError{ErrTrailingBytes}
}

// fault tells damage of the gzip stream from an error of the source.
func (u *unpacker) fault(err error) error {
	if u.src.err != nil {
		return u.src.err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &FramingError{fmt.Errorf("%w: %w", ErrGzip, err)}
}

// drain reads the rest of the object, so that its hash and CRC64 are known even
// when its content is damaged.
func (u *unpacker) drain(ctx context.Context) error {
	for u.src.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, u.buf, sourceBytes); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
	return u.src.err
}

// Object are the figures of a data object as it is stored, whatever it holds.
type Object struct {
	GzipSHA256      Hash
	DataCRC64       CRC64
	CompressedBytes int64
}

func (u *unpacker) object() Object {
	o := Object{DataCRC64: CRC64(u.src.crc), CompressedBytes: u.src.n}
	u.src.sha.Sum(o.GzipSHA256[:0])
	return o
}
