package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// vault is a bucket with storage classes and object lock.
type vault struct {
	*bucket
	deaf     bool // it takes every order for a lock and locks nothing
	deafMove bool // so it does when it moves an object
}

func newVault(c *calls) *vault { return &vault{bucket: newBucket(c)} }

func (v *vault) Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error) {
	if v.deaf {
		opts.RetainUntil = time.Time{}
	}
	return v.bucket.Put(ctx, key, body, size, sum, opts)
}

func (v *vault) Reclassify(_ context.Context, key, _ string, opts objstore.PutOptions) (info objstore.Info, err error) {
	err = v.do("reclassify", func() (err error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.opts[key].RetainUntil.After(now) {
			return fmt.Errorf("%s is locked: %w", key, objstore.ErrDenied)
		}
		if v.deaf || v.deafMove {
			opts.RetainUntil = time.Time{}
		}
		v.opts[key] = opts
		info, err = v.info(key)
		return err
	})
	return info, err
}

func (v *vault) Retain(_ context.Context, key, _ string, until time.Time) error {
	return v.do("retain "+key[strings.LastIndexByte(key, '/'):], func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		opts := v.opts[key]
		if !v.deaf {
			opts.RetainUntil = until
		}
		v.opts[key] = opts
		return nil
	})
}

// kept returns the class and lock of the three objects of the only batch, data
// first.
func (v *vault) kept(t *testing.T) (kept []objstore.PutOptions) {
	t.Helper()
	for _, name := range []string{manifest.DataName, manifest.ManifestName, manifest.SuccessName} {
		for key, opts := range v.opts {
			if strings.HasSuffix(key, "/"+name) {
				kept = append(kept, opts)
			}
		}
	}
	if len(kept) != 3 {
		t.Fatalf("the store holds %d objects of a batch", len(kept))
	}
	return kept
}

func TestRunPassesPutOptions(t *testing.T) {
	v, l := newVault(&calls{}), newBook(&calls{})
	opts := options()
	opts.Put = PutOptions{RetainUntil: now.Add(time.Hour), SSE: "cos", Tags: map[string]string{"k": "v"}, DataStorageClass: "STANDARD_IA"}
	if _, err := Run(t.Context(), newTable(10), v, l, l, opts); err != nil {
		t.Fatal(err)
	}
	for i, o := range v.kept(t) {
		class := ""
		if i == 0 {
			class = "STANDARD_IA"
		}
		if !o.RetainUntil.Equal(opts.Put.RetainUntil) || o.SSE != "cos" || o.Tags["k"] != "v" || o.StorageClass != class {
			t.Errorf("object %d was put with %+v", i, o)
		}
	}
	if slices.ContainsFunc(v.log, func(call string) bool { return strings.HasPrefix(call, "retain") }) {
		t.Errorf("objects that were locked at once are locked again: %v", v.log)
	}
}

func TestRunRefusesWhatTheStoreCannotKeep(t *testing.T) {
	for name, put := range map[string]PutOptions{
		"a cold class": {DataStorageClass: "DEEP_ARCHIVE"},
		"a lock":       {RetainUntil: now.Add(time.Hour)},
		"a past lock":  {RetainUntil: now},
	} {
		c := &calls{}
		b, l := newBucket(c), newBook(c)
		opts := options()
		opts.Put = put
		if _, err := Run(t.Context(), newTable(10), b, l, l, opts); !errors.Is(err, ErrOptions) || c.n != 0 {
			t.Errorf("%s: Run = %v after calls %v, want ErrOptions", name, err, c.log)
		}
	}
}

// An object that an earlier run left is locked as this run wants it.
func TestRunLocksWhatItAdopts(t *testing.T) {
	for _, before := range []time.Time{{}, now.Add(time.Minute), now.Add(24 * time.Hour)} {
		c := &calls{}
		v, l := newVault(c), newBook(c)
		opts := options()
		opts.Put.RetainUntil = before
		l.fail = 9 // the lock is lost before the receipt
		if _, err := Run(t.Context(), newTable(10), v, l, l, opts); !errors.Is(err, errInjected) || len(l.receipts) != 0 {
			t.Fatalf("Run = %v with %d receipts after %v", err, len(l.receipts), c.log)
		}
		opts.Put.RetainUntil = now.Add(time.Hour)
		r, err := Run(t.Context(), newTable(10), v, l, l, opts)
		if err != nil || len(r.Batches) != 1 || !r.Batches[0].Adopted {
			t.Fatalf("Run = %+v, %v", r, err)
		}
		want := opts.Put.RetainUntil
		if before.After(want) {
			want = before
		}
		for i, o := range v.kept(t) {
			if !o.RetainUntil.Equal(want) {
				t.Errorf("object %d, locked until %v before, is locked until %v, want %v", i, before, o.RetainUntil, want)
			}
		}
	}
}

// A store that only nods gets no receipt.
func TestRunRecordsNothingThatIsNotLocked(t *testing.T) {
	c := &calls{}
	v, l := newVault(c), newBook(c)
	v.deaf = true
	opts := options()
	opts.Put.RetainUntil = now.Add(time.Hour)
	_, err := Run(t.Context(), newTable(10), v, l, l, opts)
	if !errors.Is(err, ErrNotLocked) || len(l.receipts) != 0 {
		t.Errorf("Run = %v with %d receipts, want ErrNotLocked and none", err, len(l.receipts))
	}
	v.deaf = false
	if _, err := Run(t.Context(), newTable(10), v, l, l, opts); err != nil || len(l.receipts) != 1 {
		t.Errorf("Run = %v with %d receipts once the store locks", err, len(l.receipts))
	}
	// Data that is moved has a lock of its own.
	v, l = newVault(&calls{}), newBook(&calls{})
	opts.Put.DataStorageClass = "ARCHIVE"
	v.deafMove = true
	r, err := Run(t.Context(), newTable(10), v, l, l, opts)
	if err != nil || !v.kept(t)[0].RetainUntil.Equal(opts.Put.RetainUntil) {
		t.Errorf("Run = %+v, %v; data is kept with %+v", r, err, v.kept(t)[0])
	}
}

func TestRunFreezesTheDataAfterTheReceipt(t *testing.T) {
	opts := options()
	opts.Put = PutOptions{DataStorageClass: "ARCHIVE", SSE: "cos", RetainUntil: now.Add(time.Hour)}
	c := &calls{}
	v, l := newVault(c), newBook(c)
	r, err := Run(t.Context(), newTable(10), v, l, l, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range v.kept(t) {
		want := objstore.PutOptions{SSE: "cos", RetainUntil: opts.Put.RetainUntil}
		if i == 0 {
			want.StorageClass = "ARCHIVE"
		}
		if got.StorageClass != want.StorageClass || got.SSE != want.SSE || !got.RetainUntil.Equal(want.RetainUntil) {
			t.Errorf("object %d is kept with %+v, want %+v", i, got, want)
		}
	}
	if n := len(c.log); c.log[n-1] != "reclassify" || c.log[n-2] != "record" || r.Batches[0].StorageClass != "ARCHIVE" {
		t.Errorf("calls end with %v", c.log[n-2:])
	}
}

// The receipt stands when the move fails, the run says so, and the next one
// does it.
func TestRunFreezesWhatAnEarlierRunLeft(t *testing.T) {
	opts := options()
	opts.Put = PutOptions{DataStorageClass: "ARCHIVE", RetainUntil: now.Add(time.Hour)}
	for _, after := range []bool{false, true} {
		c := &calls{after: after}
		v, l := newVault(c), newBook(c)
		c.fail = 11
		r, err := Run(t.Context(), newTable(10), v, l, l, opts)
		if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "is recorded, but") || len(l.receipts) != 1 || !r.Batches[0].Recorded {
			t.Fatalf("Run = %v with %d receipts; calls %v", err, len(l.receipts), c.log)
		}
		id := r.Batches[0].BatchID
		r, err = Run(t.Context(), newTable(10), v, l, l, opts)
		if err != nil || len(r.Batches) != 0 || (r.MovedBatchID == id) == after {
			t.Errorf("the next Run = %+v, %v", r, err)
		}
		if got := v.kept(t)[0]; got.StorageClass != "ARCHIVE" || !got.RetainUntil.Equal(opts.Put.RetainUntil) {
			t.Errorf("data is kept with %+v", got)
		}
		n := len(c.log)
		r, err = Run(t.Context(), newTable(10), v, l, l, opts)
		if err != nil || r.MovedBatchID != "" || slices.Contains(c.log[n:], "reclassify") {
			t.Errorf("one more Run = %+v, %v, calls %v", r, err, c.log[n:])
		}
	}
	// It stopped between the move and the lock.
	c := &calls{}
	v, l := newVault(c), newBook(c)
	v.deafMove, c.fail = true, 12
	if _, err := Run(t.Context(), newTable(10), v, l, l, opts); !errors.Is(err, errInjected) {
		t.Fatalf("Run = %v after %v", err, c.log)
	}
	if _, err := Run(t.Context(), newTable(10), v, l, l, opts); err != nil || !v.kept(t)[0].RetainUntil.Equal(opts.Put.RetainUntil) {
		t.Errorf("the next Run = %v; data is kept with %+v", err, v.kept(t)[0])
	}
}

func TestRunLeavesOtherDataWhereItIs(t *testing.T) {
	warm := options()
	cold := options()
	cold.Put.DataStorageClass = "ARCHIVE"
	for name, spoil := range map[string]func(*vault, string){
		"gone":       func(v *vault, key string) { delete(v.objects, key) },
		"other data": func(v *vault, key string) { v.objects[key] = []byte("other") },
		"warm class": func(v *vault, key string) { v.opts[key] = objstore.PutOptions{StorageClass: "STANDARD_IA"} },
		"colder":     func(v *vault, key string) { v.opts[key] = objstore.PutOptions{StorageClass: "DEEP_ARCHIVE"} },
	} {
		c := &calls{}
		v, l := newVault(c), newBook(c)
		r, err := Run(t.Context(), newTable(10), v, l, l, warm)
		if err != nil {
			t.Fatal(err)
		}
		spoil(v, r.Batches[0].DataObjectKey)
		if r, err := Run(t.Context(), newTable(10), v, l, l, cold); err != nil || r.MovedBatchID != "" || slices.Contains(c.log, "reclassify") {
			t.Errorf("%s: Run = %+v, %v, calls %v", name, r, err, c.log)
		}
	}
}
