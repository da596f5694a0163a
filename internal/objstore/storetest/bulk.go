package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

func keys(ctx context.Context, s objstore.Store, prefix string) ([]string, error) {
	var got []string
	for info, err := range s.List(ctx, prefix) {
		if err != nil {
			return got, err
		}
		got = append(got, info.Key)
	}
	return got, nil
}

func sorted(keys []string) []string { return slices.Sorted(slices.Values(keys)) }

func testList(t *testing.T, s objstore.Store, _ Features) {
	// In byte order a dot comes before a slash, and a folder's content
	// therefore after "b.x".
	all := []string{"list/a", "list/b.x", "list/b/1", "list/b/2", "list/b0", "list/c/d/e", "other/x"}
	for _, key := range all {
		mustPut(t, s, key, []byte(key))
	}
	for _, test := range []struct {
		prefix string
		want   []string
	}{
		{"", all},
		{"list/", all[:6]},
		{"list", all[:6]},
		{"l", all[:6]},
		{"list/b", all[1:5]},
		{"list/b/", all[2:4]},
		{"list/b/1", all[2:3]},
		{"list/c/d/e", all[5:6]},
		{"list/a/", nil},
		{"none", nil},
		{"none/below/", nil},
	} {
		got, err := keys(t.Context(), s, test.prefix)
		if err != nil {
			t.Errorf("List(%q): %v", test.prefix, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", test.prefix, diff)
		}
	}
	for info, err := range s.List(t.Context(), "list/") {
		if err != nil {
			t.Fatal(err)
		}
		if info.Size != int64(len(info.Key)) || info.ModTime.IsZero() {
			t.Errorf("List yields %+v, want %d bytes and a time", info, len(info.Key))
		}
	}
	n := 0
	for range s.List(t.Context(), "") {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("List went on to %d objects after the caller stopped at 3", n)
	}
}

func testListPages(t *testing.T, s objstore.Store, f Features) {
	var want []string
	for i := range f.Objects {
		want = append(want, fmt.Sprintf("pages/%02d/%04d x+y", i%7, i))
	}
	var wg sync.WaitGroup
	limit := make(chan struct{}, 16)
	for _, key := range want {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if _, _, err := put(t.Context(), s, key, []byte(key)); err != nil {
				t.Errorf("Put(%q): %v", key, err)
			}
		})
	}
	wg.Wait()
	got, err := keys(t.Context(), s, "pages/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(want), got); diff != "" {
		t.Errorf("List of %d keys (-want +got):\n%s", f.Objects, diff)
	}
}

func testCancelled(t *testing.T, s objstore.Store, f Features) {
	body := pattern(f.BigBytes)
	mustPut(t, s, "cancel/object", body)
	ctx, cancel := context.WithCancel(t.Context())
	r, _, err := s.Get(ctx, "cancel/object", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on after the cancel gave %d bytes and %v, want context.Canceled", n, err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close after the cancel: %v", err)
	}

	if _, _, err := put(ctx, s, "cancel/other", body); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if _, err := s.Head(ctx, "cancel/object", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Head = %v, want context.Canceled", err)
	}
	if _, _, err := s.Get(ctx, "cancel/object", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want context.Canceled", err)
	}
	if _, err := keys(ctx, s, "cancel/"); !errors.Is(err, context.Canceled) {
		t.Errorf("List = %v, want context.Canceled", err)
	}
	if err := s.Delete(ctx, "cancel/object", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete = %v, want context.Canceled", err)
	}

	// A body that cancels while it is read: nothing may appear.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	stop := &stopper{Reader: bytes.NewReader(body), after: 1 << 20, stop: cancel}
	if _, _, err := s.Put(ctx, "cancel/half", stop, f.BigBytes, manifest.SumHash(body), objstore.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Put that is cancelled half way = %v, want context.Canceled", err)
	}
	got, err := keys(t.Context(), s, "cancel/")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cancel/object"}, got); diff != "" {
		t.Errorf("after the cancels (-want +got):\n%s", diff)
	}
	mustHold(t, s, f, "cancel/object", "", body)
}

// stopper calls stop once more than after bytes were read.
type stopper struct {
	*bytes.Reader
	after int64
	stop  func()
}

func (s *stopper) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.after {
		s.stop()
	}
	return s.Reader.ReadAt(p, off)
}

func testManyReaders(t *testing.T, s objstore.Store, f Features) {
	const objects, readers = 4, 64
	bodies := make([][]byte, objects)
	for i := range objects {
		bodies[i] = pattern(int64(50_000 + i))
		mustPut(t, s, fmt.Sprintf("many/%d", i), bodies[i])
	}
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			i := r % objects
			got, _, err := get(t.Context(), s, fmt.Sprintf("many/%d", i), "")
			if err != nil || !bytes.Equal(got, bodies[i]) {
				t.Errorf("reader %d: %d bytes, %v", r, len(got), err)
			}
		})
	}
	wg.Wait()
	mustHold(t, s, f, "many/0", "", bodies[0])
}
