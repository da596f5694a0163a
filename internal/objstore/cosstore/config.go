// Package cosstore keeps objects in a bucket of Tencent COS through
// cos-go-sdk-v5; start with [New].
//
// The SDK signs, builds and parses requests. What decides between "stored" and
// "lost" is done here, because the SDK's own retry and checksum (v0.7.70) do it
// otherwise than an archive needs: they retry at once and without looking at
// what the lost answer left behind, hide the cause of an error, and never check
// a download. So both are off, and this package retries with a backoff that
// ends with the context, compares CRC64 and length on PUT, HEAD and GET, and
// after every PUT without a clear answer asks the bucket what it holds.
package cosstore

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/clock"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
)

// Config says which bucket is used and how. Bucket, Credentials and one of
// Region and Endpoint have to be set.
type Config struct {
	// Bucket is the name with its appid: "name-1250000000".
	Bucket string
	// Region is COS's name of the region: "ap-guangzhou".
	Region string
	// Endpoint is the URL of the bucket's own host, without a path; "" makes
	// it from Bucket and Region. Plain http is for servers on a loopback
	// address only; there, with a Region, requests carry the Host that COS
	// would see.
	Endpoint string
	// Credentials sign the requests. New keeps what they hand out in a
	// credentials.Cache; after COS says that a pair has expired they are asked
	// for another, once a call.
	Credentials credentials.Provider
	// Workers is how many requests are expected at once: as many connections
	// are kept for reuse. 0 is 256.
	Workers int
	// Retry bounds what is tried again; the zero value is its default.
	Retry Retry
	// StallTimeout ends a connection on which no byte moved for so long; 0 is
	// two minutes, since what an upload has left in this machine's buffers may
	// take a while on a slow line. There is no limit on a whole transfer but its context.
	StallTimeout time.Duration
	// ReadRetention makes Head and Get ask for the object lock with a request of
	// its own when the answer has no header for it. It needs
	// cos:GetObjectRetention.
	ReadRetention bool
	// Logger gets a record a retry; nil discards.
	Logger *slog.Logger
	// Sleep waits between attempts and returns ctx.Err() when ctx ends first;
	// nil really waits. Now is the clock; nil is time.Now. Both are for tests.
	Sleep func(ctx context.Context, d time.Duration) error
	Now   func() time.Time
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?-[0-9]+$`)
	// regionName is the SDK's own pattern (cos.go), which has no digit but 1.
	regionName = regexp.MustCompile(`^[a-z-1]+$`)
)

// Check refuses what cannot work before anything is contacted. The error wraps
// objstore.ErrConfig and never shows the user part of an endpoint.
func (c *Config) Check() error {
	_, err := c.bucketURL()
	return err
}

func (c *Config) bucketURL() (endpoint *url.URL, err error) {
	bad := func(format string, args ...any) (*url.URL, error) {
		return nil, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), objstore.ErrConfig)
	}
	if !bucketName.MatchString(c.Bucket) {
		return bad("bucket %q is not a name and an appid, as in name-1250000000", c.Bucket)
	}
	if c.Region == "" && c.Endpoint == "" {
		return bad("bucket %s: the region is missing", c.Bucket)
	}
	if c.Region != "" && !regionName.MatchString(c.Region) {
		return bad("region %q is not the name of a region, as in ap-guangzhou", c.Region)
	}
	if c.Credentials == nil {
		return bad("bucket %s: there are no credentials", c.Bucket)
	}
	if c.Endpoint == "" {
		u, err := cos.NewBucketURL(c.Bucket, c.Region, true)
		if err != nil {
			return bad("bucket %s in region %s: %v", c.Bucket, c.Region, err)
		}
		return u, nil
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return bad("the endpoint is not a URL with a host")
	case u.User != nil:
		return bad("endpoint %s has a user in it: credentials are never part of a URL", u.Host)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return bad("endpoint %s has more than a host: the SDK would drop it", u)
	case u.Scheme == "https":
	case u.Scheme != "http":
		return bad("endpoint %s is neither https nor http", u)
	case !isLoopback(u.Hostname()):
		return bad("endpoint %s: plain http would send objects in the clear; it is for test servers on a loopback address", u)
	}
	if h := u.Hostname(); (strings.HasSuffix(h, ".myqcloud.com") || strings.HasSuffix(h, ".tencentcos.cn")) && !strings.HasPrefix(h, c.Bucket+".") {
		return bad("endpoint %s is a host of COS but not that of bucket %s", u, c.Bucket)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// isLoopback takes addresses only: a name may lead anywhere.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Workers <= 0 {
		d.Workers = 256
	}
	if d.StallTimeout <= 0 {
		d.StallTimeout = 2 * time.Minute
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Sleep == nil {
		d.Sleep = clock.Sleep
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Retry = d.Retry.withDefaults()
	return d
}

// newTransport returns connections for large bodies both ways: no limit on a
// whole transfer (http.Client.Timeout would cut a slow body), but on each step
// and on silence.
func newTransport(workers int, stall time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &stallConn{Conn: conn, limit: stall}, nil
		},
		// Else net/http unpacks what has Content-Encoding gzip, and neither
		// length nor CRC64 fits what the reader sees.
		DisableCompression:    true,
		MaxIdleConnsPerHost:   workers,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: stall,
		ReadBufferSize:        64 << 10,
		WriteBufferSize:       64 << 10,
	}
}

// stallConn ends when no byte moves either way for limit. While a body goes
// up, net/http already waits for the answer: each Write moves that deadline
// too.
type stallConn struct {
	net.Conn
	limit time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// signer signs each request with the pair of the moment. The SDK's own
// transport reads id, key and token one by one, which tears them apart when
// they change in between, and sends a request unsigned when there is none.
type signer struct {
	credentials credentials.Provider
	next        http.RoundTripper
}

func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	pair, err := s.credentials.Retrieve(req.Context())
	if err == nil && pair.IsZero() {
		err = credentials.ErrNone
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // the contract of RoundTripper
		}
		return nil, &credentialsError{err}
	}
	req = req.Clone(req.Context())
	cos.AddAuthorizationHeader(pair.SecretID(), pair.SecretKey(), pair.Token(), req, cos.NewAuthTime(time.Hour))
	return s.next.RoundTrip(req)
}

// credentialsError tells that a request was not sent for want of a pair.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
