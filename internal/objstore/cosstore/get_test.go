package cosstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
)

// cut answers a GET with the first part of what is asked for and breaks off.
func cut(t *testing.T, srv *server, key string, bytes int, end func(*testing.T, http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		srv.mu.Lock()
		o := srv.objects[key]
		srv.mu.Unlock()
		from, status := 0, http.StatusOK
		if spec := r.Header.Get("Range"); spec != "" {
			if _, err := fmt.Sscanf(spec, "bytes=%d-", &from); err != nil {
				t.Errorf("Range %q: %v", spec, err)
			}
			status = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(o.body)-1, len(o.body)))
		}
		for k, v := range o.header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(o.body)-from))
		w.WriteHeader(status)
		_, _ = w.Write(o.body[from:min(from+bytes, len(o.body))])
		_ = http.NewResponseController(w).Flush()
		end(t, w)
		return true
	}
}

// hangUp closes the connection as if the body ended here.
func hangUp(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = conn.Close()
}

func TestBrokenDownloadIsResumed(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 20_000)
	for name, end := range map[string]func(*testing.T, http.ResponseWriter){"cut": hangUp, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.store("a key", []byte(body), "")
			etag := srv.objects["a key"].header.Get("Etag")
			var ranges []string
			breaking := first(3, "GET ", cut(t, srv, "a key", 100_000, end))
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				spec := r.Header.Get("Range")
				ranges = append(ranges, spec)
				if spec != "" && r.Header.Get("If-Match") != etag {
					t.Errorf("If-Match = %q, want %q", r.Header.Get("If-Match"), etag)
				}
				return breaking(w, r)
			})
			got, err := get(t, s, "a key")
			if err != nil || got != body {
				t.Errorf("Get = %d bytes, %v", len(got), err)
			}
			if len(ranges) != 4 || ranges[0] != "" || !strings.HasPrefix(ranges[3], "bytes=") {
				t.Errorf("asked for %q, want the whole and three rests", ranges)
			}
		})
	}
}

func TestServerWithoutRanges(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 20_000)
	srv, s := newServer(t)
	srv.store("key", []byte(body), "")
	breaking := first(1, "GET ", cut(t, srv, "key", 100_000, hangUp))
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("If-Match")
		if breaking(w, r) {
			return true
		}
		r.Header.Del("Range")
		return false
	})
	if got, err := get(t, s, "key"); err != nil || got != body {
		t.Errorf("Get = %d bytes, %v", len(got), err)
	}
}

// The rest of another object must not be appended.
func TestReplacedWhileReading(t *testing.T) {
	for _, name := range []string{"refused", "served"} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.store("key", make([]byte, 300_000), "")
			breaking := first(1, "GET ", cut(t, srv, "key", 100_000, func(t *testing.T, w http.ResponseWriter) {
				srv.store("key", []byte(strings.Repeat("x", 300_000)), "")
				hangUp(t, w)
			}))
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if breaking(w, r) {
					return true
				}
				if name == "served" {
					r.Header.Del("If-Match")
				}
				return false
			})
			_, err := get(t, s, "key")
			var corrupt *objstore.CorruptError
			if err == nil || !strings.Contains(err.Error(), "replaced while it was read") || errors.As(err, &corrupt) {
				t.Errorf("Get = %v", err)
			}
		})
	}
}

func TestWrongRangeIsRefused(t *testing.T) {
	srv, s := newServer(t)
	srv.store("key", make([]byte, 300_000), "")
	breaking := first(1, "GET ", cut(t, srv, "key", 100_000, hangUp))
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if breaking(w, r) {
			return true
		}
		r.Header.Set("Range", "bytes=0-")
		return false
	})
	if _, err := get(t, s, "key"); err == nil || !strings.Contains(err.Error(), "asked for") {
		t.Errorf("Get = %v", err)
	}
}

// What ends early each time is short; what is reset each time is the network.
func TestDownloadThatNeverEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, http.ResponseWriter){"cut": hangUp, "reset": reset} {
		t.Run(name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.store("key", make([]byte, 300_000), "")
			broken := cut(t, srv, "key", 0, end)
			begun := false
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && begun {
					return broken(w, r)
				}
				begun = true
				return cut(t, srv, "key", 100_000, end)(w, r)
			})
			_, err := get(t, s, "key")
			var (
				corrupt *objstore.CorruptError
				e       *Error
			)
			if !errors.As(err, &e) || e.Attempts != 8 || !strings.Contains(err.Error(), "100000 of 300000 bytes") {
				t.Errorf("Get = %v", err)
			}
			if short := errors.As(err, &corrupt) && corrupt.Kind == objstore.ShortBody && corrupt.Got == "100000" && corrupt.Want == "300000"; short != (name == "cut") {
				t.Errorf("Get = %v, short body: %v", err, short)
			}
		})
	}
}

// As long as bytes come, breaks are no reason to give up.
func TestManyBreaksWithProgress(t *testing.T) {
	srv, s := newServer(t)
	body := strings.Repeat("0123456789abcdef", 11<<20/16)
	srv.store("key", []byte(body), "")
	var breaks atomic.Int32
	broken := cut(t, srv, "key", 1<<20, hangUp)
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		breaks.Add(1)
		return broken(w, r)
	})
	got, err := get(t, s, "key")
	if err != nil || got != body {
		t.Errorf("Get = %d bytes, %v", len(got), err)
	}
	if n := breaks.Load(); n <= int32(s.cfg.Retry.Attempts) {
		t.Errorf("%d transfers, the test wants more than %d", n, s.cfg.Retry.Attempts)
	}
}

func TestBodyIsChecked(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*object)
		kind   objstore.CorruptKind
	}{
		{"flipped byte", func(o *object) { o.body = append([]byte("X"), o.body[1:]...) }, objstore.CRCMismatch},
		{"other checksum", func(o *object) { o.header.Set(headerCRC64, "1") }, objstore.CRCMismatch},
		{"no checksum", func(o *object) { o.header.Del(headerCRC64) }, objstore.CRCMissing},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.store("key", []byte(strings.Repeat("body", 1000)), "")
			srv.change("key", test.change)
			r, _, err := s.Get(t.Context(), "key", "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			var corrupt *objstore.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Kind != test.kind || corrupt.Key != "key" {
				t.Errorf("reading = %v, want %s", err, test.kind)
			}
			if len(b) != 4000 {
				t.Errorf("%d bytes came before the finding, want all", len(b))
			}
			if _, again := r.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("the next Read = %v, want the same", again)
			}
		})
	}
}

// A stored Content-Encoding must not make the transport unpack the bytes.
func TestNothingIsUnpacked(t *testing.T) {
	srv, s := newServer(t)
	body := "\x1f\x8b not really gzip"
	srv.store("key", []byte(body), "")
	srv.change("key", func(o *object) { o.header.Set("Content-Encoding", "gzip") })
	srv.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if v := r.Header.Get("Accept-Encoding"); v != "" {
			t.Errorf("Accept-Encoding = %q", v)
		}
		return false
	})
	if got, err := get(t, s, "key"); err != nil || got != body {
		t.Errorf("Get = %q, %v", got, err)
	}
}

func TestHeadParsesFacts(t *testing.T) {
	const sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	srv, s := newServer(t)
	srv.store("key", []byte("abc"), sha)
	srv.change("key", func(o *object) {
		o.header.Set(headerVersion, "v1")
		o.header.Set(headerClass, "DEEP_ARCHIVE")
		o.header.Set(headerRestore, `ongoing-request="false", expiry-date="Tue, 19 Nov 2019 16:00:00 GMT"`)
		o.header.Set(headerLockMode, "COMPLIANCE")
		o.header.Set(headerLockUntil, "2030-01-02T00:00:00.000Z")
	})
	info, err := s.Head(t.Context(), "key", "")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != 3 || info.SHA256.String() != sha || info.VersionID != "v1" || info.StorageClass != "DEEP_ARCHIVE" ||
		info.Thaw.State != objstore.Thawed || info.Thaw.Expiry.Unix() != 1574179200 || info.RetainUntil.Unix() != 1893542400 {
		t.Errorf("Head = %+v", info)
	}
}

func TestParseThaw(t *testing.T) {
	for _, test := range []struct {
		class, tier, restore string
		want                 objstore.ThawState
	}{
		{"", "", "", objstore.NotCold},
		{"STANDARD_IA", "", "", objstore.NotCold},
		{"ARCHIVE", "", "", objstore.Frozen},
		{"DEEP_ARCHIVE", "", "", objstore.Frozen},
		{"MAZ_ARCHIVE", "", "", objstore.Frozen},
		{"INTELLIGENT_TIERING", "FREQUENT", "", objstore.NotCold},
		{"INTELLIGENT_TIERING", "DEEP_ARCHIVE", "", objstore.Frozen},
		{"ARCHIVE", "", `ongoing-request="true"`, objstore.Thawing},
		{"ARCHIVE", "", `ongoing-request="false", expiry-date="Tue, 19 Nov 2019 16:00:00 GMT"`, objstore.Thawed},
		{"ARCHIVE", "", `ongoing-request="false"`, objstore.Thawed},
		{"ARCHIVE", "", `something new`, objstore.Frozen},
	} {
		h := http.Header{}
		h.Set(headerClass, test.class)
		h.Set(headerTier, test.tier)
		h.Set(headerRestore, test.restore)
		got := parseThaw(h)
		if got.State != test.want || got.Expiry.IsZero() != !strings.Contains(test.restore, "expiry-date") {
			t.Errorf("parseThaw(%q, %q, %q) = %+v, want %v", test.class, test.tier, test.restore, got, test.want)
		}
	}
}

func TestBodyEndsWithItsContext(t *testing.T) {
	srv, s := newServer(t)
	srv.store("key", make([]byte, 300_000), "")
	ctx, cancel := context.WithCancel(t.Context())
	srv.intercept(first(1, "GET ", func(w http.ResponseWriter, r *http.Request) bool {
		return cut(t, srv, "key", 100_000, func(*testing.T, http.ResponseWriter) { <-r.Context().Done() })(w, r)
	}))
	r, _, err := s.Get(ctx, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("reading = %v, want context.Canceled", err)
	}
	if n := srv.count("GET "); n != 1 {
		t.Errorf("%d requests after the cancel", n-1)
	}
}

// On a bucket with versions the rest is asked of the version that was begun.
func TestResumeStaysWithTheVersion(t *testing.T) {
	srv, s := newServer(t)
	srv.versioning = "Enabled"
	srv.store("key", make([]byte, 300_000), "")
	srv.change("key", func(o *object) { o.header.Set(headerVersion, "v/1+") })
	breaking := first(1, "GET ", cut(t, srv, "key", 100_000, hangUp))
	var versions []string
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		versions = append(versions, r.URL.Query().Get("versionId"))
		return breaking(w, r)
	})
	if _, err := get(t, s, "key"); err != nil {
		t.Fatal(err)
	}
	if len(versions) != 2 || versions[0] != "" || versions[1] != "v/1+" {
		t.Errorf("asked for versions %q, want the latest and then the one that was begun", versions)
	}
}
