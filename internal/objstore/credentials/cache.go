package credentials

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultEarly is how long before its end a pair is fetched again.
	DefaultEarly = 5 * time.Minute
	// retryAfter is how long a pair that is still good is used without asking
	// again when the source failed.
	retryAfter = 10 * time.Second
)

// CacheOptions say how a [Cache] keeps a pair.
type CacheOptions struct {
	// Early is how long before its end a pair is fetched again; 0 is
	// DefaultEarly. A pair that lives for less is used until half its time.
	Early time.Duration
	// Now is nil for time.Now.
	Now func() time.Time
}

// Cache keeps the pair of a provider until shortly before its end. One caller
// at a time asks the provider; the others use the pair that is still good, or
// wait. It is safe for use by many goroutines, and is a Provider itself.
type Cache struct {
	provider Provider
	early    time.Duration
	now      func() time.Time
	fetching chan struct{} // holds one token while a caller asks the provider

	mu      sync.Mutex
	current Credentials
	renew   time.Time // when to ask again; zero for never
}

// NewCache returns an empty cache over p, which must not be a Cache.
func NewCache(p Provider, opts CacheOptions) *Cache {
	c := &Cache{provider: p, early: opts.Early, now: opts.Now, fetching: make(chan struct{}, 1)}
	if c.early == 0 {
		c.early = DefaultEarly
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Source names the source of the provider.
func (c *Cache) Source() string { return c.provider.Source() }

// Retrieve returns the pair, from the provider when there is none that is good.
// When the provider fails and the pair has not ended, that pair is returned.
// ErrExpired is returned when the provider hands out one that has ended.
func (c *Cache) Retrieve(ctx context.Context) (Credentials, error) {
	for {
		creds, good, fresh := c.look()
		if fresh {
			return creds, nil
		}
		select {
		case c.fetching <- struct{}{}:
		default:
			if good { // another caller is at it
				return creds, nil
			}
			select {
			case c.fetching <- struct{}{}:
			case <-ctx.Done():
				return Credentials{}, fmt.Errorf("wait for credentials: %w", ctx.Err())
			}
		}
		creds, err, done := c.fetch(ctx)
		<-c.fetching
		if done {
			return creds, err
		}
	}
}

// look returns what is kept: good until it ends, fresh until it is to be
// fetched again.
func (c *Cache) look() (creds Credentials, good, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.IsZero() {
		return Credentials{}, false, false
	}
	now := c.now()
	end := c.current.Expires()
	good = end.IsZero() || now.Before(end)
	return c.current, good, good && (c.renew.IsZero() || now.Before(c.renew))
}

// fetch asks the provider, unless another caller just did; done is false then.
func (c *Cache) fetch(ctx context.Context) (creds Credentials, err error, done bool) {
	old, good, fresh := c.look()
	if fresh {
		return Credentials{}, nil, false
	}
	creds, err = c.provider.Retrieve(ctx)
	now := c.now()
	if err == nil && !creds.Expires().IsZero() && !now.Before(creds.Expires()) {
		err = fmt.Errorf("credentials from %s: %w", c.provider.Source(), ErrExpired)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.current, c.renew = creds, c.renewal(creds, now)
		return creds, nil, true
	case good && c.current.Same(old):
		c.renew = now.Add(retryAfter)
		return old, nil, true
	}
	return Credentials{}, err, true
}

// renewal is when creds are to be fetched again.
func (c *Cache) renewal(creds Credentials, now time.Time) time.Time {
	end := creds.Expires()
	if end.IsZero() {
		return time.Time{}
	}
	return end.Add(-min(c.early, end.Sub(now)/2))
}

// Invalidate drops used, after a server called it expired or refused it, so
// that the next Retrieve asks the provider. When another pair is kept by now
// nothing is dropped: of many requests that failed with one pair, the first
// does it. A provider that then hands out the same pair ([Credentials.Same]) has
// no better one, and trying again is of no use.
func (c *Cache) Invalidate(used Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Same(used) {
		c.current, c.renew = Credentials{}, time.Time{}
	}
}
