package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc64"
	"strconv"
)

// Hash is a SHA-256 digest. Its text form is 64 lower-case hex digits
// (docs/FORMAT.md "Hashes"). The zero value means "not known".
type Hash [sha256.Size]byte

// ParseHash reads the 64 lower-case hex digits of a [Hash]. Upper-case digits
// are refused: the archive has one spelling of a digest.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if err := parseHex(h[:], s); err != nil {
		return Hash{}, fmt.Errorf("SHA-256 %q: %w", clip(s), err)
	}
	return h, nil
}

// SumHash returns the SHA-256 of b.
func SumHash(b []byte) Hash { return sha256.Sum256(b) }

// IsZero reports whether h is the zero value, that is, not known.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the 64 lower-case hex digits of h.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns [Hash.String], so that a Hash is a JSON string.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what [Hash.MarshalText] wrote; see [ParseHash].
func (h *Hash) UnmarshalText(b []byte) error {
	p, err := ParseHash(string(b))
	if err != nil {
		return err
	}
	*h = p
	return nil
}

// CRC64 is a CRC-64/XZ checksum (the reflected ECMA-182 polynomial, all ones
// in and out), as COS returns it in x-cos-hash-crc64ecma. Its text form is an
// unsigned decimal number. Zero is the checksum of no bytes, not "unknown".
type CRC64 uint64

// CRC64Table is the table of the polynomial that [CRC64] uses.
var CRC64Table = crc64.MakeTable(crc64.ECMA)

// SumCRC64 returns the CRC64 of b.
func SumCRC64(b []byte) CRC64 { return CRC64(crc64.Checksum(b, CRC64Table)) }

// ParseCRC64 reads an unsigned decimal number without sign or leading zero.
func ParseCRC64(s string) (CRC64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(v, 10) != s {
		return 0, fmt.Errorf("CRC64 %q is not an unsigned decimal number of 64 bits", clip(s))
	}
	return CRC64(v), nil
}

// String returns c as an unsigned decimal number.
func (c CRC64) String() string { return strconv.FormatUint(uint64(c), 10) }

// MarshalText returns [CRC64.String], so that a CRC64 is a JSON string.
func (c CRC64) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what [CRC64.MarshalText] wrote; see [ParseCRC64].
func (c *CRC64) UnmarshalText(b []byte) error {
	p, err := ParseCRC64(string(b))
	if err != nil {
		return err
	}
	*c = p
	return nil
}

// BatchID names a batch: 64 lower-case hex digits. Writers of this program make
// it with [Fingerprint]; a reader takes it as opaque unless the manifest's
// batch_id_scheme says how it was made (docs/FORMAT.md "batch_id").
type BatchID string

// ParseBatchID refuses anything but 64 lower-case hex digits, so that a BatchID
// is safe as a path segment of an object key.
func ParseBatchID(s string) (BatchID, error) {
	var b [sha256.Size]byte
	if err := parseHex(b[:], s); err != nil {
		return "", fmt.Errorf("batch_id %q: %w", clip(s), err)
	}
	return BatchID(s), nil
}

// String returns the id as it is.
func (id BatchID) String() string { return string(id) }

// Short returns the first twelve characters, for lines that people read. It is
// never an identifier.
func (id BatchID) Short() string {
	if len(id) > 12 {
		return string(id[:12])
	}
	return string(id)
}

func parseHex(dst []byte, s string) error {
	if len(s) != 2*len(dst) {
		return fmt.Errorf("%d characters, want %d lower-case hex digits", len(s), 2*len(dst))
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("character %d is not a lower-case hex digit", i+1)
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err
}

// clip shortens what came from outside before it goes into an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
