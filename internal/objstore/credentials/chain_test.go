package credentials

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// env makes a getenv of pairs of name and value.
func env(pairs ...string) func(string) string {
	vars := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return vars[name] }
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		name   string
		vars   []string
		id     string
		token  string
		source string
		want   error
		text   string // in the error
	}{
		{name: "nothing", want: ErrNone},
		{name: "empty variables are not set", vars: []string{"TENCENTCLOUD_SECRET_ID", "", "TENCENTCLOUD_SECRET_KEY", ""}, want: ErrNone},
		{
			name: "pair", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k"},
			id: "i", source: "environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY",
		},
		{
			name: "token of terraform", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k", "TENCENTCLOUD_SECURITY_TOKEN", "t1", "TENCENTCLOUD_TOKEN", "t3"},
			id: "i", token: "t1", source: "environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY, TENCENTCLOUD_SECURITY_TOKEN",
		},
		{
			name: "token of the nodejs SDK", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k", "TENCENTCLOUD_SECURITY_TOKEN", "", "TENCENTCLOUD_SESSION_TOKEN", "t2", "TENCENTCLOUD_TOKEN", "t3"},
			id: "i", token: "t2", source: "environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY, TENCENTCLOUD_SESSION_TOKEN",
		},
		{
			name: "token of tccli", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k", "TENCENTCLOUD_TOKEN", "t3"},
			id: "i", token: "t3", source: "environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY, TENCENTCLOUD_TOKEN",
		},
		{
			name: "first alias with its token", vars: []string{"COS_SECRETID", "i", "COS_SECRETKEY", "k", "COS_SESSION_TOKEN", "t"},
			id: "i", token: "t", source: "environment COS_SECRETID, COS_SECRETKEY, COS_SESSION_TOKEN",
		},
		{
			name: "second alias", vars: []string{"COS_SECRET_ID", "i", "COS_SECRET_KEY", "k"},
			id: "i", source: "environment COS_SECRET_ID, COS_SECRET_KEY",
		},
		{
			name: "an alias never takes the token of the first names", vars: []string{"COS_SECRET_ID", "i", "COS_SECRET_KEY", "k", "TENCENTCLOUD_TOKEN", "t"},
			id: "i", source: "environment COS_SECRET_ID, COS_SECRET_KEY",
		},
		{
			name: "the first names come first", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k", "COS_SECRETID", "i2", "COS_SECRETKEY", "k2"},
			id: "i", source: "environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY",
		},
		{
			name: "id without key", vars: []string{"TENCENTCLOUD_SECRET_ID", "shown-never", "COS_SECRETID", "i2", "COS_SECRETKEY", "k2"},
			want: ErrIncomplete, text: "TENCENTCLOUD_SECRET_ID is set and TENCENTCLOUD_SECRET_KEY is not",
		},
		{
			name: "key without id", vars: []string{"TENCENTCLOUD_SECRET_KEY", "shown-never"},
			want: ErrIncomplete, text: "TENCENTCLOUD_SECRET_KEY is set and TENCENTCLOUD_SECRET_ID is not",
		},
		{
			name: "two halves of two aliases", vars: []string{"COS_SECRETID", "shown-never", "COS_SECRET_KEY", "shown-never"},
			want: ErrIncomplete, text: "COS_SECRETKEY is not",
		},
		{
			name: "blank at the end", vars: []string{"TENCENTCLOUD_SECRET_ID", "shown-never ", "TENCENTCLOUD_SECRET_KEY", "k"},
			want: ErrMalformed, text: "TENCENTCLOUD_SECRET_ID has a blank",
		},
		{
			name: "newline in a token", vars: []string{"TENCENTCLOUD_SECRET_ID", "i", "TENCENTCLOUD_SECRET_KEY", "k", "TENCENTCLOUD_TOKEN", "shown-never\n"},
			want: ErrMalformed, text: "TENCENTCLOUD_TOKEN has a blank",
		},
		{
			name: "only blanks", vars: []string{"TENCENTCLOUD_SECRET_ID", " ", "TENCENTCLOUD_SECRET_KEY", " "},
			want: ErrMalformed,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := Default(Options{Getenv: env(test.vars...), Home: t.TempDir()})
			c, err := chain.Retrieve(t.Context())
			if !errors.Is(err, test.want) {
				t.Fatalf("Retrieve: %v, want %v", err, test.want)
			}
			if err != nil {
				if !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "shown-never") {
					t.Errorf("error = %q, want %q in it and no value", err, test.text)
				}
				if chain.Source() != "" {
					t.Errorf("source = %q without credentials", chain.Source())
				}
				return
			}
			if c.SecretID() != test.id || c.Token() != test.token || chain.Source() != test.source {
				t.Errorf("id %q, token %q from %q, want %q, %q from %q", c.SecretID(), c.Token(), chain.Source(), test.id, test.token, test.source)
			}
		})
	}
}

func TestChainNamesAllThatItLookedAt(t *testing.T) {
	home := t.TempDir()
	_, err := Default(Options{Getenv: env(), Home: home}).Retrieve(t.Context())
	if !errors.Is(err, ErrNone) {
		t.Fatalf("Retrieve: %v, want ErrNone", err)
	}
	for _, want := range []string{"TENCENTCLOUD_SECRET_ID", "COS_SECRETID", "COS_SECRET_ID", filepath.Join(home, ".tencentcloud", "credentials"), "TKE_ROLE_ARN"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "CVM") {
		t.Errorf("the metadata service was asked without being told to: %v", err)
	}
}

func TestFile(t *testing.T) {
	const pair = "[default]\nsecret_id = file-id\nsecret_key = file-key\n"
	for _, test := range []struct {
		name  string
		text  string
		token string
		want  error // of a file that was named
		home  error // of the file in the home
		line  string
	}{
		{name: "pair", text: pair},
		{name: "token", text: pair + "token = t\n", token: "t"},
		{name: "windows", text: "\ufeff[default]\r\nsecret_id=file-id\r\nsecret_key=file-key\r\n"},
		{name: "quotes, comments, other sections", text: "# c\n; c\n[other]\nsecret_id=x\nnonsense\n[default]\nsecret_id='file-id'\nregion = x\nsecret_key=\"file-key\"\n[last]\nsecret_id=y"},
		{name: "empty", text: "", want: ErrIncomplete, home: ErrNone},
		{name: "only another section", text: "[other]\nsecret_id=a\nsecret_key=b\n", want: ErrIncomplete, home: ErrNone},
		{name: "no section", text: "secret_id=a\nsecret_key=b\n", want: ErrIncomplete, home: ErrNone},
		{name: "no key", text: "[default]\nsecret_id=shown-never\n", want: ErrIncomplete, home: ErrIncomplete},
		{name: "no id", text: "[default]\nsecret_key=shown-never\n", want: ErrIncomplete, home: ErrIncomplete},
		{name: "repeated", text: pair + "secret_id = shown-never\n", want: ErrMalformed, home: ErrMalformed, line: "line 4"},
		{name: "no equals sign", text: "[default]\nshown-never\n", want: ErrMalformed, home: ErrMalformed, line: "line 2"},
		{name: "open section", text: "[default\nsecret_id=shown-never\n", want: ErrMalformed, home: ErrMalformed, line: "line 1"},
		{name: "comment behind the value", text: "[default]\nsecret_id=shown-never # mine\nsecret_key=b\n", want: ErrMalformed, home: ErrMalformed},
		{name: "quoted blanks", text: "[default]\nsecret_id=\" shown-never\"\nsecret_key=b\n", want: ErrMalformed, home: ErrMalformed},
		{name: "too large", text: "[default]\n#" + strings.Repeat("x", maxFileBytes), want: ErrMalformed, home: ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			path := writeFile(t, filepath.Join(home, ".tencentcloud", "credentials"), test.text)
			for _, way := range []struct {
				name string
				opts Options
				want error
			}{
				{"home", Options{Home: home, Getenv: env()}, test.home},
				{"HOME", Options{Getenv: env("HOME", home)}, test.home},
				{"USERPROFILE", Options{Getenv: env("USERPROFILE", home)}, test.home},
				{"named", Options{Getenv: env("TENCENTCLOUD_CREDENTIALS_FILE", path)}, test.want},
			} {
				chain := Default(way.opts)
				c, err := chain.Retrieve(t.Context())
				if !errors.Is(err, way.want) {
					t.Fatalf("%s: %v, want %v", way.name, err, way.want)
				}
				if err != nil {
					if !strings.Contains(err.Error(), test.line) || strings.Contains(err.Error(), "shown-never") {
						t.Errorf("%s: error = %q, want %q in it and no value", way.name, err, test.line)
					}
					continue
				}
				if c.SecretID() != "file-id" || c.SecretKey() != "file-key" || c.Token() != test.token || chain.Source() != "credentials file "+path {
					t.Errorf("%s: %q, %q, %q from %s", way.name, c.SecretID(), c.SecretKey(), c.Token(), chain.Source())
				}
			}
		})
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := Default(Options{Getenv: env("TENCENTCLOUD_CREDENTIALS_FILE", path)}).Retrieve(t.Context())
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("named file: %v, want ErrNotExist", err)
	}
	if _, err := NewFile(path).Retrieve(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewFile: %v, want ErrNotExist", err)
	}
	if _, err := Default(Options{Getenv: env()}).Retrieve(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("no home: %v, want ErrNone", err)
	}
}

func TestEnvironmentComesBeforeFile(t *testing.T) {
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".tencentcloud", "credentials"), "[default]\nsecret_id=file\nsecret_key=k\n")
	chain := Default(Options{Home: home, Getenv: env("COS_SECRETID", "alias", "COS_SECRETKEY", "k")})
	c, err := chain.Retrieve(t.Context())
	if err != nil || c.SecretID() != "alias" {
		t.Errorf("id %q, %v, want that of the alias", c.SecretID(), err)
	}
}

// fixed is a provider with one answer.
type fixed struct {
	name  string
	creds Credentials
	err   error
	calls int
}

func (f *fixed) Source() string { return f.name }

func (f *fixed) Retrieve(context.Context) (Credentials, error) {
	f.calls++
	return f.creds, f.err
}

func TestChainStaysWithItsProvider(t *testing.T) {
	first := &fixed{name: "first", err: ErrNone}
	second := &fixed{name: "second", creds: mustNew(t, "second", noEnd)}
	chain := NewChain(first, second)
	if _, err := chain.Retrieve(t.Context()); err != nil || chain.Source() != "second" {
		t.Fatalf("source %q, %v", chain.Source(), err)
	}
	first.creds, first.err = mustNew(t, "first", noEnd), nil
	if c, err := chain.Retrieve(t.Context()); err != nil || c.SecretID() != "id-second" {
		t.Errorf("id %q, %v: the chain changed over to another account", c.SecretID(), err)
	}
	if first.calls != 1 {
		t.Errorf("the first was asked %d times, want 1", first.calls)
	}
	second.creds, second.err = Credentials{}, ErrNone
	if c, err := chain.Retrieve(t.Context()); !errors.Is(err, ErrNone) || !c.IsZero() {
		t.Errorf("Retrieve: %v, want ErrNone of the provider that was chosen", err)
	}
}

func TestChainEndsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	first := &fixed{name: "first", err: broken}
	second := &fixed{name: "second", creds: mustNew(t, "second", noEnd)}
	chain := NewChain(first, second)
	_, err := chain.Retrieve(t.Context())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "first") || second.calls != 0 {
		t.Errorf("Retrieve: %v with %d calls of the second, want the error of the first and none", err, second.calls)
	}
	first.err = nil
	first.creds = mustNew(t, "first", noEnd)
	if c, err := chain.Retrieve(t.Context()); err != nil || c.SecretID() != "id-first" {
		t.Errorf("id %q, %v, want that of the first", c.SecretID(), err)
	}
}
