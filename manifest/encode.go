package manifest

import (
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
// wrong type, or text after the object.
var ErrBadDocument = errors.New("document breaks its schema")

// EncodeManifest returns manifest.json: indented by two spaces, members in the
// order of the struct, a newline at the end. The same manifest gives the same
// bytes.
func EncodeManifest(m *Manifest) ([]byte, error) { return encodeDocument("manifest.json", m) }

// EncodeSuccess returns _SUCCESS in the same form as [EncodeManifest].
func EncodeSuccess(s *Success) ([]byte, error) { return encodeDocument("_SUCCESS", s) }

func encodeDocument(name string, v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return append(b, '\n'), nil
}

// DecodeManifest reads manifest.json. The error wraps [ErrBadDocument]. What
// the members say is not judged, except that schema_version must be
// [SchemaVersion]; package verify judges the rest.
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := decodeDocument("manifest.json", b, &m); err != nil {
		return Manifest{}, err
	}
	if m.SchemaVersion != SchemaVersion {
		return Manifest{}, fmt.Errorf("manifest.json: schema_version %d, this program reads %d: %w", m.SchemaVersion, SchemaVersion, ErrBadDocument)
	}
	return m, nil
}

// DecodeSuccess reads _SUCCESS. The error wraps [ErrBadDocument].
func DecodeSuccess(b []byte) (Success, error) {
	var s Success
	err := decodeDocument("_SUCCESS", b, &s)
	return s, err
}

func decodeDocument(name string, b []byte, v any) error {
	if len(b) > MaxManifestBytes {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", name, len(b), MaxManifestBytes, ErrBadDocument)
	}
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrBadDocument, err)
	}
	if missing := missingMember(jsontext.Value(b), reflect.TypeOf(v).Elem(), ""); missing != "" {
		return fmt.Errorf("%s: %w: member %q is missing or null", name, ErrBadDocument, missing)
	}
	return nil
}

// missingMember returns the path of the first member that typ requires and
// value lacks or has as null, "" when there is none. A field is optional when
// its tag says omitempty or omitzero, and when it is there it must not be null.
func missingMember(value jsontext.Value, typ reflect.Type, path string) string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if _, text := reflect.New(typ).Interface().(interface{ UnmarshalText([]byte) error }); text {
		return ""
	}
	switch typ.Kind() {
	case reflect.Struct, reflect.Map:
	default:
		return ""
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(value, &members) != nil || members == nil {
		return strings.TrimPrefix(path, ".")
	}
	check := func(name string, optional bool, typ reflect.Type) string {
		v, ok := members[name]
		at := path + "." + name
		switch {
		case !ok && optional:
			return ""
		case !ok, v.Kind() == 'n':
			return strings.TrimPrefix(at, ".")
		}
		return missingMember(v, typ, at)
	}
	if typ.Kind() == reflect.Map {
		for name := range members {
			if m := check(name, false, typ.Elem()); m != "" {
				return m
			}
		}
		return ""
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if m := check(name, strings.HasPrefix(opts, "omit"), f.Type); m != "" {
			return m
		}
	}
	return ""
}
