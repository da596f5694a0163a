package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

const app = "wallet"

var (
	now    = time.UnixMilli(1_800_000_000_000)
	cutoff = now.Add(-24 * time.Hour)
)

// table is a Source of rows in memory.
type table []*manifest.Record

func newTable(rows int) table {
	return slices.Collect(sample.Records(sample.Options{
		Apps: []string{app}, Rows: rows, Seed: 7, Start: cutoff.Add(-30 * time.Hour), Span: 29 * time.Hour, Awkward: true,
	}))
}

func (t table) About() About {
	return About{Origin: manifest.Origin{ServerVersion: "test", Table: "wallet_outbox"}, EventIDCollation: "utf8mb4_general_ci", FidelityChecked: true}
}

func (t table) Rows(ctx context.Context, name string, after manifest.Cursor, cutoffMS int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		past := after == manifest.Cursor{}
		for _, r := range t {
			if err := ctx.Err(); err != nil {
				yield(Row{}, err)
				return
			}
			if !past {
				past = r.Cursor() == after
				continue
			}
			if r.UpdatedAtMS >= cutoffMS {
				return
			}
			if !yield(Row{Record: r, TextUnstable: r.RetryCount == 3}, nil) {
				return
			}
		}
	}
}

// calls counts what a run asks of its surroundings and makes one call fail.
type calls struct {
	mu    sync.Mutex
	n     int
	fail  int  // the call that fails, counted from 1; 0 for none
	after bool // it fails after its work was done, as when an answer is lost
	log   []string
}

var errInjected = errors.New("injected fault")

// do runs one call.
func (c *calls) do(what string, work func() error) error {
	c.mu.Lock()
	c.n++
	fail := c.n == c.fail
	c.log = append(c.log, what)
	c.mu.Unlock()
	if fail && !c.after {
		return fmt.Errorf("%s: %w", what, errInjected)
	}
	err := work()
	if fail && err == nil {
		err = fmt.Errorf("%s: %w", what, errInjected)
	}
	return err
}

// bucket is a Store in memory with the rules of objstore.Store.
type bucket struct {
	*calls
	mu      sync.Mutex
	objects map[string][]byte
	opts    map[string]objstore.PutOptions
	// spoil, when not nil, changes what Get gives.
	spoil func(key string, b []byte) []byte
}

func newBucket(c *calls) *bucket {
	return &bucket{calls: c, objects: map[string][]byte{}, opts: map[string]objstore.PutOptions{}}
}

func (b *bucket) info(key string) (objstore.Info, error) {
	o, ok := b.objects[key]
	if !ok {
		return objstore.Info{}, fmt.Errorf("%s: %w", key, objstore.ErrNotExist)
	}
	crc := manifest.SumCRC64(o)
	kept := b.opts[key]
	return objstore.Info{Key: key, Size: int64(len(o)), CRC64: &crc, StorageClass: kept.StorageClass, RetainUntil: kept.RetainUntil}, nil
}

func (b *bucket) Head(_ context.Context, key, _ string) (info objstore.Info, err error) {
	err = b.do("head", func() (err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		info, err = b.info(key)
		return err
	})
	return info, err
}

func (b *bucket) Get(_ context.Context, key, _ string) (body io.ReadCloser, info objstore.Info, err error) {
	err = b.do("get "+key[strings.LastIndexByte(key, '/'):], func() (err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		info, err = b.info(key)
		o := b.objects[key]
		if b.spoil != nil {
			o = b.spoil(key, bytes.Clone(o))
		}
		body = io.NopCloser(bytes.NewReader(o))
		return err
	})
	return body, info, err
}

func (b *bucket) Put(_ context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (info objstore.Info, existed bool, err error) {
	err = b.do("put "+key[strings.LastIndexByte(key, '/'):], func() (err error) {
		o := make([]byte, size)
		if _, err := body.ReadAt(o, 0); err != nil && err != io.EOF {
			return err
		}
		if manifest.SumHash(o) != sum {
			return errors.New("put: the digest is not that of the body")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if old, ok := b.objects[key]; ok {
			if existed = bytes.Equal(old, o); !existed {
				return fmt.Errorf("%s: %w", key, objstore.ErrExist)
			}
		} else {
			b.objects[key], b.opts[key] = o, opts
		}
		info, err = b.info(key)
		return err
	})
	return info, existed, err
}

func (b *bucket) List(_ context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		var keys []string
		err := b.do("list", func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			for key := range b.objects {
				if strings.HasPrefix(key, prefix) {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			return nil
		})
		if err != nil {
			yield(objstore.Info{}, err)
			return
		}
		for _, key := range keys {
			if !yield(objstore.Info{Key: key}, nil) {
				return
			}
		}
	}
}

// book is a Ledger in memory.
type book struct {
	*calls
	mu       sync.Mutex
	receipts []manifest.Receipt
	members  map[string]manifest.BatchID
}

func newBook(c *calls) *book { return &book{calls: c, members: map[string]manifest.BatchID{}} }

func (l *book) Latest(context.Context, string) (r manifest.Receipt, ok bool, err error) {
	err = l.do("latest", func() error {
		if n := len(l.receipts); n > 0 {
			r, ok = l.receipts[n-1], true
		}
		return nil
	})
	return r, ok, err
}

func (l *book) HasReceipt(_ context.Context, _ string, id manifest.BatchID) (has bool, err error) {
	err = l.do("has receipt", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		has = slices.ContainsFunc(l.receipts, func(r manifest.Receipt) bool { return r.BatchID == id })
		return nil
	})
	return has, err
}

func (l *book) Record(_ context.Context, r manifest.Receipt, members iter.Seq2[manifest.Member, error]) (existed bool, err error) {
	err = l.do("record", func() error {
		if err := r.Validate(); err != nil {
			return err
		}
		var ids []string
		for m, err := range members {
			if err != nil {
				return err
			}
			if owner, taken := l.members[m.EventID]; taken && owner != r.BatchID {
				return fmt.Errorf("event %s is in batch %s already", m.EventID, owner)
			}
			ids = append(ids, m.EventID)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if int64(len(ids)) != r.RowCount {
			return fmt.Errorf("%d members for %d rows", len(ids), r.RowCount)
		}
		existed = slices.ContainsFunc(l.receipts, func(o manifest.Receipt) bool { return o.BatchID == r.BatchID })
		if !existed {
			l.receipts = append(l.receipts, r)
		}
		for _, id := range ids {
			l.members[id] = r.BatchID
		}
		return nil
	})
	return existed, err
}

func (l *book) Check(context.Context) error { return l.do("lock", func() error { return nil }) }

func options() Options {
	return Options{
		AppCode: app, Prefix: "a/b", CutoffMS: cutoff.UnixMilli(), BatchRows: 100,
		Now: func() time.Time { return now }, Writer: manifest.Program{Name: "walletarchive", Version: "test"},
	}
}

// whole checks that every row of t before the cutoff is in exactly one batch
// with a receipt, and that every such batch verifies.
func (l *book) whole(t *testing.T, rows table, b *bucket) {
	t.Helper()
	want := map[string]bool{}
	for _, r := range rows {
		if r.UpdatedAtMS < cutoff.UnixMilli() {
			want[r.EventID] = true
		}
	}
	if len(l.members) != len(want) {
		t.Errorf("%d members, want %d", len(l.members), len(want))
	}
	var count int64
	quiet := newBucket(&calls{})
	quiet.objects = b.objects
	for i, r := range l.receipts {
		count += r.RowCount
		if i > 0 && l.receipts[i-1].LastUpdatedAtMS > r.FirstUpdatedAtMS {
			t.Errorf("batch %d begins before batch %d ends", i, i-1)
		}
		loc, err := manifest.ParseLocation(r.DataObjectKey)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := verify.Batch(t.Context(), quiet, verify.Target{Location: loc, Receipt: &r, Members: l.of(&r)}, verify.Options{})
		if err != nil || !rep.Proven() {
			t.Errorf("batch %d: %v, faults %v, unchecked %v", i, err, rep.Faults, rep.Unchecked)
		}
	}
	if count != int64(len(want)) {
		t.Errorf("the receipts count %d rows, want %d", count, len(want))
	}
}

func (l *book) of(r *manifest.Receipt) func(context.Context) iter.Seq2[manifest.Member, error] {
	return func(context.Context) iter.Seq2[manifest.Member, error] {
		return func(yield func(manifest.Member, error) bool) {
			for id, batch := range l.members {
				if batch == r.BatchID && !yield(r.Member(id, timeOf[id]), nil) {
					return
				}
			}
		}
	}
}

// timeOf is updated_at_ms by event_id of the rows of every test.
var timeOf = map[string]int64{}

func TestMain(m *testing.M) {
	for _, r := range newTable(1000) {
		timeOf[r.EventID] = r.UpdatedAtMS
	}
	m.Run()
}

func TestRunExportsEveryRowOnce(t *testing.T) {
	rows := newTable(1000)
	b, l := newBucket(&calls{}), newBook(&calls{})
	r, err := Run(t.Context(), rows, b, l, l, options())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Batches) != 10 || r.Rows != 1000 || r.More {
		t.Errorf("Run = %d batches, %d rows, more %t; want 10, 1000, false", len(r.Batches), r.Rows, r.More)
	}
	l.whole(t, rows, b)
	var unstable int64
	for _, batch := range r.Batches {
		if !batch.Recorded || batch.Existed || batch.Adopted || !batch.Verify.Proven() {
			t.Errorf("batch %s: recorded %t, existed %t, adopted %t", batch.BatchID.Short(), batch.Recorded, batch.Existed, batch.Adopted)
		}
		unstable += batch.Fidelity.TextUnstableRows
	}
	if unstable != 25 {
		t.Errorf("%d unstable rows counted, want 25", unstable)
	}
	again, err := Run(t.Context(), rows, b, l, l, options())
	if err != nil || len(again.Batches) != 0 {
		t.Errorf("a second Run = %d batches, %v; want none", len(again.Batches), err)
	}
}

func TestRunStopsAtTheCutoffAndAtMaxBatches(t *testing.T) {
	rows := newTable(1000)
	b, l := newBucket(&calls{}), newBook(&calls{})
	opts := options()
	opts.CutoffMS = rows[250].UpdatedAtMS
	r, err := Run(t.Context(), rows, b, l, l, opts)
	if err != nil || r.Rows != 250 || len(r.Batches) != 3 {
		t.Errorf("Run to a cutoff = %d rows, %d batches, %v; want 250, 3", r.Rows, len(r.Batches), err)
	}
	opts.CutoffMS, opts.MaxBatches = cutoff.UnixMilli(), 2
	r, err = Run(t.Context(), rows, b, l, l, opts)
	if err != nil || r.Rows != 200 || !r.More {
		t.Errorf("Run of two batches = %d rows, more %t, %v; want 200, true", r.Rows, r.More, err)
	}
}

func TestRunRefusesOptionsBeforeAnythingIsAsked(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Options)
		want error
	}{
		{"a cutoff in the future", func(o *Options) { o.CutoffMS = now.Add(time.Hour).UnixMilli() }, ErrCutoff},
		{"a cutoff younger than the minimum age", func(o *Options) { o.CutoffMS = now.Add(-59 * time.Minute).UnixMilli() }, ErrCutoff},
		{"no cutoff", func(o *Options) { o.CutoffMS = 0 }, ErrOptions},
		{"an app_code of 43 characters", func(o *Options) { o.AppCode = strings.Repeat("x", 43) }, ErrOptions},
		{"a prefix that leaves the root", func(o *Options) { o.Prefix = "../x" }, ErrOptions},
		{"a negative batch", func(o *Options) { o.BatchRows = -1 }, ErrOptions},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &calls{}
			b, l := newBucket(c), newBook(c)
			opts := options()
			tc.edit(&opts)
			if _, err := Run(t.Context(), newTable(10), b, l, l, opts); !errors.Is(err, tc.want) {
				t.Errorf("Run = %v, want %v", err, tc.want)
			}
			if c.n != 0 {
				t.Errorf("calls were made: %v", c.log)
			}
		})
	}
}

// TestRunAfterAnInterruption fails each call in turn, before and after its
// work, and runs the same export again.
func TestRunAfterAnInterruption(t *testing.T) {
	rows := newTable(1000)[:250]
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			c := &calls{fail: n, after: after}
			b, l := newBucket(c), newBook(c)
			_, err := Run(t.Context(), rows, b, l, l, options())
			if err == nil {
				if n <= 20 {
					t.Fatalf("only %d calls were made: %v", n-1, c.log)
				}
				break // no call was left to fail
			}
			if !errors.Is(err, errInjected) {
				t.Fatalf("call %d (%s), after %t: Run = %v, want the injected fault", n, c.log[n-1], after, err)
			}
			c.fail = 0
			opts := options()
			opts.Now = func() time.Time { return now.Add(time.Minute) } // manifests are made later now
			if _, err := Run(t.Context(), rows, b, l, l, opts); err != nil {
				t.Fatalf("call %d (%s), after %t: the second Run = %v", n, c.log[n-1], after, err)
			}
			l.whole(t, rows, b)
			if len(b.objects) != 9 {
				t.Errorf("call %d (%s), after %t: %d objects, want 3 for each of 3 batches", n, c.log[n-1], after, len(b.objects))
			}
			if t.Failed() {
				t.Fatalf("call %d (%s), after %t", n, c.log[n-1], after)
			}
		}
	}
}

// TestRunFinishesABatchThatWasCutOtherwise interrupts after the upload and runs
// again with another batch size and a later cutoff.
func TestRunFinishesABatchThatWasCutOtherwise(t *testing.T) {
	rows := newTable(1000)
	c := &calls{}
	b, l := newBucket(c), newBook(c)
	opts := options()
	opts.CutoffMS = rows[70].UpdatedAtMS
	c.fail = 3 + 3 + 3 + 1 // cursor, list; 3 puts; 3 gets; lock
	if _, err := Run(t.Context(), rows, b, l, l, opts); !errors.Is(err, errInjected) || len(l.receipts) != 0 || len(b.objects) != 3 {
		t.Fatalf("Run = %v with %d receipts, %d objects; calls %v", err, len(l.receipts), len(b.objects), c.log)
	}
	c.fail = 0
	opts = options()
	opts.BatchRows = 400
	r, err := Run(t.Context(), rows, b, l, l, opts)
	if err != nil || len(r.Batches) == 0 {
		t.Fatalf("Run = %v", err)
	}
	if got := r.Batches[0]; got.Rows != 70 || !got.Adopted {
		t.Errorf("the first batch has %d rows, adopted %t; want the 70 rows of the run before", got.Rows, got.Adopted)
	}
	l.whole(t, rows, b)
	if want := 3 * len(l.receipts); len(b.objects) != want {
		t.Errorf("%d objects for %d receipts", len(b.objects), len(l.receipts))
	}
}

// TestRunIsNotMadeLargerByAPlant leaves a manifest that says of a batch which
// begins at the first row that it has more rows than a batch may have.
func TestRunIsNotMadeLargerByAPlant(t *testing.T) {
	rows := newTable(1000)
	for _, planted := range []int64{101, 1 << 60} {
		b, l := newBucket(&calls{}), newBook(&calls{})
		f := manifest.Figures{FirstCursor: rows[0].Cursor(), LastCursor: rows[999].Cursor(), NDJSONSHA256: manifest.Hash{1}, UncompressedBytes: 1, CompressedBytes: 1}
		f.All.RowCount = planted
		m, err := manifest.New("a/b", app, f, now)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := manifest.EncodeManifest(&m)
		if err != nil {
			t.Fatal(err)
		}
		loc, err := m.Location()
		if err != nil {
			t.Fatal(err)
		}
		b.objects[loc.ManifestKey()] = raw
		r, err := Run(t.Context(), rows, b, l, l, options())
		if err != nil || len(r.Batches) == 0 || r.Batches[0].Rows != 100 {
			t.Fatalf("a plant of %d rows: Run = %+v, %v; want batches of 100", planted, r, err)
		}
		l.whole(t, rows, b)
	}
}

func TestRunAdoptsRowsThatWerePackedOtherwise(t *testing.T) {
	rows := newTable(1000)[:100]
	b, l := newBucket(&calls{}), newBook(&calls{})
	r, err := Run(t.Context(), rows, b, l, l, options())
	if err != nil {
		t.Fatal(err)
	}
	key := r.Batches[0].DataObjectKey
	gz, err := gzip.NewReader(bytes.NewReader(b.objects[key]))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, gz); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	other := newBucket(&calls{})
	other.objects[key] = packed.Bytes()
	l = newBook(&calls{})
	r, err = Run(t.Context(), rows, other, l, l, options())
	if err != nil || !r.Batches[0].Adopted || r.Batches[0].CompressedBytes != int64(packed.Len()) {
		t.Fatalf("Run = %+v, %v; want the object that is there", r.Batches, err)
	}
	l.whole(t, rows, other)
}

func TestRunRefusesWhatIsInThePlaceOfABatch(t *testing.T) {
	rows := newTable(1000)[:100]
	good, l := newBucket(&calls{}), newBook(&calls{})
	r, err := Run(t.Context(), rows, good, l, l, options())
	if err != nil {
		t.Fatal(err)
	}
	m := *r.Batches[0].Verify.Manifest
	loc, err := m.Location()
	if err != nil {
		t.Fatal(err)
	}
	m.AvailableDeltaTotal.Add(1)
	lie, err := manifest.EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere bytes.Buffer
	w := manifest.NewWriter(&elsewhere, app)
	if err := w.Write(newTable(2)[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		key  string
		body []byte
	}{
		{"data of other rows", loc.DataKey(), elsewhere.Bytes()},
		{"data that is no gzip", loc.DataKey(), []byte("hello")},
		{"a manifest of other figures", loc.ManifestKey(), lie},
		{"a manifest that is none", loc.ManifestKey(), []byte("{}")},
		{"another marker", loc.SuccessKey(), []byte("{}")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, l := newBucket(&calls{}), newBook(&calls{})
			b.objects[tc.key] = tc.body
			if _, err := Run(t.Context(), rows, b, l, l, options()); !errors.Is(err, ErrConflict) {
				t.Errorf("Run = %v, want ErrConflict", err)
			}
			if len(l.receipts) != 0 || !bytes.Equal(b.objects[tc.key], tc.body) {
				t.Errorf("%d receipts, object overwritten %t", len(l.receipts), !bytes.Equal(b.objects[tc.key], tc.body))
			}
		})
	}
}

func TestRunRecordsNothingThatDoesNotComeBack(t *testing.T) {
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	reads := 0
	for _, tc := range []struct {
		name  string
		spoil func(key string, b []byte) []byte
		want  error
	}{
		{"a flipped byte of the data", func(key string, b []byte) []byte {
			if strings.HasSuffix(key, manifest.DataName) {
				return flip(b)
			}
			return b
		}, ErrNotWhole},
		{"data that comes back otherwise each time", func(key string, b []byte) []byte {
			if reads++; strings.HasSuffix(key, manifest.DataName) {
				b[reads%len(b)] ^= 1
			}
			return b
		}, verify.ErrUnstable},
		{"a flipped byte of the manifest", func(key string, b []byte) []byte {
			if strings.HasSuffix(key, manifest.ManifestName) {
				return flip(b)
			}
			return b
		}, ErrNotWhole},
		{"a short marker", func(key string, b []byte) []byte {
			if strings.HasSuffix(key, manifest.SuccessName) {
				return b[:len(b)-3]
			}
			return b
		}, ErrNotWhole},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, l := newBucket(&calls{}), newBook(&calls{})
			b.spoil = tc.spoil
			r, err := Run(t.Context(), newTable(50), b, l, l, options())
			if !errors.Is(err, tc.want) || len(l.receipts) != 0 || r.Rows != 0 {
				t.Errorf("Run = %v with %d receipts and %d rows, want %v", err, len(l.receipts), r.Rows, tc.want)
			}
			if len(r.Batches) != 1 || r.Batches[0].Recorded {
				t.Errorf("report %+v", r.Batches)
			}
		})
	}
}

func TestRunStopsAtARowThatCannotBeCarried(t *testing.T) {
	rows := newTable(300)
	bad := *rows[150]
	bad.CommandID = "cmd_\xff"
	rows[150] = &bad
	b, l := newBucket(&calls{}), newBook(&calls{})
	_, err := Run(t.Context(), rows, b, l, l, options())
	var exact *manifest.ExactnessError
	if !errors.As(err, &exact) || exact.Column != "command_id" || !strings.Contains(exact.EventID, bad.EventID) {
		t.Fatalf("Run = %v, want an ExactnessError with the row and the column", err)
	}
	if _, err := Run(t.Context(), rows, b, l, l, options()); !errors.As(err, &exact) {
		t.Errorf("a second Run = %v, want the same", err)
	}
	for id := range l.members {
		if id == bad.EventID {
			t.Error("the row became a member")
		}
	}
}

func TestRunDryWritesNothingAndNamesTheSameBatches(t *testing.T) {
	rows := newTable(1000)[:250]
	b, l := newBucket(&calls{}), newBook(&calls{})
	opts := options()
	opts.DryRun = true
	dry, err := Run(t.Context(), rows, b, l, nil, opts)
	if err != nil || len(b.objects) != 0 || len(l.receipts) != 0 {
		t.Fatalf("Run = %v with %d objects, %d receipts", err, len(b.objects), len(l.receipts))
	}
	real, err := Run(t.Context(), rows, b, l, l, options())
	if err != nil {
		t.Fatal(err)
	}
	ids := func(r Report) (ids []manifest.BatchID) {
		for _, b := range r.Batches {
			ids = append(ids, b.BatchID)
		}
		return ids
	}
	if diff := cmp.Diff(ids(real), ids(dry)); diff != "" || len(dry.Batches) != 3 {
		t.Errorf("batches of the dry run (-real +dry):\n%s", diff)
	}
}
