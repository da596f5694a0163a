package manifest

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

func TestSumCRC64(t *testing.T) {
	for _, tc := range []struct {
		text string
		want string
	}{
		{"", "0"},
		{"123456789", "11051210869376104954"},        // the check value of CRC-64/XZ
		{"[Object Content]", "16749565679157681890"}, // the sample of the COS documentation, HEAD Object
	} {
		got := SumCRC64([]byte(tc.text))
		if got.String() != tc.want {
			t.Errorf("SumCRC64(%q) = %s, want %s", tc.text, got, tc.want)
		}
		back, err := ParseCRC64(tc.want)
		if err != nil || back != got {
			t.Errorf("ParseCRC64(%s) = %d, %v", tc.want, back, err)
		}
	}
}

func TestParseCRC64Refuses(t *testing.T) {
	for _, s := range []string{"", "-1", "+1", "01", "1 ", " 1", "0x1", "1_000", "18446744073709551616", "1.0"} {
		if c, err := ParseCRC64(s); err == nil {
			t.Errorf("ParseCRC64(%q) = %d", s, c)
		}
	}
	if c, err := ParseCRC64("18446744073709551615"); err != nil || c != 1<<64-1 {
		t.Errorf("largest: %d, %v", c, err)
	}
}

func TestParseHash(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	h, err := ParseHash(empty)
	if err != nil || h != SumHash(nil) || h.String() != empty {
		t.Errorf("ParseHash = %s, %v", h, err)
	}
	if h.IsZero() || !(Hash{}).IsZero() {
		t.Error("IsZero is wrong")
	}
	for _, s := range []string{"", empty[1:], empty + "0", strings.ToUpper(empty), strings.Replace(empty, "e", "g", 1), " " + empty[1:]} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("ParseHash(%q) succeeds", s)
		}
		if _, err := ParseBatchID(s); err == nil {
			t.Errorf("ParseBatchID(%q) succeeds", s)
		}
	}
	if id, err := ParseBatchID(empty); err != nil || id.String() != empty || id.Short() != empty[:12] || BatchID("ab").Short() != "ab" {
		t.Errorf("ParseBatchID = %s, %v", id, err)
	}
}

func TestTextForms(t *testing.T) {
	type all struct {
		H Hash
		C CRC64
		S Sum
	}
	in := all{H: SumHash([]byte("x")), C: 1<<64 - 1, S: sumOf(-5)}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out all
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%s came back as %+v, %v", b, out, err)
	}
	for _, doc := range []string{`{"H":"x"}`, `{"C":"-1"}`, `{"S":"+1"}`} {
		before := out
		if err := json.Unmarshal([]byte(doc), &out); err == nil || out != before {
			t.Errorf("%s: %+v, %v", doc, out, err)
		}
	}
}

// The encoding is written out here by hand, apart from Fingerprint, as
// docs/FORMAT.md "batch_id" has it. The last value was computed by another
// program in another language.
func TestFingerprint(t *testing.T) {
	ndjson := SumHash([]byte("rows"))
	str := func(s string) string {
		return string(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) + s
	}
	num := func(v int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(v))) }
	first, last := Cursor{UpdatedAtMS: -1, EventID: "é"}, Cursor{UpdatedAtMS: 1700000000000, EventID: ""}
	text := str("walletarchive-batch-id-v1") + num(1) + str("wallet") + num(2) + num(-1) + str("é") + num(1700000000000) + str("") + string(ndjson[:])
	want := SumHash([]byte(text)).String()
	got := Fingerprint(1, "wallet", 2, first, last, ndjson)
	if string(got) != want {
		t.Errorf("Fingerprint = %s, want %s over %s", got, want, hex.EncodeToString([]byte(text)))
	}
	if got != "6803e0605840c5b91f1d4265e0a2477d9dd779b42e428ab3b468ece5b2862f0b" {
		t.Errorf("Fingerprint = %s", got)
	}
	ids := map[BatchID]bool{got: true}
	for _, id := range []BatchID{
		Fingerprint(2, "wallet", 2, first, last, ndjson),
		Fingerprint(1, "walle", 2, first, last, ndjson),
		Fingerprint(1, "wallet", 3, first, last, ndjson),
		Fingerprint(1, "wallet", 2, last, first, ndjson),
		Fingerprint(1, "wallet", 2, Cursor{-1, "è"}, last, ndjson),
		Fingerprint(1, "wallet", 2, Cursor{-2, "é"}, last, ndjson),
		Fingerprint(1, "wallet", 2, first, Cursor{1700000000000, "x"}, ndjson),
		Fingerprint(1, "wallet", 2, first, last, SumHash([]byte("other"))),
	} {
		if ids[id] {
			t.Errorf("%s twice", id)
		}
		ids[id] = true
	}
}
