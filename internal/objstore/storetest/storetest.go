// Package storetest is the contract of objstore.Store as one test suite, which
// every store must pass; start with [Run].
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Features say where stores may differ. The zero value is the strictest: a
// store that keeps one version of a key and takes any key that
// manifest.CheckKey allows.
type Features struct {
	// Versions: each Put names a version id and versions are kept, so two
	// writers of one key at one moment may both succeed; each must then be
	// able to read its own version back.
	Versions bool
	// NullVersion: each Put names a version id, but only one version is kept,
	// and of two writers at one moment the later may replace the earlier.
	NullVersion bool
	// Lossy: answers get lost, and after a lost answer nobody knows whether
	// the object was there before.
	Lossy bool
	// Folders: an object cannot have the name of a folder of another.
	Folders bool
	// NoCRCOnGet: the Info of a Get has no CRC64, that of Head has.
	NoCRCOnGet bool
	// SHA256: Head returns the digest that was given to Put.
	SHA256 bool
	// BigBytes is the size of the big body; 0 is 3 MiB and a bit.
	BigBytes int64
	// Objects is the number of keys that are listed; 0 is 1,203, which takes
	// COS two pages.
	Objects int
}

// Run runs the suite. open returns a store that holds nothing below
// the keys it is asked for; it is called once a subtest.
func Run(t *testing.T, open func(t *testing.T) objstore.Store, f Features) {
	if f.BigBytes == 0 {
		f.BigBytes = 3<<20 + 17
	}
	if f.Objects == 0 {
		f.Objects = 1203
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, objstore.Store, Features)
	}{
		{"round trip", testRoundTrip},
		{"absent", testAbsent},
		{"same bytes again", testSameAgain},
		{"never overwrites", testNeverOverwrites},
		{"one winner", testOneWinner},
		{"bad keys", testBadKeys},
		{"awkward keys", testAwkwardKeys},
		{"list", testList},
		{"list pages", testListPages},
		{"delete", testDelete},
		{"body is not what it is said to be", testWrongBody},
		{"cancelled", testCancelled},
		{"many readers", testManyReaders},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t), f) })
	}
}

func put(ctx context.Context, s objstore.Store, key string, body []byte) (objstore.Info, bool, error) {
	return s.Put(ctx, key, bytes.NewReader(body), int64(len(body)), manifest.SumHash(body),
		objstore.PutOptions{ContentType: "application/octet-stream"})
}

func mustPut(t *testing.T, s objstore.Store, key string, body []byte) objstore.Info {
	t.Helper()
	info, existed, err := put(t.Context(), s, key, body)
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	if existed {
		t.Errorf("Put(%q) existed = true for a new key", key)
	}
	return info
}

func get(ctx context.Context, s objstore.Store, key, versionID string) ([]byte, objstore.Info, error) {
	r, info, err := s.Get(ctx, key, versionID)
	if err != nil {
		return nil, info, err
	}
	b, err := io.ReadAll(r)
	return b, info, errors.Join(err, r.Close())
}

// mustHold fails the test unless key holds body, by Head and by Get.
func mustHold(t *testing.T, s objstore.Store, f Features, key, versionID string, body []byte) {
	t.Helper()
	info, err := s.Head(t.Context(), key, versionID)
	if err != nil {
		t.Fatalf("Head(%q): %v", key, err)
	}
	checkInfo(t, "Head", info, key, body, true, f.SHA256)
	if f.Versions && versionID != "" && info.VersionID != versionID {
		t.Errorf("Head(%q).VersionID = %q, want %q", key, info.VersionID, versionID)
	}
	got, info, err := get(t.Context(), s, key, versionID)
	if err != nil {
		t.Fatalf("Get(%q): %v", key, err)
	}
	checkInfo(t, "Get", info, key, body, !f.NoCRCOnGet, f.SHA256)
	if !bytes.Equal(got, body) {
		t.Errorf("Get(%q) returned %d bytes that are not the %d put", key, len(got), len(body))
	}
}

func checkInfo(t *testing.T, call string, info objstore.Info, key string, body []byte, crc, sha bool) {
	t.Helper()
	if info.Key != key || info.Size != int64(len(body)) {
		t.Errorf("%s(%q) says key %q and %d bytes, want %d", call, key, info.Key, info.Size, len(body))
	}
	if crc && info.CRC64 == nil {
		t.Errorf("%s(%q).CRC64 = nil", call, key)
	}
	if want := manifest.SumCRC64(body); info.CRC64 != nil && *info.CRC64 != want {
		t.Errorf("%s(%q).CRC64 = %v, want %v", call, key, *info.CRC64, want)
	}
	if want := manifest.SumHash(body); sha && (info.SHA256 == nil || *info.SHA256 != want) {
		t.Errorf("%s(%q).SHA256 = %v, want %v", call, key, info.SHA256, want)
	}
	if info.ModTime.IsZero() {
		t.Errorf("%s(%q).ModTime is zero", call, key)
	}
	if info.Thaw != (objstore.Thaw{}) {
		t.Errorf("%s(%q).Thaw = %v, want the zero value", call, key, info.Thaw)
	}
}

// pattern returns n bytes without order, the same ones for the same n.
func pattern(n int64) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b) // never fails
	return b
}

func testRoundTrip(t *testing.T, s objstore.Store, f Features) {
	if s.URL() == "" {
		t.Error("URL() is empty")
	}
	for _, size := range []int64{0, 1, 4096, 100_000, f.BigBytes} {
		key := fmt.Sprintf("round/trip/%d", size)
		body := pattern(size)
		info := mustPut(t, s, key, body)
		if info.Key != key || info.Size != size || info.CRC64 == nil || *info.CRC64 != manifest.SumCRC64(body) {
			t.Errorf("Put(%q) returned %+v", key, info)
		}
		if (f.Versions || f.NullVersion) != (info.VersionID != "") {
			t.Errorf("Put(%q).VersionID = %q", key, info.VersionID)
		}
		mustHold(t, s, f, key, "", body)
		mustHold(t, s, f, key, info.VersionID, body)
	}
}

func testAbsent(t *testing.T, s objstore.Store, f Features) {
	mustPut(t, s, "there/object", []byte("x"))
	for _, key := range []string{"nothing", "there/nothing", "there", "there/object/below", strings.Repeat("n", 300)} {
		if _, err := s.Head(t.Context(), key, ""); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Head(%q) = %v, want ErrNotExist", key, err)
		}
		if _, _, err := s.Get(t.Context(), key, ""); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Get(%q) = %v, want ErrNotExist", key, err)
		}
	}
	_, err := s.Head(t.Context(), "there/nothing", "")
	if err == nil || !strings.Contains(err.Error(), "there/nothing") || !strings.Contains(err.Error(), "head") {
		t.Errorf("Head of an absent key says %q, want the operation and the key in it", err)
	}
	if f.Folders {
		if _, _, err := put(t.Context(), s, "there", []byte("x")); !errors.Is(err, objstore.ErrExist) {
			t.Errorf("Put over a folder = %v, want ErrExist", err)
		}
		if _, _, err := put(t.Context(), s, "there/object/below", []byte("x")); !errors.Is(err, objstore.ErrExist) {
			t.Errorf("Put below an object = %v, want ErrExist", err)
		}
	}
}

func testSameAgain(t *testing.T, s objstore.Store, f Features) {
	for _, body := range [][]byte{{}, []byte("the same"), pattern(300_000)} {
		key := fmt.Sprintf("same/%d", len(body))
		first := mustPut(t, s, key, body)
		info, existed, err := put(t.Context(), s, key, body)
		if err != nil || !existed && !f.Lossy {
			t.Fatalf("Put(%q) again: existed %v, %v", key, existed, err)
		}
		if info.Key != key || info.Size != int64(len(body)) || info.CRC64 == nil || *info.CRC64 != *first.CRC64 || info.VersionID != first.VersionID {
			t.Errorf("Put(%q) again returned %+v, first %+v", key, info, first)
		}
		mustHold(t, s, f, key, "", body)
	}
}

func testNeverOverwrites(t *testing.T, s objstore.Store, f Features) {
	for name, pair := range map[string][2]string{
		"other length": {"first", "second"},
		"same length":  {"first!", "second"},
		"empty":        {"first", ""},
		"over empty":   {"", "second"},
	} {
		key := "over/" + name
		mustPut(t, s, key, []byte(pair[0]))
		_, existed, err := put(t.Context(), s, key, []byte(pair[1]))
		if !errors.Is(err, objstore.ErrExist) || existed {
			t.Errorf("%s: Put of other bytes: existed %v, %v, want ErrExist", name, existed, err)
		}
		mustHold(t, s, f, key, "", []byte(pair[0]))
	}
}

func testOneWinner(t *testing.T, s objstore.Store, f Features) {
	const rounds, writers = 5, 8
	for round := range rounds {
		key := fmt.Sprintf("race/%d/object", round)
		infos := make([]objstore.Info, writers)
		errs := make([]error, writers)
		body := func(w int) []byte { return fmt.Appendf(nil, "writer %d of round %d", w, round) }
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				var existed bool
				infos[w], existed, errs[w] = put(t.Context(), s, key, body(w))
				if existed {
					t.Errorf("writer %d: existed = true for bytes nobody else has", w)
				}
			})
		}
		wg.Wait()
		var winners []int
		for w, err := range errs {
			switch {
			case err == nil:
				winners = append(winners, w)
			case !errors.Is(err, objstore.ErrExist):
				t.Errorf("writer %d: %v, want nil or ErrExist", w, err)
			}
		}
		if len(winners) == 0 || len(winners) > 1 && !f.Versions && !f.NullVersion {
			t.Errorf("round %d has %d winners, want 1", round, len(winners))
		}
		if f.NullVersion {
			continue // a winner may have been replaced since
		}
		for _, w := range winners {
			mustHold(t, s, f, key, infos[w].VersionID, body(w))
		}
	}
}

func testBadKeys(t *testing.T, s objstore.Store, _ Features) {
	for _, key := range []string{
		"", "/", ".", "..", "/absolute", "trailing/", "a//b", "a/./b", "a/../b", "../outside", "a/../../outside",
		"back\\slash", "new\nline", "nul\x00", "not\xffutf8", strings.Repeat("k", manifest.MaxKeyBytes+1),
	} {
		if _, _, err := put(t.Context(), s, key, []byte("x")); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Put(%q) = %v, want ErrBadKey", key, err)
		}
		if _, err := s.Head(t.Context(), key, ""); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Head(%q) = %v, want ErrBadKey", key, err)
		}
		if _, _, err := s.Get(t.Context(), key, ""); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Get(%q) = %v, want ErrBadKey", key, err)
		}
		if err := s.Delete(t.Context(), key, ""); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Delete(%q) = %v, want ErrBadKey", key, err)
		}
	}
	for _, prefix := range []string{"/", "/absolute", "a//b", "../", "a/../"} {
		if _, err := keys(t.Context(), s, prefix); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("List(%q) = %v, want ErrBadKey", prefix, err)
		}
	}
}

func testAwkwardKeys(t *testing.T, s objstore.Store, f Features) {
	awkward := []string{
		"awkward/with space", "awkward/a+b", "awkward/100%", "awkward/%2F", "awkward/a=b&c=d;e", "awkward/é", "awkward/日本語", "awkward/😀",
		"awkward/q?x=1#frag", "awkward/'\"<>&", "awkward/!()*~:@,$[]{}|^`", "awkward/app_code=A B/date=2024-05-01/x", "awkward/...", "awkward/.hidden",
	}
	for i, key := range awkward {
		mustPut(t, s, key, fmt.Appendf(nil, "object %d", i))
	}
	for i, key := range awkward {
		mustHold(t, s, f, key, "", fmt.Appendf(nil, "object %d", i))
	}
	got, err := keys(t.Context(), s, "awkward/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(awkward), got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func testDelete(t *testing.T, s objstore.Store, f Features) {
	mustPut(t, s, "delete/other", []byte("stays"))
	info := mustPut(t, s, "delete/deep/er/object", []byte("goes"))
	for range 2 {
		if err := s.Delete(t.Context(), info.Key, info.VersionID); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	if _, err := s.Head(t.Context(), info.Key, ""); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Head of a deleted object = %v, want ErrNotExist", err)
	}
	if err := s.Delete(t.Context(), "delete", ""); err != nil {
		t.Errorf("Delete of the name of a folder: %v", err)
	}
	mustHold(t, s, f, "delete/other", "", []byte("stays"))
	mustPut(t, s, info.Key, []byte("comes again"))
	mustHold(t, s, f, info.Key, "", []byte("comes again"))
}

func testWrongBody(t *testing.T, s objstore.Store, _ Features) {
	body := []byte("twelve bytes")
	sum := manifest.SumHash(body)
	for name, call := range map[string]func() error{
		"too short": func() error {
			_, _, err := s.Put(t.Context(), "wrong/short", bytes.NewReader(body), 13, sum, objstore.PutOptions{})
			return err
		},
		"other digest": func() error {
			_, _, err := s.Put(t.Context(), "wrong/digest", bytes.NewReader(body), 12, manifest.SumHash(nil), objstore.PutOptions{})
			return err
		},
		"negative size": func() error {
			_, _, err := s.Put(t.Context(), "wrong/size", bytes.NewReader(body), -1, sum, objstore.PutOptions{})
			return err
		},
	} {
		if err := call(); err == nil || errors.Is(err, objstore.ErrExist) {
			t.Errorf("%s: Put = %v, want an error that says so", name, err)
		}
	}
	if got, err := keys(t.Context(), s, "wrong/"); err != nil || len(got) != 0 {
		t.Errorf("after refused bodies List = %q, %v, want nothing", got, err)
	}
}
