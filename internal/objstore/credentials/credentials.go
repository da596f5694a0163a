// Package credentials finds the key pair with which walletarchive opens a
// Tencent COS bucket. Start with [Default], which is the chain of all sources in
// their order, and keep what it finds in a [Cache].
//
// Id, key and token always come from one source. A source that is half there is
// an error and not a reason to go on to the next one, because the next one may
// be somebody else's. Values are never printed: not by fmt, not by slog, not by
// encoding/json, and not in an error.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Errors of Retrieve, wrapped with the source; compare with errors.Is.
var (
	// ErrNone is returned by a source that is not set up at all, and by a chain
	// when none of its sources is.
	ErrNone = errors.New("no credentials")
	// ErrIncomplete is returned when a source has an id without a key, a key
	// without an id, or else only some of what it needs.
	ErrIncomplete = errors.New("credentials are not complete")
	// ErrMalformed is returned when a value has blanks or other characters that
	// no key has, or when a file cannot be read as what it should be.
	ErrMalformed = errors.New("credentials are malformed")
	// ErrExpired is returned when a source hands out a pair whose time is over.
	ErrExpired = errors.New("credentials have expired")
	// ErrRefused is returned when a service that hands out pairs says no.
	ErrRefused = errors.New("credentials were refused")
	// ErrNoAnswer is returned when such a service does not answer in time. The
	// caller's own deadline is not this error.
	ErrNoAnswer = errors.New("no answer in time")
)

// Provider is one source of credentials. Retrieve may be called at once from
// many goroutines and asks the source anew each time.
type Provider interface {
	// Retrieve returns the pair, or ErrNone when the source is not set up.
	Retrieve(ctx context.Context) (Credentials, error)
	// Source names the source for people: the names of variables, a path, a
	// service. It never holds a value of the first three fields of a pair.
	Source() string
}

// Credentials is a key pair with its token. The zero value is none; make one
// with [New]. It can be copied.
type Credentials struct {
	// A function, because fmt looks through everything else: the methods below
	// are not called for a field that is not exported, and a verb that does not
	// fit prints what a pointer points to.
	values  func() values
	expires time.Time
}

type values struct{ id, key, token string }

// get returns the values, empty ones for the zero value.
func (c Credentials) get() values {
	if c.values == nil {
		return values{}
	}
	return c.values()
}

// New returns a pair. token is "" for a permanent one; expires is zero when no
// end is known. The error is ErrIncomplete when id or key is "", and
// ErrMalformed when a value has a character outside of visible ASCII.
func New(id, key, token string, expires time.Time) (Credentials, error) {
	if id == "" || key == "" {
		return Credentials{}, fmt.Errorf("secret id or secret key is empty: %w", ErrIncomplete)
	}
	for _, v := range []struct{ name, value string }{{"secret id", id}, {"secret key", key}, {"token", token}} {
		if err := checkValue(v.name, v.value); err != nil {
			return Credentials{}, err
		}
	}
	return Credentials{values: func() values { return values{id, key, token} }, expires: expires}, nil
}

// checkValue refuses what would break a header or silently fail to match. A
// blank at an end is the usual mistake of pasting.
func checkValue(name, value string) error {
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f {
			return fmt.Errorf("%s has a blank or another character that is not visible ASCII: %w", name, ErrMalformed)
		}
	}
	return nil
}

// IsZero tells whether c is none.
func (c Credentials) IsZero() bool { return c.values == nil }

// SecretID is the access key id; "" for the zero value.
func (c Credentials) SecretID() string { return c.get().id }

// SecretKey is the secret; "" for the zero value.
func (c Credentials) SecretKey() string { return c.get().key }

// Token is what has to be sent with a temporary pair; "" for a permanent one.
func (c Credentials) Token() string { return c.get().token }

// Expires is when the pair ends; zero when no end is known.
func (c Credentials) Expires() time.Time { return c.expires }

// Same tells whether both are the same pair with the same token.
func (c Credentials) Same(other Credentials) bool { return c.get() == other.get() }

// SDK returns c as the credential interface of the COS SDK asks for it. It is a
// snapshot: the SDK reads the three values one after another, so each request
// needs one of its own, or a rotation in between would mix two pairs.
func (c Credentials) SDK() SDKCredential { return SDKCredential{c} }

// SDKCredential is a cos.CredentialIface over one pair.
type SDKCredential struct{ c Credentials }

// GetSecretId returns the access key id.
func (s SDKCredential) GetSecretId() string { return s.c.SecretID() }

// GetSecretKey returns the secret.
func (s SDKCredential) GetSecretKey() string { return s.c.SecretKey() }

// GetToken returns the token, "" for none.
func (s SDKCredential) GetToken() string { return s.c.Token() }

// redacted is what is printed in place of a pair.
const redacted = "(credentials not shown)"

// String returns a text without any value.
func (c Credentials) String() string { return redacted }

// GoString returns a text without any value.
func (c Credentials) GoString() string { return redacted }

// Format writes a text without any value, whatever the verb.
func (c Credentials) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// LogValue returns a text without any value.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a text without any value. encoding/json uses it as well.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns a text without any value.
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
