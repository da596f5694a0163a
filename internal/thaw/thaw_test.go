package thaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
)

// bucket is a fake bucket whose clock moves when somebody waits.
type bucket struct {
	*cosfake.Server
	store  *cosstore.Store
	waited []time.Duration
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	began := time.Now().Truncate(time.Second) // and stands still
	f, err := cosfake.Start(cosfake.Options{Now: func() time.Time { return began }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	env := map[string]string{"COS_SECRET_ID": f.SecretID, "COS_SECRET_KEY": f.SecretKey}
	s, err := cosstore.New(cosstore.Config{
		Bucket: f.Bucket, Region: f.Region, Endpoint: f.URL,
		Credentials: credentials.Default(credentials.Options{Getenv: func(k string) string { return env[k] }, Home: t.TempDir()}),
		Sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &bucket{Server: f, store: s}
}

func (b *bucket) put(class string, keys ...string) {
	for _, key := range keys {
		b.Store(cosfake.Object{Key: key, Data: []byte(key), StorageClass: class})
	}
}

func (b *bucket) options() Options {
	return Options{Now: b.Now, Sleep: func(ctx context.Context, d time.Duration) error {
		b.waited = append(b.waited, d)
		b.Advance(d)
		return ctx.Err()
	}}
}

func (b *bucket) run(t *testing.T, opts Options, groups ...[]string) []error {
	t.Helper()
	errs, err := Run(t.Context(), b.store, groups, opts)
	if err != nil || len(errs) != len(groups) {
		t.Fatalf("Run = %v, %v", errs, err)
	}
	return errs
}

// orders counts the requests for a copy.
func (b *bucket) orders() int { return b.Count(cosfake.PostObjectRestore, "") }

// state says of each group whether it can be read, is cold, or failed.
func state(errs []error) string {
	var words []string
	for _, err := range errs {
		var cold *ColdError
		switch {
		case err == nil:
			words = append(words, "readable")
		case errors.As(err, &cold) && errors.Is(err, objstore.ErrCold):
			words = append(words, "cold")
		default:
			words = append(words, "failed")
		}
	}
	return strings.Join(words, " ")
}

func TestLookOnly(t *testing.T) {
	b := newBucket(t)
	b.put("", "warm/data", "warm/marker", "mixed/marker")
	b.put("STANDARD_IA", "warm/manifest")
	b.put("ARCHIVE", "mixed/data", "mixed/manifest")
	b.put("DEEP_ARCHIVE", "deep/data")
	errs := b.run(t, b.options(), []string{"warm/data", "warm/manifest", "warm/marker"}, []string{"mixed/data", "mixed/manifest", "mixed/marker"}, []string{"deep/data"}, []string{"no/object"})
	if got := state(errs); got != "readable cold cold readable" {
		t.Errorf("groups are %s", got)
	}
	for i, want := range map[int]string{
		1: "data and manifest are in ARCHIVE, frozen: not read; ask for a copy that can be read with --thaw TIER: expedited takes 1 to 5 minutes, standard takes 3 to 5 hours, bulk takes 5 to 12 hours",
		2: "data is in DEEP_ARCHIVE, frozen: not read; ask for a copy that can be read with --thaw TIER: standard takes 12 to 24 hours, bulk takes 24 to 48 hours",
	} {
		if diff := cmp.Diff(want, errs[i].Error()); diff != "" {
			t.Errorf("group %d (-want +got):\n%s", i, diff)
		}
	}
	if b.orders() != 0 || len(b.waited) != 0 {
		t.Errorf("%d copies were asked for, waited %v", b.orders(), b.waited)
	}
	// Somebody else asked.
	if err := b.store.Thaw(t.Context(), "deep/data", "", 1, "bulk"); err != nil {
		t.Fatal(err)
	}
	errs = b.run(t, b.options(), []string{"deep/data"})
	if state(errs) != "cold" || !strings.Contains(errs[0].Error(), "thawing: somebody has asked") {
		t.Errorf("what is thawing: %v", errs)
	}
	b.Advance(48 * time.Hour)
	if errs = b.run(t, b.options(), []string{"deep/data"}); errs[0] != nil {
		t.Errorf("what is thawed: %v", errs)
	}
}

func TestAskForAllAndComeBack(t *testing.T) {
	b := newBucket(t)
	var groups [][]string
	for i := range 25 {
		key := fmt.Sprintf("batch%02d/data", i)
		groups = append(groups, []string{key})
		b.put("ARCHIVE", key)
	}
	b.put("", "warm/data")
	groups = append(groups, []string{"warm/data"})
	opts := b.options()
	opts.Tier = "standard"
	errs := b.run(t, opts, groups...)
	if got := state(errs); got != strings.Repeat("cold ", 25)+"readable" || b.orders() != 25 {
		t.Errorf("groups are %s after %d orders", got, b.orders())
	}
	var cold *ColdError
	if !errors.As(errs[0], &cold) || cold.ReadyBy == nil || cold.ReadyBy.Sub(b.Now()) != 5*time.Hour || cold.ReadyFrom.Sub(b.Now()) != 3*time.Hour {
		t.Fatalf("a cold group: %+v", errs[0])
	}
	want := "a copy for 3 days was asked for (standard), ready between " + b.Now().UTC().Add(3*time.Hour).Format("2006-01-02 15:04") + " and "
	if !strings.Contains(errs[0].Error(), want) || !strings.Contains(errs[0].Error(), "come back then with the same command") {
		t.Errorf("it says %q, want %q", errs[0], want)
	}
	text, err := json.Marshal(cold)
	if err != nil || !strings.HasPrefix(string(text), `{"cold":[{"key":"batch00/data","storage_class":"ARCHIVE","bytes":12,"thaw":"thawing","asked":true}],"tier":"standard","days":3,"ready_from":"`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
	// Too early: nothing is asked for twice.
	errs = b.run(t, opts, groups...)
	if state(errs[:1]) != "cold" || b.orders() != 25 || !strings.Contains(errs[0].Error(), "asked for before: come back later") {
		t.Errorf("the second time: %v after %d orders", errs[0], b.orders())
	}
	b.Advance(5 * time.Hour)
	if errs = b.run(t, opts, groups...); state(errs) != strings.Repeat("readable ", 25)+"readable" || b.orders() != 25 {
		t.Errorf("groups are %s after %d orders", state(errs), b.orders())
	}
}

func TestWait(t *testing.T) {
	b := newBucket(t)
	b.put("ARCHIVE", "a/data", "b/data", "b/manifest")
	opts := b.options()
	opts.Tier, opts.Days, opts.Wait = "expedited", 1, time.Hour
	if errs := b.run(t, opts, []string{"a/data"}, []string{"b/data", "b/manifest"}); state(errs) != "readable readable" {
		t.Errorf("groups: %v", errs)
	}
	if n := len(b.waited); n < 3 || n > 30 || b.waited[0] > 20*time.Second || b.waited[n-1] < b.waited[0] {
		t.Errorf("waited %v", b.waited)
	}
	// A copy that is about to go is asked for again.
	before := b.orders()
	if errs := b.run(t, opts, []string{"a/data"}); errs[0] != nil || b.orders() != before {
		t.Errorf("a copy with a day to live: %v after %d more orders", errs, b.orders()-before)
	}
	b.Advance(23 * time.Hour)
	if errs := b.run(t, opts, []string{"a/data"}); errs[0] != nil || b.orders() != before+1 {
		t.Errorf("a copy with an hour to live: %v after %d more orders", errs, b.orders()-before)
	}
}

func TestWaitIsOver(t *testing.T) {
	b := newBucket(t)
	b.put("ARCHIVE", "a/data")
	opts := b.options()
	opts.Tier, opts.Wait = "standard", 2*time.Hour
	errs := b.run(t, opts, []string{"a/data"})
	if state(errs) != "cold" || !strings.Contains(errs[0].Error(), "thawing: not ready after 2h; the same command again goes on waiting, ready between ") {
		t.Errorf("group: %v", errs)
	}
	var sum time.Duration
	for _, d := range b.waited {
		sum += d
		if d > 6*time.Minute {
			t.Errorf("a pause of %v", d)
		}
	}
	if sum != opts.Wait {
		t.Errorf("waited %v in all, want %v", sum, opts.Wait)
	}
	// The next run goes on waiting for what is thawing, without a new order.
	opts.Wait = 4 * time.Hour
	if errs = b.run(t, opts, []string{"a/data"}); errs[0] != nil || b.orders() != 1 {
		t.Errorf("the second run: %v after %d orders", errs, b.orders())
	}
}

func TestNoSuchTier(t *testing.T) {
	b := newBucket(t)
	b.put("DEEP_ARCHIVE", "a/data")
	b.put("ARCHIVE", "b/data")
	opts := b.options()
	opts.Tier, opts.Wait = "expedited", time.Hour
	errs := b.run(t, opts, []string{"a/data"}, []string{"b/data"})
	if state(errs) != "cold readable" || !errors.Is(errs[0], objstore.ErrConfig) || b.orders() != 1 ||
		!strings.Contains(errs[0].Error(), "DEEP_ARCHIVE has no expedited thaw, standard takes 12 to 24 hours") {
		t.Errorf("groups: %v after %d orders", errs, b.orders())
	}
}

func TestTrouble(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault cosfake.Fault
		tier  string
		want  string
		says  string
	}{
		{"not to be looked at, nothing asked", cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.HeadObject, Key: "a/data"}, "", "readable cold", ""},
		{"not to be looked at", cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.HeadObject, Key: "a/data"}, "standard", "failed readable", "cos:HeadObject"},
		{"not to be asked for", cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PostObjectRestore, Key: "a/data"}, "standard", "cold readable", "cos:PostObjectRestore"},
		{"busy", cosfake.Fault{Kind: cosfake.SlowDown, Op: cosfake.PostObjectRestore, Times: 3}, "standard", "readable readable", ""},
		{"an answer lost", cosfake.Fault{Kind: cosfake.LoseAnswer, Op: cosfake.PostObjectRestore, Times: 1}, "standard", "readable readable", ""},
		{"blind while it thaws", cosfake.Fault{Kind: cosfake.Unavailable, Op: cosfake.HeadObject, Skip: 2, Times: 20}, "standard", "readable readable", ""},
		{"blind for good", cosfake.Fault{Kind: cosfake.Unavailable, Op: cosfake.HeadObject, Key: "a/data", Skip: 1}, "standard", "cold readable", "503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBucket(t)
			b.put("ARCHIVE", "a/data", "b/data")
			b.Inject(test.fault)
			opts := b.options()
			if opts.Tier = test.tier; test.tier != "" {
				opts.Wait = 6 * time.Hour
			}
			errs := b.run(t, opts, []string{"a/data"}, []string{"b/data"})
			if got := state(errs); got != test.want || !strings.Contains(fmt.Sprint(errs), test.says) {
				t.Errorf("groups are %s, want %s: %v", got, test.want, errs)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	b := newBucket(t)
	b.put("ARCHIVE", "a/data")
	ctx, cancel := context.WithCancel(t.Context())
	opts := b.options()
	opts.Tier, opts.Wait = "bulk", time.Hour
	opts.Sleep = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	if _, err := Run(ctx, b.store, [][]string{{"a/data"}}, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", err)
	}
	if _, err := Run(ctx, b.store, [][]string{{"a/data"}}, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}
