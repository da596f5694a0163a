package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/batchtest"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// faulty is a Source that answers the first calls for a key in its own way.
type faulty struct {
	batchtest.Store
	// gets are what the first Gets of a key give, in turn; then the Store answers.
	gets map[string][]answer
	// heads change what Head says.
	heads func(*objstore.Info)
	asked []string
}

// answer is one Get: its error, or a body that ends in an error.
type answer struct {
	err  error
	body []byte
	end  error // nil means io.EOF
}

type endsWith struct {
	io.Reader
	end error
}

func (e endsWith) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF && e.end != nil {
		err = e.end
	}
	return n, err
}

func (f *faulty) Get(ctx context.Context, key, version string) (io.ReadCloser, objstore.Info, error) {
	f.asked = append(f.asked, key+"@"+version)
	if len(f.gets[key]) == 0 {
		return f.Store.Get(ctx, key, version)
	}
	a := f.gets[key][0]
	f.gets[key] = f.gets[key][1:]
	info, _ := f.Store.Head(ctx, key, version)
	return io.NopCloser(endsWith{bytes.NewReader(a.body), a.end}), info, a.err
}

func (f *faulty) Head(ctx context.Context, key, version string) (objstore.Info, error) {
	f.asked = append(f.asked, key+"@"+version)
	info, err := f.Store.Head(ctx, key, version)
	if f.heads != nil {
		f.heads(&info)
	}
	return info, err
}

func checks(r verify.Report) []verify.Check {
	var names []verify.Check
	for _, f := range r.Faults {
		if !slices.Contains(names, f.Check) {
			names = append(names, f.Check)
		}
	}
	return names
}

func flipped(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 0x10
	return b
}

func TestBatchReadsTwiceBeforeItAccuses(t *testing.T) {
	src, target := batchOf(t, 500)
	data, raw := src[target.Location.DataKey()], src[target.Location.ManifestKey()]
	corrupt := func(key string, kind objstore.CorruptKind) error {
		return &objstore.CorruptError{Key: key, Kind: kind, Got: "1", Want: "2"}
	}
	other := bytes.Clone(data)
	other[len(other)/3] ^= 1
	broken := errors.New("connection reset")
	dataKey, manifestKey := target.Location.DataKey(), target.Location.ManifestKey()
	for _, tc := range []struct {
		name  string
		key   string
		gets  []answer
		want  []verify.Check // nil: proven
		err   error
		noted string
	}{
		{name: "data flipped once", key: dataKey, gets: []answer{{body: flipped(data)}}, noted: "a first read came back with other bytes"},
		{name: "data flipped twice the same", key: dataKey, gets: []answer{{body: flipped(data)}, {body: flipped(data)}}, noted: "two reads gave the same bytes",
			want: []verify.Check{verify.CheckGzipDamaged, verify.CheckGzipSHA256, verify.CheckDataCRC64}},
		{name: "data flipped twice differently", key: dataKey, gets: []answer{{body: flipped(data)}, {body: other}}, err: verify.ErrUnstable},
		{name: "data cut once", key: dataKey, gets: []answer{{body: data[:len(data)/2], end: corrupt(dataKey, objstore.ShortBody)}}, noted: "a first read came back with other bytes"},
		{name: "data cut twice", key: dataKey, gets: []answer{{body: data[:100], end: corrupt(dataKey, objstore.ShortBody)}, {body: data[:100], end: corrupt(dataKey, objstore.ShortBody)}},
			want: []verify.Check{verify.CheckShortBody}},
		{name: "data with a wrong checksum of the store twice", key: dataKey, gets: []answer{{body: data, end: corrupt(dataKey, objstore.CRCMismatch)}, {body: data, end: corrupt(dataKey, objstore.CRCMismatch)}},
			want: []verify.Check{verify.CheckObjectCRC64}},
		{name: "data without a checksum of the store", key: dataKey, gets: []answer{{body: data, end: corrupt(dataKey, objstore.CRCMissing)}}, noted: "names no CRC64"},
		{name: "a broken transfer", key: dataKey, gets: []answer{{body: data[:100], end: broken}}, err: broken},
		{name: "cold data", key: dataKey, gets: []answer{{err: objstore.ErrCold}}, err: objstore.ErrCold},
		{name: "a manifest damaged once", key: manifestKey, gets: []answer{{body: flipped(raw), end: corrupt(manifestKey, objstore.CRCMismatch)}}, noted: "a first read came back damaged"},
		{name: "a manifest damaged twice", key: manifestKey, gets: []answer{{body: flipped(raw), end: corrupt(manifestKey, objstore.CRCMismatch)}, {body: flipped(raw), end: corrupt(manifestKey, objstore.CRCMismatch)}},
			want: []verify.Check{verify.CheckObjectCRC64}},
		{name: "a manifest that cannot be fetched", key: manifestKey, gets: []answer{{err: broken}}, err: broken},
	} {
		for _, level := range []verify.Level{verify.LevelContent, verify.LevelRows} {
			t.Run(tc.name+"/"+level.String(), func(t *testing.T) {
				f := &faulty{Store: src, gets: map[string][]answer{tc.key: slices.Clone(tc.gets)}}
				r, err := verify.Batch(t.Context(), f, target, verify.Options{Level: level})
				if !errors.Is(err, tc.err) {
					t.Fatalf("Batch = %v, want %v", err, tc.err)
				}
				if tc.err != nil {
					return
				}
				if diff := cmp.Diff(tc.want, checks(r)); diff != "" {
					t.Errorf("faults (-want +got):\n%s\n%v", diff, r.Faults)
				}
				if r.Proven() != (tc.want == nil) {
					t.Errorf("Proven = %t with faults %v, unchecked %v", r.Proven(), r.Faults, r.Unchecked)
				}
				if tc.noted != "" && !slices.ContainsFunc(r.Notes, func(n verify.Note) bool { return strings.Contains(n.Text, tc.noted) }) {
					t.Errorf("no note says %q: %v", tc.noted, r.Notes)
				}
			})
		}
	}
}

func TestBatchWithoutAnObject(t *testing.T) {
	whole, target := batchOf(t, 10)
	for _, level := range []verify.Level{verify.LevelHead, verify.LevelContent, verify.LevelRows} {
		for _, key := range []string{target.Location.SuccessKey(), target.Location.ManifestKey(), target.Location.DataKey()} {
			src := batchtest.Store{}
			for k, b := range whole {
				if k != key {
					src[k] = b
				}
			}
			name := key[strings.LastIndexByte(key, '/')+1:]
			t.Run(level.String()+"/"+name+"/receipt", func(t *testing.T) {
				r, err := verify.Batch(t.Context(), src, target, verify.Options{Level: level})
				if err != nil || !slices.Equal(checks(r), []verify.Check{verify.CheckObjectMissing}) || r.Proven() {
					t.Errorf("Batch = %v, faults %v; want %s", err, r.Faults, verify.CheckObjectMissing)
				}
			})
			t.Run(level.String()+"/"+name+"/manifest only", func(t *testing.T) {
				r, err := verify.Batch(t.Context(), src, verify.Target{Location: target.Location}, verify.Options{Level: level})
				if name == manifest.SuccessName {
					if !errors.Is(err, verify.ErrNoBatch) || r.Proven() && r.Rows > 0 {
						t.Errorf("Batch = %v, want ErrNoBatch", err)
					}
					return
				}
				if err != nil || !slices.Equal(checks(r), []verify.Check{verify.CheckObjectMissing}) || r.Proven() {
					t.Errorf("Batch = %v, faults %v; want %s", err, r.Faults, verify.CheckObjectMissing)
				}
			})
		}
	}
}

// A marker that is there and damaged is a fault, also for who has no receipt: the
// batch is not absent.
func TestBatchWithADamagedMarker(t *testing.T) {
	src, target := batchOf(t, 10)
	key := target.Location.SuccessKey()
	bad := answer{body: flipped(src[key]), end: &objstore.CorruptError{Key: key, Kind: objstore.CRCMismatch, Got: "1", Want: "2"}}
	for _, receipt := range []*manifest.Receipt{target.Receipt, nil} {
		target.Receipt = receipt
		f := &faulty{Store: src, gets: map[string][]answer{key: {bad, bad}}}
		r, err := verify.Batch(t.Context(), f, target, verify.Options{})
		if diff := cmp.Diff([]verify.Check{verify.CheckObjectCRC64}, checks(r)); err != nil || diff != "" {
			t.Errorf("with receipt %t: Batch = %v, faults (-want +got):\n%s", receipt != nil, err, diff)
		}
	}
}

func TestBatchHead(t *testing.T) {
	src, target := batchOf(t, 10)
	crc := manifest.CRC64(7)
	for _, tc := range []struct {
		name      string
		edit      func(*objstore.Info)
		want      []verify.Check
		unchecked int
	}{
		{name: "whole", edit: func(*objstore.Info) {}},
		{name: "another size", edit: func(i *objstore.Info) { i.Size++ }, want: []verify.Check{verify.CheckObjectSize}},
		{name: "another checksum", edit: func(i *objstore.Info) { i.CRC64 = &crc }, want: []verify.Check{verify.CheckObjectCRC64}},
		{name: "no checksum", edit: func(i *objstore.Info) { i.CRC64 = nil }, unchecked: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &faulty{Store: src, heads: tc.edit}
			r, err := verify.Batch(t.Context(), f, target, verify.Options{Level: verify.LevelHead})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, checks(r)); diff != "" || len(r.Unchecked) != tc.unchecked {
				t.Errorf("faults (-want +got):\n%s\nunchecked %v, want %d", diff, r.Unchecked, tc.unchecked)
			}
			if want := tc.want == nil && tc.unchecked == 0; r.Proven() != want {
				t.Errorf("Proven = %t, want %t", r.Proven(), want)
			}
			if r.Bytes != 0 || r.Rows != 0 {
				t.Errorf("%d bytes and %d rows were read", r.Bytes, r.Rows)
			}
		})
	}
	t.Run("without a receipt", func(t *testing.T) {
		r, err := verify.Batch(t.Context(), src, verify.Target{Location: target.Location}, verify.Options{Level: verify.LevelHead})
		if err != nil || !r.Proven() || r.Against != "manifest" {
			t.Errorf("Batch = %v, %v against %s", err, r.Faults, r.Against)
		}
	})
}

func TestBatchRetention(t *testing.T) {
	src, target := batchOf(t, 10)
	now := time.UnixMilli(1_800_000_000_000)
	for _, tc := range []struct {
		name  string
		until time.Time
		need  time.Duration
		fault bool
	}{
		{"none wanted, none there", time.Time{}, 0, false},
		{"wanted, none there", time.Time{}, time.Hour, true},
		{"just enough", now.Add(time.Hour), time.Hour, false},
		{"a millisecond short", now.Add(time.Hour - time.Millisecond), time.Hour, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &faulty{Store: src, heads: func(i *objstore.Info) { i.RetainUntil = tc.until }}
			r, err := verify.Batch(t.Context(), f, target, verify.Options{Level: verify.LevelHead, RequireRetention: tc.need, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Equal(checks(r), []verify.Check{verify.CheckRetention}); got != tc.fault || tc.fault && len(r.Faults) != 3 {
				t.Errorf("faults %v, want %t for each object", r.Faults, tc.fault)
			}
		})
	}
}

// withMembers adds members to a target, changed by edit.
func withMembers(t *testing.T, src batchtest.Store, target verify.Target, edit func([]manifest.Member) []manifest.Member) verify.Target {
	t.Helper()
	v, _, err := verify.Open(t.Context(), src, target, verify.Options{})
	if err != nil || v == nil {
		t.Fatalf("Open = %v, %v", v, err)
	}
	defer v.Close()
	var members []manifest.Member
	for row, err := range v.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, target.Receipt.Member(row.EventID, row.UpdatedAtMS))
	}
	members = edit(members)
	target.Members = func(context.Context) iter.Seq2[manifest.Member, error] {
		return func(yield func(manifest.Member, error) bool) {
			for _, m := range members {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
	return target
}

func TestBatchMembers(t *testing.T) {
	src, target := batchOf(t, 60)
	for _, tc := range []struct {
		name string
		edit func([]manifest.Member) []manifest.Member
		want []verify.Check
		more int64
	}{
		{name: "exactly the rows", edit: func(m []manifest.Member) []manifest.Member { slices.Reverse(m); return m }},
		{name: "one missing", edit: func(m []manifest.Member) []manifest.Member { return m[1:] }, want: []verify.Check{verify.CheckMemberMissing}},
		{name: "one more", edit: func(m []manifest.Member) []manifest.Member { return append(m, target.Receipt.Member("evt_more", 5)) }, want: []verify.Check{verify.CheckMemberExtra}},
		{name: "one twice", edit: func(m []manifest.Member) []manifest.Member { return append(m, m[0]) }, want: []verify.Check{verify.CheckMemberExtra}},
		{name: "one replaced", edit: func(m []manifest.Member) []manifest.Member { m[0].EventID = "evt_other"; return m },
			want: []verify.Check{verify.CheckMemberExtra, verify.CheckMemberMissing}},
		{name: "another time", edit: func(m []manifest.Member) []manifest.Member { m[0].UpdatedAtMS++; return m }, want: []verify.Check{verify.CheckMemberTime}},
		{name: "of another batch", edit: func(m []manifest.Member) []manifest.Member {
			m[0].BatchID = manifest.BatchID(strings.Repeat("0", 64))
			return m
		}, want: []verify.Check{verify.CheckMemberReceipt}},
		{name: "of another manifest", edit: func(m []manifest.Member) []manifest.Member { m[0].ManifestSHA256[0] ^= 1; return m }, want: []verify.Check{verify.CheckMemberReceipt}},
		{name: "of another time of verification", edit: func(m []manifest.Member) []manifest.Member { m[0].ReceiptVerifiedAtMS++; return m }, want: []verify.Check{verify.CheckMemberReceipt}},
		{name: "all missing", edit: func(m []manifest.Member) []manifest.Member { return m[:0] }, want: []verify.Check{verify.CheckMemberMissing}, more: 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := withMembers(t, src, target, tc.edit)
			r, err := verify.Batch(t.Context(), src, target, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, checks(r)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, r.Faults)
			}
			if r.Against != "receipt and members" || len(tc.want) == 0 && r.Members != 60 {
				t.Errorf("%d members compared against %s", r.Members, r.Against)
			}
			if got := r.MoreFaults[verify.CheckMemberMissing]; got != tc.more {
				t.Errorf("%d more faults counted, want %d", got, tc.more)
			}
		})
	}
	t.Run("members that cannot be read", func(t *testing.T) {
		broken := errors.New("connection lost")
		target := target
		target.Members = func(context.Context) iter.Seq2[manifest.Member, error] {
			return func(yield func(manifest.Member, error) bool) { yield(manifest.Member{}, broken) }
		}
		if _, err := verify.Batch(t.Context(), src, target, verify.Options{}); !errors.Is(err, broken) {
			t.Errorf("Batch = %v, want the error of the members", err)
		}
	})
	t.Run("an older receipt without members", func(t *testing.T) {
		r, err := verify.Batch(t.Context(), src, target, verify.Options{})
		if err != nil || !r.Proven() || r.Against != "receipt without members" || !slices.ContainsFunc(r.Notes, func(n verify.Note) bool { return strings.Contains(n.Text, "never eligible") }) {
			t.Errorf("Batch = %v, proven %t against %s, notes %v", err, r.Proven(), r.Against, r.Notes)
		}
	})
}

// TestBatchReceiptColumns changes each column of the receipt that a manifest
// fixes, and wants that column named.
func TestBatchReceiptColumns(t *testing.T) {
	src, target := batchOf(t, 10)
	for column, edit := range map[string]func(*manifest.Receipt){
		"row_count":             func(r *manifest.Receipt) { r.RowCount++ },
		"first_cursor":          func(r *manifest.Receipt) { r.FirstEventID += "x" },
		"last_cursor":           func(r *manifest.Receipt) { r.LastUpdatedAtMS++ },
		"min_created_at_ms":     func(r *manifest.Receipt) { r.MinCreatedAtMS-- },
		"max_created_at_ms":     func(r *manifest.Receipt) { r.MaxCreatedAtMS++ },
		"available_delta_total": func(r *manifest.Receipt) { r.AvailableDeltaTotal.Add(1) },
		"frozen_delta_total":    func(r *manifest.Receipt) { r.FrozenDeltaTotal.Add(-1) },
		"ndjson_sha256":         func(r *manifest.Receipt) { r.NDJSONSHA256[0] ^= 1 },
		"gzip_sha256":           func(r *manifest.Receipt) { r.GzipSHA256[0] ^= 1 },
		"data_crc64":            func(r *manifest.Receipt) { r.DataCRC64++ },
		"manifest_sha256":       func(r *manifest.Receipt) { r.ManifestSHA256[0] ^= 1 },
		"uncompressed_bytes":    func(r *manifest.Receipt) { r.UncompressedBytes++ },
		"compressed_bytes":      func(r *manifest.Receipt) { r.CompressedBytes++ },
	} {
		t.Run(column, func(t *testing.T) {
			rc := *target.Receipt
			edit(&rc)
			r, err := verify.Batch(t.Context(), src, verify.Target{Location: target.Location, Receipt: &rc}, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if want := []verify.Check{verify.CheckReceipt + verify.Check(column)}; !slices.Equal(checks(r), want) {
				t.Errorf("faults %v, want %v", r.Faults, want)
			}
		})
	}
	for column, edit := range map[string]func(*manifest.Receipt){
		"manifest_crc64": func(r *manifest.Receipt) { r.ManifestCRC64++ },
		"success_crc64":  func(r *manifest.Receipt) { r.SuccessCRC64++ },
	} {
		t.Run(column, func(t *testing.T) {
			rc := *target.Receipt
			edit(&rc)
			for _, level := range []verify.Level{verify.LevelHead, verify.LevelContent} {
				r, err := verify.Batch(t.Context(), src, verify.Target{Location: target.Location, Receipt: &rc}, verify.Options{Level: level})
				if err != nil || !slices.Equal(checks(r), []verify.Check{verify.CheckObjectCRC64}) {
					t.Errorf("level %s: %v, faults %v", level, err, r.Faults)
				}
			}
		})
	}
	t.Run("a receipt that contradicts itself", func(t *testing.T) {
		rc := *target.Receipt
		rc.State = "PENDING"
		if _, err := verify.Batch(t.Context(), src, verify.Target{Location: target.Location, Receipt: &rc}, verify.Options{}); !errors.Is(err, manifest.ErrBadReceipt) {
			t.Errorf("Batch = %v, want ErrBadReceipt", err)
		}
	})
}

// TestBatchStopsAtABombWithoutADeclaredSize holds a manifest that declares no
// bytes against an object that has many.
func TestBatchStopsAtABombWithoutADeclaredSize(t *testing.T) {
	for _, declared := range []int64{0, -1} {
		b := batchtest.Pack(t, "wallet", rowsOf(50_000), nil)
		m := b.Manifest
		m.UncompressedBytes = declared
		raw, err := manifest.EncodeManifest(&m)
		if err != nil {
			t.Fatal(err)
		}
		mark, err := manifest.EncodeSuccess(&manifest.Success{BatchID: m.BatchID, ManifestObjectKey: b.Location.ManifestKey(), ManifestSHA256: manifest.SumHash(raw), RowCount: m.RowCount})
		if err != nil {
			t.Fatal(err)
		}
		b.Store[b.Location.ManifestKey()], b.Store[b.Location.SuccessKey()] = raw, mark
		r, err := verify.Batch(t.Context(), b.Store, verify.Target{Location: b.Location}, verify.Options{})
		if err != nil || !slices.Contains(checks(r), verify.CheckTooLarge) || r.Rows > 0 {
			t.Errorf("declared %d: %v, faults %v after %d rows", declared, err, r.Faults, r.Rows)
		}
	}
}

func TestBatchAsksForVersions(t *testing.T) {
	src, target := batchOf(t, 10)
	target.Versions = verify.Versions{Data: "d", Manifest: "m", Success: "s"}
	f := &faulty{Store: src}
	if r, err := verify.Batch(t.Context(), f, target, verify.Options{}); err != nil || !r.Proven() {
		t.Fatalf("Batch = %v, %v", err, r.Faults)
	}
	want := []string{target.Location.SuccessKey() + "@s", target.Location.ManifestKey() + "@m", target.Location.DataKey() + "@d"}
	if diff := cmp.Diff(want, f.asked); diff != "" {
		t.Errorf("objects asked for (-want +got):\n%s", diff)
	}
}

func TestOpenGivesRowsOnlyOfAProvenBatch(t *testing.T) {
	src, target := batchOf(t, 2000)
	v, r, err := verify.Open(t.Context(), src, target, verify.Options{TempDir: t.TempDir()})
	if err != nil || v == nil || !r.Proven() {
		t.Fatalf("Open = %v, %v, %v", v, r.Faults, err)
	}
	var n int64
	for row, err := range v.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; row.Line != n {
			t.Fatalf("row %d has line %d", n, row.Line)
		}
	}
	if n != 2000 {
		t.Errorf("%d rows, want 2000", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range v.Rows(ctx) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("Rows of a cancelled context end with %v", last)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	src[target.Location.DataKey()] = flipped(src[target.Location.DataKey()])
	v, r, err = verify.Open(t.Context(), src, target, verify.Options{TempDir: dir})
	if v != nil || err != nil || !r.Failed() {
		t.Errorf("Open of a damaged batch = %v, %v, failed %t", v, err, r.Failed())
	}
}

func TestBatchCancelled(t *testing.T) {
	src, target := batchOf(t, 50_000)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := verify.Batch(ctx, src, target, verify.Options{Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || r.Failed() || r.Proven() && r.Rows > 0 && err == nil {
		t.Errorf("Batch = %v, faults %v", err, r.Faults)
	}
}

func ExampleBatch() {
	src, target := exampleBatch()
	r, err := verify.Batch(context.Background(), src, target, verify.Options{})
	fmt.Println(r.Proven(), r.Rows, err)
	// Output: true 3 <nil>
}

func exampleBatch() (batchtest.Store, verify.Target) {
	src, target := batchOf(nopTB{}, 3)
	return src, target
}

// nopTB lets an example use what tests use; it fails by a panic.
type nopTB struct{ testing.TB }

func (nopTB) Helper()           {}
func (nopTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// A report of nothing is no pass.
func TestReportOfNothingIsNotProven(t *testing.T) {
	var r verify.Report
	for n := range 3 { // data, manifest, marker
		if r.Proven() {
			t.Errorf("proven after a look at %d objects", n)
		}
		r.Objects = append(r.Objects, verify.Object{})
	}
	if !r.Proven() || r.Failed() {
		t.Error("not proven after a look at all of them")
	}
}

// collector remembers what it was given since the last Reset.
type collector struct {
	ids    []string
	resets int
	fail   error
}

func (c *collector) Reset() error {
	c.ids, c.resets = nil, c.resets+1
	return nil
}

func (c *collector) Add(row *manifest.Row) error {
	c.ids = append(c.ids, row.EventID)
	return c.fail
}

// A collector holds the rows of the reading that was believed, and no others.
func TestOpenCollects(t *testing.T) {
	src, target := batchOf(t, 500)
	data := src[target.Location.DataKey()]
	late := bytes.Clone(data)
	late[len(late)-12] ^= 1 // so that many rows decode before it shows
	for _, tc := range []struct {
		name   string
		gets   []answer
		resets int
	}{{"one reading", nil, 1}, {"two readings", []answer{{body: late}}, 2}} {
		var c collector
		v, report, err := verify.Open(t.Context(), &faulty{Store: src, gets: map[string][]answer{target.Location.DataKey(): tc.gets}}, target,
			verify.Options{TempDir: t.TempDir(), Collect: &c})
		if err != nil || v == nil {
			t.Fatalf("%s: %v, faults %+v", tc.name, err, report.Faults)
		}
		var want []string
		for row, err := range v.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, row.EventID)
		}
		if !slices.Equal(c.ids, want) || len(want) != 500 || c.resets != tc.resets || v.Collected() != verify.Collector(&c) {
			t.Errorf("%s: %d rows after %d resets, want %d after %d", tc.name, len(c.ids), c.resets, len(want), tc.resets)
		}
		v.Close()
	}
	broken := errors.New("disk full")
	if v, _, err := verify.Open(t.Context(), src, target, verify.Options{TempDir: t.TempDir(), Collect: &collector{fail: broken}}); v != nil || !errors.Is(err, broken) {
		t.Errorf("a collector that fails: %v", err)
	}
}
