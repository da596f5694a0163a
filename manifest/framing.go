package manifest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
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

// block is a run of whole lines, or the unterminated rest of a data object.
type block struct {
	text  string
	final bool // the last block: it need not end in a newline
}

// unpacker turns a data object into blocks and keeps the figures that need no
// parsing. It belongs to one goroutine.
type unpacker struct {
	src     *objectReader
	buf     *bufio.Reader
	gz      *gzip.Reader
	opts    ReaderOptions
	ndjson  hash.Hash
	bytes   int64
	pending []byte // text read but not yet given out
	done    bool
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

// next returns the next block, or io.EOF after the final one once the gzip
// trailer was checked and nothing stands behind it. Any other error is final:
// a *FramingError, a *SyntaxError for a line over the limit, or what the source
// returned.
func (u *unpacker) next() (block, error) {
	if u.done {
		return block{}, io.EOF
	}
	if u.gz == nil {
		if err := u.open(); err != nil {
			return block{}, err
		}
	}
	for {
		if len(u.pending) >= blockBytes {
			if i := bytes.LastIndexByte(u.pending, '\n'); i >= 0 {
				return u.cut(i + 1), nil
			}
			if len(u.pending) > u.opts.MaxLineBytes {
				return block{}, &SyntaxError{Err: ErrLineTooLong, Offset: u.opts.MaxLineBytes}
			}
		}
		used := len(u.pending)
		u.pending = slices.Grow(u.pending, max(blockBytes-used, blockBytes/4))
		n, err := io.ReadAtLeast(u.gz, u.pending[used:cap(u.pending)], 1)
		u.pending = u.pending[:used+n]
		u.bytes += int64(n)
		if u.opts.MaxUncompressedBytes > 0 && u.bytes > u.opts.MaxUncompressedBytes {
			return block{}, &FramingError{fmt.Errorf("over %d uncompressed bytes: %w", u.opts.MaxUncompressedBytes, ErrTooLarge)}
		}
		u.ndjson.Write(u.pending[used:])
		if err == io.EOF {
			if err := u.trailer(); err != nil {
				return block{}, err
			}
			u.done = true
			b := u.cut(len(u.pending))
			b.final = true
			return b, nil
		}
		if err != nil {
			return block{}, u.fault(err)
		}
	}
}

func (u *unpacker) cut(n int) block {
	b := block{text: string(u.pending[:n])}
	u.pending = u.pending[:copy(u.pending, u.pending[n:])]
	return b
}

func (u *unpacker) open() error {
	gz, err := gzip.NewReader(u.buf)
	if err != nil {
		return u.fault(err)
	}
	gz.Multistream(false)
	u.gz = gz
	if gz.Name != "" || gz.Comment != "" || len(gz.Extra) > 0 || !gz.ModTime.IsZero() {
		return &FramingError{ErrGzipHeader}
	}
	return nil
}

// trailer refuses anything behind the one gzip member.
func (u *unpacker) trailer() error {
	rest, err := u.buf.Peek(2)
	switch {
	case u.src.err != nil:
		return u.src.err
	case len(rest) == 0 && err == io.EOF:
		return nil
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
