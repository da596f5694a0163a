package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// slowBook records a batch only after work was done, and keeps what happened.
type slowBook struct {
	*book
	before func(r manifest.Receipt)
}

func (l *slowBook) Record(ctx context.Context, r manifest.Receipt, members iter.Seq2[manifest.Member, error]) (bool, error) {
	l.before(r)
	return l.book.Record(ctx, r, members)
}

// TestRunWritesAheadOfTheReceipt holds the receipt of the first batch back until
// later ones are in the store, and wants the receipts in the order of the
// cursors all the same, each verified later than the one before.
func TestRunWritesAheadOfTheReceipt(t *testing.T) {
	rows := newTable(1000)
	b := newBucket(&calls{})
	markers := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := 0
		for key := range b.objects {
			if strings.HasSuffix(key, "/"+manifest.SuccessName) {
				n++
			}
		}
		return n
	}
	l := &slowBook{book: newBook(&calls{})}
	ahead := 0
	l.before = func(manifest.Receipt) {
		for deadline := time.Now().Add(10 * time.Second); len(l.receipts) == 0 && ahead < 5 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
			ahead = markers()
		}
		if n := markers() - len(l.receipts); n > writingBatches+2 {
			t.Errorf("%d batches are in the store without a receipt", n)
		}
	}
	opts := options()
	opts.BatchRows = 10
	if _, err := Run(t.Context(), rows, b, l, l, opts); err != nil {
		t.Fatal(err)
	}
	if ahead < 5 {
		t.Errorf("%d batches were written while the first was recorded, want 5", ahead)
	}
	l.whole(t, rows, b)
	for i := 1; i < len(l.receipts); i++ { // the clock stands still
		if l.receipts[i].VerifiedAtMS <= l.receipts[i-1].VerifiedAtMS {
			t.Fatalf("receipt %d is verified at %d, the one before it at %d", i, l.receipts[i].VerifiedAtMS, l.receipts[i-1].VerifiedAtMS)
		}
	}
}

// brokenBucket refuses the objects of one batch, once every other is written.
type brokenBucket struct {
	*bucket
	mu     sync.Mutex
	seen   []string
	refuse int // data object, counted from 0
}

func (b *brokenBucket) Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error) {
	if strings.HasSuffix(key, "/"+manifest.DataName) {
		b.mu.Lock()
		b.seen = append(b.seen, key)
		n := len(b.seen) - 1
		b.mu.Unlock()
		if n == b.refuse {
			return objstore.Info{}, false, fmt.Errorf("%s: %w", key, errInjected)
		}
	}
	return b.bucket.Put(ctx, key, body, size, sum, opts)
}

// TestRunRecordsWhatIsBeforeAFault fails one batch: all before it get receipts,
// none behind it does.
func TestRunRecordsWhatIsBeforeAFault(t *testing.T) {
	rows := newTable(1000)
	for refuse := range 12 {
		b := &brokenBucket{bucket: newBucket(&calls{}), refuse: refuse}
		l := newBook(&calls{})
		opts := options()
		opts.BatchRows = 10
		r, err := Run(t.Context(), rows, b, l, l, opts)
		if !errors.Is(err, errInjected) {
			t.Fatalf("Run = %v", err)
		}
		// Puts of neighbours may come in another order than their rows.
		var before int
		for i := 0; i < len(rows); i += 10 {
			if before = i / 10; len(l.receipts) == before {
				break
			}
			if got := l.receipts[before].FirstCursor(); got != rows[i].Cursor() {
				t.Fatalf("receipt %d begins at %v, want %v", before, got, rows[i].Cursor())
			}
		}
		failed := r.Batches[len(r.Batches)-1]
		if failed.Recorded || failed.FirstCursor != rows[10*before].Cursor() || r.Rows != int64(10*before) || len(r.Batches) != before+1 {
			t.Errorf("%d receipts, and the report ends with %+v after %d rows", before, failed, r.Rows)
		}
		if failed.DataObjectKey != b.seen[refuse] {
			t.Errorf("the report ends with %s, the store refused %s", failed.DataObjectKey, b.seen[refuse])
		}
		if _, err := Run(t.Context(), rows, b, l, l, opts); err != nil {
			t.Fatal(err)
		}
		l.whole(t, rows, b.bucket)
		if want := 3 * len(l.receipts); len(b.objects) != want {
			t.Errorf("%d objects for %d receipts", len(b.objects), len(l.receipts))
		}
	}
}

// TestRunFinishesSeveralBatches stops while several batches are in the store
// without a receipt, and runs again with a larger batch: all of them are adopted.
func TestRunFinishesSeveralBatches(t *testing.T) {
	rows := newTable(1000)
	b := newBucket(&calls{})
	l := &slowBook{book: newBook(&calls{})}
	ctx, cancel := context.WithCancel(t.Context())
	l.before = func(manifest.Receipt) {
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			b.mu.Lock()
			n := len(b.objects)
			b.mu.Unlock()
			if n >= 4*3 {
				break
			}
		}
		cancel()
		l.book.fail = l.book.n + 1
	}
	opts := options()
	opts.BatchRows = 10
	if _, err := Run(ctx, rows, b, l, l, opts); err == nil || len(l.receipts) != 0 {
		t.Fatalf("Run = %v with %d receipts", err, len(l.receipts))
	}
	left := map[string]bool{}
	for key := range b.objects {
		if strings.HasSuffix(key, "/"+manifest.ManifestName) {
			left[key] = true
		}
	}
	l.book.fail = 0
	opts.BatchRows = 100
	r, err := Run(t.Context(), rows, b, l.book, l, opts)
	if err != nil {
		t.Fatal(err)
	}
	adopted := 0
	for _, batch := range r.Batches {
		if batch.Adopted {
			adopted++
		}
	}
	if len(left) < 4 || adopted < len(left) {
		t.Errorf("%d batches of the first run are adopted, it left %d", adopted, len(left))
	}
	l.whole(t, rows, b)
	if want := 3 * len(l.receipts); len(b.objects) < want || len(b.objects) > want {
		t.Errorf("%d objects for %d receipts", len(b.objects), len(l.receipts))
	}
}
