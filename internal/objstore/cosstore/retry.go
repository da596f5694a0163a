package cosstore

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
)

// Retry bounds how often a request is made and how long the pauses are. Pauses
// double from First to Max, and each is made up to half as long or half as long
// again by chance, so that many clients do not come back at one moment.
type Retry struct {
	Attempts int           // in all; 0 is 8, 1 tries nothing again
	First    time.Duration // 0 is 200 ms
	Max      time.Duration // 0 is 10 s; with the others at 0 the pauses sum up to about 23 s
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 8
	}
	if r.First <= 0 {
		r.First = 200 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 10 * time.Second
	}
	return r
}

// pauses returns the waiting times of one call.
func (r Retry) pauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: r.First, MaxInterval: r.Max,
		Multiplier: 2, RandomizationFactor: 0.5,
	}
}

// freshTries is how often an object that this process has just written is
// looked for again when COS says it is not there: no document promises that it
// is at once.
const freshTries = 5

// do calls try until it succeeds or cannot: what is tried again is judge's to
// say. The error is an *Error.
func (s *Store) do(ctx context.Context, op, key string, try func() error) error {
	e := s.attempts(ctx, op, key, try)
	if e == nil {
		return nil
	}
	e.action = giveUp // not once more by a do around this one
	return e
}

func (s *Store) attempts(ctx context.Context, op, key string, try func() error) *Error {
	var (
		pauses    = s.cfg.Retry.pauses()
		refreshed bool
		missing   int
	)
	for attempt := 1; ; attempt++ {
		used, _ := s.credentials.Retrieve(ctx) // an error comes with the request
		err := try()
		if err == nil {
			return nil
		}
		e := s.wrap(ctx, op, key, err)
		e.Attempts = max(e.Attempts, attempt)
		switch {
		case e.action == refresh && !refreshed:
			refreshed = true
			if err := s.refresh(ctx, used); err != nil {
				e.Err = errors.Join(e.Err, err)
				return e
			}
			s.cfg.Logger.InfoContext(ctx, "credential expired and was fetched again", "op", op, "object_key", key)
			continue
		case errors.Is(e, objstore.ErrNotExist) && missing < freshTries && s.fresh.has(key, s.cfg.Now()):
			missing++
		case e.action != again || attempt >= s.cfg.Retry.Attempts:
			return e
		}
		pause := pauses.NextBackOff()
		s.cfg.Logger.WarnContext(ctx, "request to COS will be tried again", "op", op, "object_key", key,
			"status", e.Status, "code", e.Code, "request_id", e.RequestID, "attempt", attempt, "pause", pause, "error", e)
		if err := s.cfg.Sleep(ctx, pause); err != nil {
			e.Err = errors.Join(err, e.Err)
			return e
		}
	}
}

var errNoRefresh = errors.New("their source has no newer ones")

// refresh fetches another pair than the one that COS calls expired, unless that
// was done since.
func (s *Store) refresh(ctx context.Context, used credentials.Credentials) error {
	s.credentials.Invalidate(used)
	pair, err := s.credentials.Retrieve(ctx)
	if err == nil && pair.Same(used) {
		err = errNoRefresh
	}
	return err
}

// gate is a mutex that is not waited for longer than the context lasts.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) unlock() { <-g }
