package credentials

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rotating hands out pair after pair.
type rotating struct {
	mu    sync.Mutex
	life  time.Duration // 0 is without end
	now   func() time.Time
	err   error
	calls int
	gate  *gate // when not nil, Retrieve waits at it
}

// gate holds a call: it tells that the call has come, and waits to be opened.
type gate struct{ come, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

func (*rotating) Source() string { return "rotating" }

func (r *rotating) Retrieve(ctx context.Context) (Credentials, error) {
	r.mu.Lock()
	r.calls++
	n, err, gate := r.calls, r.err, r.gate
	r.mu.Unlock()
	if gate != nil {
		close(gate.come)
		select {
		case <-gate.open:
		case <-ctx.Done():
			return Credentials{}, ctx.Err()
		}
	}
	if err != nil {
		return Credentials{}, err
	}
	var expires time.Time
	if r.life != 0 {
		expires = r.now().Add(r.life)
	}
	return New(fmt.Sprintf("id-%d", n), "key", "token", expires)
}

func (r *rotating) set(err error, gate *gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.gate = err, gate
}

// testClock is a clock that stands still until it is moved.
type testClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func newTestCache(life time.Duration) (*Cache, *rotating, *testClock) {
	c := &testClock{t: now}
	r := &rotating{life: life, now: c.now}
	return NewCache(r, CacheOptions{Now: c.now}), r, c
}

func wantID(t *testing.T, c *Cache, want string) Credentials {
	t.Helper()
	creds, err := c.Retrieve(t.Context())
	if err != nil {
		t.Fatalf("Retrieve: %v, want %s", err, want)
	}
	if creds.SecretID() != want {
		t.Errorf("Retrieve = %s, want %s", creds.SecretID(), want)
	}
	return creds
}

func TestCacheFetchesBeforeTheEnd(t *testing.T) {
	c, _, clock := newTestCache(time.Hour)
	wantID(t, c, "id-1")
	clock.advance(55*time.Minute - time.Second)
	wantID(t, c, "id-1")
	clock.advance(time.Second)
	wantID(t, c, "id-2")
	wantID(t, c, "id-2")
	if c.Source() != "rotating" {
		t.Errorf("source = %q", c.Source())
	}
}

func TestCacheOfAShortLife(t *testing.T) {
	c, _, clock := newTestCache(time.Minute) // less than DefaultEarly
	wantID(t, c, "id-1")
	clock.advance(29 * time.Second)
	wantID(t, c, "id-1")
	clock.advance(time.Second)
	wantID(t, c, "id-2")
}

func TestCacheWithoutEnd(t *testing.T) {
	c, _, clock := newTestCache(0)
	wantID(t, c, "id-1")
	clock.advance(10 * 365 * 24 * time.Hour)
	wantID(t, c, "id-1")
}

func TestCacheOutlivesAFailingSource(t *testing.T) {
	c, r, clock := newTestCache(time.Hour)
	wantID(t, c, "id-1")
	broken := errors.New("broken")
	r.set(broken, nil)
	clock.advance(56 * time.Minute)
	wantID(t, c, "id-1") // still good
	wantID(t, c, "id-1") // and the source is left alone for a while
	if r.calls != 2 {
		t.Errorf("source asked %d times, want 2", r.calls)
	}
	clock.advance(retryAfter)
	wantID(t, c, "id-1")
	if r.calls != 3 {
		t.Errorf("source asked %d times, want 3", r.calls)
	}
	clock.advance(4 * time.Minute) // the end
	if creds, err := c.Retrieve(t.Context()); !errors.Is(err, broken) || !creds.IsZero() {
		t.Errorf("Retrieve after the end: %v, want the error of the source", err)
	}
	r.set(nil, nil)
	wantID(t, c, "id-5")
}

func TestCacheRefusesWhatHasEnded(t *testing.T) {
	c, _, _ := newTestCache(-time.Second)
	if creds, err := c.Retrieve(t.Context()); !errors.Is(err, ErrExpired) || !creds.IsZero() {
		t.Errorf("Retrieve: %v, want ErrExpired", err)
	}
}

func TestInvalidate(t *testing.T) {
	c, r, _ := newTestCache(time.Hour)
	first := wantID(t, c, "id-1")
	c.Invalidate(first)
	second := wantID(t, c, "id-2")
	c.Invalidate(first) // of a request that was under way with the first
	wantID(t, c, "id-2")
	c.Invalidate(Credentials{})
	wantID(t, c, "id-2")
	r.set(errors.New("broken"), nil)
	c.Invalidate(second)
	if creds, err := c.Retrieve(t.Context()); err == nil {
		t.Errorf("Retrieve = %s, which a server has refused", creds.SecretID())
	}
}

// A pair that a server refuses while it is being fetched again must not come
// back when that fetch fails.
func TestInvalidateDuringAFetch(t *testing.T) {
	c, r, clock := newTestCache(time.Hour)
	first := wantID(t, c, "id-1")
	broken := errors.New("broken")
	gate := newGate()
	r.set(broken, gate)
	clock.advance(56 * time.Minute)
	fetched := make(chan error)
	go func() {
		_, err := c.Retrieve(t.Context())
		fetched <- err
	}()
	<-gate.come
	c.Invalidate(first)
	close(gate.open)
	if err := <-fetched; !errors.Is(err, broken) {
		t.Errorf("Retrieve: %v, want the error of the source", err)
	}
}

func TestCacheAsksOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _ := newTestCache(time.Hour)
		gate := newGate()
		r.set(nil, gate)
		for range 50 {
			go func() {
				creds, err := c.Retrieve(t.Context())
				if err != nil || creds.SecretID() != "id-1" {
					t.Errorf("Retrieve = %s, %v, want id-1", creds.SecretID(), err)
				}
			}()
		}
		synctest.Wait() // until one is at the gate and the others wait for it
		close(gate.open)
		synctest.Wait()
		if r.calls != 1 {
			t.Errorf("source asked %d times, want 1", r.calls)
		}
	})
}

// While one caller fetches early, the others go on with the pair that is good.
func TestCacheDoesNotWaitForAnEarlyFetch(t *testing.T) {
	c, r, clock := newTestCache(time.Hour)
	wantID(t, c, "id-1")
	gate := newGate()
	r.set(nil, gate)
	clock.advance(56 * time.Minute)
	fetched := make(chan string)
	go func() {
		creds, _ := c.Retrieve(t.Context())
		fetched <- creds.SecretID()
	}()
	<-gate.come
	wantID(t, c, "id-1")
	close(gate.open)
	if id := <-fetched; id != "id-2" {
		t.Errorf("fetched %s, want id-2", id)
	}
	wantID(t, c, "id-2")
}

func TestWaitForCredentialsEndsWithTheContext(t *testing.T) {
	c, r, _ := newTestCache(time.Hour)
	gate := newGate()
	r.set(nil, gate)
	fetched := make(chan error)
	go func() {
		_, err := c.Retrieve(t.Context())
		fetched <- err
	}()
	<-gate.come
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Retrieve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Retrieve: %v, want Canceled", err)
	}
	close(gate.open)
	if err := <-fetched; err != nil {
		t.Error(err)
	}
}
