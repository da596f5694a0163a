package manifest

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// referenceDecode reads a line with a JSON library that is strict about
// duplicates, UTF-8 and surrogates, and applies the rules of docs/FORMAT.md
// "A line" member by member.
func referenceDecode(line []byte) (Record, bool) {
	members, err := split[map[string]jsontext.Value](line)
	if err != nil || members == nil || len(members) != int(memberCount) {
		return Record{}, false
	}
	var r Record
	for m, name := range memberNames {
		value, ok := members[name]
		if !ok {
			return Record{}, false
		}
		t := r.target(member(m))
		null := value.Kind() == 'n'
		switch {
		case t.nullStr != nil && !null:
			t.str = new(string)
			*t.nullStr = t.str
		case t.nullNum != nil && !null:
			t.num = new(int64)
			*t.nullNum = t.num
		case t.nullStr != nil || t.nullNum != nil:
			continue
		case null:
			return Record{}, false
		}
		if t.str != nil {
			err = json.Unmarshal(value, t.str)
		} else {
			err = json.Unmarshal(value, t.num)
		}
		if err != nil {
			return Record{}, false
		}
	}
	return r, true
}

func FuzzDecodeLine(f *testing.F) {
	f.Add([]byte(plainLine))
	f.Add([]byte(awkwardLine))
	f.Add([]byte(strings.ReplaceAll(plainLine, ",", " , ")))
	f.Add([]byte(strings.Replace(plainLine, `"w"`, `"\ud83d\ude00\u00e9\/\ufffd"`, 1)))
	f.Add([]byte(strings.Replace(plainLine, `"w"`, `"\ude00\ud83d"`, 1)))
	f.Add([]byte(strings.Replace(plainLine, `7`, `-0`, 1)))
	f.Add([]byte(strings.Replace(plainLine, `7`, `9223372036854775808`, 1)))
	f.Add([]byte(strings.Replace(plainLine, `7`, `1e2`, 1)))
	f.Add([]byte(plainLine + plainLine))
	f.Add([]byte(plainLine[:300]))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, canonical, err := decodeLine(string(line))
		want, ok := referenceDecode(line)
		if ok != (err == nil) {
			t.Fatalf("decodeLine: %v, reference accepts: %t", err, ok)
		}
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Offset < 0 || se.Offset > len(line) || !reflect.DeepEqual(r, Record{}) {
				t.Fatalf("error %#v with %+v", err, r)
			}
			return
		}
		if !reflect.DeepEqual(r, want) {
			t.Fatalf("decodeLine = %+v, reference %+v", r, want)
		}
		if err := r.CheckExact(); err != nil {
			t.Fatal(err)
		}
		out := r.AppendLine(nil)
		if canonical != bytes.Equal(out, line) {
			t.Fatalf("canonical is %t, line %q, encoded again %q", canonical, line, out)
		}
		again, canonical, err := decodeLine(string(out))
		if err != nil || !canonical || !reflect.DeepEqual(again, r) || again.RowHash() != r.RowHash() {
			t.Fatalf("%q encodes to %q, which decodes to %+v, canonical %t, %v", line, out, again, canonical, err)
		}
		var strict Record
		if err := parseLine(string(out), &strict); err != nil || !reflect.DeepEqual(strict, r) {
			t.Fatalf("strict parser on a canonical line: %+v, %v", strict, err)
		}
	})
}

// FuzzStrings puts arbitrary text into a record, which hits the escapes more
// often than bytes of a whole line do.
func FuzzStrings(f *testing.F) {
	f.Add("", int64(0), false)
	f.Add("\x00\x1f\"\\/\u2028😀\xff", int64(-1)<<63, true)
	f.Fuzz(func(t *testing.T, s string, n int64, null bool) {
		r := plainRecord()
		r.PayloadJSON, r.UserID = s, n
		if !null {
			r.LastError, r.LockUntilMS = &s, &n
		}
		if err := r.CheckExact(); err != nil {
			return
		}
		line := r.AppendLine(nil)
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("newline in %q", line)
		}
		got, canonical, err := decodeLine(string(line))
		if err != nil || !canonical || !reflect.DeepEqual(got, r) {
			t.Fatalf("%q came back as %+v, canonical %t, %v", line, got, canonical, err)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add(gz(f, plainLine+"\n"), true)
	f.Add(gz(f, plainLine+"\n"+plainLine), true)
	f.Add(append(gz(f, plainLine+"\n"), gz(f, plainLine+"\n")...), true)
	f.Add(gz(f, strings.Repeat("\n", 5000)), true)
	f.Add([]byte(plainLine+"\n{}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, object bool) {
		if !object { // else few inputs get past the checksum of gzip
			data = gz(t, string(data))
		}
		opts := ReaderOptions{MaxLineBytes: 1 << 16, MaxUncompressedBytes: 1 << 22, Workers: 2}
		o := readAll(t, bytes.NewReader(data), opts)
		sum, obj, whole, err := SumObject(t.Context(), bytes.NewReader(data), opts)
		if (err == nil) != (o.err == nil) || whole != o.whole {
			t.Fatalf("Reader: %v, SumObject: %v", o.err, err)
		}
		if whole && (obj != o.object || obj != Object{SumHash(data), SumCRC64(data), int64(len(data))}) {
			t.Fatalf("object %+v and %+v", o.object, obj)
		}
		if err != nil {
			return
		}
		if !whole || sum.NDJSONSHA256 != o.figures.NDJSONSHA256 || sum.UncompressedBytes != o.figures.UncompressedBytes {
			t.Fatalf("figures %+v and %+v", o.figures, sum)
		}
		if o.known != (len(o.faults) == 0) {
			t.Fatalf("%d faults, figures of the rows known: %t", len(o.faults), o.known)
		}
		if !o.known {
			return
		}
		var leaves [][]byte
		for i := range o.rows {
			leaves = append(leaves, o.rows[i].AppendLine(nil))
		}
		if o.figures.RowsRoot != headOf(leaves) || o.figures.All.RowCount != int64(len(o.rows)) {
			t.Fatalf("figures %+v of %d rows", o.figures, len(o.rows))
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	for _, m := range []Manifest{fullManifest(f), olderManifest(f)} {
		b, err := EncodeManifest(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeSuccess(b); err == nil {
			out, err := EncodeSuccess(&s)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := DecodeSuccess(out); err != nil || again != s {
				t.Fatalf("_SUCCESS %+v came back as %+v, %v", s, again, err)
			}
		}
		m, err := DecodeManifest(b)
		if err != nil {
			if !errors.Is(err, ErrBadDocument) || !reflect.DeepEqual(m, Manifest{}) {
				t.Fatalf("%v with %+v", err, m)
			}
			return
		}
		out, err := EncodeManifest(&m)
		if err != nil {
			if len(b) > MaxManifestBytes/8 {
				return // a text may grow when it is indented
			}
			t.Fatal(err)
		}
		again, err := DecodeManifest(out)
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		twice, err := EncodeManifest(&again)
		if err != nil || !bytes.Equal(out, twice) {
			t.Fatalf("no fixed point: %v\n%s\n%s", err, out, twice)
		}
	})
}

func FuzzReceiptFile(f *testing.F) {
	r, members := someReceipt(f, 3)
	f.Add(writeReceipts(f, r, members))
	f.Add(writeReceipts(f, r, []Member(nil), r, members))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		rr := NewReceiptReader(bytes.NewReader(file))
		var parts []any
		for {
			r, n, err := rr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			if err := r.Validate(); err != nil {
				t.Fatalf("Next gave a bad receipt: %v", err)
			}
			var members []Member
			for m, err := range rr.Members() {
				if err != nil {
					return
				}
				members = append(members, m)
			}
			if int64(len(members)) != n || n != 0 && n != r.RowCount {
				t.Fatalf("%d members, counted %d, %d rows", len(members), n, r.RowCount)
			}
			parts = append(parts, r, members)
		}
		out := writeReceipts(t, parts...)
		again := NewReceiptReader(bytes.NewReader(out))
		for i := 0; i < len(parts); i += 2 {
			r, n, err := again.Next()
			if err != nil || r != parts[i] || n != int64(len(parts[i+1].([]Member))) {
				t.Fatalf("receipt %d came back as %+v, %d members, %v", i/2, r, n, err)
			}
			j := 0
			for m, err := range again.Members() {
				if err != nil || m != parts[i+1].([]Member)[j] {
					t.Fatalf("member %d came back as %+v, %v", j, m, err)
				}
				j++
			}
		}
		if _, _, err := again.Next(); err != io.EOF {
			t.Fatalf("more than was written: %v", err)
		}
	})
}
