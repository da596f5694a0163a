package cosstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/objstore/storetest"
	"github.com/hyapp/walletarchive/manifest"
)

// fake starts a fake bucket and a store on it that never really waits.
func fake(t *testing.T, opts cosfake.Options) (*cosfake.Server, *Store) {
	t.Helper()
	return fakeWith(t, opts, func(*Config) {})
}

func fakeWith(t *testing.T, opts cosfake.Options, change func(*Config)) (*cosfake.Server, *Store) {
	t.Helper()
	f, err := cosfake.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	cfg := Config{
		Bucket: f.Bucket, Region: f.Region, Endpoint: f.URL,
		Credentials: fixed{f.SecretID, f.SecretKey, f.Token},
		Sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return f, s
}

func TestContract(t *testing.T) {
	for _, test := range []struct {
		name     string
		options  cosfake.Options
		features storetest.Features
	}{
		{"unversioned", cosfake.Options{}, storetest.Features{SHA256: true}},
		{"versioned", cosfake.Options{Versioning: "Enabled"}, storetest.Features{SHA256: true, Versions: true, BigBytes: 1<<20 + 17, Objects: 40}},
		{"suspended", cosfake.Options{Versioning: "Suspended"}, storetest.Features{SHA256: true, NullVersion: true, BigBytes: 1<<20 + 17, Objects: 40}},
	} {
		t.Run(test.name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objstore.Store {
				_, s := fake(t, test.options)
				return s
			}, test.features)
		})
	}
}

// Every kind of passing trouble hits every third request of its kind.
func TestContractUnderFaults(t *testing.T) {
	for _, kind := range []cosfake.Fault{
		{Kind: cosfake.SlowDown}, {Kind: cosfake.Unavailable}, {Kind: cosfake.ResetConnection},
		{Kind: cosfake.LoseAnswer}, {Kind: cosfake.CutBody, At: 1000}, {Kind: cosfake.CutBody, At: 0},
	} {
		t.Run(fmt.Sprint(kind.Kind, kind.At), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objstore.Store {
				f, s := fake(t, cosfake.Options{})
				kind.Match = everyThird()
				f.Inject(kind)
				return s
			}, storetest.Features{SHA256: true, Lossy: true, BigBytes: 1<<20 + 17, Objects: 40})
		})
	}
}

func everyThird() func(cosfake.Op, string, *http.Request) bool {
	var n atomic.Int64
	return func(cosfake.Op, string, *http.Request) bool { return n.Add(1)%3 == 0 }
}

func mustPut(t *testing.T, s *Store, key, text string, opts objstore.PutOptions) objstore.Info {
	t.Helper()
	info, _, err := s.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), manifest.SumHash([]byte(text)), opts)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestThaw(t *testing.T) {
	f, s := fake(t, cosfake.Options{})
	for class, step := range map[string]time.Duration{"ARCHIVE": 3 * time.Hour, "DEEP_ARCHIVE": 13 * time.Hour} {
		key := "cold/" + class
		mustPut(t, s, key, "cold bytes", objstore.PutOptions{StorageClass: class})
		state := func() objstore.ThawState {
			t.Helper()
			info, err := s.Head(t.Context(), key, "")
			if err != nil {
				t.Fatal(err)
			}
			return info.Thaw.State
		}
		if got := state(); got != objstore.Frozen {
			t.Errorf("%s: state %v, want frozen", class, got)
		}
		if _, err := get(t, s, key); !errors.Is(err, objstore.ErrCold) {
			t.Errorf("%s: Get = %v, want ErrCold", class, err)
		}
		for _, want := range []objstore.ThawState{objstore.Thawing, objstore.Thawing, objstore.Thawed, objstore.Thawed} {
			if err := s.Thaw(t.Context(), key, "", 3, "standard"); err != nil {
				t.Errorf("%s: Thaw while it is to become %v = %v", class, want, err)
			}
			if got := state(); got != want {
				t.Errorf("%s: state %v, want %v", class, got, want)
			}
			f.Advance(step)
		}
		if got, err := get(t, s, key); err != nil || got != "cold bytes" {
			t.Errorf("%s: Get of a thawed object = %q, %v", class, got, err)
		}
		f.Advance(5 * 24 * time.Hour)
		if got := state(); got != objstore.Frozen {
			t.Errorf("%s: state %v after the copy's life, want frozen", class, got)
		}
	}
}

func TestThawOfWhatIsNotCold(t *testing.T) {
	f, s := fake(t, cosfake.Options{})
	mustPut(t, s, "warm", "x", objstore.PutOptions{})
	mustPut(t, s, "deep", "x", objstore.PutOptions{StorageClass: "DEEP_ARCHIVE"})
	if err := s.Thaw(t.Context(), "warm", "", 1, "bulk"); err != nil {
		t.Errorf("Thaw of a warm object = %v", err)
	}
	if err := s.Thaw(t.Context(), "absent", "", 1, "bulk"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Thaw of an absent object = %v, want ErrNotExist", err)
	}
	if err := s.Thaw(t.Context(), "deep", "", 1, "expedited"); err == nil || !strings.Contains(err.Error(), "use standard or bulk") {
		t.Errorf("expedited Thaw of DEEP_ARCHIVE = %v", err)
	}
	before := f.Count("", "")
	for _, err := range []error{
		s.Thaw(t.Context(), "deep", "", 0, "bulk"),
		s.Thaw(t.Context(), "deep", "", 1, "Bulk"),
	} {
		if !errors.Is(err, objstore.ErrConfig) {
			t.Errorf("Thaw = %v, want ErrConfig", err)
		}
	}
	if err := s.Thaw(t.Context(), "../x", "", 1, "bulk"); !errors.Is(err, manifest.ErrBadKey) {
		t.Errorf("Thaw = %v, want ErrBadKey", err)
	}
	if n := f.Count("", "") - before; n != 0 {
		t.Errorf("%d requests for what is refused here", n)
	}
}

func TestThawKeepsBelowTheRate(t *testing.T) {
	_, s := fake(t, cosfake.Options{})
	mustPut(t, s, "cold", "x", objstore.PutOptions{StorageClass: "ARCHIVE"})
	now := time.Unix(1_700_000_000, 0)
	var p pauses
	s.cfg.Now, s.cfg.Sleep = func() time.Time { return now }, p.sleep
	for range 4 {
		if err := s.Thaw(t.Context(), "cold", "", 1, "bulk"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]time.Duration{thawPause, 2 * thawPause, 3 * thawPause}, p.list); diff != "" {
		t.Errorf("pauses of four requests in one moment (-want +got):\n%s", diff)
	}
}

func TestObjectLock(t *testing.T) {
	f, s := fake(t, cosfake.Options{ObjectLock: true})
	until := f.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	info := mustPut(t, s, "locked", "x", objstore.PutOptions{RetainUntil: until})
	if !info.RetainUntil.Equal(until) {
		t.Errorf("Put.RetainUntil = %v, want %v", info.RetainUntil, until)
	}
	head, err := s.Head(t.Context(), "locked", "")
	if err != nil || !head.RetainUntil.Equal(until) {
		t.Errorf("Head.RetainUntil = %v, %v, want %v", head.RetainUntil, err, until)
	}
	if err := s.Delete(t.Context(), "locked", ""); !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "object lock") {
		t.Errorf("Delete of a locked object = %v, want ErrDenied that names the lock", err)
	}
	lock, err := s.ObjectLock(t.Context())
	if err != nil || !lock.Enabled || lock.Days != 0 {
		t.Errorf("ObjectLock = %+v, %v", lock, err)
	}
	_, plain := fake(t, cosfake.Options{})
	if lock, err := plain.ObjectLock(t.Context()); err != nil || lock.Enabled {
		t.Errorf("ObjectLock of a bucket without = %+v, %v", lock, err)
	}
}

func TestRetain(t *testing.T) {
	for _, versioning := range []string{"", "Enabled"} {
		t.Run("versioning "+versioning, func(t *testing.T) {
			f, s := fake(t, cosfake.Options{ObjectLock: true, Versioning: versioning})
			put := mustPut(t, s, "key", "x", objstore.PutOptions{})
			until := f.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
			for _, test := range []struct{ ask, want time.Time }{
				{until, until},
				{until.Add(time.Millisecond), until.Add(time.Second)}, // never shorter than asked
				{until, until.Add(time.Second)},                       // never shortened
			} {
				if err := s.Retain(t.Context(), "key", put.VersionID, test.ask); err != nil {
					t.Fatal(err)
				}
				if o, _ := f.Object("key"); !o.RetainUntil.Equal(test.want) {
					t.Errorf("after %v the lock ends %v, want %v", test.ask, o.RetainUntil, test.want)
				}
			}
			if err := s.Retain(t.Context(), "none", "", until); !errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("Retain of nothing = %v", err)
			}
			if err := s.Retain(t.Context(), "key", "another", until.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "not the latest") {
				t.Errorf("Retain of another version = %v", err)
			}
		})
	}
	_, s := fake(t, cosfake.Options{})
	mustPut(t, s, "key", "x", objstore.PutOptions{})
	if err := s.Retain(t.Context(), "key", "", time.Now().Add(time.Hour)); err == nil {
		t.Error("Retain on a bucket without object lock succeeded")
	}
}

func TestThawTime(t *testing.T) {
	for _, test := range []struct {
		class, tier string
		most        time.Duration
	}{
		{"ARCHIVE", "expedited", 5 * time.Minute}, {"MAZ_ARCHIVE", "standard", 5 * time.Hour}, {"DEEP_ARCHIVE", "bulk", 48 * time.Hour},
		{"DEEP_ARCHIVE", "expedited", 0}, {"", "standard", 0}, {"STANDARD_IA", "bulk", 0}, {"ARCHIVE", "soon", 0},
	} {
		least, most, ok := ThawTime(test.class, test.tier)
		if most != test.most || ok != (test.most > 0) || least > most {
			t.Errorf("ThawTime(%q, %q) = %v, %v, %v", test.class, test.tier, least, most, ok)
		}
	}
}

// An answer without the lock's headers is asked for the lock when wanted.
func TestReadRetention(t *testing.T) {
	srv, s := newServerWith(t, func(c *Config) { c.ReadRetention = true })
	srv.store("key", []byte("x"), "")
	locked := true
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !r.URL.Query().Has("retention"):
			return false
		case locked:
			writeXML(w, "<Retention><RetainUntilDate>2030-01-02T00:00:00.000Z</RetainUntilDate><Mode>COMPLIANCE</Mode></Retention>")
		default:
			refuse(w, http.StatusNotFound, "NoSuchObjectLockConfiguration")
		}
		return true
	})
	for name, ask := range map[string]func() (objstore.Info, error){
		"Head": func() (objstore.Info, error) { return s.Head(t.Context(), "key", "") },
		"Get": func() (objstore.Info, error) {
			body, info, err := s.Get(t.Context(), "key", "")
			if err == nil {
				err = body.Close()
			}
			return info, err
		},
	} {
		locked = true
		info, err := ask()
		if err != nil || info.RetainUntil.Unix() != 1893542400 {
			t.Errorf("%s = %+v, %v", name, info, err)
		}
		locked = false
		if info, err = ask(); err != nil || !info.RetainUntil.IsZero() {
			t.Errorf("%s = %+v, %v, want no lock", name, info, err)
		}
	}
}

func TestReclassify(t *testing.T) {
	for _, versioning := range []string{"", "Enabled", "Suspended"} {
		t.Run("versioning "+versioning, func(t *testing.T) {
			f, s := fake(t, cosfake.Options{Versioning: versioning, ObjectLock: true})
			const key = "a folder/data+x?%.gz"
			put := mustPut(t, s, key, "cold soon", objstore.PutOptions{ContentType: "application/gzip", Tags: map[string]string{"a": "b"}})
			until := f.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
			opts := objstore.PutOptions{ContentType: "application/gzip", StorageClass: "ARCHIVE", RetainUntil: until, SSE: "cos", Tags: map[string]string{"a": "b"}}
			for range 2 {
				info, err := s.Reclassify(t.Context(), key, "", opts)
				if err != nil {
					t.Fatal(err)
				}
				if info.StorageClass != "ARCHIVE" || info.Thaw.State != objstore.Frozen || info.Size != put.Size || *info.CRC64 != *put.CRC64 ||
					info.SHA256 == nil || *info.SHA256 != manifest.SumHash([]byte("cold soon")) || !info.RetainUntil.Equal(until) {
					t.Errorf("Reclassify = %+v", info)
				}
				if (info.VersionID != put.VersionID) != (versioning == "Enabled") {
					t.Errorf("Reclassify: version %q after %q", info.VersionID, put.VersionID)
				}
			}
			o, _ := f.Object(key)
			if o.ContentType != "application/gzip" || o.SSE != "AES256" || o.Tags["a"] != "b" {
				t.Errorf("the bucket holds %+v", o)
			}
			if n := len(f.Versions(key)); n != map[string]int{"": 1, "Enabled": 2, "Suspended": 1}[versioning] {
				t.Errorf("%d versions", n)
			}
		})
	}
}

func TestReclassifyUnderFaults(t *testing.T) {
	for _, kind := range []cosfake.Kind{cosfake.LoseAnswer, cosfake.SlowDown, cosfake.ResetConnection} {
		t.Run(string(kind), func(t *testing.T) {
			f, s := fake(t, cosfake.Options{Versioning: "Enabled"})
			mustPut(t, s, "key", "bytes", objstore.PutOptions{})
			i := f.Inject(cosfake.Fault{Kind: kind, Op: cosfake.PutObjectCopy, Times: 2})
			info, err := s.Reclassify(t.Context(), "key", "", objstore.PutOptions{StorageClass: "ARCHIVE"})
			if err != nil || info.StorageClass != "ARCHIVE" || i.Hits() == 0 {
				t.Errorf("Reclassify = %+v, %v after %d faults", info, err, i.Hits())
			}
		})
	}
	f, s := fake(t, cosfake.Options{ObjectLock: true})
	mustPut(t, s, "key", "bytes", objstore.PutOptions{RetainUntil: f.Now().Add(time.Hour)})
	if _, err := s.Reclassify(t.Context(), "key", "", objstore.PutOptions{StorageClass: "ARCHIVE"}); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("Reclassify of a locked object = %v, want ErrDenied", err)
	}
	if _, err := s.Reclassify(t.Context(), "absent", "", objstore.PutOptions{StorageClass: "ARCHIVE"}); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Reclassify of an absent object = %v, want ErrNotExist", err)
	}
}

func TestListLags(t *testing.T) {
	f, s := fake(t, cosfake.Options{})
	f.SetListLag(time.Minute)
	mustPut(t, s, "key", "x", objstore.PutOptions{})
	count := func() (n int) {
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("List shows %d objects at once, the fake has a lag", n)
	}
	if _, err := s.Head(t.Context(), "key", ""); err != nil {
		t.Errorf("Head = %v: it must not depend on a list", err)
	}
	f.Advance(2 * time.Minute)
	if n := count(); n != 1 {
		t.Errorf("List shows %d objects after the lag, want 1", n)
	}
}

func TestBucketAsksForItself(t *testing.T) {
	f, s := fake(t, cosfake.Options{})
	b, err := s.Bucket(t.Context())
	if err != nil || b.Date.IsZero() || b.Asked.Sub(b.Date).Abs() > 2*time.Second {
		t.Errorf("Bucket = %+v, %v", b, err)
	}
	f.SetClockSkew(-20 * time.Minute)
	_, err = s.Bucket(t.Context())
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "ahead of COS") {
		t.Errorf("Bucket with a wrong clock = %v", err)
	}
	f.SetClockSkew(0)
	wrong, err := New(Config{
		Bucket: "other-1250000000", Region: f.Region, Endpoint: f.URL,
		Credentials: fixed{f.SecretID, f.SecretKey, ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Bucket(t.Context()); !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), "no bucket other-1250000000") {
		t.Errorf("Bucket of an absent one = %v", err)
	}
	if _, err := wrong.Head(t.Context(), "key", ""); !errors.Is(err, objstore.ErrConfig) {
		t.Errorf("Head in an absent bucket = %v, want ErrConfig and not ErrNotExist", err)
	}
}

func TestDeleteOfAVersion(t *testing.T) {
	f, s := fake(t, cosfake.Options{Versioning: "Enabled"})
	info := mustPut(t, s, "key", "x", objstore.PutOptions{})
	if err := s.Delete(t.Context(), "key", info.VersionID); err != nil {
		t.Fatal(err)
	}
	if left := f.Versions("key"); len(left) != 0 {
		t.Errorf("%d versions and markers are left, want none", len(left))
	}
	mustPut(t, s, "key", "x", objstore.PutOptions{})
	if err := s.Delete(t.Context(), "key", ""); err != nil {
		t.Fatal(err)
	}
	if left := f.Versions("key"); len(left) != 2 || !left[1].DeleteMarker {
		t.Errorf("after a Delete without a version: %+v, want the version and a marker", left)
	}
}
