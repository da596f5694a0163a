package manifest

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Names of the three objects of a batch (docs/FORMAT.md "Objects of a batch").
const (
	DataName     = "data.ndjson.gz"
	ManifestName = "manifest.json"
	SuccessName  = "_SUCCESS"
)

// MaxAppCodeChars is the longest app_code, in characters: GET_LOCK refuses a
// name of more than 64 (MySQL error 4163) and the name of an export's
// lock is "wallet_outbox_archive:" and the app_code.
const MaxAppCodeChars = 42

// MaxKeyBytes is the longest object key that COS takes.
const MaxKeyBytes = 850

// ErrBadKey is returned when a key, prefix or app_code cannot name objects.
var ErrBadKey = errors.New("not usable in an object key")

// CheckAppCode refuses an app_code that is empty, not UTF-8, longer than
// [MaxAppCodeChars], or that would change the meaning of an object key: a
// slash, an equals sign, a control character, or "." and "..". The error wraps
// [ErrBadKey].
func CheckAppCode(app string) error {
	switch {
	case app == "":
		return fmt.Errorf("app_code is empty: %w", ErrBadKey)
	case !utf8.ValidString(app):
		return fmt.Errorf("app_code is not UTF-8: %w", ErrBadKey)
	case utf8.RuneCountInString(app) > MaxAppCodeChars:
		return fmt.Errorf("app_code %q has %d characters, at most %d fit into the name of the lock: %w",
			clip(app), utf8.RuneCountInString(app), MaxAppCodeChars, ErrBadKey)
	case app == "." || app == "..":
		return fmt.Errorf("app_code %q: %w", app, ErrBadKey)
	}
	for _, c := range app {
		if c < 0x20 || c == 0x7f || strings.ContainsRune(`/\=`, c) {
			return fmt.Errorf("app_code %q has the character %q: %w", app, c, ErrBadKey)
		}
	}
	return nil
}

// CheckKey refuses a key that a store cannot hold safely: empty, over
// [MaxKeyBytes], not UTF-8, with a control character or a backslash, with a
// leading or trailing slash, or with an empty, "." or ".." segment (which COS
// and file systems resolve to something else). The error wraps [ErrBadKey].
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("key is empty: %w", ErrBadKey)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key of %d bytes, at most %d: %w", len(key), MaxKeyBytes, ErrBadKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q is not UTF-8: %w", clip(key), ErrBadKey)
	}
	for _, c := range key {
		if c < 0x20 || c == 0x7f || c == '\\' {
			return fmt.Errorf("key %q has the character %q: %w", clip(key), c, ErrBadKey)
		}
	}
	for seg := range strings.SplitSeq(key, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return fmt.Errorf("key %q has the segment %q: %w", clip(key), seg, ErrBadKey)
		}
	}
	return nil
}

// Location is where a batch lives: the folder that holds its three objects.
type Location struct {
	Prefix  string // without a trailing slash; "" is the root of the bucket
	AppCode string
	Date    string // YYYY-MM-DD, the UTC date of the first cursor
	BatchID BatchID
}

// NewLocation returns the location of a batch under prefix ("" for the root).
// Date is the UTC date of first.UpdatedAtMS.
func NewLocation(prefix, app string, first Cursor, id BatchID) Location {
	return Location{Prefix: prefix, AppCode: app, Date: PartitionDate(first.UpdatedAtMS), BatchID: id}
}

// PartitionDate returns the UTC date of a time in Unix milliseconds.
func PartitionDate(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

// Relative returns the folder without its prefix:
// app_code=<app>/date=<date>/batch=<id>.
func (l Location) Relative() string {
	return "app_code=" + l.AppCode + "/date=" + l.Date + "/batch=" + string(l.BatchID)
}

// Dir returns the folder with its prefix and without a trailing slash.
func (l Location) Dir() string { return JoinPrefix(l.Prefix, l.Relative()) }

// DataKey, ManifestKey and SuccessKey return the keys of the three objects.
func (l Location) DataKey() string     { return l.Dir() + "/" + DataName }
func (l Location) ManifestKey() string { return l.Dir() + "/" + ManifestName } // see DataKey
func (l Location) SuccessKey() string  { return l.Dir() + "/" + SuccessName }  // see DataKey

// JoinPrefix puts prefix before key with one slash, or returns key when prefix
// is empty.
func JoinPrefix(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "/" + key
}

// ParseLocation reads the key of one of the three objects of a batch back into
// its location. The error wraps [ErrBadKey].
func ParseLocation(key string) (Location, error) {
	bad := func(why string) (Location, error) {
		return Location{}, fmt.Errorf("key %q of a batch object %s: %w", clip(key), why, ErrBadKey)
	}
	if err := CheckKey(key); err != nil {
		return Location{}, err
	}
	seg := strings.Split(key, "/")
	if len(seg) < 4 {
		return bad("has fewer than four segments")
	}
	n := len(seg)
	if name := seg[n-1]; name != DataName && name != ManifestName && name != SuccessName {
		return bad("ends in none of the three names")
	}
	app, okA := strings.CutPrefix(seg[n-4], "app_code=")
	date, okD := strings.CutPrefix(seg[n-3], "date=")
	batch, okB := strings.CutPrefix(seg[n-2], "batch=")
	if !okA || !okD || !okB {
		return bad("has no app_code=, date= and batch= segments")
	}
	if err := CheckAppCode(app); err != nil {
		return Location{}, err
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return bad("has a date that is not YYYY-MM-DD")
	}
	id, err := ParseBatchID(batch)
	if err != nil {
		return bad(err.Error())
	}
	return Location{Prefix: strings.Join(seg[:n-4], "/"), AppCode: app, Date: date, BatchID: id}, nil
}
