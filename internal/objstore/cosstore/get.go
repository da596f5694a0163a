package cosstore

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"net/http"
	"strconv"

	"github.com/cenkalti/backoff/v5"
	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Get opens the object. Its body resumes a broken transfer where it was, of the
// same version or ETag, and compares length and CRC64 of the whole at the end.
func (s *Store) Get(ctx context.Context, key, versionID string) (io.ReadCloser, objstore.Info, error) {
	const op = "get object"
	if err := manifest.CheckKey(key); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("%s: %w", op, err)
	}
	b, err := s.get(ctx, op, key, versionID)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if s.cfg.ReadRetention && b.info.RetainUntil.IsZero() {
		if b.info.RetainUntil, err = s.retention(ctx, key); err != nil {
			_ = b.Close() // nothing of it was read
			return nil, objstore.Info{}, err
		}
	}
	return b, b.info, nil
}

func (s *Store) get(ctx context.Context, op, key, versionID string) (*body, error) {
	b := &body{ctx: ctx, store: s, op: op, versionID: versionID, crc: crc64.New(manifest.CRC64Table)}
	err := s.do(ctx, op, key, func() error {
		resp, err := s.client.Object.Get(ctx, key, nil, ids(versionID)...)
		if err != nil {
			return err
		}
		s.bucketSeen.Store(true)
		if b.info, err = parseInfo(key, resp.Header, resp.ContentLength); err != nil {
			drain(resp.Body)
			return err
		}
		b.etag, b.from = resp.Header.Get("Etag"), resp.Body
		return nil
	})
	if err != nil {
		return nil, err
	}
	if versionID == "" {
		// The rest has to be of the version that was begun.
		b.versionID = b.info.VersionID
	}
	return b, nil
}

// body is one pass over an object over as many connections as it takes.
type body struct {
	ctx       context.Context // of the Get; it ends the reading too
	store     *Store
	op        string
	versionID string
	etag      string
	info      objstore.Info

	from io.ReadCloser // the transfer of the moment; nil when it broke
	n    int64         // bytes handed out
	crc  hash.Hash64
	err  error // what every further Read returns

	// Of the breaks since the last progress.
	breaks   int
	brokenAt int64
	pauses   *backoff.ExponentialBackOff
}

// progressBytes is how much has to come after a break for the next one to count
// as the first.
const progressBytes = 1 << 20

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.n == b.info.Size {
			b.err = b.finish()
			return 0, b.err
		}
		if err := b.ctx.Err(); err != nil {
			b.err = &Error{Op: b.op, Key: b.info.Key, Err: err}
			return 0, b.err
		}
		if b.from == nil {
			if b.err = b.resume(); b.err != nil {
				return 0, b.err
			}
		}
		n, err := b.from.Read(p[:min(int64(len(p)), b.info.Size-b.n)])
		b.crc.Write(p[:n])
		b.n += int64(n)
		if err != nil && b.n < b.info.Size {
			b.err = b.broke(err)
		}
		if n > 0 {
			return n, nil // an error comes with the next Read
		}
		if b.err != nil {
			return 0, b.err
		}
	}
}

// broke drops a broken transfer and waits before the next one. The error is
// not nil when there have been too many.
func (b *body) broke(cause error) error {
	_ = b.from.Close() // broken already
	b.from = nil
	if err := b.ctx.Err(); err != nil {
		return &Error{Op: b.op, Key: b.info.Key, Err: err}
	}
	if b.breaks == 0 || b.n-b.brokenAt >= progressBytes {
		b.breaks, b.pauses = 0, b.store.cfg.Retry.pauses()
	}
	b.breaks++
	b.brokenAt = b.n
	if b.breaks >= b.store.cfg.Retry.Attempts {
		return b.tooManyBreaks(cause)
	}
	pause := b.pauses.NextBackOff()
	b.store.cfg.Logger.WarnContext(b.ctx, "download broke and will be resumed", "object_key", b.info.Key,
		"at", b.n, "of", b.info.Size, "attempt", b.breaks, "pause", pause, "error", cause)
	if err := b.store.cfg.Sleep(b.ctx, pause); err != nil {
		return &Error{Op: b.op, Key: b.info.Key, Err: err}
	}
	return nil
}

// tooManyBreaks tells a body that always ends early from a network that does
// not carry it.
func (b *body) tooManyBreaks(cause error) error {
	e := &Error{Op: b.op, Key: b.info.Key, Attempts: b.breaks, Err: cause,
		Message: fmt.Sprintf("the transfer broke after %d of %d bytes", b.n, b.info.Size)}
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		e.Err = &objstore.CorruptError{Key: b.info.Key, Kind: objstore.ShortBody,
			Got: strconv.FormatInt(b.n, 10), Want: strconv.FormatInt(b.info.Size, 10)}
	}
	return e
}

// resume asks for the bytes from b.n on.
func (b *body) resume() error {
	op, key := "resume "+b.op, b.info.Key
	opts := &cos.ObjectGetOptions{Range: fmt.Sprintf("bytes=%d-", b.n)}
	if b.versionID == "" && b.etag != "" {
		opts.XOptionHeader = &http.Header{"If-Match": {b.etag}}
	}
	return b.store.do(b.ctx, op, key, func() error {
		resp, err := b.store.client.Object.Get(b.ctx, key, opts, ids(b.versionID)...)
		if resp := answer(err); resp != nil && resp.Response.StatusCode == http.StatusPreconditionFailed {
			e := b.store.wrap(b.ctx, op, key, err)
			e.Remedy = "the object was replaced while it was read"
			return e
		}
		if err != nil {
			return err
		}
		if err := b.position(resp.Response); err != nil {
			_ = resp.Body.Close() // of no use
			return err
		}
		b.from = resp.Body
		return nil
	})
}

// position makes sure that the next byte of a resumed transfer is that at b.n.
func (b *body) position(resp *http.Response) error {
	if etag := resp.Header.Get("Etag"); etag != b.etag {
		return &Error{Op: b.op, Key: b.info.Key, Status: resp.StatusCode,
			Err: fmt.Errorf("the object was replaced while it was read: its ETag was %s and is %s", b.etag, etag)}
	}
	if resp.StatusCode == http.StatusOK {
		// A server that knows no ranges sends all of it again.
		_, err := io.CopyN(io.Discard, resp.Body, b.n)
		return err
	}
	want := fmt.Sprintf("bytes %d-%d/%d", b.n, b.info.Size-1, b.info.Size)
	if got := resp.Header.Get("Content-Range"); got != want {
		return &Error{Op: b.op, Key: b.info.Key, Status: resp.StatusCode, action: again,
			Err: fmt.Errorf("asked for %q, the answer holds %q", want, got)}
	}
	return nil
}

// finish compares the whole and returns io.EOF when it is as COS says.
func (b *body) finish() error {
	got := manifest.CRC64(b.crc.Sum64())
	switch want := b.info.CRC64; {
	case want == nil:
		return &objstore.CorruptError{Key: b.info.Key, Kind: objstore.CRCMissing, Got: got.String()}
	case *want != got:
		return &objstore.CorruptError{Key: b.info.Key, Kind: objstore.CRCMismatch, Got: got.String(), Want: want.String()}
	}
	return io.EOF
}

// Close ends the transfer. It may be called before the end.
func (b *body) Close() error {
	switch {
	case b.from == nil:
	case b.info.Size-b.n > maxDrain:
		_ = b.from.Close() // a new connection costs less than the rest
	default:
		drain(b.from)
	}
	b.from = nil
	if b.err == nil {
		b.err = &Error{Op: b.op, Key: b.info.Key, Err: errClosed}
	}
	return nil
}

var errClosed = errors.New("read after close")
