package manifest

import (
	"errors"
	"math"
	"strings"
	"testing"
)

const someID = BatchID("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

func TestLocationKeys(t *testing.T) {
	dir := "app_code=wallet/date=2023-11-14/batch=" + string(someID)
	for _, prefix := range []string{"", "a", "archive/v1", "app_code=x/date=2020-01-01/batch=y"} {
		l := NewLocation(prefix, "wallet", Cursor{UpdatedAtMS: 1700000000000, EventID: "e"}, someID)
		if l.Relative() != dir || l.Dir() != JoinPrefix(prefix, dir) || strings.HasPrefix(l.Dir(), "/") {
			t.Errorf("prefix %q: %s and %s", prefix, l.Relative(), l.Dir())
		}
		for _, tc := range []struct{ key, name string }{{l.DataKey(), "data.ndjson.gz"}, {l.ManifestKey(), "manifest.json"}, {l.SuccessKey(), "_SUCCESS"}} {
			if tc.key != l.Dir()+"/"+tc.name {
				t.Errorf("key %s", tc.key)
			}
			if got, err := ParseLocation(tc.key); err != nil || got != l {
				t.Errorf("ParseLocation(%s) = %+v, %v, want %+v", tc.key, got, err, l)
			}
		}
	}
}

func TestPartitionDateIsUTC(t *testing.T) {
	for _, tc := range []struct {
		ms   int64
		want string
	}{
		{0, "1970-01-01"}, {-1, "1969-12-31"}, {86_399_999, "1970-01-01"}, {86_400_000, "1970-01-02"},
		{1709164800000 - 1, "2024-02-28"}, {1709164800000, "2024-02-29"}, {1709251200000, "2024-03-01"},
		{253402300799999, "9999-12-31"},
	} {
		if got := PartitionDate(tc.ms); got != tc.want {
			t.Errorf("PartitionDate(%d) = %s, want %s", tc.ms, got, tc.want)
		}
	}
}

func TestParseLocationRefuses(t *testing.T) {
	id := string(someID)
	good := "p/app_code=a/date=2024-02-29/batch=" + id + "/manifest.json"
	if _, err := ParseLocation(good); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"", "/", "manifest.json", "/" + good, good + "/", good + "/x", "p//" + good, "./" + good, "../" + good, "p/../" + good,
		strings.Replace(good, "manifest.json", "data.ndjson", 1),
		strings.Replace(good, "manifest.json", "_success", 1),
		strings.Replace(good, "manifest.json", "Manifest.json", 1),
		strings.Replace(good, "app_code=", "app=", 1),
		strings.Replace(good, "app_code=a", "app_code=", 1),
		strings.Replace(good, "app_code=a", "app_code=a=b", 1),
		strings.Replace(good, "app_code=a", `app_code=a\b`, 1),
		strings.Replace(good, "app_code=a", "app_code="+strings.Repeat("a", 43), 1),
		strings.Replace(good, "date=2024-02-29", "date=2023-02-29", 1),
		strings.Replace(good, "date=2024-02-29", "date=2024-2-29", 1),
		strings.Replace(good, "date=2024-02-29", "date=2024-02-29T", 1),
		strings.Replace(good, "date=2024-02-29", "date=", 1),
		strings.Replace(good, "date=2024-02-29", "Date=2024-02-29", 1),
		strings.Replace(good, id, id[1:], 1),
		strings.Replace(good, id, strings.ToUpper(id), 1),
		strings.Replace(good, "batch=", "batch_id=", 1),
		"app_code=a/date=2024-02-29/manifest.json",
		"p\x00/" + strings.TrimPrefix(good, "p/"), "p\x7f/" + strings.TrimPrefix(good, "p/"), "\xff/" + strings.TrimPrefix(good, "p/"),
		strings.Repeat("p", MaxKeyBytes) + "/" + good,
	} {
		if l, err := ParseLocation(key); !errors.Is(err, ErrBadKey) || l != (Location{}) {
			t.Errorf("ParseLocation(%q) = %+v, %v", clip(key), l, err)
		}
	}
}

func TestCheckAppCode(t *testing.T) {
	for _, app := range []string{"wallet", "a", strings.Repeat("é", 42), "a b", "...", "钱包-1_x.y"} {
		if err := CheckAppCode(app); err != nil {
			t.Errorf("CheckAppCode(%q) = %v", app, err)
		}
	}
	for _, app := range []string{"", ".", "..", "a/b", `a\b`, "a=b", "a\x00", "a\nb", "a\x7f", "\xff", strings.Repeat("a", 43), strings.Repeat("é", 43)} {
		if err := CheckAppCode(app); !errors.Is(err, ErrBadKey) {
			t.Errorf("CheckAppCode(%q) = %v", app, err)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "a b/ü", strings.Repeat("k", MaxKeyBytes), "..a/.b", "a=b"} {
		if err := CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q) = %v", clip(key), err)
		}
	}
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/../b", `a\b`, "a\x1f", "a\x7f", "\xc3", strings.Repeat("k", MaxKeyBytes+1)} {
		if err := CheckKey(key); !errors.Is(err, ErrBadKey) {
			t.Errorf("CheckKey(%q) = %v", clip(key), err)
		}
	}
}

// A key that no reader takes must be refused before anything is written.
func TestNewRefusesBadKeys(t *testing.T) {
	f := Figures{FirstCursor: Cursor{1700000000000, "e"}, LastCursor: Cursor{1700000000000, "e"}}
	if err := f.Add(&Record{AssetType: "COIN"}); err != nil {
		t.Fatal(err)
	}
	if _, err := New("p/q", "wallet", f, testTime); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, prefix, app string
		ms                int64
	}{
		{"prefix with a slash at its end", "p/", "wallet", 0},
		{"prefix with a slash at its start", "/p", "wallet", 0},
		{"prefix that leaves the root", "../p", "wallet", 0},
		{"prefix too long", strings.Repeat("p", MaxKeyBytes), "wallet", 0},
		{"app_code with a slash", "p", "a/b", 0},
		{"app_code empty", "p", "", 0},
		{"year 10000", "p", "wallet", 253402300800000},
		{"before year 0", "p", "wallet", math.MinInt64},
		{"largest time", "p", "wallet", math.MaxInt64},
	} {
		g := f
		g.FirstCursor.UpdatedAtMS = tc.ms
		if m, err := New(tc.prefix, tc.app, g, testTime); !errors.Is(err, ErrBadKey) {
			t.Errorf("%s: New = %q, %v", tc.name, m.DataObjectKey, err)
		}
	}
	if _, err := New("p", "wallet", Figures{}, testTime); !errors.Is(err, ErrNoRows) {
		t.Errorf("New without rows = %v", err)
	}
}
