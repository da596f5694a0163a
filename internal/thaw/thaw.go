// Package thaw gets objects out of cold storage: which of them cannot be read,
// what a readable copy takes, asking for all of them at once, and waiting for
// them. Start with [Run].
package thaw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/hyapp/walletarchive/internal/clock"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
)

// Store is what thawing needs of a store.
type Store interface {
	objstore.Thawer
	Head(ctx context.Context, key, versionID string) (objstore.Info, error)
}

// Tiers are the speeds of a thaw, the dearest first. Not every class has all.
var Tiers = []string{"expedited", "standard", "bulk"}

// Defaults and limits of [Options].
const (
	DefaultDays = 3
	MaxDays     = 365
)

// Options say what is done about cold objects. The zero value only looks.
type Options struct {
	Tier string // one of Tiers; "" asks for nothing
	Days int    // how long a copy stays readable; 0 is DefaultDays
	// Wait is how long to wait for the copies; 0 asks and does not wait.
	Wait time.Duration
	// Workers is how many requests are made at once; 0 is 16. The store keeps
	// below the rate of its service by itself.
	Workers int
	// Now is the clock; nil is time.Now. Sleep waits and returns ctx.Err() when
	// ctx ends first; nil really waits. Both are for tests.
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Logger *slog.Logger // nil discards
}

func (o Options) withDefaults() Options {
	if o.Days == 0 {
		o.Days = DefaultDays
	}
	if o.Workers <= 0 {
		o.Workers = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = clock.Sleep
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pauses between two looks at what is thawing.
const (
	firstPause = 15 * time.Second
	maxPause   = 5 * time.Minute
)

// soon is how much life a readable copy has to have left beyond the wait; one
// with less is asked for again, which makes it last longer.
const soon = time.Hour

// Run looks at every object of every group, a group being what is read together,
// and returns an error for each group that cannot be read now: a *[ColdError], or
// why its objects could not be looked at or asked for. nil is a group that can be
// read. An object that is not there is none of Run's business.
//
// With a Tier it first asks for a copy of every frozen object of all groups, and
// then, with a Wait, looks until all are readable or the time is over. The error
// is ctx.Err().
func Run(ctx context.Context, store Store, groups [][]string, opts Options) ([]error, error) {
	r := &run{store: store, opts: opts.withDefaults(), groups: make([]group, len(groups))}
	r.started = r.opts.Now()
	for i, keys := range groups {
		for _, key := range keys {
			r.groups[i].objects = append(r.groups[i].objects, &object{key: key})
		}
	}
	steps := []func(context.Context) error{r.survey}
	if r.opts.Tier != "" {
		steps = append(steps, r.ask)
		if r.opts.Wait > 0 {
			steps = append(steps, r.wait)
		}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(groups))
	for i := range r.groups {
		errs[i] = r.judge(&r.groups[i])
	}
	return errs, nil
}

// run is one Run.
type run struct {
	store   Store
	opts    Options
	started time.Time
	groups  []group
}

// group is what is read together.
type group struct{ objects []*object }

// object is one object. After the survey only one goroutine at a time has it.
type object struct {
	key   string
	info  objstore.Info
	asked bool
	err   error // of the last look, or of the order
}

// cold: it cannot be read now.
func (o *object) cold() bool {
	return o.info.Thaw.State == objstore.Frozen || o.info.Thaw.State == objstore.Thawing
}

// each calls work with the objects that pick chooses, some at once. work's error
// is the object's, but for the end of ctx.
func (r *run) each(ctx context.Context, pick func(*object) bool, work func(context.Context, *object) error) (n int, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.opts.Workers)
	for i := range r.groups {
		for _, o := range r.groups[i].objects {
			if gctx.Err() != nil {
				break
			}
			if !pick(o) {
				continue
			}
			n++
			g.Go(func() error {
				o.err = work(gctx, o)
				return gctx.Err()
			})
		}
	}
	err = g.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return n, err
}

func (r *run) look(ctx context.Context, o *object) error {
	info, err := r.store.Head(ctx, o.key, "")
	if errors.Is(err, objstore.ErrNotExist) {
		return nil
	}
	if err == nil {
		o.info = info
	}
	return err
}

func (r *run) survey(ctx context.Context) error {
	_, err := r.each(ctx, func(*object) bool { return true }, r.look)
	return err
}

// ask orders copies, in one go.
func (r *run) ask(ctx context.Context) error {
	ends := r.started.Add(r.opts.Wait + soon)
	n, err := r.each(ctx, func(o *object) bool {
		if o.err != nil {
			return false
		}
		thaw := o.info.Thaw
		return thaw.State == objstore.Frozen || thaw.State == objstore.Thawed && !thaw.Expiry.IsZero() && thaw.Expiry.Before(ends)
	}, func(ctx context.Context, o *object) error {
		class := o.info.StorageClass
		if _, _, ok := cosstore.ThawTime(class, r.opts.Tier); !ok && objstore.Cold(class) {
			return fmt.Errorf("%s: %s has no %s thaw, %s: %w", o.key, class, r.opts.Tier, takes(class), objstore.ErrConfig)
		}
		err := r.store.Thaw(ctx, o.key, o.info.VersionID, r.opts.Days, r.opts.Tier)
		switch {
		case o.info.Thaw.State == objstore.Thawed:
			if err != nil && ctx.Err() == nil { // it can be read for now
				r.opts.Logger.WarnContext(ctx, "could not make a readable copy last longer", "object_key", o.key, "expiry", o.info.Thaw.Expiry, "error", err)
			}
			return nil
		case err == nil:
			o.asked, o.info.Thaw.State = true, objstore.Thawing
		}
		return err
	})
	if err == nil && n > 0 {
		r.opts.Logger.InfoContext(ctx, "asked for readable copies of cold objects", "objects", n, "tier", r.opts.Tier, "days", r.opts.Days)
	}
	return err
}

// wait looks at what is thawing until nothing is, or the time is over.
func (r *run) wait(ctx context.Context) error {
	pending := func(o *object) bool { return o.cold() && (o.asked || o.info.Thaw.State == objstore.Thawing) }
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 1.5, RandomizationFactor: 0.2}
	deadline := r.started.Add(r.opts.Wait)
	for {
		n := 0
		for i := range r.groups {
			for _, o := range r.groups[i].objects {
				if pending(o) {
					n++
				}
			}
		}
		left := deadline.Sub(r.opts.Now())
		if n == 0 || left <= 0 {
			return nil
		}
		pause := min(pauses.NextBackOff(), left)
		r.opts.Logger.InfoContext(ctx, "waiting for objects to thaw", "objects", n, "next_look_in", pause.Round(time.Second).String(),
			"until", deadline.UTC().Format(time.RFC3339))
		if err := r.opts.Sleep(ctx, pause); err != nil {
			return err
		}
		_, err := r.each(ctx, pending, func(ctx context.Context, o *object) error {
			err := r.look(ctx, o)
			if err != nil && ctx.Err() == nil {
				r.opts.Logger.WarnContext(ctx, "could not look at an object that thaws", "object_key", o.key, "error", err)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}

// judge says why a group cannot be read; nil when it can.
func (r *run) judge(g *group) error {
	e := &ColdError{Tier: r.opts.Tier, Days: r.opts.Days, Waited: r.opts.Wait}
	var failed []error
	for _, o := range g.objects {
		// Who asks for nothing finds out by reading what a look could not tell.
		if o.err != nil && (r.opts.Tier != "" || o.cold()) {
			failed = append(failed, o.err)
		}
		if !o.cold() {
			continue
		}
		e.Objects = append(e.Objects, Object{Key: o.key, StorageClass: o.info.StorageClass, Bytes: o.info.Size, Thaw: o.info.Thaw.State.String(), Asked: o.asked})
		if o.asked {
			e.addTime(r.started, o.info.StorageClass)
		}
	}
	if len(e.Objects) == 0 {
		return errors.Join(failed...)
	}
	e.Err = errors.Join(failed...)
	return e
}
