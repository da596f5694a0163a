package manifest

import (
	"errors"
	"fmt"
)

// Errors of [Totals.Add], [New] and [Receipt.Validate].
var (
	// ErrTooManyAssets is returned when rows have more than [MaxAssetTypes] asset
	// types, or names of them over [MaxAssetTypeBytes] together.
	ErrTooManyAssets = errors.New("too many asset types in one batch")
	// ErrNoRows is returned when a batch would have no rows.
	ErrNoRows = errors.New("a batch has at least one row")
	// ErrBadReceipt is wrapped by every error of [Receipt.Validate].
	ErrBadReceipt = errors.New("receipt is incomplete or contradicts itself")
)

// Kinds of [SyntaxError]; compare with errors.Is.
var (
	ErrDuplicateMember = errors.New("duplicate member")
	ErrUnknownMember   = errors.New("unknown member")
	ErrMissingMember   = errors.New("missing member")
	ErrWrongType       = errors.New("wrong type")
	ErrOutOfRange      = errors.New("integer outside 64 bits")
	ErrInvalidUTF8     = errors.New("invalid UTF-8")
	ErrLoneSurrogate   = errors.New("lone surrogate")
	ErrTrailingText    = errors.New("text after the object")
	ErrInvalidJSON     = errors.New("invalid JSON")
	ErrLineTooLong     = errors.New("line over the limit")
	ErrUnterminated    = errors.New("last line has no newline")
)

// Kinds of [FramingError]; compare with errors.Is.
var (
	// ErrGzip is a gzip stream that is damaged, cut short, or not gzip at all.
	ErrGzip = errors.New("not a whole gzip stream")
	// ErrGzipHeader is a gzip header with a name, comment, extra field or time.
	ErrGzipHeader = errors.New("gzip header carries a name, comment, extra field or time")
	// ErrSecondMember is a data object of more than one gzip member.
	ErrSecondMember = errors.New("more than one gzip member")
	// ErrTrailingBytes are bytes after the gzip trailer.
	ErrTrailingBytes = errors.New("bytes after the gzip trailer")
	// ErrTooLarge is a data object that unpacks to more bytes than its manifest
	// declares; reading stops there.
	ErrTooLarge = errors.New("more bytes than declared")
)

// SyntaxError says where a line breaks docs/FORMAT.md "A line". Err is one of
// the kinds above.
type SyntaxError struct {
	Line   int64  // counted from 1; 0 when a single line was decoded
	Member string // "" when the fault is not in one member
	Offset int    // bytes from the start of the line
	Err    error
}

// Error names the line, the member and the kind.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("byte %d", e.Offset)
	if e.Line > 0 {
		s = fmt.Sprintf("line %d, byte %d", e.Line, e.Offset)
	}
	if e.Member != "" {
		s += fmt.Sprintf(", member %q", clip(e.Member))
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the kind.
func (e *SyntaxError) Unwrap() error { return e.Err }

// FramingError says how a data object breaks docs/FORMAT.md "data.ndjson.gz"
// below its lines. Err wraps one of the kinds above.
type FramingError struct {
	Err error
}

// Error returns what is wrong with the gzip stream.
func (e *FramingError) Error() string { return "data object: " + e.Err.Error() }

// Unwrap returns the kind.
func (e *FramingError) Unwrap() error { return e.Err }

// ExactnessError says that a row cannot be carried exactly: the export stops
// rather than replace a character.
type ExactnessError struct {
	EventID string // as the server gave it, so perhaps not UTF-8 itself
	Column  string
	Err     error
}

// Error names the row's event_id and the column.
func (e *ExactnessError) Error() string {
	return fmt.Sprintf("row %q, column %s cannot be archived exactly: %v", clip(e.EventID), e.Column, e.Err)
}

// Unwrap returns the reason.
func (e *ExactnessError) Unwrap() error { return e.Err }
