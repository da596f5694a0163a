package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func jsonMarshal(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }

// someReceipt returns a good receipt of n rows and its members.
func someReceipt(t testing.TB, n int) (Receipt, []Member) {
	t.Helper()
	recs := sampleRecords(n)
	_, f := pack(t, recs)
	m, err := New("archive/v1", "wallet", f, testTime)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReceipt(&m, []byte("manifest"), []byte("marker"), testTime.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	var members []Member
	for i := range recs {
		members = append(members, r.Member(recs[i].EventID, recs[i].UpdatedAtMS))
	}
	return r, members
}

func TestNewReceipt(t *testing.T) {
	m := fullManifest(t)
	got, err := NewReceipt(&m, []byte("manifest"), []byte("marker"), 1700000999000)
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSuffix(m.DataObjectKey, "data.ndjson.gz")
	want := Receipt{
		AppCode: "wallet", BatchID: m.BatchID, State: "VERIFIED", DataObjectKey: m.DataObjectKey,
		ManifestObjectKey: dir + "manifest.json", SuccessObjectKey: dir + "_SUCCESS", SchemaVersion: 1, RowCount: 9,
		FirstUpdatedAtMS: m.FirstCursor.UpdatedAtMS, FirstEventID: m.FirstCursor.EventID,
		LastUpdatedAtMS: m.LastCursor.UpdatedAtMS, LastEventID: m.LastCursor.EventID,
		MinCreatedAtMS: m.MinCreatedAtMS, MaxCreatedAtMS: m.MaxCreatedAtMS,
		AvailableDeltaTotal: m.AvailableDeltaTotal, FrozenDeltaTotal: m.FrozenDeltaTotal,
		NDJSONSHA256: m.NDJSONSHA256, GzipSHA256: m.GzipSHA256, DataCRC64: m.DataCRC64,
		ManifestCRC64: SumCRC64([]byte("manifest")), SuccessCRC64: SumCRC64([]byte("marker")), ManifestSHA256: SumHash([]byte("manifest")),
		UncompressedBytes: m.UncompressedBytes, CompressedBytes: m.CompressedBytes,
		VerifiedAtMS: 1700000999000, CreatedAtMS: 1700000999000, UpdatedAtMS: 1700000999000,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Sum{})); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
	if got.FirstCursor() != m.FirstCursor || got.LastCursor() != m.LastCursor {
		t.Error("cursors differ from the manifest")
	}
	if mb := got.Member("e", 5); mb != (Member{"wallet", "e", 5, m.BatchID, want.ManifestSHA256, 1700000999000}) {
		t.Errorf("member %+v", mb)
	}
	m.DataObjectKey = "elsewhere"
	if _, err := NewReceipt(&m, nil, nil, 1); !errors.Is(err, ErrBadKey) {
		t.Errorf("manifest without a place: %v", err)
	}
}

// Each field missing or contradicting another, with the column that must be named.
func TestReceiptValidate(t *testing.T) {
	other := BatchID(strings.Repeat("f", 64))
	for _, tc := range []struct {
		column string
		edit   func(r *Receipt)
	}{
		{"app_code", func(r *Receipt) { r.AppCode = "" }},
		{"app_code", func(r *Receipt) { r.AppCode = strings.Repeat("a", 43) }},
		{"batch_id", func(r *Receipt) { r.BatchID = "" }},
		{"batch_id", func(r *Receipt) { r.BatchID = BatchID(strings.ToUpper(string(r.BatchID))) }},
		{"state", func(r *Receipt) { r.State = "" }},
		{"state", func(r *Receipt) { r.State = "PENDING" }},
		{"schema_version", func(r *Receipt) { r.SchemaVersion = 0 }},
		{"schema_version", func(r *Receipt) { r.SchemaVersion = 2 }},
		{"data_object_key", func(r *Receipt) { r.DataObjectKey = "" }},
		{"data_object_key", func(r *Receipt) { r.DataObjectKey = r.ManifestObjectKey }},
		{"data_object_key", func(r *Receipt) { r.AppCode = "other" }},
		{"data_object_key", func(r *Receipt) { r.BatchID = other }},
		{"data_object_key", func(r *Receipt) { r.FirstUpdatedAtMS -= 86_400_000 }},
		{"manifest_object_key", func(r *Receipt) { r.ManifestObjectKey = "" }},
		{"manifest_object_key", func(r *Receipt) { r.ManifestObjectKey = "x/" + r.ManifestObjectKey }},
		{"success_object_key", func(r *Receipt) { r.SuccessObjectKey = "" }},
		{"success_object_key", func(r *Receipt) { r.SuccessObjectKey = r.ManifestObjectKey }},
		{"row_count", func(r *Receipt) { r.RowCount = 0 }},
		{"row_count", func(r *Receipt) { r.RowCount = -1 }},
		{"row_count", func(r *Receipt) { r.RowCount = 1 }},
		{"row_count", func(r *Receipt) { r.LastEventID, r.LastUpdatedAtMS = r.FirstEventID, r.FirstUpdatedAtMS }},
		{"first_event_id", func(r *Receipt) { r.FirstEventID = "" }},
		{"last_event_id", func(r *Receipt) { r.LastEventID = "" }},
		{"last_updated_at_ms", func(r *Receipt) { r.LastUpdatedAtMS = r.FirstUpdatedAtMS - 1 }},
		{"last_updated_at_ms", func(r *Receipt) { r.LastUpdatedAtMS = 0 }},
		{"max_created_at_ms", func(r *Receipt) { r.MaxCreatedAtMS = r.MinCreatedAtMS - 1 }},
		{"max_created_at_ms", func(r *Receipt) { r.MaxCreatedAtMS = 0 }},
		{"ndjson_sha256", func(r *Receipt) { r.NDJSONSHA256 = Hash{} }},
		{"gzip_sha256", func(r *Receipt) { r.GzipSHA256 = Hash{} }},
		{"manifest_sha256", func(r *Receipt) { r.ManifestSHA256 = Hash{} }},
		{"data_crc64", func(r *Receipt) { r.DataCRC64 = 0 }},
		{"manifest_crc64", func(r *Receipt) { r.ManifestCRC64 = 0 }},
		{"success_crc64", func(r *Receipt) { r.SuccessCRC64 = 0 }},
		{"uncompressed_bytes", func(r *Receipt) { r.UncompressedBytes = 0 }},
		{"uncompressed_bytes", func(r *Receipt) { r.UncompressedBytes = -1 }},
		{"compressed_bytes", func(r *Receipt) { r.CompressedBytes = 0 }},
		{"verified_at_ms", func(r *Receipt) { r.VerifiedAtMS = 0 }},
		{"created_at_ms", func(r *Receipt) { r.CreatedAtMS = 0 }},
		{"updated_at_ms", func(r *Receipt) { r.UpdatedAtMS = 0 }},
		{"updated_at_ms", func(r *Receipt) { r.UpdatedAtMS = r.CreatedAtMS - 1 }},
		{"", func(r *Receipt) {}},
		{"", func(r *Receipt) { r.UpdatedAtMS++ }},
		{"", func(r *Receipt) { r.MinCreatedAtMS = r.MaxCreatedAtMS }},
		{"", func(r *Receipt) { r.RowCount, r.LastEventID, r.LastUpdatedAtMS = 1, r.FirstEventID, r.FirstUpdatedAtMS }},
		{"", func(r *Receipt) { r.AvailableDeltaTotal, r.FrozenDeltaTotal = Sum{}, Sum{} }},
	} {
		r, _ := someReceipt(t, 3)
		tc.edit(&r)
		err := r.Validate()
		if tc.column == "" {
			if err != nil {
				t.Errorf("good receipt: %v", err)
			}
			continue
		}
		if !errors.Is(err, ErrBadReceipt) || !strings.HasPrefix(err.Error(), tc.column+" ") {
			t.Errorf("Validate = %v, want %s named", err, tc.column)
		}
	}
	if err := new(Receipt).Validate(); !errors.Is(err, ErrBadReceipt) {
		t.Errorf("zero receipt: %v", err)
	}
}

func seqOf(members []Member, err error) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
		if err != nil {
			yield(Member{}, err)
		}
	}
}

func writeReceipts(t testing.TB, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	for i := 0; i < len(parts); i += 2 {
		r, members := parts[i].(Receipt), parts[i+1].([]Member)
		if err := WriteReceipt(&b, &r, int64(len(members)), seqOf(members, nil)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestReceiptFileRoundTrip(t *testing.T) {
	r1, m1 := someReceipt(t, 700)
	r2, m2 := someReceipt(t, 1)
	r3, _ := someReceipt(t, 3)
	m2[0].EventID = "\"<é\u2028😀\x00"
	file := writeReceipts(t, r1, m1, r3, []Member(nil), r2, m2)
	for _, src := range []io.Reader{bytes.NewReader(file), iotest.OneByteReader(bytes.NewReader(file))} {
		rr := NewReceiptReader(src)
		for i, want := range []struct {
			r       Receipt
			members []Member
		}{{r1, m1}, {r3, nil}, {r2, m2}} {
			r, n, err := rr.Next()
			if err != nil || n != int64(len(want.members)) || !cmp.Equal(r, want.r, cmp.AllowUnexported(Sum{})) {
				t.Fatalf("receipt %d: %+v, %d members, %v", i, r, n, err)
			}
			var got []Member
			for m, err := range rr.Members() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m)
			}
			if diff := cmp.Diff(want.members, got); diff != "" {
				t.Errorf("members of receipt %d (-want +got):\n%s", i, diff)
			}
			for range rr.Members() {
				t.Error("a second range gives members again")
			}
		}
		for range 2 {
			if _, _, err := rr.Next(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		}
	}
}

// A receipt can be found again by its offset, whatever the length of lines.
func TestReceiptReaderOffset(t *testing.T) {
	r1, m1 := someReceipt(t, 20)
	m1[7].EventID = strings.Repeat("long ", 5000)
	r2, m2 := someReceipt(t, 2)
	file := writeReceipts(t, r1, m1, r2, m2, r1, []Member(nil))
	rr := NewReceiptReader(bytes.NewReader(file))
	for i, want := range []Receipt{r1, r2, r1} {
		for range rr.Members() {
		}
		at := rr.Offset()
		if _, _, err := rr.Next(); err != nil {
			t.Fatal(err)
		}
		if r, _, err := NewReceiptReader(bytes.NewReader(file[at:])).Next(); err != nil || r != want {
			t.Errorf("receipt %d at %d: %s, %v", i, at, r.BatchID, err)
		}
	}
	if rr.Offset() != int64(len(file)) {
		t.Errorf("offset %d at the end of %d bytes", rr.Offset(), len(file))
	}
}

func TestReceiptReaderSkipsMembers(t *testing.T) {
	r1, m1 := someReceipt(t, 20)
	r2, m2 := someReceipt(t, 2)
	file := writeReceipts(t, r1, m1, r2, m2)
	for _, read := range []int{0, 1, 19, 20} {
		rr := NewReceiptReader(bytes.NewReader(file))
		if _, _, err := rr.Next(); err != nil {
			t.Fatal(err)
		}
		n := 0
		if read > 0 {
			for _, err := range rr.Members() {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == read {
					break
				}
			}
		}
		if r, _, err := rr.Next(); err != nil || r.BatchID != r2.BatchID {
			t.Errorf("after %d members: %s, %v", read, r.BatchID, err)
		}
	}
	if _, _, err := NewReceiptReader(strings.NewReader("")).Next(); err != io.EOF {
		t.Errorf("empty file: %v", err)
	}
}

func TestReceiptReaderRefuses(t *testing.T) {
	r, members := someReceipt(t, 3)
	good := string(writeReceipts(t, r, members))
	lines := strings.SplitAfter(good, "\n")[:4]
	join := func(l ...string) string { return strings.Join(l, "") }
	edit := func(i int, old, broken string) string {
		if strings.Count(lines[i], old) == 0 {
			t.Fatalf("%q is not in line %d", old, i)
		}
		l := append([]string(nil), lines...)
		l[i] = strings.Replace(l[i], old, broken, 1)
		return join(l...)
	}
	for _, tc := range []struct {
		name, file string
		want       error
	}{
		{"a member less", join(lines[:3]...), ErrMemberCount},
		{"a member more", join(lines[0], lines[1], lines[2], lines[3], lines[3]), ErrBadDocument},
		{"another receipt for a member", join(lines[0], lines[1], lines[0]), ErrBadDocument},
		{"members alone", lines[1], ErrBadDocument},
		{"member_count 2", edit(0, `"member_count":3`, `"member_count":2`), ErrMemberCount},
		{"member_count 4", edit(0, `"member_count":3`, `"member_count":4`), ErrMemberCount},
		{"member_count -1", edit(0, `"member_count":3`, `"member_count":-1`), ErrMemberCount},
		{"member_count 0 with members", edit(0, `"member_count":3`, `"member_count":0`), ErrBadDocument},
		{"no member_count", edit(0, `,"member_count":3`, ``), ErrBadDocument},
		{"member_count null", edit(0, `"member_count":3`, `"member_count":null`), ErrBadDocument},
		{"unknown member", edit(0, `"member_count":3`, `"member_count":3,"x":1`), ErrBadDocument},
		{"unknown column", edit(0, `"app_code":`, `"x":1,"app_code":`), ErrBadDocument},
		{"column twice", edit(0, `"app_code":`, `"row_count":3,"app_code":`), ErrBadDocument},
		{"receipt null", edit(0, lines[0], "null\n"), ErrBadDocument},
		{"bad receipt", edit(0, `"state":"VERIFIED"`, `"state":"x"`), ErrBadReceipt},
		{"unterminated last line", strings.TrimSuffix(good, "\n"), ErrUnterminated},
		{"blank line", good + "\n", ErrBadDocument},
		{"member null", edit(2, lines[2], "null\n"), ErrBadDocument},
		{"member list", edit(2, lines[2], "[]\n"), ErrBadDocument},
		{"member without event_id", edit(2, `"event_id"`, `"event"`), ErrBadDocument},
		{"member with event_id null", edit(2, fmt.Sprintf("%q", members[1].EventID), "null"), ErrBadDocument},
		{"member without updated_at_ms", edit(2, fmt.Sprintf(`,"updated_at_ms":%d`, members[1].UpdatedAtMS), ``), ErrBadDocument},
		{"member with a string for a time", edit(2, fmt.Sprint(members[1].UpdatedAtMS), `"5"`), ErrBadDocument},
		{"member with event_id twice", edit(2, `{`, `{"event_id":"x",`), ErrBadDocument},
		{"text after a member", edit(2, "}", "}x"), ErrBadDocument},
		{"invalid UTF-8", edit(2, "evt_", "\xff"), ErrBadDocument},
		{"line too long", edit(2, "evt_", strings.Repeat("x", MaxManifestBytes)), ErrLineTooLong},
		{"endless line", lines[0] + strings.Repeat(" ", 3*MaxManifestBytes), ErrLineTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rr := NewReceiptReader(strings.NewReader(tc.file))
			var err error
			for err == nil {
				_, _, err = rr.Next()
				for m, merr := range rr.Members() {
					if merr != nil && m != (Member{}) {
						t.Errorf("member %+v came with %v", m, merr)
					}
				}
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if tc.want == ErrLineTooLong && !errors.Is(err, ErrBadDocument) {
				t.Errorf("%v is no ErrBadDocument", err)
			}
			then := err
			if tc.want == ErrBadReceipt { // which is about the one receipt, its members passed over
				then = io.EOF
			}
			if _, _, again := rr.Next(); again != then {
				t.Errorf("then %v, want %v", again, then)
			}
		})
	}
	// Cut anywhere, it is never a whole file with other content.
	for n := 1; n < len(good); n++ {
		rr := NewReceiptReader(strings.NewReader(good[:n]))
		_, _, err := rr.Next()
		if err == nil {
			_, _, err = rr.Next()
		}
		if err == nil || err == io.EOF {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	lost := errors.New("connection reset")
	_, _, err := NewReceiptReader(iotest.ErrReader(lost)).Next()
	if !errors.Is(err, lost) || errors.Is(err, ErrBadDocument) {
		t.Errorf("lost source: %v", err)
	}
}

func TestWriteReceiptRefuses(t *testing.T) {
	r, members := someReceipt(t, 3)
	foreign := append([]Member(nil), members...)
	foreign[1].BatchID = BatchID(strings.Repeat("f", 64))
	otherHash := append([]Member(nil), members...)
	otherHash[1].ManifestSHA256 = Hash{1}
	otherTime := append([]Member(nil), members...)
	otherTime[1].ReceiptVerifiedAtMS++
	otherApp := append([]Member(nil), members...)
	otherApp[1].AppCode = "x"
	bad := r
	bad.State = ""
	lost := errors.New("query failed")
	for _, tc := range []struct {
		name    string
		r       Receipt
		count   int64
		members iter.Seq2[Member, error]
		want    error
	}{
		{"bad receipt", bad, 3, seqOf(members, nil), ErrBadReceipt},
		{"fewer members than rows", r, 2, seqOf(members[:2], nil), ErrMemberCount},
		{"fewer members than counted", r, 3, seqOf(members[:2], nil), ErrMemberCount},
		{"more members than counted", r, 3, seqOf(append(members, members[0]), nil), ErrMemberCount},
		{"members that were not counted", r, 0, seqOf(members, nil), ErrMemberCount},
		{"no members that were counted", r, 3, nil, ErrMemberCount},
		{"member of another batch", r, 3, seqOf(foreign, nil), ErrForeignMember},
		{"member of another manifest", r, 3, seqOf(otherHash, nil), ErrForeignMember},
		{"member of another receipt", r, 3, seqOf(otherTime, nil), ErrForeignMember},
		{"member of another app_code", r, 3, seqOf(otherApp, nil), ErrForeignMember},
		{"members that end in an error", r, 3, seqOf(members[:1], lost), lost},
	} {
		if err := WriteReceipt(io.Discard, &tc.r, tc.count, tc.members); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if err := WriteReceipt(io.Discard, &r, 0, nil); err != nil {
		t.Errorf("older receipt: %v", err)
	}
	full := errors.New("disk full")
	if err := WriteReceipt(&failAfter{err: full}, &r, 3, seqOf(members, nil)); !errors.Is(err, full) {
		t.Errorf("full disk: %v", err)
	}
}
