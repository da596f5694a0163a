// Package cosfake is one bucket of Tencent COS in memory, for tests and for
// running walletarchive without an account: it checks what COS checks, refuses
// what COS refuses, and has a switch for each way in which a store fails its
// users. Start with [Start]; [New] is the same without a listener.
//
// It verifies the q-sign signature of every request by an implementation of its
// own, so that a client which signs wrongly fails here too. It is as strict as
// the strictest that is known of COS: every x-cos-* header and every query
// parameter has to be signed. What only a real bucket can settle (the code of
// the 409 above all, and the timing of lists) follows the documents and is
// marked where it is decided. Multipart uploads, ACLs, list of versions and
// If-None-Match on PUT are not there; what is not there answers 501.
//
// All methods may be called at once from many goroutines.
package cosfake

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// What a Fake is called and opened with when its Options do not say.
const (
	DefaultBucket    = "fake-1250000000"
	DefaultRegion    = "ap-guangzhou"
	DefaultSecretID  = "AKIDfake"
	DefaultSecretKey = "fake-secret-key"
	// DefaultMaxObjectBytes is what COS takes in one PUT, 5 GB; document 436/7749.
	DefaultMaxObjectBytes = 5 << 30
	// DefaultLogEntries is how many requests the log remembers.
	DefaultLogEntries = 100_000
)

const (
	maxKeyBytes = 850     // document 436/13324
	maxXMLBytes = 1 << 20 // of a request that is no PUT Object
)

// Options say what the bucket is at the start. The zero value is a bucket
// without versioning and without object lock, opened by the default pair.
type Options struct {
	// Bucket is the name with its app id; "" is DefaultBucket.
	Bucket string
	// Region is "" for DefaultRegion.
	Region string
	// SecretID and SecretKey are the pair that opens the bucket; "" stands for
	// the default ones. More are added with [Fake.Accept].
	SecretID, SecretKey string
	// Token is what has to come with that pair; "" makes it a permanent pair.
	Token string
	// Versioning is "" (never enabled), "Enabled" or "Suspended".
	Versioning string
	// ObjectLock makes a bucket in which objects can be locked.
	ObjectLock bool
	// MaxObjectBytes is 0 for DefaultMaxObjectBytes.
	MaxObjectBytes int64
	// LogEntries is 0 for DefaultLogEntries; older ones are forgotten.
	LogEntries int
	// ExpiredTokenStatus is the HTTP status of ExpiredToken. 0 is 403; document
	// 436/7730 has it under 400 in one edition, so clients go by the code.
	ExpiredTokenStatus int
	// Now is nil for time.Now. See also [Fake.Advance] and [Fake.SetClockSkew].
	Now func() time.Time
}

// withDefaults fills in what o leaves open.
func (o Options) withDefaults() (Options, error) {
	o.Bucket = cmp.Or(o.Bucket, DefaultBucket)
	o.Region = cmp.Or(o.Region, DefaultRegion)
	if o.SecretID == "" && o.SecretKey == "" {
		o.SecretID, o.SecretKey = DefaultSecretID, DefaultSecretKey
	}
	if o.SecretID == "" || o.SecretKey == "" {
		return o, errors.New("half a pair of SecretID and SecretKey")
	}
	if !validVersioning(o.Versioning) && o.Versioning != "" {
		return o, fmt.Errorf("versioning %q is not Enabled or Suspended", o.Versioning)
	}
	o.MaxObjectBytes = cmp.Or(o.MaxObjectBytes, DefaultMaxObjectBytes)
	o.LogEntries = cmp.Or(o.LogEntries, DefaultLogEntries)
	o.ExpiredTokenStatus = cmp.Or(o.ExpiredTokenStatus, http.StatusForbidden)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Fake is the bucket. It is an http.Handler that has to be served as it is,
// because an http.ServeMux would clean paths that COS takes for keys.
type Fake struct {
	opts Options

	mu          sync.Mutex
	advanced    time.Duration // of the bucket's clock
	skew        time.Duration // of the clock that requests are judged by
	versioning  string
	locked      bool // object lock is configured
	lockDays    int  // default retention of new objects, 0 for none
	listLag     time.Duration
	objects     map[string][]*version // oldest first
	listed      map[string][]listState
	accounts    map[string]account // by secret id
	lastVersion int64

	faults  faults
	log     requestLog
	closing chan struct{} // closed when held answers have to be let go
	once    sync.Once
}

// New returns an empty bucket. The error is about opts.
func New(opts Options) (*Fake, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("cosfake options: %w", err)
	}
	f := &Fake{
		opts:       opts,
		versioning: opts.Versioning,
		locked:     opts.ObjectLock,
		objects:    map[string][]*version{},
		listed:     map[string][]listState{},
		accounts:   map[string]account{},
		closing:    make(chan struct{}),
	}
	f.log.limit = opts.LogEntries
	f.Accept(opts.SecretID, opts.SecretKey, opts.Token)
	return f, nil
}

// release lets go of every answer that a fault holds back.
func (f *Fake) release() { f.once.Do(func() { close(f.closing) }) }

// Advance moves the bucket's clock on: thawing, retention, the lag of lists and
// Last-Modified go by it. Signatures do not; see [Fake.SetClockSkew].
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advanced += d
}

// Now is the time on the bucket's clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now()
}

// now is Now with f.mu held.
func (f *Fake) now() time.Time { return f.opts.Now().Add(f.advanced) }

// SetClockSkew makes the server's clock differ by d from Options.Now, in its
// Date headers and in judging signatures. Behind the client by more than 15
// minutes is RequestTimeTooSkewed; ahead of the end of the signature is
// AccessDenied "Request has expired", which is all a signature can tell.
func (f *Fake) SetClockSkew(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skew = d
}

// authNow is the time that requests are judged by.
func (f *Fake) authNow() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opts.Now().Add(f.skew)
}

// SetVersioning sets the bucket's versioning: "", "Enabled" or "Suspended". COS
// itself never goes back to ""; the fake does, for tests.
func (f *Fake) SetVersioning(status string) {
	if !validVersioning(status) && status != "" {
		panic("cosfake: versioning status " + status)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versioning = status
}

// SetListLag makes lists show the bucket as it was d ago, on the bucket's clock.
func (f *Fake) SetListLag(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listLag = d
}

// request is one request on its way through the fake.
type request struct {
	*http.Request
	id    string
	op    Op
	key   string
	query url.Values // without the signature
	body  []byte
	entry *Request
}

// answer is what goes back, whole, before any fault spoils it.
type answer struct {
	status int
	header http.Header
	body   []byte
	offset int64 // where in the object body begins
}

// ServeHTTP answers one request.
func (f *Fake) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr}
	r.id, r.entry = f.log.begin(hr)
	ans := f.serve(r)
	if ans == nil { // a fault took the connection
		f.reset(w)
		return
	}
	if ans.header == nil {
		ans.header = http.Header{}
	}
	ans.header.Set("X-Cos-Request-Id", r.id)
	ans.header.Set("Server", "tencent-cos")
	ans.header.Set("Date", f.authNow().UTC().Format(http.TimeFormat))
	f.send(w, r, ans)
}

// serve works out the answer; nil closes the connection at once.
func (f *Fake) serve(r *request) *answer {
	if err := f.parse(r); err != nil {
		return f.refuse(r, err)
	}
	f.log.update(r.entry, func(e *Request) { e.Op, e.Key = r.op, r.key })
	if err := f.authenticate(r); err != nil {
		return f.refuse(r, err)
	}
	if f.faults.take(ResetConnection, r, nil) != nil {
		return nil
	}
	if err := f.readBody(r); err != nil {
		return f.refuse(r, err)
	}
	if err := f.injectedError(r); err != nil {
		return f.refuse(r, err)
	}
	ans, err := f.dispatch(r)
	if err != nil {
		return f.refuse(r, err)
	}
	return ans
}

// parse finds out which operation on which key r is.
func (f *Fake) parse(r *request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fail(http.StatusBadRequest, "InvalidURI", "the query cannot be read")
	}
	for name := range query {
		if strings.HasPrefix(name, "q-") {
			query.Del(name)
		}
	}
	r.query = query
	r.key = strings.TrimPrefix(r.URL.Path, "/")
	r.op = operation(r)
	if err := f.checkHost(r); err != nil {
		return err
	}
	switch {
	case len(r.key) > maxKeyBytes:
		return fail(http.StatusBadRequest, "KeyTooLong", "the key is longer than 850 bytes")
	case strings.HasPrefix(r.key, "/"):
		return fail(http.StatusBadRequest, "InvalidArgument", "the key begins with a slash")
	}
	return nil
}

// checkHost refuses what does not name this bucket in its host. On a loopback
// address the host cannot tell, so that a path below the bucket's name is taken
// for path-style.
func (f *Fake) checkHost(r *request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	pathStyle := fail(http.StatusForbidden, "PathStyleDomainForbidden", "the bucket has to be named in the host")
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		if first, _, _ := strings.Cut(r.key, "/"); first == f.opts.Bucket {
			return pathStyle
		}
		return nil
	}
	for _, domain := range []string{".myqcloud.com", ".tencentcos.cn"} {
		switch host {
		case f.opts.Bucket + ".cos." + f.opts.Region + domain:
			return nil
		case "cos." + f.opts.Region + domain:
			return pathStyle
		}
	}
	return fail(http.StatusNotFound, "NoSuchBucket", "the bucket does not exist")
}

// readBody reads the whole body before anything is judged by it. A body that
// breaks off stores nothing; one that is longer than its Content-Length is cut
// there by net/http, as COS cuts it silently (document 436/7749).
func (f *Fake) readBody(r *request) error {
	limit := int64(maxXMLBytes)
	switch {
	case r.op == PutObject:
		limit = f.opts.MaxObjectBytes
		if r.ContentLength < 0 || r.Header.Get("Content-Length") == "" {
			return fail(http.StatusLengthRequired, "MissingContentLength", "the length of the body has to be named")
		}
	case r.ContentLength < 0:
		return fail(http.StatusLengthRequired, "MissingContentLength", "the length of the body has to be named")
	}
	if r.ContentLength > limit {
		return fail(http.StatusBadRequest, "EntityTooLarge", "the body is too large")
	}
	if r.ContentLength > 0 {
		r.body = make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, r.body); err != nil {
			return fail(http.StatusBadRequest, "IncompleteBody", "the body ended early")
		}
	}
	f.log.update(r.entry, func(e *Request) { e.BodyBytes = int64(len(r.body)) })
	if ft := f.faults.take(FlipByteIn, r, func(ft *Fault) bool { return ft.At < int64(len(r.body)) }); ft != nil {
		r.body[ft.At] ^= 1
	}
	return checkContentMD5(r)
}
