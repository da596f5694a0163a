package cosstore

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/manifest"
)

// Store is a bucket. It implements objstore.Store, objstore.Thawer,
// objstore.Retainer and objstore.Reclassifier.
type Store struct {
	cfg    Config
	client *cos.Client
	host   string // by which COS knows the bucket
	// bucketSeen is set by the first answer that only an existing bucket
	// gives: a 404 to HEAD does not say what is missing.
	bucketSeen  atomic.Bool
	credentials *credentials.Cache
	fresh       fresh

	asking     gate // guards versioning
	versioning *Versioning

	thawing gate // guards nextThaw
	nextAsk time.Time

	transport *http.Transport
}

var (
	_ objstore.Store        = (*Store)(nil)
	_ objstore.Thawer       = (*Store)(nil)
	_ objstore.Retainer     = (*Store)(nil)
	_ objstore.Reclassifier = (*Store)(nil)
)

// New returns the store of a bucket. Nothing is contacted. The error wraps
// objstore.ErrConfig.
func New(cfg Config) (*Store, error) {
	endpoint, err := cfg.bucketURL()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{cfg: cfg.withDefaults(), asking: newGate(), thawing: newGate()}
	cache, ok := cfg.Credentials.(*credentials.Cache)
	if !ok {
		cache = credentials.NewCache(cfg.Credentials, credentials.CacheOptions{})
	}
	s.credentials = cache
	s.transport = newTransport(s.cfg.Workers, s.cfg.StallTimeout)
	s.client = cos.NewClient(&cos.BaseURL{BucketURL: endpoint, ServiceURL: endpoint},
		&http.Client{Transport: &signer{credentials: cache, next: s.transport}})
	s.host = endpoint.Host
	if cfg.Region != "" {
		s.host = cfg.Bucket + ".cos." + cfg.Region + ".myqcloud.com"
		if endpoint.Scheme == "http" { // a test server
			s.client.Host = s.host
		}
	}
	s.client.UserAgent += " walletarchive"
	s.client.Conf.EnableCRC = false
	s.client.Conf.RetryOpt.Count = 1
	return s, nil
}

// Close closes the connections that are kept for reuse.
func (s *Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// CredentialSource names where the key pair came from, never what it is; "" as
// long as none was needed.
func (s *Store) CredentialSource() string { return s.credentials.Source() }

// Credentials fetches the key pair, if that was not done, and returns when it
// ends; zero when that is not known.
func (s *Store) Credentials(ctx context.Context) (expires time.Time, err error) {
	const op = "get credentials"
	err = s.do(ctx, op, "", func() error {
		pair, err := s.credentials.Retrieve(ctx)
		if err != nil {
			return &credentialsError{err}
		}
		expires = pair.Expires()
		return nil
	})
	return expires, err
}

// Name is the name of the bucket with its appid.
func (s *Store) Name() string { return s.cfg.Bucket }

// Region is the region as configured; "" when only an endpoint is.
func (s *Store) Region() string { return s.cfg.Region }

// URL returns cos://<bucket> with the region or the endpoint.
func (s *Store) URL() string {
	q := url.Values{}
	if s.cfg.Region != "" {
		q.Set("region", s.cfg.Region)
	}
	if s.cfg.Endpoint != "" {
		q.Set("endpoint", s.cfg.Endpoint)
	}
	return (&url.URL{Scheme: "cos", Host: s.cfg.Bucket, RawQuery: q.Encode()}).String()
}

// ids is the version for the SDK, which does not escape it.
func ids(versionID string) []string {
	if versionID == "" {
		return nil
	}
	return []string{url.QueryEscape(versionID)}
}

// Head asks for the object's facts. It works on cold objects too.
func (s *Store) Head(ctx context.Context, key, versionID string) (objstore.Info, error) {
	const op = "head object"
	if err := manifest.CheckKey(key); err != nil {
		return objstore.Info{}, fmt.Errorf("%s: %w", op, err)
	}
	info, err := s.head(ctx, op, key, versionID)
	if err != nil {
		return objstore.Info{}, err
	}
	if s.cfg.ReadRetention && info.RetainUntil.IsZero() {
		if info.RetainUntil, err = s.retention(ctx, key); err != nil {
			return objstore.Info{}, err
		}
	}
	return info, nil
}

func (s *Store) head(ctx context.Context, op, key, versionID string) (objstore.Info, error) {
	var info objstore.Info
	err := s.do(ctx, op, key, func() error {
		resp, err := s.client.Object.Head(ctx, key, nil, ids(versionID)...)
		if err != nil {
			return s.explain(ctx, key, versionID, err)
		}
		s.bucketSeen.Store(true)
		info, err = parseInfo(key, resp.Header, resp.ContentLength)
		return err
	})
	return info, err
}

// explain learns the code of a refused HEAD, whose answer has no body, from a
// GET of one byte. When that tells nothing more, err stays.
func (s *Store) explain(ctx context.Context, key, versionID string, err error) error {
	resp := answer(err)
	if resp == nil {
		return err
	}
	switch status := resp.Response.StatusCode; {
	case status == http.StatusForbidden:
	case status == http.StatusBadRequest:
	case status == http.StatusNotFound && !s.bucketSeen.Load():
	default:
		return err
	}
	got, getErr := s.client.Object.Get(ctx, key, &cos.ObjectGetOptions{Range: "bytes=0-0"}, ids(versionID)...)
	if getErr == nil {
		drain(got.Body)
		return err
	}
	more := answer(getErr)
	if more == nil || more.Code == "" || more.Code == "InvalidObjectState" || more.Response.StatusCode != resp.Response.StatusCode {
		return err
	}
	if more.Code == "NoSuchKey" || more.Code == "NoSuchVersion" {
		s.bucketSeen.Store(true)
	}
	return more
}

// Delete removes one object or one version. On a bucket with versioning and
// without a versionID it only hides the object behind a delete marker.
func (s *Store) Delete(ctx context.Context, key, versionID string) error {
	const op = "delete object"
	if err := manifest.CheckKey(key); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	opts := &cos.ObjectDeleteOptions{}
	if versionID != "" {
		// The field VersionId is sent as "VersionId", which COS may not know.
		opts.XOptionQuery = &url.Values{"versionId": {versionID}}
	}
	s.fresh.remove(key)
	return s.do(ctx, op, key, func() error {
		_, err := s.client.Object.Delete(ctx, key, opts)
		if resp := answer(err); resp != nil && resp.Response.StatusCode == http.StatusNotFound && resp.Code != "NoSuchBucket" {
			return nil
		}
		return err
	})
}

// maxDrain is how much of an unread body is read so that its connection can be
// used again; more is not worth it.
const maxDrain = 256 << 10

// drain reads what little may be left and closes.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDrain) // a broken rest is nobody's loss
	_ = body.Close()
}

// fresh remembers the keys that this process wrote a moment ago.
type fresh struct {
	mu   sync.Mutex
	keys map[string]time.Time
}

const (
	freshFor   = time.Minute
	freshLimit = 4096 // keys; then the oldest go
)

func (f *fresh) add(key string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = make(map[string]time.Time)
	}
	if len(f.keys) >= freshLimit {
		for k, t := range f.keys {
			if now.Sub(t) > freshFor {
				delete(f.keys, k)
			}
		}
		if len(f.keys) >= freshLimit {
			clear(f.keys)
		}
	}
	f.keys[key] = now
}

func (f *fresh) has(key string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.keys[key]
	return ok && now.Sub(t) <= freshFor
}

func (f *fresh) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
}
