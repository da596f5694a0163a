// Package open opens the store that a URL names; start with [Open].
//
//	file:///dir                               a directory; the whole path is its root
//	cos://<bucket-appid>[/prefix]?region=R    a bucket of Tencent COS
//	cos://…?endpoint=https://host             the same by another host of the bucket
//	cos://…?endpoint=http://127.0.0.1:PORT    a test server, loopback addresses only
//
// A URL holds no secret: it is printed and logged.
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/internal/objstore/filestore"
	"github.com/hyapp/walletarchive/manifest"
)

// Options say what a URL does not.
type Options struct {
	// Create makes the directory of a file URL when it is not there. Only what
	// writes archives sets it.
	Create bool
	// Credentials sign requests to COS; nil is the chain of package
	// credentials with CredentialOptions.
	Credentials       credentials.Provider
	CredentialOptions credentials.Options
	// Workers, Retry, StallTimeout, ReadRetention and Sleep are those of
	// cosstore.Config.
	Workers       int
	Retry         cosstore.Retry
	StallTimeout  time.Duration
	ReadRetention bool
	Sleep         func(ctx context.Context, d time.Duration) error
	// Logger gets a record a retry; nil discards.
	Logger *slog.Logger
}

// Open returns the store that rawURL names and the prefix in it, "" for its
// root, without slashes around it. A bucket is not contacted. Errors of the URL
// and of the configuration wrap objstore.ErrConfig and never show a user part.
// A store that has a Close method is closed by the caller.
func Open(ctx context.Context, rawURL string, opts Options) (store objstore.Store, prefix string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("open store: %w", err)
	}
	u, err := parse(rawURL)
	if err != nil {
		return nil, "", fmt.Errorf("open store: %w", err)
	}
	if u.Scheme == "file" {
		s, err := openFile(u, opts)
		if err != nil {
			return nil, "", err
		}
		return s, "", nil
	}
	cfg, prefix, err := cosConfig(u, opts)
	if err != nil {
		return nil, "", fmt.Errorf("open store cos://%s: %w", u.Host, err)
	}
	s, err := cosstore.New(cfg)
	if err != nil {
		return nil, "", err
	}
	return s, prefix, nil
}

// Check refuses a URL that Open would refuse for its text alone. Nothing is
// contacted or looked at.
func Check(rawURL string) error {
	u, err := parse(rawURL)
	if err == nil && u.Scheme == "cos" {
		_, _, err = cosConfig(u, Options{Credentials: credentials.NewChain()})
	}
	if err != nil {
		return fmt.Errorf("store URL: %w", err)
	}
	return nil
}

// IsBucket reports whether rawURL, which Check has passed, names a bucket in COS
// and no directory.
func IsBucket(rawURL string) bool {
	u, err := parse(rawURL)
	return err == nil && u.Scheme == "cos"
}

// CheckPut refuses options with which no object can be put to the store that
// rawURL names. Nothing is contacted: whether a bucket has object lock, or an
// account the key of an encryption, only the bucket knows. The error wraps
// objstore.ErrConfig.
func CheckPut(rawURL string, opts objstore.PutOptions) error {
	u, err := parse(rawURL)
	if err != nil {
		return fmt.Errorf("store URL: %w", err)
	}
	if u.Scheme == "file" {
		return filestore.CheckPut(opts)
	}
	return cosstore.CheckPut(opts)
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), objstore.ErrConfig)
}

// parse reads what both kinds of URL have in common.
func parse(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// A *url.Error repeats the URL, which may hold a password.
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return nil, bad("the URL cannot be read: %v", err)
	}
	switch {
	case u.User != nil:
		return nil, bad("%s://…@%s has a user in it: credentials are never part of a URL", u.Scheme, u.Host)
	case u.Scheme != "file" && u.Scheme != "cos":
		return nil, bad("scheme %q is neither file:///dir nor cos://bucket-appid?region=…", u.Scheme)
	case u.Opaque != "":
		return nil, bad("%s:// and not %[1]s: is wanted", u.Scheme)
	case u.Fragment != "" || strings.HasSuffix(rawURL, "#"):
		return nil, bad("the URL has a fragment: write %%23 for a # in a name")
	}
	if u.Scheme == "file" {
		return u, checkFile(u)
	}
	return u, nil
}

func checkFile(u *url.URL) error {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return bad("%s names a host: a directory is file:///path with three slashes", u)
	case u.RawQuery != "" || u.ForceQuery:
		return bad("file://%s: a file URL takes no parameters", u.Path)
	case !path.IsAbs(u.Path):
		return bad("%s: the path has to be absolute", u)
	case strings.ContainsRune(u.Path, 0):
		return bad("the path has a NUL character")
	}
	return nil
}

func openFile(u *url.URL, opts Options) (*filestore.Store, error) {
	return filestore.Open(u.Path, filestore.Options{Create: opts.Create})
}

// parameters of a cos URL.
var parameters = []string{"endpoint", "region"}

func cosConfig(u *url.URL, opts Options) (cosstore.Config, string, error) {
	none := func(err error) (cosstore.Config, string, error) { return cosstore.Config{}, "", err }
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return none(bad("the parameters cannot be read: %v", err))
	}
	for name, values := range query {
		switch {
		case !slices.Contains(parameters, name):
			return none(bad("unknown parameter %q, there are %s", name, strings.Join(parameters, " and ")))
		case len(values) != 1 || values[0] == "":
			return none(bad("parameter %q has to have one value", name))
		}
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/")
	if prefix != "" {
		if err := manifest.CheckKey(prefix); err != nil {
			return none(fmt.Errorf("prefix: %w: %w", objstore.ErrConfig, err))
		}
	}
	if opts.Credentials == nil {
		opts.Credentials = credentials.Default(opts.CredentialOptions)
	}
	cfg := cosstore.Config{
		Bucket: u.Host, Region: query.Get("region"), Endpoint: query.Get("endpoint"), Credentials: opts.Credentials,
		Workers: opts.Workers, Retry: opts.Retry, StallTimeout: opts.StallTimeout, ReadRetention: opts.ReadRetention,
		Logger: opts.Logger, Sleep: opts.Sleep,
	}
	if err := cfg.Check(); err != nil {
		return none(err)
	}
	return cfg, prefix, nil
}
