package manifest

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A line is one record as a JSON object (docs/FORMAT.md "A line"). The
// canonical line has its members in the order below, no white space, integers
// in their shortest form, and strings in which only the quote, the backslash
// and control characters are escaped, spelled as RFC 8785 section 3.2.2.2 does.

// member is the position of a member in the canonical line.
type member int

const (
	mAppCode member = iota
	mEventID
	mEventType
	mTransactionID
	mCommandID
	mUserID
	mAssetType
	mAvailableDelta
	mFrozenDelta
	mPayloadJSON
	mStatus
	mWorkerID
	mLockUntilMS
	mRetryCount
	mNextRetryAtMS
	mLastError
	mCreatedAtMS
	mUpdatedAtMS
	memberCount
)

var memberNames = [memberCount]string{
	"app_code", "event_id", "event_type", "transaction_id", "command_id", "user_id", "asset_type",
	"available_delta", "frozen_delta", "payload_json", "status", "worker_id", "lock_until_ms", "retry_count",
	"next_retry_at_ms", "last_error", "created_at_ms", "updated_at_ms",
}

// MemberNames returns the names of the members of a line in canonical order.
func MemberNames() []string { return append([]string(nil), memberNames[:]...) }

// heads are the bytes of the canonical line before each member's value.
var heads = func() (h [memberCount]string) {
	for m, name := range memberNames {
		h[m] = `,"` + name + `":`
	}
	h[0] = "{" + h[0][1:]
	return h
}()

var memberByName = func() map[string]member {
	by := make(map[string]member, memberCount)
	for m, name := range memberNames {
		by[name] = member(m)
	}
	return by
}()

// target is where the value of a member goes: exactly one field is set.
type target struct {
	str     *string
	num     *int64
	nullStr **string
	nullNum **int64
}

func (r *Record) target(m member) target {
	switch m {
	case mAppCode:
		return target{str: &r.AppCode}
	case mEventID:
		return target{str: &r.EventID}
	case mEventType:
		return target{str: &r.EventType}
	case mTransactionID:
		return target{str: &r.TransactionID}
	case mCommandID:
		return target{str: &r.CommandID}
	case mUserID:
		return target{num: &r.UserID}
	case mAssetType:
		return target{str: &r.AssetType}
	case mAvailableDelta:
		return target{num: &r.AvailableDelta}
	case mFrozenDelta:
		return target{num: &r.FrozenDelta}
	case mPayloadJSON:
		return target{str: &r.PayloadJSON}
	case mStatus:
		return target{str: &r.Status}
	case mWorkerID:
		return target{str: &r.WorkerID}
	case mLockUntilMS:
		return target{nullNum: &r.LockUntilMS}
	case mRetryCount:
		return target{num: &r.RetryCount}
	case mNextRetryAtMS:
		return target{nullNum: &r.NextRetryAtMS}
	case mLastError:
		return target{nullStr: &r.LastError}
	case mCreatedAtMS:
		return target{num: &r.CreatedAtMS}
	case mUpdatedAtMS:
		return target{num: &r.UpdatedAtMS}
	}
	panic("no such member: " + strconv.Itoa(int(m)))
}

// CheckExact returns an [*ExactnessError] when a string of r is not valid
// UTF-8 and so has no line that gives it back.
func (r *Record) CheckExact() error {
	for m := range memberCount {
		t := r.target(m)
		s := t.str
		if t.nullStr != nil {
			s = *t.nullStr
		}
		if s != nil && !utf8.ValidString(*s) {
			return &ExactnessError{EventID: r.EventID, Column: Columns[m], Err: ErrInvalidUTF8}
		}
	}
	return nil
}

// AppendLine appends the canonical line of r, without its newline, to dst. The
// strings of r must be valid UTF-8, see [Record.CheckExact].
func (r *Record) AppendLine(dst []byte) []byte {
	for m := range memberCount {
		dst = append(dst, heads[m]...)
		switch t := r.target(m); {
		case t.str != nil:
			dst = appendString(dst, *t.str)
		case t.num != nil:
			dst = strconv.AppendInt(dst, *t.num, 10)
		case t.nullStr != nil && *t.nullStr != nil:
			dst = appendString(dst, **t.nullStr)
		case t.nullNum != nil && *t.nullNum != nil:
			dst = strconv.AppendInt(dst, **t.nullNum, 10)
		default:
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for {
		n := plainLen(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		c := s[n]
		s = s[n+1:]
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, digits[c>>4], digits[c&15])
		}
	}
}

// plainLen returns how many bytes of s come before the first quote, backslash
// or control character. It looks at eight bytes at a time; a borrow in the
// subtractions can only mark a byte above one that is marked rightly.
func plainLen(s string) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		q, b := x^(ones*'"'), x^(ones*'\\')
		stop := ((q-ones)&^q | (b-ones)&^b | (x-ones*0x20)&^x) & highs
		if stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return i
}

// DecodeLine reads one line without its newline. Any valid JSON spelling of a
// record is accepted; what docs/FORMAT.md "A line" refuses gives a
// [*SyntaxError] and the zero Record.
func DecodeLine(line []byte) (Record, error) {
	r, _, err := decodeLine(string(line))
	return r, err
}

// decodeLine also reports whether s is the canonical line of the record. The
// fields of the record share the memory of s.
func decodeLine(s string) (r Record, canonical bool, err error) {
	if scanCanonical(s, &r) {
		return r, true, nil
	}
	r = Record{}
	if err := parseLine(s, &r); err != nil {
		return Record{}, false, err
	}
	return r, false, nil
}

// scanCanonical reads s into r if s is a canonical line, and reports whether it
// is. Its grammar has exactly one spelling for each record, so acceptance is
// the proof that re-encoding r gives s; FuzzDecodeLine holds it to that.
func scanCanonical(s string, r *Record) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for m := range memberCount {
		head := heads[m]
		if len(s) < len(head) || s[:len(head)] != head {
			return false
		}
		s = s[len(head):]
		t := r.target(m)
		if t.nullNum != nil || t.nullStr != nil {
			if len(s) >= 4 && s[:4] == "null" {
				s = s[4:]
				continue
			}
			if t.nullNum != nil {
				t.num = new(int64)
				*t.nullNum = t.num
			} else {
				t.str = new(string)
				*t.nullStr = t.str
			}
		}
		var n int
		if t.num != nil {
			n = scanCanonicalInt(s, t.num)
		} else {
			n = scanCanonicalString(s, t.str)
		}
		if n == 0 {
			return false
		}
		s = s[n:]
	}
	return s == "}"
}

// scanCanonicalInt reads the integer at the start of s and returns its length,
// 0 when there is none in canonical form.
func scanCanonicalInt(s string, v *int64) int {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	start := i
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	if i == start || s[start] == '0' && i > 1 {
		return 0 // no digit, a leading zero, or -0
	}
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil {
		return 0
	}
	*v = n
	return i
}

// scanCanonicalString reads the string at the start of s and returns its length
// with both quotes, 0 when there is none in canonical form.
func scanCanonicalString(s string, v *string) int {
	if len(s) == 0 || s[0] != '"' {
		return 0
	}
	n := plainLen(s[1:]) + 1
	if n < len(s) && s[n] == '"' {
		*v = s[1:n]
		return n + 1
	}
	var buf strings.Builder
	buf.Grow(n + len(s[n:])/2)
	from := 1
	for {
		if n+1 >= len(s) || s[n] == '"' {
			break
		}
		if s[n] != '\\' {
			return 0 // a raw control character
		}
		buf.WriteString(s[from:n])
		var c byte
		size := 2
		switch s[n+1] {
		case '"', '\\':
			c = s[n+1]
		case 'b':
			c = '\b'
		case 't':
			c = '\t'
		case 'n':
			c = '\n'
		case 'f':
			c = '\f'
		case 'r':
			c = '\r'
		case 'u':
			size = 6
			if n+size > len(s) || s[n+2] != '0' || s[n+3] != '0' || s[n+4] != '0' && s[n+4] != '1' {
				return 0
			}
			lo := s[n+5]
			switch {
			case '0' <= lo && lo <= '9':
				c = (s[n+4]-'0')<<4 | (lo - '0')
			case 'a' <= lo && lo <= 'f':
				c = (s[n+4]-'0')<<4 | (lo - 'a' + 10)
			default:
				return 0
			}
			if c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r' {
				return 0 // has a shorter spelling
			}
		default:
			return 0
		}
		buf.WriteByte(c)
		n += size
		from = n
		n += plainLen(s[n:])
	}
	if n >= len(s) || s[n] != '"' {
		return 0
	}
	buf.WriteString(s[from:n])
	*v = buf.String()
	return n + 1
}

// String names the record for people, without its payload.
func (r *Record) String() string {
	return fmt.Sprintf("%s/%s at %d", clip(r.AppCode), clip(r.EventID), r.UpdatedAtMS)
}
