package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullManifest has every member, and an asset type that JSON must escape.
func fullManifest(t testing.TB) Manifest {
	t.Helper()
	recs := mixedRecords(9)
	recs[8].AssetType = "<\"\n&é\u2028"
	_, f := pack(t, recs)
	m, err := New("archive/v1", "wallet", f, testTime)
	if err != nil {
		t.Fatal(err)
	}
	m.PayloadFidelity = &PayloadFidelity{Checked: true, TextUnstableRows: 1, TextUnstableEventIDs: []string{recs[0].EventID}}
	m.EventIDCollation = "utf8mb4_0900_ai_ci"
	m.Source = Origin{ServerVersion: "9.7.4", Table: "wallet_outbox"}
	m.Writer = Program{Name: "walletarchive", Version: "v0.1.0"}
	return m
}

// olderManifest lacks everything that writers before this program did not write.
func olderManifest(t testing.TB) Manifest {
	m := fullManifest(t)
	m.BatchIDScheme, m.RowsRoot, m.PayloadFidelity, m.EventIDCollation = "", nil, nil, ""
	m.TotalsByAsset, m.Source, m.Writer = nil, Origin{}, Program{}
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	for name, m := range map[string]Manifest{"full": fullManifest(t), "older": olderManifest(t)} {
		t.Run(name, func(t *testing.T) {
			b, err := EncodeManifest(&m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeManifest(b)
			if err != nil {
				t.Fatal(err)
			}
			want := m
			if f := m.PayloadFidelity; f != nil {
				copied := *f
				copied.ValueUnstableEventIDs = []string{} // no list is an empty list
				want.PayloadFidelity = &copied
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Sum{})); diff != "" {
				t.Errorf("manifest (-want +got):\n%s", diff)
			}
			again, err := EncodeManifest(&got)
			if err != nil || !bytes.Equal(b, again) {
				t.Errorf("encoded again it is another text: %v", err)
			}
			if !bytes.HasSuffix(b, []byte("\n}\n")) || bytes.Contains(b, []byte("null")) {
				t.Errorf("form of the text:\n%s", b)
			}
			if name == "full" != bytes.Contains(b, []byte("rows_root")) {
				t.Errorf("rows_root in:\n%s", b)
			}
		})
	}
}

// Every member is required but those that older writers left out.
func TestDecodeManifestMembers(t *testing.T) {
	optional := []string{"batch_id_scheme", "totals_by_asset", "rows_root", "payload_fidelity", "event_id_collation", "source", "writer"}
	m := fullManifest(t)
	b, err := EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	members, err := split[map[string]any](b)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, in map[string]any)
	walk = func(path string, in map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			value := in[name]
			check := func(what string, wantErr bool) {
				t.Helper()
				doc := marshal(t, members)
				got, err := DecodeManifest(doc)
				if (err != nil) != wantErr || err != nil && !errors.Is(err, ErrBadDocument) {
					t.Errorf("%s %s: %v", at, what, err)
				}
				if err != nil && !reflect.DeepEqual(got, Manifest{}) {
					t.Errorf("%s %s: a manifest came with the error", at, what)
				}
			}
			delete(in, name)
			absentIsFine := slices.Contains(optional, at) || path == "totals_by_asset"
			check("is absent", !absentIsFine)
			in[name] = nil
			check("is null", true)
			in[name] = []any{}
			_, isList := value.([]any)
			check("is a list", !isList)
			in[name] = 1.5
			check("is a fraction", true)
			in[name] = value
			in[name+"x"] = 1
			check("has an unknown neighbour", true)
			delete(in, name+"x")
			if sub, ok := value.(map[string]any); ok {
				walk(at, sub)
			}
			if isList {
				in[name] = []any{nil}
				check("has null in it", true)
				in[name] = value
			}
			check("is as it was", false)
		}
	}
	walk("", members)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := jsonMarshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeManifestRefuses(t *testing.T) {
	m := fullManifest(t)
	b, err := EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	with := func(old, broken string) string {
		if strings.Count(good, old) == 0 {
			t.Fatalf("%q is not in the manifest", old)
		}
		return strings.Replace(good, old, broken, 1)
	}
	for _, tc := range []struct{ name, doc string }{
		{"empty", ""}, {"null", "null"}, {"list", "[]"}, {"string", `"x"`}, {"empty object", "{}"},
		{"text after it", good + "{}"}, {"cut", good[:len(good)-3]}, {"byte order mark", "\ufeff" + good},
		{"schema_version 2", with(`"schema_version": 1`, `"schema_version": 2`)},
		{"schema_version 0", with(`"schema_version": 1`, `"schema_version": 0`)},
		{"schema_version 1.0", with(`"schema_version": 1`, `"schema_version": 1.0`)},
		{"schema_version as a string", with(`"schema_version": 1`, `"schema_version": "1"`)},
		{"duplicate member", with(`"row_count": 9`, `"row_count": 9, "row_count": 9`)},
		{"duplicate member of a cursor", with(`"first_cursor": {`, `"first_cursor": {"event_id": "x", `)},
		{"duplicate asset type", with(`"totals_by_asset": {`, `"totals_by_asset": {"COIN": {"row_count":0,"available_delta_total":"0","frozen_delta_total":"0"}, `)},
		{"name in other case", with(`"row_count": 9`, `"Row_Count": 9`)},
		{"row_count beyond 64 bits", with(`"row_count": 9`, `"row_count": 9223372036854775808`)},
		{"row_count with an exponent", with(`"row_count": 9`, `"row_count": 9e0`)},
		{"total as a number", with(`"frozen_delta_total": "`, `"frozen_delta_total": 5, "x": "`)},
		{"total with a plus", with(`"frozen_delta_total": "`, `"frozen_delta_total": "+`)},
		{"upper-case hash", with(m.GzipSHA256.String(), strings.ToUpper(m.GzipSHA256.String()))},
		{"short hash", with(m.GzipSHA256.String(), m.GzipSHA256.String()[:63])},
		{"CRC64 in hexadecimal", with(`"`+m.DataCRC64.String()+`"`, `"0xff"`)},
		{"CRC64 as a number", with(`"`+m.DataCRC64.String()+`"`, m.DataCRC64.String())},
		{"invalid UTF-8", with("utf8mb4_0900_ai_ci", "\xff")},
		{"lone surrogate", with("utf8mb4_0900_ai_ci", `\ud800`)},
		{"too large", good + strings.Repeat(" ", MaxManifestBytes)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := DecodeManifest([]byte(tc.doc)); !errors.Is(err, ErrBadDocument) {
				t.Errorf("DecodeManifest = %v", err)
			}
		})
	}
	if _, err := DecodeManifest([]byte(good + strings.Repeat("\n", MaxManifestBytes-len(good)))); err != nil {
		t.Errorf("largest manifest: %v", err)
	}
}

func TestEncodeManifestRefuses(t *testing.T) {
	m := fullManifest(t)
	m.Source.Table = strings.Repeat("x", MaxManifestBytes)
	if _, err := EncodeManifest(&m); !errors.Is(err, ErrBadDocument) {
		t.Errorf("too large: %v", err)
	}
	m.Source.Table = "\xff"
	if _, err := EncodeManifest(&m); err == nil {
		t.Error("invalid UTF-8 was encoded")
	}
}

// As many asset types as a batch may have fit into its manifest.
func TestLargestManifestFits(t *testing.T) {
	m := fullManifest(t)
	m.TotalsByAsset = map[string]AssetTotals{}
	for i := range MaxAssetTypes {
		// The worst case: every byte of the name is escaped as six.
		name := strings.Repeat("\x01", MaxAssetTypeBytes/MaxAssetTypes-5) + fmt.Sprintf("%05d", i)
		m.TotalsByAsset[name] = AssetTotals{1 << 60, sumOf(-1<<63, -1<<63), sumOf(-1<<63, -1<<63)}
	}
	b, err := EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeManifest(b); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d bytes", len(b), MaxManifestBytes)
}

func TestSuccess(t *testing.T) {
	want := Success{BatchID: someID, ManifestObjectKey: "a/b", ManifestSHA256: SumHash(nil), RowCount: 1<<63 - 1}
	b, err := EncodeSuccess(&want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeSuccess(b); err != nil || got != want {
		t.Errorf("%s came back as %+v, %v", b, got, err)
	}
	good := string(b)
	for _, doc := range []string{
		"", "null", "{}", good + "x", strings.Replace(good, `"row_count"`, `"rows"`, 1), strings.Replace(good, `"a/b"`, "null", 1),
		strings.Replace(good, "9223372036854775807", "null", 1), strings.Replace(good, `"row_count"`, `"row_count": 1, "row_count"`, 1),
		strings.Replace(good, "{", `{"x": 1, `, 1),
	} {
		if got, err := DecodeSuccess([]byte(doc)); !errors.Is(err, ErrBadDocument) || got != (Success{}) {
			t.Errorf("DecodeSuccess(%s) = %+v, %v", doc, got, err)
		}
	}
}
