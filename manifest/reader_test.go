package manifest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

// gz packs text as gzip without name and time.
func gz(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// outcome is everything that one pass of a Reader gives.
type outcome struct {
	rows    []Row
	faults  []*SyntaxError
	err     error // nil for io.EOF
	figures Figures
	known   bool
	object  Object
	whole   bool
}

func readAll(t testing.TB, src io.Reader, opts ReaderOptions) (o outcome) {
	t.Helper()
	r := NewReader(src, opts)
	defer r.Close()
	for {
		row, err := r.Next()
		var se *SyntaxError
		switch {
		case err == nil:
			o.rows = append(o.rows, *row)
			continue
		case errors.As(err, &se):
			if row != nil {
				t.Error("a row came with an error")
			}
			o.faults = append(o.faults, se)
			continue
		}
		if _, again := r.Next(); again != err {
			t.Errorf("Next after %v gives %v", err, again)
		}
		o.figures, o.known = r.Figures()
		o.object, o.whole = r.Object()
		if err != io.EOF {
			o.err = err
		}
		return o
	}
}

func TestReaderReadsWhatWriterWrote(t *testing.T) {
	for _, n := range []int{1, 2, 499, 3000} {
		recs := mixedRecords(n)
		object, want := pack(t, recs)
		for _, workers := range []int{1, 2, 5} {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"plain": func(r io.Reader) io.Reader { return r },
				"half":  iotest.HalfReader, "one byte": iotest.OneByteReader, "data with EOF": iotest.DataErrReader,
			} {
				t.Run(fmt.Sprintf("%d rows, %d workers, %s", n, workers, name), func(t *testing.T) {
					o := readAll(t, wrap(bytes.NewReader(object)), ReaderOptions{Workers: workers, MaxCompressedBytes: want.CompressedBytes, MaxUncompressedBytes: want.UncompressedBytes})
					if o.err != nil || len(o.faults) > 0 || len(o.rows) != n {
						t.Fatalf("%d rows, faults %v, error %v", len(o.rows), o.faults, o.err)
					}
					for i, row := range o.rows {
						line := append([]byte{0}, recs[i].AppendLine(nil)...)
						if row.Line != int64(i+1) || !row.Canonical || row.LeafHash != SumHash(line) || row.RowHash() != recs[i].RowHash() {
							t.Fatalf("row %d: %+v", i, row)
						}
					}
					if !o.known || !o.whole {
						t.Error("figures are not known")
					}
					if diff := cmp.Diff(want, o.figures, figureOpts); diff != "" {
						t.Errorf("figures (-writer +reader):\n%s", diff)
					}
					if o.object != (Object{want.GzipSHA256, want.DataCRC64, want.CompressedBytes}) {
						t.Errorf("object %+v", o.object)
					}
				})
			}
		}
	}
}

func TestReaderHashesTheCanonicalLine(t *testing.T) {
	respelled := strings.ReplaceAll(plainLine, `,"`, ` , "`)
	o := readAll(t, bytes.NewReader(gz(t, respelled+"\n")), ReaderOptions{})
	want := headOf([][]byte{[]byte(plainLine)})
	if o.err != nil || len(o.rows) != 1 || o.rows[0].Canonical || o.rows[0].LeafHash != want || o.figures.RowsRoot != want {
		t.Errorf("%+v, want leaf and root %s", o, want)
	}
	if o.figures.NDJSONSHA256 != SumHash([]byte(respelled+"\n")) {
		t.Error("ndjson_sha256 is not that of the bytes as they are")
	}
}

func TestReaderGoesOnAfterABrokenLine(t *testing.T) {
	line := func(id string) string { return strings.Replace(plainLine, "evt_1", id, 1) }
	text := strings.Join([]string{line("a"), line("b")[:90], "", line("c"), `{"x":1}`, line("d") + "x", line("e"), ""}, "\n")
	o := readAll(t, bytes.NewReader(gz(t, text)), ReaderOptions{})
	var ids []string
	for _, r := range o.rows {
		ids = append(ids, fmt.Sprintf("%s@%d", r.EventID, r.Line))
	}
	if got := strings.Join(ids, " "); got != "a@1 c@4 e@7" {
		t.Errorf("rows %s", got)
	}
	var faults []string
	for _, f := range o.faults {
		faults = append(faults, fmt.Sprintf("%d %v", f.Line, f.Err))
	}
	if got := strings.Join(faults, ", "); got != "2 invalid JSON, 3 invalid JSON, 5 unknown member, 6 text after the object" {
		t.Errorf("faults %s", got)
	}
	if o.err != nil || o.known {
		t.Errorf("error %v, figures of the rows known: %t", o.err, o.known)
	}
	if o.figures.NDJSONSHA256 != SumHash([]byte(text)) || !o.whole {
		t.Error("figures of the bytes are not known")
	}
}

func TestReaderLines(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		rows       int
		kinds      []error
	}{
		{"no bytes", "", 0, nil},
		{"one line", plainLine + "\n", 1, nil},
		{"unterminated line", plainLine, 0, []error{ErrUnterminated}},
		{"unterminated last line", plainLine + "\n" + plainLine, 1, []error{ErrUnterminated}},
		{"unterminated brace", plainLine + "\n{", 1, []error{ErrUnterminated}},
		{"blank last line", plainLine + "\n\n", 1, []error{ErrInvalidJSON}},
		{"white space without a newline at the end", plainLine + "\n ", 1, []error{ErrUnterminated}},
		{"CR LF", plainLine + "\r\n", 1, nil}, // CR is white space of JSON
		{"CR alone", plainLine + "\r", 0, []error{ErrUnterminated}},
		{"two objects on a line", plainLine + " " + plainLine + "\n", 0, []error{ErrTrailingText}},
		{"object over two lines", strings.Replace(plainLine, ",", ",\n", 1) + "\n", 0, []error{ErrInvalidJSON, ErrInvalidJSON}},
		{"NUL padding", plainLine + "\n\x00\x00\x00\n", 1, []error{ErrInvalidJSON}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := readAll(t, bytes.NewReader(gz(t, tc.text)), ReaderOptions{})
			if o.err != nil || len(o.rows) != tc.rows || len(o.faults) != len(tc.kinds) {
				t.Fatalf("%d rows, faults %v, error %v", len(o.rows), o.faults, o.err)
			}
			for i, kind := range tc.kinds {
				if !errors.Is(o.faults[i], kind) || o.faults[i].Line != int64(tc.rows+i+1) {
					t.Errorf("fault %v, want %v at line %d", o.faults[i], kind, tc.rows+i+1)
				}
			}
		})
	}
}

func TestReaderLineLimit(t *testing.T) {
	long := func(n int) string { // a canonical line of n bytes
		return strings.Replace(plainLine, `"{}"`, `"`+strings.Repeat("x", n-len(plainLine)+2)+`"`, 1)
	}
	for _, limit := range []int{len(plainLine) + 10, blockBytes, 2*blockBytes + 17} {
		for _, over := range []int{0, 1, 3*blockBytes + 3} {
			for _, lines := range []int{1, 2} { // how many of the long ones
				t.Run(fmt.Sprintf("limit %d, over by %d, %d lines", limit, over, lines), func(t *testing.T) {
					text := plainLine + "\n" + strings.Repeat(long(limit+over)+"\n", lines) + plainLine + "\n" + plainLine + "\n"
					o := readAll(t, bytes.NewReader(gz(t, text)), ReaderOptions{MaxLineBytes: limit})
					if o.err != nil || o.figures.NDJSONSHA256 != SumHash([]byte(text)) || o.figures.UncompressedBytes != int64(len(text)) {
						t.Fatalf("error %v, %d bytes of %d", o.err, o.figures.UncompressedBytes, len(text))
					}
					if over == 0 {
						if len(o.faults) > 0 || len(o.rows) != 3+lines {
							t.Errorf("%d rows, faults %v", len(o.rows), o.faults)
						}
						return
					}
					if len(o.rows) != 3 || o.rows[0].Line != 1 || o.rows[1].Line != int64(2+lines) || o.rows[2].Line != int64(3+lines) || o.known {
						t.Errorf("%d rows, figures known %t", len(o.rows), o.known)
					}
					if len(o.faults) != lines {
						t.Fatalf("faults %v", o.faults)
					}
					for i, f := range o.faults {
						if !errors.Is(f, ErrLineTooLong) || f.Line != int64(2+i) || f.Offset != limit {
							t.Errorf("fault %v", f)
						}
					}
				})
			}
		}
	}
	t.Run("unterminated", func(t *testing.T) {
		o := readAll(t, bytes.NewReader(gz(t, plainLine+"\n"+long(4*blockBytes))), ReaderOptions{MaxLineBytes: blockBytes})
		if o.err != nil || len(o.rows) != 1 || len(o.faults) != 1 || !errors.Is(o.faults[0], ErrLineTooLong) {
			t.Errorf("%d rows, faults %v, error %v", len(o.rows), o.faults, o.err)
		}
	})
	t.Run("default", func(t *testing.T) {
		o := readAll(t, bytes.NewReader(gz(t, long(DefaultMaxLineBytes)+"\n"+long(DefaultMaxLineBytes+1)+"\n")), ReaderOptions{})
		if o.err != nil || len(o.rows) != 1 || len(o.faults) != 1 || !errors.Is(o.faults[0], ErrLineTooLong) || o.faults[0].Line != 2 {
			t.Errorf("%d rows, faults %v, error %v", len(o.rows), o.faults, o.err)
		}
	})
}

// header returns a gzip header with these flags and time, and what follows it.
func withHeader(t *testing.T, flags byte, mtime uint32, fields string) []byte {
	t.Helper()
	b := gz(t, plainLine+"\n")
	h := append([]byte{}, b[:10]...)
	h[3] = flags
	binary.LittleEndian.PutUint32(h[4:], mtime)
	h = append(h, fields...)
	if flags&2 != 0 { // FHCRC
		h = binary.LittleEndian.AppendUint16(h, uint16(crc32.ChecksumIEEE(h)))
	}
	return append(h, b[10:]...)
}

func TestReaderFraming(t *testing.T) {
	good := gz(t, plainLine+"\n")
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for _, tc := range []struct {
		name   string
		object []byte
		kind   error // nil when it is good
	}{
		{"good", good, nil},
		{"with text flag", withHeader(t, 1, 0, ""), nil},
		{"with header checksum", withHeader(t, 2, 0, ""), nil},
		{"nothing", nil, ErrGzip},
		{"not gzip", []byte(plainLine + "\n"), ErrGzip},
		{"zstd", []byte("\x28\xb5\x2f\xfd0000000000"), ErrGzip},
		{"one byte", []byte{0x1f}, ErrGzip},
		{"another method", edit(func(b []byte) { b[2] = 7 }), ErrGzip},
		{"reserved flag", withHeader(t, 1<<5, 0, ""), ErrGzip},
		{"wrong header checksum", append(append(append([]byte{}, good[:3]...), 2, 0, 0, 0, 0, 0, 255, 1, 2), good[10:]...), ErrGzip},
		{"name", withHeader(t, 8, 0, "data.ndjson\x00"), ErrGzipHeader},
		{"empty name", withHeader(t, 8, 0, "\x00"), ErrGzipHeader},
		{"comment", withHeader(t, 16, 0, "c\x00"), ErrGzipHeader},
		{"extra field", withHeader(t, 4, 0, "\x02\x00xy"), ErrGzipHeader},
		{"empty extra field", withHeader(t, 4, 0, "\x00\x00"), ErrGzipHeader},
		{"time", withHeader(t, 0, 1, ""), ErrGzipHeader},
		{"time after 2038", withHeader(t, 0, 0xffffffff, ""), ErrGzipHeader},
		{"second member", append(bytes.Clone(good), good...), ErrSecondMember},
		{"second member without content", append(bytes.Clone(good), gz(t, "")...), ErrSecondMember},
		{"half a second member", append(bytes.Clone(good), good[:2]...), ErrSecondMember},
		{"one byte behind", append(bytes.Clone(good), 0x1f), ErrTrailingBytes},
		{"zero byte behind", append(bytes.Clone(good), 0), ErrTrailingBytes},
		{"two bytes behind", append(bytes.Clone(good), 0x1f, 0x8c), ErrTrailingBytes},
		{"padding", append(bytes.Clone(good), make([]byte, 512)...), ErrTrailingBytes},
		{"newline behind", append(bytes.Clone(good), '\n'), ErrTrailingBytes},
		{"bad CRC", edit(func(b []byte) { b[len(b)-8] ^= 1 }), ErrGzip},
		{"bad length", edit(func(b []byte) { b[len(b)-1] ^= 1 }), ErrGzip},
		{"bad content", edit(func(b []byte) { b[30] ^= 0x10 }), ErrGzip},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := readAll(t, bytes.NewReader(tc.object), ReaderOptions{})
			_, object, whole, err := SumObject(t.Context(), bytes.NewReader(tc.object), ReaderOptions{})
			want := Object{SumHash(tc.object), SumCRC64(tc.object), int64(len(tc.object))}
			if !whole || object != want || !o.whole || o.object != want {
				t.Errorf("object %+v (%t) and %+v (%t), want %+v", object, whole, o.object, o.whole, want)
			}
			if tc.kind == nil {
				if err != nil || o.err != nil || len(o.rows) != 1 {
					t.Errorf("SumObject: %v; Reader: %v, %d rows", err, o.err, len(o.rows))
				}
				return
			}
			for name, err := range map[string]error{"SumObject": err, "Reader": o.err} {
				var fe *FramingError
				if !errors.Is(err, tc.kind) || !errors.As(err, &fe) {
					t.Errorf("%s: %v, want %v", name, err, tc.kind)
				}
			}
		})
	}
}

func TestReaderFindsEveryCut(t *testing.T) {
	object, figures := pack(t, mixedRecords(8))
	for n := range len(object) {
		o := readAll(t, bytes.NewReader(object[:n]), ReaderOptions{Workers: 1})
		if !errors.Is(o.err, ErrGzip) || errors.Is(o.err, io.EOF) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(object), o.err)
		}
		if !o.whole || o.object.GzipSHA256 != SumHash(object[:n]) || o.object.CompressedBytes != int64(n) {
			t.Fatalf("cut after %d bytes: object %+v", n, o.object)
		}
	}
	big, _ := pack(t, sampleRecords(5000))
	for n := 0; n < len(big); n += len(big)/20 + 1 {
		if o := readAll(t, bytes.NewReader(big[:n]), ReaderOptions{}); !errors.Is(o.err, ErrGzip) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(big), o.err)
		}
	}
	_ = figures
}

// A flipped bit either breaks the stream or leaves the same rows under another
// gzip_sha256 (XFL and OS of the header, unused bits): never other rows.
func TestReaderFindsEveryFlip(t *testing.T) {
	object, want := pack(t, mixedRecords(4))
	for i := range object {
		for _, bit := range []int{0, 3, 6} {
			b := bytes.Clone(object)
			b[i] ^= 1 << bit
			o := readAll(t, bytes.NewReader(b), ReaderOptions{Workers: 1, MaxUncompressedBytes: want.UncompressedBytes})
			if o.err != nil {
				continue
			}
			if o.figures.NDJSONSHA256 != want.NDJSONSHA256 || o.figures.RowsRoot != want.RowsRoot || o.figures.GzipSHA256 == want.GzipSHA256 {
				t.Fatalf("bit %d of byte %d: %+v", bit, i, o.figures)
			}
		}
	}
}

func TestReaderTellsTheSourceFromTheContent(t *testing.T) {
	object, want := pack(t, mixedRecords(3000))
	lost := errors.New("connection reset")
	for _, n := range []int{0, 1, 9, 10, 100, len(object) / 2, len(object) - 1, len(object)} {
		src := func() io.Reader { return io.MultiReader(bytes.NewReader(object[:n]), iotest.ErrReader(lost)) }
		o := readAll(t, src(), ReaderOptions{})
		var fe *FramingError
		if !errors.Is(o.err, lost) || errors.As(o.err, &fe) || o.whole {
			t.Errorf("lost after %d of %d bytes: %v, object known %t", n, len(object), o.err, o.whole)
		}
		_, _, whole, err := SumObject(t.Context(), src(), ReaderOptions{})
		if !errors.Is(err, lost) || errors.As(err, &fe) || whole {
			t.Errorf("SumObject, lost after %d bytes: %v, object known %t", n, err, whole)
		}
	}
	// Damage that was seen before the connection broke is no verdict: the
	// object was not read whole.
	broken := bytes.Clone(object)
	broken[200] ^= 0xff
	o := readAll(t, io.MultiReader(bytes.NewReader(broken), iotest.ErrReader(lost)), ReaderOptions{})
	if o.err == nil || o.whole {
		t.Errorf("damage, then a lost connection: %v, object known %t", o.err, o.whole)
	}
	_ = want
}

// countReader counts what is taken from it.
type countReader struct {
	r io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestReaderStopsAtWhatIsDeclared(t *testing.T) {
	object, f := pack(t, mixedRecords(500))
	for _, tc := range []struct {
		name string
		opts ReaderOptions
		want error
	}{
		{"exactly", ReaderOptions{MaxCompressedBytes: f.CompressedBytes, MaxUncompressedBytes: f.UncompressedBytes}, nil},
		{"one packed byte less", ReaderOptions{MaxCompressedBytes: f.CompressedBytes - 1}, ErrTooLarge},
		{"one byte less", ReaderOptions{MaxUncompressedBytes: f.UncompressedBytes - 1}, ErrTooLarge},
		{"one byte in all", ReaderOptions{MaxUncompressedBytes: 1}, ErrTooLarge},
	} {
		o := readAll(t, bytes.NewReader(object), tc.opts)
		_, _, whole, err := SumObject(t.Context(), bytes.NewReader(object), tc.opts)
		if !errors.Is(o.err, tc.want) || !errors.Is(err, tc.want) || tc.want != nil && (o.whole || whole) {
			t.Errorf("%s: Reader %v, SumObject %v", tc.name, o.err, err)
		}
	}

	// Zeros, newlines and rows, packed a thousandfold.
	for _, fill := range []string{"\x00", "\n", plainLine + "\n"} {
		bomb := gz(t, strings.Repeat(fill, 8<<20/len(fill)))
		for name, read := range map[string]func(io.Reader) error{
			"Reader": func(r io.Reader) error {
				return readAll(t, r, ReaderOptions{MaxUncompressedBytes: 1 << 20, MaxCompressedBytes: 1 << 30}).err
			},
			"SumObject": func(r io.Reader) error {
				_, _, _, err := SumObject(t.Context(), r, ReaderOptions{MaxUncompressedBytes: 1 << 20})
				return err
			},
		} {
			src := &countReader{r: iotest.HalfReader(bytes.NewReader(bomb))}
			if err := read(src); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s of a bomb of %q: %v", name, clip(fill), err)
			}
			if src.n > sourceBytes/2 || src.n > int64(len(bomb))*3/4 && len(bomb) > sourceBytes {
				t.Errorf("%s of a bomb of %q: read %d of %d bytes", name, clip(fill), src.n, len(bomb))
			}
		}
	}
}

func TestReaderRowsStayValid(t *testing.T) {
	recs := mixedRecords(3000)
	object, _ := pack(t, recs)
	r := NewReader(bytes.NewReader(object), ReaderOptions{})
	var rows []*Row
	for {
		row, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	r.Close()
	for i, row := range rows {
		if diff := cmp.Diff(recs[i], row.Record); diff != "" {
			t.Fatalf("row %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestReaderTooManyAssets(t *testing.T) {
	var text strings.Builder
	for i := range MaxAssetTypes + 1 {
		text.WriteString(strings.Replace(plainLine, "COIN", fmt.Sprint(i), 1) + "\n")
	}
	o := readAll(t, bytes.NewReader(gz(t, text.String())), ReaderOptions{})
	if !errors.Is(o.err, ErrTooManyAssets) || len(o.rows) != MaxAssetTypes {
		t.Errorf("%d rows, error %v", len(o.rows), o.err)
	}
}

func TestReaderClose(t *testing.T) {
	object, _ := pack(t, sampleRecords(5000))
	before := runtime.NumGoroutine()
	for _, reads := range []int{0, 1, 600, 1000, 5000, 5001} {
		src := &countReader{r: bytes.NewReader(object)}
		r := NewReader(src, ReaderOptions{})
		var err error
		for range reads {
			_, err = r.Next()
		}
		r.Close()
		n := src.n
		r.Close()
		if reads < 600 && n == int64(len(object)) {
			t.Errorf("closed after %d rows, but the whole object was read", reads)
		}
		for err == nil {
			_, err = r.Next()
		}
		if (err == io.EOF) != (reads > 5000) {
			t.Errorf("closed after %d rows, Next then ends with %v", reads, err)
		}
		if src.n != n {
			t.Error("the source is read after Close")
		}
	}
	// Close waits for a read that hangs, and gives up nothing.
	pr, pw := io.Pipe()
	r := NewReader(pr, ReaderOptions{})
	closed := make(chan struct{})
	go func() {
		r.Close()
		close(closed)
	}()
	pw.CloseWithError(errors.New("end"))
	<-closed
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestSumObject(t *testing.T) {
	object, want := pack(t, mixedRecords(3000))
	f, obj, whole, err := SumObject(t.Context(), bytes.NewReader(object), ReaderOptions{})
	if err != nil || !whole || obj != (Object{want.GzipSHA256, want.DataCRC64, want.CompressedBytes}) {
		t.Errorf("object %+v, %t, %v", obj, whole, err)
	}
	want = Figures{
		NDJSONSHA256: want.NDJSONSHA256, GzipSHA256: want.GzipSHA256, DataCRC64: want.DataCRC64,
		UncompressedBytes: want.UncompressedBytes, CompressedBytes: want.CompressedBytes,
	}
	if diff := cmp.Diff(want, f, figureOpts); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, whole, err := SumObject(ctx, bytes.NewReader(object), ReaderOptions{}); !errors.Is(err, context.Canceled) || whole {
		t.Errorf("cancelled: %v, object known %t", err, whole)
	}
}

// A block of a damaged object must not become as many rows as it has newlines.
func TestBlocksHaveFewLines(t *testing.T) {
	text := strings.Repeat("\n", 3*blockBytes) + plainLine + strings.Repeat("x\n", 9000) + "end"
	u := newUnpacker(bytes.NewReader(gz(t, text)), ReaderOptions{}.withDefaults())
	var got strings.Builder
	for {
		b, err := u.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.text, "\n"); n > maxBlockLines {
			t.Fatalf("block of %d lines", n)
		}
		if !strings.HasSuffix(b.text, "\n") && !strings.HasSuffix(b.text, "\nend") {
			t.Fatal("block ends within a line")
		}
		got.WriteString(b.text)
	}
	if got.String() != text {
		t.Error("the blocks are not the text")
	}
}

// A line over the limit is dropped as it is unpacked, not collected first.
func TestLongLineIsNotCollected(t *testing.T) {
	limit := 2 * blockBytes
	u := newUnpacker(bytes.NewReader(gz(t, strings.Repeat("x", 40*blockBytes)+"\n")), ReaderOptions{MaxLineBytes: limit}.withDefaults())
	for {
		b, err := u.next()
		if err == io.EOF {
			break
		}
		if err != nil || !b.tooLong {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	if cap(u.pending) > 3*limit {
		t.Errorf("%d bytes were collected of a line that may have %d", cap(u.pending), limit)
	}
}
