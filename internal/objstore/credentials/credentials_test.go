package credentials

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"
)

var _ cos.CredentialIface = SDKCredential{}

// mustNew makes a pair whose values are easy to find where they must not be.
func mustNew(t *testing.T, name string, expires time.Time) Credentials {
	t.Helper()
	c, err := New("id-"+name, "key-"+name, "token-"+name, expires)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNew(t *testing.T) {
	for _, test := range []struct {
		name           string
		id, key, token string
		want           error
	}{
		{"permanent", "id", "key", "", nil},
		{"temporary", "id", "key", "token", nil},
		{"no id", "", "key", "", ErrIncomplete},
		{"no key", "id", "", "token", ErrIncomplete},
		{"blank before the id", " id", "key", "", ErrMalformed},
		{"newline after the key", "id", "key\n", "", ErrMalformed},
		{"tab in the token", "id", "key", "to\tken", ErrMalformed},
		{"blank id", " ", "key", "", ErrMalformed},
		{"no ASCII", "id", "kéy", "", ErrMalformed},
		{"delete", "id", "key\x7f", "", ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := New(test.id, test.key, test.token, time.Time{})
			if !errors.Is(err, test.want) {
				t.Fatalf("New = %v, want %v", err, test.want)
			}
			if err != nil {
				if !c.IsZero() {
					t.Error("an error comes with credentials")
				}
				return
			}
			if c.SecretID() != test.id || c.SecretKey() != test.key || c.Token() != test.token {
				t.Error("values are not those given")
			}
			s := c.SDK()
			if s.GetSecretId() != test.id || s.GetSecretKey() != test.key || s.GetToken() != test.token {
				t.Error("values for the SDK are not those given")
			}
		})
	}
}

func TestZeroCredentials(t *testing.T) {
	var c Credentials
	if !c.IsZero() || c.SecretID()+c.SecretKey()+c.Token() != "" || !c.Same(Credentials{}) || c.Same(mustNew(t, "a", time.Time{})) {
		t.Error("the zero value is not none")
	}
}

func TestSame(t *testing.T) {
	a := mustNew(t, "a", time.Time{})
	later := mustNew(t, "a", time.Unix(1, 0))
	other, err := New("id-a", "key-a", "token-b", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if !a.Same(later) || a.Same(other) || a.Same(mustNew(t, "b", time.Time{})) {
		t.Error("Same does not compare the three values")
	}
}

func TestNothingIsPrinted(t *testing.T) {
	c := mustNew(t, "secret", time.Unix(1, 0))
	type exported struct{ C Credentials }
	type hidden struct{ c Credentials }
	holders := map[string]any{
		"value": c, "pointer": &c, "exported field": exported{c}, "hidden field": hidden{c}, "pointer to a holder": &hidden{c},
		"slice": []Credentials{c}, "map": map[string]Credentials{"c": c}, "for the SDK": c.SDK(),
		"cache": &Cache{current: c},
	}
	for name, holder := range holders {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
				fmt.Fprintf(&out, verb+"\n", holder)
			}
			slog.New(slog.NewTextHandler(&out, nil)).Info("text", "holder", holder)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "holder", holder)
			if name != "cache" { // which holds what JSON does not know
				if err := json.NewEncoder(&out).Encode(holder); err != nil {
					t.Fatal(err)
				}
			}
			for _, value := range []string{"id-secret", "key-secret", "token-secret"} {
				for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value)} {
					if strings.Contains(out.String(), form) {
						t.Errorf("%s is in:\n%s", form, out.String())
					}
				}
			}
		})
	}
}
