package cosstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// after lets the server do its work with n requests that match and then f
// answer.
func after(srv *server, n int, prefix string, f func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return first(n, prefix, func(w http.ResponseWriter, r *http.Request) bool {
		srv.serve(&discard{header: http.Header{}}, r, strings.TrimPrefix(r.URL.Path, "/"))
		f(w, r)
		return true
	})
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func TestPutSendsTheHeaders(t *testing.T) {
	body := []byte("some bytes")
	until := time.Date(2030, 1, 2, 8, 0, 0, 0, time.FixedZone("", 8*3600))
	for _, test := range []struct {
		name       string
		versioning string
		opts       objstore.PutOptions
		want       map[string]string
	}{
		{"plain", "", objstore.PutOptions{}, map[string]string{
			"X-Cos-Forbid-Overwrite": "true",
			"X-Cos-Storage-Class":    "", "X-Cos-Server-Side-Encryption": "", "X-Cos-Tagging": "", headerLockMode: "", "Content-Type": "",
		}},
		{"versioned", "Enabled", objstore.PutOptions{}, map[string]string{"X-Cos-Forbid-Overwrite": ""}},
		{"suspended", "Suspended", objstore.PutOptions{}, map[string]string{"X-Cos-Forbid-Overwrite": ""}},
		{"everything", "", objstore.PutOptions{
			ContentType: "application/gzip", StorageClass: "ARCHIVE", RetainUntil: until, SSE: "cos",
			Tags: map[string]string{"k2": "a b&c", "k": "v"},
		}, map[string]string{
			"Content-Type": "application/gzip", "X-Cos-Storage-Class": "ARCHIVE", "X-Cos-Server-Side-Encryption": "AES256",
			headerLockMode: "COMPLIANCE", headerLockUntil: "2030-01-02T00:00:00.000Z", "X-Cos-Tagging": "k2=a%20b%26c&k=v",
		}},
		{"kms", "", objstore.PutOptions{SSE: "kms:the-key"}, map[string]string{
			"X-Cos-Server-Side-Encryption": "cos/kms", "X-Cos-Server-Side-Encryption-Cos-Kms-Key-Id": "the-key",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.versioning = test.versioning
			digest := md5.Sum(body)
			test.want["Content-Md5"] = base64.StdEncoding.EncodeToString(digest[:])
			test.want["X-Cos-Meta-Sha256"] = manifest.SumHash(body).String()
			test.want["Content-Length"] = "10"
			got := map[string]string{}
			srv.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				for k := range test.want {
					got[k] = r.Header.Get(k)
				}
				if len(r.TransferEncoding) != 0 {
					t.Errorf("Transfer-Encoding %q", r.TransferEncoding)
				}
				return false
			})
			info, existed, err := s.Put(t.Context(), "key", bytes.NewReader(body), 10, manifest.SumHash(body), test.opts)
			if err != nil || existed {
				t.Fatal(existed, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if info.Size != 10 || *info.CRC64 != manifest.SumCRC64(body) || (info.VersionID != "") != (test.versioning == "Enabled") ||
				info.StorageClass != test.opts.StorageClass || !info.RetainUntil.Equal(test.opts.RetainUntil) {
				t.Errorf("Put = %+v", info)
			}
		})
	}
}

func TestPutRefusesBeforeItSends(t *testing.T) {
	srv, s := newServer(t)
	for name, opts := range map[string]objstore.PutOptions{
		"class": {StorageClass: "archive"}, "no such class": {StorageClass: "ARCHVE"}, "sse": {SSE: "aes"}, "kms": {SSE: "kms:"},
		"empty tag": {Tags: map[string]string{"": "v"}}, "long tag": {Tags: map[string]string{"k": strings.Repeat("v", 256)}},
		"tags": {Tags: map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": "", "10": "", "11": ""}},
	} {
		_, _, err := s.Put(t.Context(), "key", strings.NewReader(""), 0, manifest.SumHash(nil), opts)
		if !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), "put object key") {
			t.Errorf("%s: Put = %v, want ErrConfig", name, err)
		}
		if err := CheckPut(opts); !errors.Is(err, objstore.ErrConfig) {
			t.Errorf("%s: CheckPut = %v, want ErrConfig", name, err)
		}
	}
	_, _, err := s.Put(t.Context(), "key", zeros{}, MaxObjectBytes+1, manifest.Hash{}, objstore.PutOptions{})
	if !errors.Is(err, objstore.ErrTooLarge) || !strings.Contains(err.Error(), "--batch-rows") {
		t.Errorf("Put of 5 GB and a byte = %v, want ErrTooLarge that names --batch-rows", err)
	}
	if n := srv.count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

func TestAnswerLostAfterTheStore(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T) func(http.ResponseWriter, *http.Request){
		"reset": func(t *testing.T) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) { reset(t, w) }
		},
		"500": func(*testing.T) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "InternalError") }
		},
		"504 of a gateway": func(*testing.T) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }
		},
	} {
		for _, versioning := range []string{"", "Enabled", "Suspended"} {
			t.Run(name+" "+versioning, func(t *testing.T) {
				srv, s := newServer(t)
				srv.versioning = versioning
				srv.intercept(after(srv, 1, "PUT ", lose(t)))
				info, existed, err := put(t, s, "key", "body")
				if err != nil || existed || info.Size != 4 || info.CRC64 == nil {
					t.Errorf("Put = %+v, %v, %v", info, existed, err)
				}
				if n := srv.count("PUT "); n != 1 {
					t.Errorf("%d PUT for an object that was stored, want 1", n)
				}
				if (info.VersionID != "") != (versioning == "Enabled") {
					t.Errorf("version %q", info.VersionID)
				}
			})
		}
	}
}

func TestRequestLostBeforeTheStore(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(first(3, "PUT ", func(w http.ResponseWriter, _ *http.Request) bool { reset(t, w); return true }))
	if _, existed, err := put(t, s, "key", "body"); err != nil || existed {
		t.Fatal(existed, err)
	}
	if got, err := get(t, s, "key"); err != nil || got != "body" {
		t.Errorf("Get = %q, %v", got, err)
	}
	if n := srv.count("PUT "); n != 4 {
		t.Errorf("%d PUT, want 4", n)
	}
}

// The second try of a PUT whose answer was lost gets a 409 for its own object.
func TestConflictWithItself(t *testing.T) {
	srv, s := newServer(t)
	var heads atomic.Int32
	lost := after(srv, 1, "PUT ", func(w http.ResponseWriter, _ *http.Request) { reset(t, w) })
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		// HEAD misses it at first.
		if r.Method == http.MethodHead && heads.Add(1) <= 2 || r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return true
		}
		return lost(w, r)
	})
	if _, _, err := put(t, s, "key", "body"); err != nil {
		t.Fatal(err)
	}
	if n := srv.count("PUT "); n != 2 {
		t.Errorf("%d PUT, want 2", n)
	}
}

func TestConflict(t *testing.T) {
	for _, test := range []struct {
		name, there, sha string
		versioning       string
		change           func(*object)
		err              error
	}{
		{name: "same bytes", there: "body", sha: "own"},
		{name: "same bytes, no digest beside them", there: "body"},
		{name: "same bytes, no checksum", there: "body", sha: "own", change: func(o *object) { o.header.Del(headerCRC64) }},
		{name: "same bytes, versioned", there: "body", sha: "own", versioning: "Enabled"},
		{name: "same bytes, suspended", there: "body", sha: "own", versioning: "Suspended"},
		{name: "other length", there: "longer body", sha: "own", err: objstore.ErrExist},
		{name: "other bytes", there: "ydob", sha: "", err: objstore.ErrExist},
		{name: "other bytes, claimed to be the same", there: "ydob", sha: "own", err: objstore.ErrExist},
		{name: "other bytes, no checksum, claimed to be the same", there: "ydob", sha: "own", change: func(o *object) { o.header.Del(headerCRC64) }, err: objstore.ErrExist},
		{name: "other digest beside them", there: "body", sha: strings.Repeat("0", 64), err: objstore.ErrExist},
		{name: "other bytes, versioned", there: "ydob", sha: "own", versioning: "Enabled", err: objstore.ErrExist},
		{name: "other bytes, suspended", there: "ydob", sha: "own", versioning: "Suspended", err: objstore.ErrExist},
		{name: "cold, no digest beside it", there: "body", change: func(o *object) { o.header.Set(headerClass, "ARCHIVE") }, err: objstore.ErrCold},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.versioning = test.versioning
			if test.sha == "own" {
				test.sha = manifest.SumHash([]byte("body")).String()
			}
			srv.store("key", []byte(test.there), test.sha)
			if test.change != nil {
				srv.change("key", test.change)
			}
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && r.URL.Path == "/key" && srv.objects["key"].header.Get(headerClass) == "ARCHIVE" {
					refuse(w, http.StatusForbidden, "InvalidObjectState")
					return true
				}
				return false
			})
			_, existed, err := put(t, s, "key", "body")
			if !errors.Is(err, test.err) || existed != (test.err == nil) {
				t.Errorf("Put = existed %v, %v, want %v", existed, err, test.err)
			}
			if string(srv.objects["key"].body) != test.there {
				t.Error("the object was overwritten")
			}
			if test.versioning != "" && srv.count("PUT ") != 0 {
				t.Error("a taken key was written to in a bucket that does not refuse it")
			}
		})
	}
}

// Two writers at one moment: COS may answer PathConflict while nothing is there
// yet, and the other may fail.
func TestConflictWithNobody(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(first(2, "PUT ", func(w http.ResponseWriter, _ *http.Request) bool {
		refuse(w, http.StatusConflict, "PathConflict")
		return true
	}))
	if _, existed, err := put(t, s, "key", "body"); err != nil || existed {
		t.Errorf("Put = %v, %v", existed, err)
	}
}

func TestReplacedOnASuspendedBucket(t *testing.T) {
	srv, s := newServer(t)
	srv.versioning = "Suspended"
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		srv.serve(w, r, "key")
		srv.store("key", []byte("ydob"), "") // another writer, a moment later
		return true
	})
	if _, _, err := put(t, s, "key", "body"); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("Put = %v, want ErrExist", err)
	}
}

func TestChecksumOfTheAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer string // to PUT; "" is none
		head   string // of the object; "" is none
		kind   objstore.CorruptKind
	}{
		{"answer without, object with", "", "right", ""},
		{"answer wrong, object right", "1", "right", ""},
		{"none anywhere", "", "", objstore.CRCMissing},
		{"object wrong", "1", "1", objstore.CRCMismatch},
		{"answer wrong, object without", "1", "", objstore.CRCMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, s := newServer(t)
			srv.intercept(after(srv, 1, "PUT ", func(w http.ResponseWriter, _ *http.Request) {
				if test.answer != "" {
					w.Header().Set(headerCRC64, test.answer)
				}
				srv.change("key", func(o *object) {
					if o.header.Del(headerCRC64); test.head != "" {
						o.header.Set(headerCRC64, strings.ReplaceAll(test.head, "right", manifest.SumCRC64([]byte("body")).String()))
					}
				})
			}))
			info, _, err := put(t, s, "key", "body")
			var corrupt *objstore.CorruptError
			switch {
			case test.kind == "" && (err != nil || info.CRC64 == nil):
				t.Errorf("Put = %+v, %v", info, err)
			case test.kind != "" && (!errors.As(err, &corrupt) || corrupt.Kind != test.kind):
				t.Errorf("Put = %v, want %s", err, test.kind)
			}
		})
	}
}

// COS refuses a body that the network changed; it is read and sent anew.
func TestBadDigestIsSentAnew(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(first(2, "PUT ", func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, http.StatusBadRequest, "BadDigest")
		return true
	}))
	if _, _, err := put(t, s, "key", strings.Repeat("body", 100_000)); err != nil {
		t.Fatal(err)
	}
	if n := srv.count("PUT "); n != 3 {
		t.Errorf("%d PUT, want 3", n)
	}
}

func TestHeadRightAfterPut(t *testing.T) {
	srv, s := newServer(t)
	if _, _, err := put(t, s, "key", "body"); err != nil {
		t.Fatal(err)
	}
	missing := func(n int) func(http.ResponseWriter, *http.Request) bool {
		return first(n, "", func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return true
		})
	}
	srv.intercept(missing(3))
	if _, err := s.Head(t.Context(), "key", ""); err != nil {
		t.Errorf("Head = %v, want to find what was just written", err)
	}
	srv.intercept(missing(3))
	if got, err := get(t, s, "key"); err != nil || got != "body" {
		t.Errorf("Get = %q, %v, want what was just written", got, err)
	}
	srv.intercept(missing(99))
	if _, err := s.Head(t.Context(), "key", ""); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Head = %v, want ErrNotExist in the end", err)
	}
	if n := srv.count("HEAD "); n != freshTries+1 {
		t.Errorf("%d HEAD, want %d", n, freshTries+1)
	}
}

func TestFreshForgets(t *testing.T) {
	var f fresh
	now := time.Unix(1_700_000_000, 0)
	f.add("key", now)
	if !f.has("key", now.Add(freshFor)) || f.has("key", now.Add(freshFor+1)) || f.has("other", now) {
		t.Error("fresh has the wrong keys")
	}
	for range 3 {
		for i := range freshLimit {
			f.add(strings.Repeat("k", i%800)+string(rune('0'+i/800)), now)
		}
	}
	if len(f.keys) > freshLimit {
		t.Errorf("%d keys", len(f.keys))
	}
}

// The versioning decides how an overwrite is kept out: nothing is written when
// it cannot be learnt, and it is asked once.
func TestVersioningIsAskedOnce(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("versioning") {
			refuse(w, http.StatusForbidden, "AccessDenied")
			return true
		}
		return false
	})
	_, _, err := put(t, s, "key", "body")
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "cos:GetBucketVersioning") || srv.count("PUT ") != 0 {
		t.Errorf("Put = %v after %d PUT", err, srv.count("PUT "))
	}
	srv.intercept(nil)
	for _, key := range []string{"a", "b", "c"} {
		if _, _, err := put(t, s, key, "body"); err != nil {
			t.Fatal(err)
		}
	}
	if n := srv.count("GET ?versioning"); n != 1 {
		t.Errorf("asked %d times for the versioning, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Versioning(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Versioning = %v, want context.Canceled", err)
	}
}
