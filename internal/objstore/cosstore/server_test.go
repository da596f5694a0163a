package cosstore

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/manifest"
)

const (
	testBucketName = "archive-1250000000"
	testRegion     = "ap-guangzhou"
	testSecretKey  = "the-secret-key-that-nobody-may-see"
)

// server is the least of a bucket: one version of a key, no signatures. The
// tests of single faults need to see and bend single answers; cosfake, which
// knows COS, runs the contract.
type server struct {
	t          *testing.T
	versioning string

	mu      sync.Mutex
	objects map[string]object
	// before may answer a request itself (true), or leave it.
	before   func(w http.ResponseWriter, r *http.Request) bool
	requests []string // "PUT key", …
	accepted int
}

type object struct {
	body   []byte
	header http.Header
}

func newServer(t *testing.T) (*server, *Store) {
	return newServerWith(t, func(*Config) {})
}

// newServerWith starts a server and a store on it that never really waits.
func newServerWith(t *testing.T, change func(*Config)) (*server, *Store) {
	t.Helper()
	s := &server{t: t, objects: map[string]object{}}
	hs := httptest.NewUnstartedServer(s)
	hs.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.accepted++
			s.mu.Unlock()
		}
	}
	hs.Start()
	t.Cleanup(hs.Close)
	cfg := Config{
		Bucket: testBucketName, Region: testRegion, Endpoint: hs.URL,
		Credentials: fixed{"test-secret-id", testSecretKey, ""},
		Sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	change(&cfg)
	store, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return s, store
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	what := r.Method + " " + key
	if key == "" {
		what += "?" + r.URL.RawQuery
	}
	s.requests = append(s.requests, what)
	before := s.before
	s.mu.Unlock()
	w.Header().Set("X-Cos-Request-Id", "REQUEST-ID")
	if before != nil && before(w, r) {
		return
	}
	s.serve(w, r, key)
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	o, ok := s.objects[key]
	s.mu.Unlock()
	switch {
	case r.URL.Query().Has("versioning"):
		writeXML(w, fmt.Sprintf("<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>", s.versioning))
	case r.Method == http.MethodPut:
		s.put(w, r, key, ok)
	case !ok:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		for k, v := range o.header {
			w.Header()[k] = v
		}
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(o.body))
	}
}

func (s *server) put(w http.ResponseWriter, r *http.Request, key string, taken bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if taken && r.Header.Get("X-Cos-Forbid-Overwrite") == "true" && s.versioning == "" {
		refuse(w, http.StatusConflict, "FileAlreadyExists")
		return
	}
	o := s.store(key, body, r.Header.Get("X-Cos-Meta-Sha256"))
	for _, h := range []string{"Etag", headerCRC64, headerVersion} {
		if v := o.header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
}

// store puts an object there behind the API's back.
func (s *server) store(key string, body []byte, sha string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := object{body: body, header: http.Header{}}
	o.header.Set(headerCRC64, manifest.SumCRC64(body).String())
	o.header.Set("Etag", fmt.Sprintf(`"%x"`, manifest.SumCRC64(body)))
	if sha != "" {
		o.header.Set(headerSHA256, sha)
	}
	if s.versioning == "Enabled" {
		o.header.Set(headerVersion, "version-"+strconv.Itoa(len(s.requests)))
	}
	s.objects[key] = o
	return o
}

func (s *server) change(key string, f func(*object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	f(&o)
	s.objects[key] = o
}

// intercept sets before.
func (s *server) intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
	s.requests = nil
}

func (s *server) count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func writeXML(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, xml.Header+body)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>in the words of COS</Message><RequestId>REQUEST-ID</RequestId></Error>", code)
}

// reset breaks the connection without an answer.
func reset(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// first lets f answer the first n requests that match prefix ("PUT ", …).
func first(n int, prefix string, f func(w http.ResponseWriter, r *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		hit := n > 0 && strings.HasPrefix(r.Method+" "+strings.TrimPrefix(r.URL.Path, "/"), prefix)
		if hit {
			n--
		}
		mu.Unlock()
		return hit && f(w, r)
	}
}

func put(t *testing.T, s *Store, key, body string) (objstore.Info, bool, error) {
	t.Helper()
	return s.Put(t.Context(), key, strings.NewReader(body), int64(len(body)), manifest.SumHash([]byte(body)), objstore.PutOptions{})
}

func get(t *testing.T, s *Store, key string) (string, error) {
	t.Helper()
	r, _, err := s.Get(t.Context(), key, "")
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// fixed is a pair that never changes.
type fixed struct{ id, key, token string }

func (f fixed) Retrieve(context.Context) (credentials.Credentials, error) {
	return credentials.New(f.id, f.key, f.token, time.Time{})
}
func (fixed) Source() string { return "a test" }
