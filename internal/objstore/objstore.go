// Package objstore is what walletarchive asks of a place that keeps objects:
// the small interface, the facts about an object, and the errors by name. It
// knows no store; filestore and cosstore below it are the two that exist, open
// chooses one by URL, and storetest is the suite that every store must pass.
//
// Keys are whole object keys from the root of the store, checked with
// manifest.CheckKey by every store before anything else is done.
package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/manifest"
)

// Errors that every store returns, wrapped with the operation and the key;
// compare with errors.Is.
var (
	// ErrNotExist is returned when the object is not there.
	ErrNotExist = errors.New("object does not exist")
	// ErrHidden is an ErrNotExist: somebody deleted the object in a store that
	// keeps versions, and older ones may still be there.
	ErrHidden = fmt.Errorf("its latest version is a delete marker, older ones may still be there: %w", ErrNotExist)
	// ErrExist is returned by Put when another object already has the key. A
	// Put that finds its own bytes already there succeeds.
	ErrExist = errors.New("another object already has this key")
	// ErrCold is returned by Get when the object has to be thawed first.
	ErrCold = errors.New("object is in cold storage and has to be thawed first")
	// ErrTooLarge is returned by Put when the body is larger than the store takes.
	ErrTooLarge = errors.New("object is larger than the store takes")
	// ErrDenied is returned when the credentials are refused or may not do this.
	ErrDenied = errors.New("access refused")
	// ErrConfig is returned when the store cannot be used as it is configured.
	ErrConfig = errors.New("store is not usable as configured")
)

// CorruptKind says how what came back from a store differs from what the store
// says it holds.
type CorruptKind string

// The kinds of [CorruptError]. The text is the name of the finding.
const (
	CRCMissing  CorruptKind = "crc64_missing"  // the store named no checksum for the object
	CRCMismatch CorruptKind = "crc64_mismatch" // the bytes have another checksum than the store says
	ShortBody   CorruptKind = "short_body"     // fewer bytes came than the store says the object has
)

// CorruptError is returned by the body of a Get, at its end, when the bytes are
// not what the store says it holds, and by Put when the store answers with
// another checksum than the body has. It is an observation on one transfer: a
// caller reads once more before it calls the archive damaged.
type CorruptError struct {
	Key  string
	Kind CorruptKind
	Got  string // checksum or length that was found; "" when there is none
	Want string // what the store said
}

// Error names the key, the kind and both values.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("object %s: %s: got %q, want %q", e.Key, e.Kind, e.Got, e.Want)
}

// Info is what a store says of one object without sending its bytes.
type Info struct {
	Key  string
	Size int64 // bytes
	// CRC64 is the store's own checksum; nil when the store did not name one,
	// as COS does for objects older than that feature.
	CRC64 *manifest.CRC64
	// SHA256 is the digest that the writer left beside the object; nil when it
	// left none. It is a claim, not a check.
	SHA256       *manifest.Hash
	VersionID    string    // "" where the store keeps no versions
	ModTime      time.Time // zero when not said
	StorageClass string    // as COS names it; "" means STANDARD
	Thaw         Thaw
	RetainUntil  time.Time // object lock in COMPLIANCE mode; zero when not locked or not said
}

// CheckPrefix refuses a prefix that no key which [manifest.CheckKey] allows can
// start with; "" is every key. The error wraps [manifest.ErrBadKey].
func CheckPrefix(prefix string) error {
	// One more character makes of a prefix the shortest key below it.
	if err := manifest.CheckKey(prefix + "x"); err != nil {
		return fmt.Errorf("prefix %q: %w", prefix, err)
	}
	return nil
}

// ThawState says whether an object can be read now.
type ThawState int

// The states of an object in ARCHIVE or DEEP_ARCHIVE.
const (
	NotCold ThawState = iota // readable, was never cold
	Frozen                   // cold; Get gives ErrCold
	Thawing                  // cold; a copy is being made
	Thawed                   // cold; a readable copy exists until Expiry
)

// String returns the state in one word.
func (s ThawState) String() string {
	switch s {
	case NotCold:
		return "not_cold"
	case Frozen:
		return "frozen"
	case Thawing:
		return "thawing"
	case Thawed:
		return "thawed"
	}
	return fmt.Sprintf("ThawState(%d)", int(s))
}

// Thaw is the state of an object in cold storage. The zero value is an object
// that is not cold.
type Thaw struct {
	State  ThawState
	Expiry time.Time // when a thawed copy goes away; zero unless State is Thawed
}

// PutOptions are what a Put says of the object beyond its bytes. The zero value
// is a plain object.
type PutOptions struct {
	ContentType  string // "" leaves it to the store
	StorageClass string // "" is STANDARD
	// RetainUntil sets object lock in COMPLIANCE mode; zero sets none.
	RetainUntil time.Time
	// SSE is "" for the bucket's default, "cos", or "kms:" and a key id.
	SSE  string
	Tags map[string]string
}

// Store keeps objects by key and never overwrites one. All methods may be
// called at once from many goroutines. Every error is wrapped with the
// operation and the key.
type Store interface {
	// URL names the store for people and logs, without credentials.
	URL() string

	// Put writes size bytes of body under key. It is atomic: no reader sees a
	// part of the object. body may be read more than once and is not closed;
	// sum is the SHA-256 of its bytes, recorded beside the object where the
	// store can. When the key is taken by the same bytes, Put succeeds and
	// existed is true; when it is taken by others the error is ErrExist.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts PutOptions) (info Info, existed bool, err error)

	// Head returns what the store says of the object, or ErrNotExist.
	// versionID "" asks for the latest.
	Head(ctx context.Context, key, versionID string) (Info, error)

	// Get opens the object for one pass from its first byte. The body checks
	// itself: the Read that reaches the end returns io.EOF only if length and
	// CRC64 are what the store says, else a *CorruptError. A store resumes a
	// broken transfer by itself. The caller closes the body. ErrNotExist and
	// ErrCold are returned here, not by Read.
	Get(ctx context.Context, key, versionID string) (io.ReadCloser, Info, error)

	// List yields the objects whose key starts with prefix, in byte order of
	// keys. A listing may lag behind and is never a proof of completeness.
	// Only Key, Size, ModTime and StorageClass are filled. It ends after the
	// first error.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Delete removes one object, which need not exist. walletarchive deletes
	// only probe objects that it wrote itself.
	Delete(ctx context.Context, key, versionID string) error
}

// Thawer is a Store whose objects may be in cold storage.
type Thawer interface {
	// Thaw asks for a readable copy of a cold object for days days (at least
	// 1). tier is "expedited", "standard" or "bulk". An object that is not
	// cold, is thawing already or is thawed already is a success.
	Thaw(ctx context.Context, key, versionID string, days int, tier string) error
}

// Retainer is a Store that can lock objects that are there already.
type Retainer interface {
	// Retain locks an object in COMPLIANCE mode until the time until, rounded up
	// to a second, or for longer than it is locked; no lock can be shortened. What
	// is locked for that long already is a success.
	Retain(ctx context.Context, key, versionID string, until time.Time) error
}

// Cold reports whether objects of a storage class have to be thawed to be read:
// those of ARCHIVE and DEEP_ARCHIVE and their twins in several zones. An object
// of INTELLIGENT_TIERING may be cold too, which only its Info says.
func Cold(class string) bool { return strings.HasSuffix(class, "ARCHIVE") }

// Reclassifier is a Store whose objects can be moved to another storage class.
type Reclassifier interface {
	// Reclassify moves an object to opts.StorageClass and returns it as it is
	// then. The bytes, their checksum and the digest beside them stay; all else
	// becomes as opts says, so opts repeats what Put was given. Where the store
	// keeps versions the result is a new version, and the old one stays. An
	// object that has the class already is a success and is left as it is.
	Reclassify(ctx context.Context, key, versionID string, opts PutOptions) (Info, error)
}
