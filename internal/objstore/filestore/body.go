package filestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"strconv"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

const copyBufferBytes = 256 << 10

// body is one pass over a file that checks its length at the end.
type body struct {
	ctx  context.Context // of the Get; it ends the reading too
	file *os.File
	key  string
	size int64 // when the file was opened
	n    int64
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, fmt.Errorf("get object %s: %w", b.key, err)
	}
	n, err := b.file.Read(p)
	b.n += int64(n)
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return n, fmt.Errorf("get object %s: %w", b.key, err)
	case b.n < b.size:
		return n, &objstore.CorruptError{Key: b.key, Kind: objstore.ShortBody,
			Got: strconv.FormatInt(b.n, 10), Want: strconv.FormatInt(b.size, 10)}
	case b.n > b.size:
		return n, fmt.Errorf("get object %s: the file grew from %d to %d bytes while it was read", b.key, b.size, b.n)
	}
	return n, io.EOF
}

func (b *body) Close() error { return b.file.Close() }

// sums is what one pass over some bytes tells.
type sums struct {
	size   int64
	sha256 manifest.Hash
	crc64  manifest.CRC64
}

// copyAndSum copies r to w until r ends and stops when ctx does.
func copyAndSum(ctx context.Context, w io.Writer, r io.Reader) (sums, error) {
	var (
		s   sums
		sha = sha256.New()
		crc = crc64.New(manifest.CRC64Table)
		out = io.MultiWriter(w, sha, crc)
		buf = make([]byte, copyBufferBytes)
	)
	for {
		if err := ctx.Err(); err != nil {
			return sums{}, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return sums{}, err
			}
			s.size += int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return sums{}, err
		}
	}
	sha.Sum(s.sha256[:0])
	s.crc64 = manifest.CRC64(crc.Sum64())
	return s, nil
}
