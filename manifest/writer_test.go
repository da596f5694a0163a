package manifest

import (
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var testTime = time.UnixMilli(1700000123456)

var figureOpts = cmp.Options{cmp.AllowUnexported(Sum{}), cmpopts.IgnoreUnexported(Totals{})}

// pack returns the data object of recs, which are of app_code wallet.
func pack(t testing.TB, recs []Record) ([]byte, Figures) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, "wallet")
	for i := range recs {
		if err := w.Write(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), f
}

// mixedRecords are records of different length, some of them awkward.
func mixedRecords(n int) []Record {
	recs := sampleRecords(n)
	for i := range recs {
		switch i % 7 {
		case 3:
			r := awkwardRecord()
			r.EventID, r.UpdatedAtMS = recs[i].EventID, recs[i].UpdatedAtMS
			recs[i] = r
		case 5:
			recs[i].PayloadJSON = `{"s": "` + strings.Repeat("ab", i%3000) + `"}`
		}
	}
	return recs
}

func TestWriterFigures(t *testing.T) {
	for _, n := range []int{1, 2, 3, 500, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recs := mixedRecords(n)
			object, got := pack(t, recs)

			// Everything again, by other means.
			zr, err := stdgzip.NewReader(bytes.NewReader(object))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(zr)
			if err != nil {
				t.Fatal(err)
			}
			var want Figures
			var lines [][]byte
			var all []byte
			for i := range recs {
				line := recs[i].AppendLine(nil)
				lines = append(lines, line)
				all = append(append(all, line...), '\n')
				if err := want.Add(&recs[i]); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(all, text) {
				t.Error("the object does not hold the canonical lines")
			}
			want.FirstCursor, want.LastCursor = recs[0].Cursor(), recs[n-1].Cursor()
			want.NDJSONSHA256, want.GzipSHA256, want.DataCRC64 = SumHash(text), SumHash(object), SumCRC64(object)
			want.UncompressedBytes, want.CompressedBytes = int64(len(text)), int64(len(object))
			want.RowsRoot = headOf(lines)
			if diff := cmp.Diff(want, got, figureOpts); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
			again, _ := pack(t, recs)
			if !bytes.Equal(object, again) {
				t.Error("the same rows gave other bytes")
			}
		})
	}
}

func TestWriterGzipHeader(t *testing.T) {
	object, _ := pack(t, sampleRecords(1))
	// RFC 1952 section 2.3: magic, deflate, no flags, no time, no hint, system unknown.
	if want := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}; !bytes.HasPrefix(object, want) {
		t.Errorf("header % x, want % x", object[:10], want)
	}
}

func TestWriterRefuses(t *testing.T) {
	first := plainRecord()
	edit := func(f func(r *Record)) *Record {
		r := first
		r.EventID = "evt_2"
		f(&r)
		return &r
	}
	for _, tc := range []struct {
		name string
		row  *Record
		want error
	}{
		{"falling updated_at_ms", edit(func(r *Record) { r.UpdatedAtMS-- }), ErrOrder},
		{"the same row", edit(func(r *Record) { r.EventID = first.EventID }), ErrOrder},
		{"another app_code", edit(func(r *Record) { r.AppCode = "Wallet" }), ErrForeignRow},
		{"another status", edit(func(r *Record) { r.Status = "pending" }), ErrForeignRow},
		{"no status", edit(func(r *Record) { r.Status = "" }), ErrForeignRow},
		{"not UTF-8", edit(func(r *Record) { r.PayloadJSON = "\"\xff\"" }), ErrInvalidUTF8},
		{"too long", edit(func(r *Record) { r.PayloadJSON = strings.Repeat("x", DefaultMaxLineBytes) }), ErrLineTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			w := NewWriter(&b, "wallet")
			if err := w.Write(&first); err != nil {
				t.Fatal(err)
			}
			if err := w.Write(tc.row); !errors.Is(err, tc.want) {
				t.Errorf("Write = %v, want %v", err, tc.want)
			}
			if err := w.Write(edit(func(*Record) {})); !errors.Is(err, tc.want) {
				t.Errorf("a good row after it: %v", err)
			}
			if f, err := w.Close(); !errors.Is(err, tc.want) || f.All.RowCount != 0 {
				t.Errorf("Close = %+v, %v", f, err)
			}
			if zr, err := stdgzip.NewReader(&b); err == nil {
				if _, err := io.Copy(io.Discard, zr); err == nil {
					t.Error("what was written is a whole gzip stream")
				}
			}
		})
	}
}

func TestWriterTakesAnyOrderWithinAMillisecond(t *testing.T) {
	var recs []Record
	for _, id := range []string{"_x", "a_1", "A2", "b", "é", "e2", "Z"} {
		r := plainRecord()
		r.EventID = id
		recs = append(recs, r)
	}
	pack(t, recs)
}

func TestWriterClose(t *testing.T) {
	w := NewWriter(io.Discard, "wallet")
	if f, err := w.Close(); !errors.Is(err, ErrNoRows) || f.CompressedBytes != 0 {
		t.Errorf("Close without rows = %+v, %v", f, err)
	}
	if _, err := w.Close(); !errors.Is(err, ErrNoRows) {
		t.Errorf("second Close = %v", err)
	}
	w = NewWriter(io.Discard, "wallet")
	r := plainRecord()
	if err := w.Write(&r); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err == nil {
		t.Error("second Close succeeds")
	}
	r.EventID = "later"
	if err := w.Write(&r); err == nil {
		t.Error("Write after Close succeeds")
	}
}

// failAfter fails once n bytes were written.
type failAfter struct {
	n       int
	err     error
	written int
}

func (f *failAfter) Write(p []byte) (int, error) {
	if f.written+len(p) > f.n {
		n := max(0, f.n-f.written)
		f.written += n
		return n, f.err
	}
	f.written += len(p)
	return len(p), nil
}

func TestWriterReportsTheStore(t *testing.T) {
	recs := sampleRecords(4000)
	object, _ := pack(t, recs)
	broken := errors.New("disk full")
	for _, n := range []int{0, 5, len(object) / 2, len(object) - 9, len(object) - 1} {
		w := NewWriter(&failAfter{n: n, err: broken}, "wallet")
		var failed bool
		for i := range recs {
			if err := w.Write(&recs[i]); err != nil {
				failed = true
				if !errors.Is(err, broken) {
					t.Fatalf("Write = %v", err)
				}
			}
		}
		if f, err := w.Close(); !errors.Is(err, broken) || f.All.RowCount != 0 {
			t.Errorf("store that takes %d of %d bytes: Close = %v", n, len(object), err)
		}
		if n == 0 && !failed {
			t.Error("2 MB of rows went on after the first byte was refused")
		}
	}
}
