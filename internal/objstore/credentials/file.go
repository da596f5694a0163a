package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fileVariable names a credentials file in place of ~/.tencentcloud/credentials.
const fileVariable = "TENCENTCLOUD_CREDENTIALS_FILE"

// maxFileBytes is far beyond any credentials file or token.
const maxFileBytes = 64 << 10

// file is an INI file with the pair in its section [default], as the Tencent
// Cloud SDKs have it.
type file struct {
	path  string // "" when there is no home to look in
	named bool   // by somebody, so that it has to be there
}

// NewFile returns the provider of one credentials file, which has to be there.
func NewFile(path string) Provider { return &file{path: path, named: true} }

// newFile is the file that the environment names, else the one in the home.
func newFile(opts Options) *file {
	if path := opts.Getenv(fileVariable); path != "" {
		return &file{path: path, named: true}
	}
	if opts.Home == "" {
		return &file{}
	}
	return &file{path: filepath.Join(opts.Home, ".tencentcloud", "credentials")}
}

// Source names the path.
func (f *file) Source() string {
	if f.path == "" {
		return "credentials file in the home directory, which is not known"
	}
	return "credentials file " + f.path
}

// Retrieve reads the file anew, so that a changed file is a rotation.
func (f *file) Retrieve(context.Context) (Credentials, error) {
	if f.path == "" {
		return Credentials{}, ErrNone
	}
	text, err := readSmall(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.named:
		return Credentials{}, ErrNone
	case err != nil:
		return Credentials{}, err
	}
	section, err := parseSection(text, "default")
	if err != nil {
		return Credentials{}, err
	}
	id, key := section["secret_id"], section["secret_key"]
	switch {
	case id == "" && key == "" && !f.named:
		return Credentials{}, ErrNone
	case id == "":
		return Credentials{}, fmt.Errorf("section [default] has no secret_id: %w", ErrIncomplete)
	case key == "":
		return Credentials{}, fmt.Errorf("section [default] has no secret_key: %w", ErrIncomplete)
	}
	return New(id, key, section["token"], time.Time{})
}

// readSmall reads a file that has to be small.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFileBytes {
		return "", fmt.Errorf("%s is larger than %d bytes: %w", path, maxFileBytes, ErrMalformed)
	}
	return string(data), nil
}

// parseSection returns the keys of one section of an INI file. Errors name the
// line by its number, never by its text.
func parseSection(text, name string) (map[string]string, error) {
	section := map[string]string{}
	within := false
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "", line[0] == '#', line[0] == ';':
			continue
		case line[0] == '[':
			title, ok := strings.CutSuffix(line[1:], "]")
			if !ok {
				return nil, fmt.Errorf("line %d is no section: %w", number, ErrMalformed)
			}
			within = strings.TrimSpace(title) == name
			continue
		case !within:
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("line %d has no equals sign: %w", number, ErrMalformed)
		}
		key = strings.TrimSpace(key)
		if _, twice := section[key]; twice {
			return nil, fmt.Errorf("line %d repeats a key: %w", number, ErrMalformed)
		}
		section[key] = unquote(strings.TrimSpace(value))
	}
	return section, nil
}

// unquote takes one pair of quotes off.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
