package cosfake

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Request is one request as it arrived. Its Authorization is not kept, and of
// a token only that there was one.
type Request struct {
	ID     string // x-cos-request-id
	Time   time.Time
	Method string
	Op     Op // "" when the request was refused before that was known
	Key    string
	Host   string
	Query  url.Values
	Header http.Header
	// BodyBytes is how much of a body arrived.
	BodyBytes int64
	// Status is that of the answer; 0 when none was sent, or not yet.
	Status int
	// Code is that of a refusal, also for HEAD, whose answer cannot carry it.
	Code string
	// RemoteAddr tells connections apart.
	RemoteAddr string
}

// tokenKept stands in the log for a token.
const tokenKept = "(not kept)"

// requestLog remembers the last requests.
type requestLog struct {
	mu      sync.Mutex
	limit   int
	count   int64
	entries []*Request
}

// begin writes down that a request arrived, and gives it its id.
func (l *requestLog) begin(r *http.Request) (string, *Request) {
	e := &Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, Header: r.Header.Clone(), RemoteAddr: r.RemoteAddr,
		Query: url.Values{}, Key: strings.TrimPrefix(r.URL.Path, "/"),
	}
	for name, values := range r.URL.Query() {
		switch {
		case strings.EqualFold(name, hdrToken):
			e.Query.Set(name, tokenKept)
		case !strings.HasPrefix(name, "q-"):
			e.Query[name] = values
		}
	}
	e.Header.Del("Authorization")
	if e.Header.Get(hdrToken) != "" {
		e.Header.Set(hdrToken, tokenKept)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	e.ID = fmt.Sprintf("NjZm%016x", l.count)
	if len(l.entries) >= l.limit {
		l.entries = l.entries[1:]
	}
	l.entries = append(l.entries, e)
	return e.ID, e
}

// update changes an entry.
func (l *requestLog) update(e *Request, change func(*Request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(e)
}

// Requests returns the requests that the log remembers, oldest first. The maps
// in them are not to be changed.
func (f *Fake) Requests() []Request {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	all := make([]Request, len(f.log.entries))
	for i, e := range f.log.entries {
		all[i] = *e
	}
	return all
}

// Count is how many requests of this operation the log remembers for key; ""
// is any of either.
func (f *Fake) Count(op Op, key string) int {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	n := 0
	for _, e := range f.log.entries {
		if (op == "" || e.Op == op) && (key == "" || e.Key == key) {
			n++
		}
	}
	return n
}

// ClearLog forgets all requests.
func (f *Fake) ClearLog() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.log.entries = nil
}
