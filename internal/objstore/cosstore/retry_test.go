package cosstore

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
)

// pauses records what would have been slept.
type pauses struct {
	mu   sync.Mutex
	list []time.Duration
}

func (p *pauses) sleep(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, d)
	return ctx.Err()
}

func TestRetries(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}
	for _, test := range []struct {
		name   string
		faults int
		fault  func(t *testing.T) func(http.ResponseWriter, *http.Request) bool
		asked  int
		ok     bool
	}{
		{"busy for a while", 5, func(*testing.T) func(http.ResponseWriter, *http.Request) bool { return busy }, 6, true},
		{"busy to the end", 99, func(*testing.T) func(http.ResponseWriter, *http.Request) bool { return busy }, 8, false},
		{"no answer", 3, func(t *testing.T) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { reset(t, w); return true }
		}, 4, true},
		{"refused", 99, func(*testing.T) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, http.StatusForbidden, "AccessDenied")
				return true
			}
		}, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p pauses
			srv, s := newServerWith(t, func(c *Config) { c.Sleep = p.sleep })
			srv.store("key", []byte("body"), "")
			srv.intercept(first(test.faults, "GET ", test.fault(t)))
			got, err := get(t, s, "key")
			if (err == nil) != test.ok || test.ok && got != "body" {
				t.Errorf("Get = %q, %v", got, err)
			}
			if n := srv.count("GET "); n != test.asked {
				t.Errorf("asked %d times, want %d", n, test.asked)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Attempts != test.asked) {
				t.Errorf("Get = %v, want %d attempts named", err, test.asked)
			}
			want := 200 * time.Millisecond
			for i, d := range p.list {
				if d < want/2 || d > want*3/2+1 {
					t.Errorf("pause %d is %v, want %v or half as long or half as long again", i, d, want)
				}
				want = min(2*want, 10*time.Second)
			}
			if len(p.list) != test.asked-1 {
				t.Errorf("%d pauses between %d requests", len(p.list), test.asked)
			}
		})
	}
}

func TestPausesAreNotAllTheSame(t *testing.T) {
	var all []time.Duration
	for range 20 {
		all = append(all, Retry{}.withDefaults().pauses().NextBackOff())
	}
	slices.Sort(all)
	if len(slices.Compact(all)) < 2 {
		t.Errorf("20 first pauses are all %v", all[0])
	}
}

func TestCancelEndsAPauseAtOnce(t *testing.T) {
	srv, s := newServerWith(t, func(c *Config) { c.Sleep = nil; c.Retry.First = time.Hour; c.Retry.Max = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	srv.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		time.AfterFunc(20*time.Millisecond, cancel)
		return true
	})
	start := time.Now()
	_, err := s.Head(ctx, "key", "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Head = %v, want context.Canceled", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Head returned after %v", took)
	}
}

// renewable counts how often it is fetched again.
type renewable struct {
	mu      sync.Mutex
	token   string
	fetched int
	fail    error
}

func (*renewable) GetSecretId() string  { return "test-secret-id" }
func (*renewable) GetSecretKey() string { return testSecretKey }
func (r *renewable) GetToken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

func (r *renewable) Refresh(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetched++
	if r.fail == nil {
		r.token += "+"
	}
	return r.fail
}

func expire(token string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Cos-Security-Token") != token {
			return false
		}
		refuse(w, http.StatusForbidden, "ExpiredToken")
		return true
	}
}

func TestExpiredTokenIsFetchedOnce(t *testing.T) {
	c := &renewable{token: "old"}
	srv, s := newServerWith(t, func(cfg *Config) { cfg.Credential = c })
	srv.store("key", []byte("body"), "")
	srv.intercept(expire("old"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := get(t, s, "key"); err != nil || got != "body" {
				t.Errorf("Get = %q, %v", got, err)
			}
			if _, err := s.Head(t.Context(), "key", ""); err != nil {
				t.Errorf("Head = %v", err)
			}
			if _, _, err := put(t, s, "key", "body"); err != nil {
				t.Errorf("Put = %v", err)
			}
		})
	}
	wg.Wait()
	if c.fetched != 1 {
		t.Errorf("fetched %d times for 20 workers, want 1", c.fetched)
	}
}

func TestTokenThatStaysExpired(t *testing.T) {
	for name, c := range map[string]*renewable{
		"fetched, but no better":  {token: "old"},
		"could not fetch another": {token: "old", fail: errors.New("metadata service is away")},
	} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServerWith(t, func(cfg *Config) { cfg.Credential = c })
			srv.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, http.StatusForbidden, "ExpiredToken")
				return true
			})
			_, err := get(t, s, "key")
			if !errors.Is(err, objstore.ErrDenied) || c.fail != nil && !errors.Is(err, c.fail) {
				t.Errorf("Get = %v", err)
			}
			if c.fetched != 1 || srv.count("GET ") > 2 {
				t.Errorf("fetched %d times, asked %d times", c.fetched, srv.count("GET "))
			}
		})
	}
	srv, s := newServer(t)
	srv.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusForbidden, "ExpiredToken")
		return true
	})
	if _, err := get(t, s, "key"); !errors.Is(err, errNoRefresh) || srv.count("GET ") != 1 {
		t.Errorf("with fixed credentials Get = %v after %d requests", err, srv.count("GET "))
	}
}
