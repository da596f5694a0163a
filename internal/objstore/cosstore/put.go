package cosstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// MaxObjectBytes is the largest body of one PUT (Tencent's document 436/7749).
const MaxObjectBytes = 5 << 30

// headFirstBytes is the size from which an upload to a bucket without versions
// asks first whether the object is there: below, the upload costs less.
const headFirstBytes = 8 << 20

// Put writes the object in one PUT, after one pass over body for its digests.
//
// A bucket that never had versions refuses an overwrite itself
// (x-cos-forbid-overwrite). One that has or had them ignores that, so there Put
// asks first whether the key is taken and names the version that it wrote; two
// writers at one moment may then both succeed, each with its version. On a
// bucket with suspended versions the later of the two replaces the earlier, and
// the earlier finds that out only if it is still looking; walletarchive's lock
// on an app keeps it from writing one key twice at once.
//
// After a 409 or an answer that never came, Put looks at what the bucket holds
// before it says anything.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error) {
	const op = "put object"
	if err := manifest.CheckKey(key); err != nil {
		return objstore.Info{}, false, fmt.Errorf("%s: %w", op, err)
	}
	if size > MaxObjectBytes {
		return objstore.Info{}, false, &Error{Op: op, Key: key, Remedy: tooLarge,
			Err: fmt.Errorf("%w: it has %d bytes", objstore.ErrTooLarge, size)}
	}
	u := &upload{store: s, key: key, body: body, size: size, sha256: sum}
	err := u.digest(ctx)
	if err == nil {
		u.header, err = putHeader(opts)
	}
	if err == nil {
		u.versioning, err = s.Versioning(ctx)
	}
	if err != nil {
		return objstore.Info{}, false, fmt.Errorf("%s %s: %w", op, key, err)
	}
	return u.run(ctx, op)
}

// lookUp is the HEAD that is part of a Put.
const lookUp = "look up object"

// upload is one Put.
type upload struct {
	store      *Store
	key        string
	body       io.ReaderAt
	size       int64
	sha256     manifest.Hash
	md5        string // base64
	crc64      manifest.CRC64
	header     *cos.ObjectPutHeaderOptions
	versioning Versioning

	info    objstore.Info
	existed bool
}

// digest reads the body once, so that COS can refuse what the network changed
// and the caller learns what it did not mean to send.
func (u *upload) digest(ctx context.Context) error {
	var (
		md  = md5.New()
		sha = sha256.New()
		crc = crc64.New(manifest.CRC64Table)
		r   = &contextReader{ctx, io.NewSectionReader(u.body, 0, u.size)}
	)
	n, err := io.CopyBuffer(io.MultiWriter(md, sha, crc), r, make([]byte, 256<<10))
	if err != nil {
		return err
	}
	if n != u.size {
		return fmt.Errorf("the body has %d bytes, not %d: %w", n, u.size, io.ErrUnexpectedEOF)
	}
	if got := manifest.Hash(sha.Sum(nil)); got != u.sha256 {
		return fmt.Errorf("the body has sha256 %s, not %s as the caller says", got, u.sha256)
	}
	u.md5 = base64.StdEncoding.EncodeToString(md.Sum(nil))
	u.crc64 = manifest.CRC64(crc.Sum64())
	return nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (u *upload) run(ctx context.Context, op string) (objstore.Info, bool, error) {
	s := u.store
	if u.versioning != Unversioned || u.size >= headFirstBytes {
		info, err := s.head(ctx, lookUp, u.key, "")
		if err == nil {
			return u.judge(ctx, op, info, true)
		}
		if !errors.Is(err, objstore.ErrNotExist) {
			return objstore.Info{}, false, err
		}
	}
	err := s.do(ctx, op, u.key, func() error { return u.try(ctx, op) })
	if err != nil {
		return objstore.Info{}, false, err
	}
	s.fresh.add(u.key, s.cfg.Now())
	if !u.existed && (u.versioning == Suspended || u.versioning == Enabled && u.info.VersionID == "") {
		// Nothing kept another writer from replacing it meanwhile.
		info, err := s.head(ctx, lookUp, u.key, "")
		if err != nil {
			return objstore.Info{}, false, err
		}
		return u.judge(ctx, op, info, false)
	}
	return u.info, u.existed, nil
}

// try makes one PUT and finds out what came of it.
func (u *upload) try(ctx context.Context, op string) error {
	s := u.store
	resp, err := s.client.Object.Put(ctx, u.key, u.reader(), &cos.ObjectPutOptions{ObjectPutHeaderOptions: u.options()})
	if err == nil {
		s.bucketSeen.Store(true)
		return u.stored(ctx, op, resp.Header)
	}
	e := s.wrap(ctx, op, u.key, err)
	taken := e.Status == http.StatusConflict
	if !taken && !unclear(e) {
		return e
	}
	if taken {
		s.fresh.add(u.key, s.cfg.Now()) // it is there, even if the first look misses it
	}
	info, headErr := s.head(ctx, lookUp, u.key, "")
	if errors.Is(headErr, objstore.ErrNotExist) {
		// A lost request, or a conflict with a writer that then failed.
		e.action = again
		return e
	}
	if headErr != nil {
		return headErr
	}
	u.info, u.existed, err = u.judge(ctx, op, info, taken)
	return err
}

// unclear: the object may have been stored all the same. A busy service
// (SlowDown, ServiceUnavailable) and a refused body (400) did not.
func unclear(e *Error) bool {
	if errors.Is(e, context.Canceled) || errors.Is(e, objstore.ErrConfig) {
		return false
	}
	if e.Status == 0 {
		return e.action == again
	}
	return e.Status >= 500 && e.Code != "SlowDown" && e.Code != "ServiceUnavailable"
}

// reader is the body from its start. Of a section the transport can close
// nothing, and an empty one would go out chunked.
func (u *upload) reader() io.Reader {
	if u.size == 0 {
		return bytes.NewReader(nil)
	}
	return io.NewSectionReader(u.body, 0, u.size)
}

func (u *upload) options() *cos.ObjectPutHeaderOptions {
	h := *u.header
	h.ContentLength = u.size
	h.ContentMD5 = u.md5
	h.XCosMetaXXX = &http.Header{strings.ToLower(headerSHA256): {u.sha256.String()}}
	if u.versioning == Unversioned {
		x := h.XOptionHeader.Clone()
		x.Set("x-cos-forbid-overwrite", "true")
		h.XOptionHeader = &x
	}
	return &h
}

// stored checks the answer to a PUT that succeeded.
func (u *upload) stored(ctx context.Context, op string, h http.Header) error {
	crc, err := parseCRC64(h)
	if err == nil && crc != nil && *crc == u.crc64 {
		u.info = objstore.Info{
			Key: u.key, Size: u.size, CRC64: crc, SHA256: &u.sha256, VersionID: h.Get(headerVersion),
			StorageClass: u.header.XCosStorageClass, RetainUntil: u.retainUntil(),
		}
		if u.info.StorageClass == "STANDARD" {
			u.info.StorageClass = "" // as HEAD says it
		}
		return nil
	}
	// The answer may be wrong or the object: ask again, now for the object.
	s := u.store
	s.fresh.add(u.key, s.cfg.Now())
	info, headErr := s.head(ctx, lookUp, u.key, h.Get(headerVersion))
	if headErr != nil {
		return headErr
	}
	if info.CRC64 != nil && *info.CRC64 == u.crc64 && info.Size == u.size {
		u.info = info
		return nil
	}
	corrupt := &objstore.CorruptError{Key: u.key, Kind: objstore.CRCMissing, Got: u.crc64.String()}
	if info.CRC64 != nil {
		corrupt.Kind, corrupt.Want = objstore.CRCMismatch, info.CRC64.String()
	} else if crc != nil {
		corrupt.Kind, corrupt.Want = objstore.CRCMismatch, crc.String()
	}
	return &Error{Op: op, Key: u.key, Status: http.StatusOK, RequestID: h.Get("X-Cos-Request-Id"), Err: corrupt,
		Remedy: "COS stored something, but does not say that it is what was sent; read it back, and delete it by hand when it is damaged"}
}

func (u *upload) retainUntil() time.Time {
	t, _ := time.Parse(time.RFC3339, u.header.XOptionHeader.Get(headerLockUntil)) // written by putHeader
	return t
}

// judge compares what has the key with what was to be put there.
func (u *upload) judge(ctx context.Context, op string, info objstore.Info, existed bool) (objstore.Info, bool, error) {
	differs, err := u.compare(ctx, info)
	if err != nil {
		return objstore.Info{}, false, fmt.Errorf("%s %s: the key is taken and what has it cannot be compared: %w", op, u.key, err)
	}
	if differs != "" {
		return objstore.Info{}, false, &Error{Op: op, Key: u.key, Err: fmt.Errorf("%w: %s", objstore.ErrExist, differs)}
	}
	return info, existed, nil
}

// compare returns in what the object differs, "" in nothing. The digest beside
// the object is its writer's claim: with the CRC64, which is COS's own, it is
// enough; where one of the two is missing the object is read.
func (u *upload) compare(ctx context.Context, info objstore.Info) (differs string, err error) {
	switch {
	case info.Size != u.size:
		return fmt.Sprintf("it has %d bytes, not %d", info.Size, u.size), nil
	case info.CRC64 != nil && *info.CRC64 != u.crc64:
		return fmt.Sprintf("its crc64 is %s, not %s", info.CRC64, u.crc64), nil
	case info.SHA256 != nil && *info.SHA256 != u.sha256:
		return fmt.Sprintf("its sha256 is %s, not %s", info.SHA256, u.sha256), nil
	case info.CRC64 != nil && info.SHA256 != nil:
		return "", nil
	}
	b, err := u.store.get(ctx, "read back object", u.key, info.VersionID)
	if err != nil {
		return "", err
	}
	sha := sha256.New()
	_, err = io.Copy(sha, b)
	b.Close()
	var corrupt *objstore.CorruptError
	if errors.As(err, &corrupt) && corrupt.Kind == objstore.CRCMissing {
		err = nil // the digest says more
	}
	if err != nil {
		return "", err
	}
	if got := manifest.Hash(sha.Sum(nil)); got != u.sha256 {
		return fmt.Sprintf("its sha256 is %s, not %s", got, u.sha256), nil
	}
	return "", nil
}

// storageClass is a class that COS has, in one zone or (MAZ_) in several
// (Tencent's document 436/7745).
var storageClass = regexp.MustCompile(`^(MAZ_)?(STANDARD|STANDARD_IA|INTELLIGENT_TIERING|ARCHIVE|DEEP_ARCHIVE)$`)

// Limits of tags (Tencent's document 436/35665).
const (
	maxTags          = 10
	maxTagKeyBytes   = 127
	maxTagValueBytes = 255
)

// CheckPut refuses options that no bucket takes. Nothing is contacted. The error
// wraps objstore.ErrConfig.
func CheckPut(opts objstore.PutOptions) error {
	_, err := putHeader(opts)
	return err
}

// putHeader turns options into what the SDK sends. XOptionHeader is not nil.
func putHeader(opts objstore.PutOptions) (*cos.ObjectPutHeaderOptions, error) {
	x := http.Header{}
	h := &cos.ObjectPutHeaderOptions{ContentType: opts.ContentType, XOptionHeader: &x}
	if opts.StorageClass != "" {
		if !storageClass.MatchString(opts.StorageClass) {
			return nil, fmt.Errorf("storage class %q is none of STANDARD, STANDARD_IA, INTELLIGENT_TIERING, ARCHIVE and DEEP_ARCHIVE, with or without MAZ_: %w",
				opts.StorageClass, objstore.ErrConfig)
		}
		h.XCosStorageClass = opts.StorageClass
	}
	if !opts.RetainUntil.IsZero() {
		x.Set(headerLockMode, lockMode)
		x.Set(headerLockUntil, lockTime(opts.RetainUntil))
	}
	switch id, kms := strings.CutPrefix(opts.SSE, "kms:"); {
	case opts.SSE == "":
	case opts.SSE == "cos":
		h.XCosServerSideEncryption = "AES256"
	case kms && id != "":
		h.XCosServerSideEncryption = "cos/kms"
		x.Set("x-cos-server-side-encryption-cos-kms-key-id", id)
	default:
		return nil, fmt.Errorf(`server-side encryption %q is neither "cos" nor "kms:" and a key id: %w`, opts.SSE, objstore.ErrConfig)
	}
	if len(opts.Tags) > maxTags {
		return nil, fmt.Errorf("%d tags, COS takes %d: %w", len(opts.Tags), maxTags, objstore.ErrConfig)
	}
	if len(opts.Tags) > 0 {
		var pairs []string
		for k, v := range opts.Tags {
			if k == "" || len(k) > maxTagKeyBytes || len(v) > maxTagValueBytes {
				return nil, fmt.Errorf("tag %q: a key has 1 to %d bytes, a value at most %d: %w", k, maxTagKeyBytes, maxTagValueBytes, objstore.ErrConfig)
			}
			pairs = append(pairs, escapeTag(k)+"="+escapeTag(v))
		}
		slices.Sort(pairs)
		x.Set("x-cos-tagging", strings.Join(pairs, "&"))
	}
	return h, nil
}

func escapeTag(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
