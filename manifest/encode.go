package manifest

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxManifestBytes bounds manifest.json and _SUCCESS; a larger object is not
// one of them (docs/FORMAT.md "Limits").
const MaxManifestBytes = 4 << 20

// ErrBadDocument is wrapped by the errors of [DecodeManifest], [DecodeSuccess]
// and the reader of receipt files when a document is not what
// docs/FORMAT.md says: not JSON, a duplicate, unknown or missing member, a
// wrong type, text after the object, or too large.
var ErrBadDocument = errors.New("document breaks its schema")

// EncodeManifest returns manifest.json: indented by two spaces, members in the
// order of the struct, a newline at the end. The same manifest gives the same
// bytes. The error wraps [ErrBadDocument] when they are more than
// [MaxManifestBytes].
func EncodeManifest(m *Manifest) ([]byte, error) { return encodeDocument(ManifestName, m) }

// EncodeSuccess returns _SUCCESS in the same form as [EncodeManifest].
func EncodeSuccess(s *Success) ([]byte, error) { return encodeDocument(SuccessName, s) }

func encodeDocument(name string, v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	b = append(b, '\n')
	if len(b) > MaxManifestBytes {
		return nil, fmt.Errorf("encode %s: %d bytes, at most %d: %w", name, len(b), MaxManifestBytes, ErrBadDocument)
	}
	return b, nil
}

// DecodeManifest reads manifest.json. The error wraps [ErrBadDocument]. What
// the members say is not judged, except that schema_version must be
// [SchemaVersion]; package verify judges the rest.
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := decodeDocument(b, &m); err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", ManifestName, err)
	}
	if m.SchemaVersion != SchemaVersion {
		return Manifest{}, fmt.Errorf("%s: schema_version %d, this program reads %d: %w", ManifestName, m.SchemaVersion, SchemaVersion, ErrBadDocument)
	}
	return m, nil
}

// DecodeSuccess reads _SUCCESS. The error wraps [ErrBadDocument].
func DecodeSuccess(b []byte) (Success, error) {
	var s Success
	if err := decodeDocument(b, &s); err != nil {
		return Success{}, fmt.Errorf("%s: %w", SuccessName, err)
	}
	return s, nil
}

func decodeDocument(b []byte, v any) error {
	if len(b) > MaxManifestBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBadDocument, len(b), MaxManifestBytes)
	}
	if err := unmarshal(b, v); err != nil {
		return err
	}
	if err := checkPresent(jsontext.Value(b), reflect.TypeOf(v).Elem(), ""); err != nil {
		return fmt.Errorf("%w: %w", ErrBadDocument, err)
	}
	return nil
}

func unmarshal(b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: %w", ErrBadDocument, err)
	}
	return nil
}

// checkPresent returns an error for the first member that typ requires and
// value lacks, or for the first null anywhere, since no member of a document may
// be null. A field is optional when its tag says omitempty or omitzero. value
// has been decoded into typ before, so its JSON types are right.
func checkPresent(value jsontext.Value, typ reflect.Type, path string) error {
	if value.Kind() == 'n' {
		return fmt.Errorf("member %q is null", clip(path))
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if reflect.PointerTo(typ).Implements(textUnmarshaler) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Struct:
		members, err := split[map[string]jsontext.Value](value)
		if err != nil {
			return err
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			v, ok := members[name]
			switch {
			case !ok && strings.HasPrefix(opts, "omit"):
				continue
			case !ok:
				return fmt.Errorf("member %q is missing", at)
			}
			if err := checkPresent(v, f.Type, at); err != nil {
				return err
			}
		}
	case reflect.Map:
		members, err := split[map[string]jsontext.Value](value)
		if err != nil {
			return err
		}
		for name, v := range members {
			if err := checkPresent(v, typ.Elem(), path+"."+name); err != nil {
				return err
			}
		}
	case reflect.Slice:
		elems, err := split[[]jsontext.Value](value)
		if err != nil {
			return err
		}
		for i, v := range elems {
			if err := checkPresent(v, typ.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func split[T any](value jsontext.Value) (parts T, err error) {
	err = json.Unmarshal(value, &parts)
	return parts, err
}
