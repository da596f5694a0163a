package cosstore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
)

func TestConfig(t *testing.T) {
	good := Config{Bucket: testBucketName, Region: testRegion, Credentials: fixed{"id", "key", ""}}
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string // "" is accepted, else a word of the error
	}{
		{"region", func(c *Config) {}, ""},
		{"loopback endpoint", func(c *Config) { c.Region, c.Endpoint = "", "http://127.0.0.1:9000" }, ""},
		{"loopback endpoint, IPv6", func(c *Config) { c.Region, c.Endpoint = "", "http://[::1]:9000/" }, ""},
		{"own domain", func(c *Config) { c.Endpoint = "https://archive.example.com" }, ""},
		{"bucket's own host", func(c *Config) { c.Endpoint = "https://archive-1250000000.cos.accelerate.myqcloud.com" }, ""},
		{"no appid", func(c *Config) { c.Bucket = "archive" }, "appid"},
		{"upper case", func(c *Config) { c.Bucket = "Archive-1250000000" }, "appid"},
		{"bucket with a dot", func(c *Config) { c.Bucket = "a.b-1250000000" }, "appid"},
		{"no region", func(c *Config) { c.Region = "" }, "region is missing"},
		{"odd region", func(c *Config) { c.Region = "ap_guangzhou/" }, "name of a region"},
		{"no credential", func(c *Config) { c.Credentials = nil }, "no credentials"},
		{"plain http", func(c *Config) { c.Endpoint = "http://192.0.2.1:80" }, "in the clear"},
		{"plain http by name", func(c *Config) { c.Endpoint = "http://localhost.example.com" }, "in the clear"},
		{"no scheme", func(c *Config) { c.Endpoint = "127.0.0.1:9000" }, "not a URL"},
		{"odd scheme", func(c *Config) { c.Endpoint = "ftp://127.0.0.1" }, "neither"},
		{"path-style", func(c *Config) { c.Endpoint = "http://127.0.0.1:9000/bucket" }, "more than a host"},
		{"host of the service", func(c *Config) { c.Endpoint = "https://cos.ap-guangzhou.myqcloud.com" }, "not that of bucket"},
		{"user", func(c *Config) { c.Endpoint = "https://id:hidden@example.com" }, "never part of a URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			_, err := New(cfg)
			if test.want == "" {
				if err != nil {
					t.Errorf("New = %v", err)
				}
				return
			}
			if !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New = %v, want ErrConfig with %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("New shows a secret: %v", err)
			}
		})
	}
}

// The bucket is asked by the name that COS knows, also on a test server, and
// every request is signed.
func TestRequestsAreSignedForTheBucket(t *testing.T) {
	srv, s := newServerWith(t, func(c *Config) {
		c.Credentials = fixed{"test-secret-id", testSecretKey, "test-token"}
	})
	srv.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if want := testBucketName + ".cos." + testRegion + ".myqcloud.com"; r.Host != want {
			t.Errorf("Host = %q, want %q", r.Host, want)
		}
		auth := r.Header.Get("Authorization")
		if !strings.Contains(auth, "q-ak=test-secret-id") || strings.Contains(auth, testSecretKey) {
			t.Errorf("Authorization = %q", auth)
		}
		if r.Header.Get("X-Cos-Security-Token") != "test-token" || !strings.Contains(auth, "x-cos-security-token") {
			t.Errorf("the token is missing or not signed: %q", auth)
		}
		return false
	})
	if _, _, err := put(t, s, "a/key", "body"); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, s, "a/key"); err != nil {
		t.Fatal(err)
	}
	if got, want := s.URL(), "cos://"+testBucketName+"?endpoint="; !strings.HasPrefix(got, want) || strings.Contains(got, "secret") {
		t.Errorf("URL() = %q, want %q…", got, want)
	}
}

func TestUnusableCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		provider credentials.Provider
		want     error
	}{
		"no id":   {fixed{"", "key", ""}, objstore.ErrConfig},
		"blank":   {fixed{"id", "key\n", ""}, objstore.ErrConfig},
		"none":    {failing{credentials.ErrNone}, objstore.ErrConfig},
		"nothing": {failing{nil}, objstore.ErrConfig},
		"refused": {failing{credentials.ErrRefused}, objstore.ErrDenied},
		"expired": {failing{credentials.ErrExpired}, objstore.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServerWith(t, func(cfg *Config) { cfg.Credentials = test.provider })
			_, err := s.Head(t.Context(), "key", "")
			var e *Error
			if !errors.Is(err, test.want) || !errors.As(err, &e) || e.Attempts != 1 || e.Remedy == "" {
				t.Errorf("Head = %v, want %v at once", err, test.want)
			}
			if _, _, err := put(t, s, "key", "body"); !errors.Is(err, test.want) {
				t.Errorf("Put = %v, want %v", err, test.want)
			}
			if n := srv.count(""); n != 0 {
				t.Errorf("%d requests were sent unsigned", n)
			}
		})
	}
}

// failing has no pair.
type failing struct{ err error }

func (f failing) Retrieve(context.Context) (credentials.Credentials, error) {
	return credentials.Credentials{}, f.err
}
func (failing) Source() string { return "nowhere" }

func TestConnectionsAreUsedAgain(t *testing.T) {
	srv, s := newServer(t)
	body := strings.Repeat("0123456789", 500)
	if _, _, err := put(t, s, "key", body); err != nil {
		t.Fatal(err)
	}
	const readers, rounds = 200, 3
	for range rounds {
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				if got, err := get(t, s, "key"); err != nil || got != body {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.accepted > readers+1 {
		t.Errorf("%d connections for %d rounds of %d readers, want at most one a reader", srv.accepted, rounds, readers)
	}
}

// Answers that are errors or are not read to their end give their connection
// back too.
func TestConnectionsAreUsedAgainAfterErrors(t *testing.T) {
	srv, s := newServer(t)
	srv.store("key", make([]byte, 200_000), "")
	for range 50 {
		if _, err := s.Head(t.Context(), "absent", ""); !errors.Is(err, objstore.ErrNotExist) {
			t.Fatal(err)
		}
		if _, err := get(t, s, "absent"); !errors.Is(err, objstore.ErrNotExist) {
			t.Fatal(err)
		}
		r, _, err := s.Get(t.Context(), "key", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("Read after Close = %v", err)
		}
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.accepted > 2 {
		t.Errorf("%d connections for one reader", srv.accepted)
	}
}

// A connection on which nothing moves ends; the download goes on on another.
func TestStalledDownloadIsResumed(t *testing.T) {
	srv, s := newServerWith(t, func(c *Config) { c.StallTimeout = 500 * time.Millisecond })
	body := strings.Repeat("0123456789", 100_000)
	srv.store("key", []byte(body), "")
	var stalled atomic.Int32
	release := make(chan struct{})
	defer close(release)
	srv.intercept(first(1, "GET ", func(w http.ResponseWriter, r *http.Request) bool {
		stalled.Add(1)
		w.Header().Set("Content-Length", "1000000")
		w.Header().Set("Etag", srv.objects["key"].header.Get("Etag"))
		w.Header().Set(headerCRC64, srv.objects["key"].header.Get(headerCRC64))
		io.WriteString(w, body[:300_000])
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	}))
	got, err := get(t, s, "key")
	if err != nil || got != body || stalled.Load() != 1 {
		t.Errorf("%d bytes, %v after %d stalls", len(got), err, stalled.Load())
	}
}

// While a body goes up, the answer is waited for already: the bytes that move
// one way have to move the deadline of both.
func TestBytesEitherWayMoveTheDeadline(t *testing.T) {
	raw := &deadlines{}
	conn := &stallConn{Conn: raw, limit: time.Hour}
	start := time.Now()
	for range 2 {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(raw.both) != 4 {
		t.Fatalf("the deadline was set %d times for 2 reads and 2 writes", len(raw.both))
	}
	for i, at := range raw.both {
		if at.Before(start.Add(time.Hour)) || i > 0 && at.Before(raw.both[i-1]) {
			t.Errorf("deadline %d is %v after the start", i, at.Sub(start))
		}
	}
	raw.err = net.ErrClosed
	if _, err := conn.Read(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read of a closed connection = %v", err)
	}
}

// deadlines is a connection that keeps what its deadlines are set to.
type deadlines struct {
	net.Conn
	both []time.Time
	err  error
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.both = append(d.both, t)
	return d.err
}
func (d *deadlines) Read(p []byte) (int, error)  { return len(p), nil }
func (d *deadlines) Write(p []byte) (int, error) { return len(p), nil }
