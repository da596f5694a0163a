package manifest

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Sum is an exact sum of int64 values: it cannot overflow in the life of an
// archive, since it holds 128 bits. Its text form is a decimal number without
// leading zeros or a plus sign, "0" for the zero value
// (docs/FORMAT.md "Objects of a batch", available_delta_total).
//
// A Sum read from text may be longer than 128 bits; it is then kept as it was
// written and compares unequal to every sum that was computed.
type Sum struct {
	hi int64
	lo uint64
	// wide is the text of a number outside 128 bits, else "".
	wide string
}

// Add adds v to s. It must not be called on a Sum parsed from a number outside
// 128 bits, which no computed total can be.
func (s *Sum) Add(v int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
	s.hi += v>>63 + int64(carry)
}

// ParseSum reads the text form of a [Sum]: "0", or an optional minus sign and
// digits without a leading zero. The number may have any length.
func ParseSum(text string) (Sum, error) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' && text != "0" {
		return Sum{}, fmt.Errorf("total %q is not a decimal integer in its shortest form", clip(text))
	}
	// A number of 40 digits is outside 128 bits. Longer ones are not converted,
	// since that takes time that is not linear in their length.
	v := new(big.Int)
	if len(digits) < 40 {
		v.SetString(text, 10)
	}
	if len(digits) >= 40 || v.BitLen() > 127 {
		return Sum{wide: text}, nil
	}
	lo := new(big.Int).And(v, new(big.Int).SetUint64(^uint64(0)))
	hi := new(big.Int).Rsh(v, 64)
	return Sum{hi: hi.Int64(), lo: lo.Uint64()}, nil
}

// String returns the decimal text of s.
func (s Sum) String() string {
	if s.wide != "" {
		return s.wide
	}
	v := new(big.Int).Lsh(big.NewInt(s.hi), 64)
	return v.Add(v, new(big.Int).SetUint64(s.lo)).String()
}

// MarshalText returns [Sum.String], so that a Sum is a JSON string.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what [Sum.MarshalText] wrote; see [ParseSum].
func (s *Sum) UnmarshalText(b []byte) error {
	p, err := ParseSum(string(b))
	if err != nil {
		return err
	}
	*s = p
	return nil
}

// AssetTotals are the totals of the rows of one asset type. The deltas are in
// minor units of that asset.
type AssetTotals struct {
	RowCount            int64 `json:"row_count"`
	AvailableDeltaTotal Sum   `json:"available_delta_total"`
	FrozenDeltaTotal    Sum   `json:"frozen_delta_total"`
}

func (t *AssetTotals) add(r *Record) {
	t.RowCount++
	t.AvailableDeltaTotal.Add(r.AvailableDelta)
	t.FrozenDeltaTotal.Add(r.FrozenDelta)
}

// MaxAssetTypes and MaxAssetTypeBytes bound the asset types of one batch, and the
// bytes of their names together, so that totals_by_asset fits into a manifest
// and takes little memory (docs/FORMAT.md "Limits").
const (
	MaxAssetTypes     = 10_000
	MaxAssetTypeBytes = 256 << 10
)

// Totals are the controls of a set of rows: how many there are, both delta
// totals, the same for each asset type, and the range of created_at_ms. The
// zero value is that of no rows. Totals is not safe for concurrent use.
type Totals struct {
	All     AssetTotals
	ByAsset map[string]AssetTotals // asset_type to totals; nil when there are no rows
	// MinCreatedAtMS and MaxCreatedAtMS include both ends; zero without rows.
	MinCreatedAtMS int64
	MaxCreatedAtMS int64

	// names maps each key of ByAsset to itself. A map takes over the key of
	// every assignment, and that of a row would keep the row's block in memory.
	names     map[string]string
	nameBytes int
}

// Add counts r. The error is [ErrTooManyAssets] for the first asset type past
// [MaxAssetTypes] or [MaxAssetTypeBytes]; r is then counted nowhere.
func (t *Totals) Add(r *Record) error {
	asset, known := t.names[r.AssetType]
	if !known {
		if len(t.names) == MaxAssetTypes || t.nameBytes+len(r.AssetType) > MaxAssetTypeBytes {
			return ErrTooManyAssets
		}
		if t.names == nil {
			t.names, t.ByAsset = make(map[string]string), make(map[string]AssetTotals)
		}
		asset = strings.Clone(r.AssetType)
		t.names[asset] = asset
		t.nameBytes += len(asset)
	}
	if t.All.RowCount == 0 || r.CreatedAtMS < t.MinCreatedAtMS {
		t.MinCreatedAtMS = r.CreatedAtMS
	}
	if t.All.RowCount == 0 || r.CreatedAtMS > t.MaxCreatedAtMS {
		t.MaxCreatedAtMS = r.CreatedAtMS
	}
	t.All.add(r)
	a := t.ByAsset[asset]
	a.add(r)
	t.ByAsset[asset] = a
	return nil
}
