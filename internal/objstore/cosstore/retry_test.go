package cosstore

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
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

// renewable hands out another token after each time that it was asked, unless
// it is stale.
type renewable struct {
	mu    sync.Mutex
	token string
	asked int
	stale bool
	fail  error // from the second time on
}

func (*renewable) Source() string { return "a test" }

func (r *renewable) Retrieve(context.Context) (credentials.Credentials, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked++; r.asked > 1 {
		if r.fail != nil {
			return credentials.Credentials{}, r.fail
		}
		if !r.stale {
			r.token += "+"
		}
	}
	return credentials.New("test-secret-id", testSecretKey, r.token, time.Time{})
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
	srv, s := newServerWith(t, func(cfg *Config) { cfg.Credentials = c })
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
	if c.asked != 2 {
		t.Errorf("the source was asked %d times for 20 workers, want 2", c.asked)
	}
}

func TestTokenThatStaysExpired(t *testing.T) {
	for name, c := range map[string]*renewable{
		"no newer one":            {token: "old", stale: true},
		"could not fetch another": {token: "old", fail: errors.New("metadata service is away")},
	} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServerWith(t, func(cfg *Config) { cfg.Credentials = c })
			srv.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, http.StatusForbidden, "ExpiredToken")
				return true
			})
			_, err := get(t, s, "key")
			if want := cmp.Or(c.fail, errNoRefresh); !errors.Is(err, objstore.ErrDenied) || !errors.Is(err, want) {
				t.Errorf("Get = %v, want %v", err, want)
			}
			if c.asked != 2 || srv.count("GET ") != 1 {
				t.Errorf("the source was asked %d times and COS %d times, want 2 and 1", c.asked, srv.count("GET "))
			}
		})
	}
	// Another one that is expired too is not the first of many.
	srv, s := newServerWith(t, func(cfg *Config) { cfg.Credentials = &renewable{token: "old"} })
	srv.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusForbidden, "ExpiredToken")
		return true
	})
	if _, err := get(t, s, "key"); !errors.Is(err, objstore.ErrDenied) || srv.count("GET ") != 2 {
		t.Errorf("Get = %v after %d requests, want 2", err, srv.count("GET "))
	}
}

// A request inside of another that is tried again does not multiply the tries.
func TestTriesAreNotMultiplied(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Method {
		case http.MethodPut:
			reset(t, w)
		case http.MethodHead:
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
		default:
			return false
		}
		return true
	})
	_, _, err := put(t, s, "key", "body")
	var e *Error
	if !errors.As(err, &e) || e.Op != lookUp || e.Status != http.StatusServiceUnavailable {
		t.Errorf("Put = %v, want that it could not be looked up", err)
	}
	if puts, heads := srv.count("PUT "), srv.count("HEAD "); puts != 1 || heads != 8 {
		t.Errorf("%d PUT and %d HEAD, want 1 and 8", puts, heads)
	}
}
