package manifest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func sumOf(values ...int64) (s Sum) {
	for _, v := range values {
		s.Add(v)
	}
	return s
}

func TestSumAgainstBigInt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	extremes := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 32, -1 << 32}
	for range 200 {
		var s Sum
		want := new(big.Int)
		for range rng.IntN(60) {
			v := int64(rng.Uint64())
			if rng.IntN(2) == 0 {
				v = extremes[rng.IntN(len(extremes))]
			}
			s.Add(v)
			want.Add(want, big.NewInt(v))
			if s.String() != want.String() {
				t.Fatalf("sum %s, want %s", s, want)
			}
			back, err := ParseSum(s.String())
			if err != nil || back != s {
				t.Fatalf("ParseSum(%s) = %+v, %v, want %+v", s, back, err, s)
			}
		}
	}
}

func TestSumBeyondInt64(t *testing.T) {
	for _, tc := range []struct {
		sum  Sum
		want string
	}{
		{Sum{}, "0"},
		{sumOf(math.MaxInt64, 1), "9223372036854775808"},
		{sumOf(math.MinInt64, -1), "-9223372036854775809"},
		{sumOf(math.MaxInt64, math.MaxInt64, math.MaxInt64), "27670116110564327421"},
		{sumOf(math.MinInt64, math.MinInt64, math.MinInt64), "-27670116110564327424"},
		{sumOf(math.MinInt64, math.MaxInt64, 1), "0"},
	} {
		if got := tc.sum.String(); got != tc.want {
			t.Errorf("sum = %s, want %s", got, tc.want)
		}
	}
}

func TestParseSum(t *testing.T) {
	huge := "9" + strings.Repeat("0", 3_000_000)
	for _, text := range []string{
		"0", "-1", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105727",
		"170141183460469231731687303715884105728", "-170141183460469231731687303715884105728", "999999999999999999999999999999999999999",
		"9999999999999999999999999999999999999999", "-12345678901234567890123456789012345678901234567890", huge,
	} {
		s, err := ParseSum(text)
		if err != nil || s.String() != text {
			t.Errorf("ParseSum(%s) = %s, %v", clip(text), clip(s.String()), err)
		}
		again, _ := ParseSum(text)
		if s != again {
			t.Errorf("%s is not equal to itself", clip(text))
		}
	}
	// Outside 128 bits nothing is equal to a number inside.
	wide, _ := ParseSum("340282366920938463463374607431768211456") // 2^128
	if wide == (Sum{}) {
		t.Error("2^128 counts as 0")
	}
	for _, text := range []string{"", "-", "+1", "-0", "00", "01", "-01", "1.0", "1e3", " 1", "1 ", "1_000", "0x1", "٣", "1\n"} {
		if s, err := ParseSum(text); err == nil {
			t.Errorf("ParseSum(%q) = %s", text, s)
		}
	}
}

func TestTotals(t *testing.T) {
	var got Totals
	for _, r := range []Record{
		{AssetType: "COIN", AvailableDelta: math.MaxInt64, FrozenDelta: -5, CreatedAtMS: 30},
		{AssetType: "DIAMOND", AvailableDelta: -7, FrozenDelta: math.MinInt64, CreatedAtMS: -10},
		{AssetType: "COIN", AvailableDelta: math.MaxInt64, FrozenDelta: 5, CreatedAtMS: 20},
		{AssetType: "", AvailableDelta: 1, CreatedAtMS: 40},
	} {
		if err := got.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	want := Totals{
		All: AssetTotals{4, sumOf(math.MaxInt64, math.MaxInt64, -6), sumOf(math.MinInt64)},
		ByAsset: map[string]AssetTotals{
			"COIN":    {2, sumOf(math.MaxInt64, math.MaxInt64), Sum{}},
			"DIAMOND": {1, sumOf(-7), sumOf(math.MinInt64)},
			"":        {1, sumOf(1), Sum{}},
		},
		MinCreatedAtMS: -10, MaxCreatedAtMS: 40,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Sum{}), cmpopts.IgnoreUnexported(Totals{})); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	// Positive and negative created_at_ms alone: zero is no bound by itself.
	for _, ms := range []int64{5, -5} {
		var one Totals
		if err := one.Add(&Record{CreatedAtMS: ms}); err != nil || one.MinCreatedAtMS != ms || one.MaxCreatedAtMS != ms {
			t.Errorf("one row at %d: from %d to %d, %v", ms, one.MinCreatedAtMS, one.MaxCreatedAtMS, err)
		}
	}
}

func TestTotalsBoundAssets(t *testing.T) {
	var many Totals
	for i := range MaxAssetTypes {
		if err := many.Add(&Record{AssetType: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := many.Add(&Record{AssetType: "0"}); err != nil {
		t.Errorf("known asset type past the bound: %v", err)
	}
	before := many.All
	if err := many.Add(&Record{AssetType: "new"}); !errors.Is(err, ErrTooManyAssets) || many.All != before {
		t.Errorf("one asset type too many: %v, totals %+v", err, many.All)
	}
	var long Totals
	for i := range 2 {
		if err := long.Add(&Record{AssetType: strings.Repeat(fmt.Sprint(i), MaxAssetTypeBytes/2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := long.Add(&Record{AssetType: "x"}); !errors.Is(err, ErrTooManyAssets) {
		t.Errorf("names over the bound: %v", err)
	}
}

// Totals are kept long after the rows, whose strings are parts of large blocks.
func TestTotalsKeepNoRow(t *testing.T) {
	var totals Totals
	for range 3 {
		r := Record{AssetType: strings.Clone("COIN")}
		if err := totals.Add(&r); err != nil {
			t.Fatal(err)
		}
		for name := range totals.ByAsset {
			if unsafe.StringData(name) == unsafe.StringData(r.AssetType) {
				t.Fatal("the key of ByAsset is the row's own string")
			}
		}
	}
}
