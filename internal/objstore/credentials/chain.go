package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Options say where [Default] looks. The zero value is the real environment.
type Options struct {
	// Getenv reads an environment variable; nil is os.Getenv.
	Getenv func(string) string
	// Home is the directory of the user; "" is what HOME, else USERPROFILE says.
	Home string
	// CVM asks the metadata service of the machine for its role, when no other
	// source is set up. Elsewhere than on a CVM that is a wait for nothing.
	CVM bool
	// CVMRole is the role to ask for; "" is the one that the machine has.
	CVMRole string
	// STSEndpoint is "" for DefaultSTSEndpoint.
	STSEndpoint string
	// MetadataEndpoint is "" for DefaultMetadataEndpoint.
	MetadataEndpoint string
	// Transport sends the requests to both; nil is one of its own, which goes
	// through a proxy for STS only.
	Transport http.RoundTripper
	// Now is nil for time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if o.Home == "" {
			o.Home = o.Getenv(name)
		}
	}
	if o.STSEndpoint == "" {
		o.STSEndpoint = DefaultSTSEndpoint
	}
	if o.MetadataEndpoint == "" {
		o.MetadataEndpoint = DefaultMetadataEndpoint
	}
	return o
}

// Default returns the chain of all sources: the environment, its aliases, the
// credentials file, the OIDC role of a TKE pod, and with opts.CVM the role of
// the machine.
func Default(opts Options) *Chain {
	opts = opts.withDefaults()
	var providers []Provider
	for _, names := range EnvironmentNames() {
		providers = append(providers, &environment{names: names, getenv: opts.Getenv})
	}
	providers = append(providers, newFile(opts), newOIDC(opts))
	if opts.CVM {
		providers = append(providers, newCVM(opts))
	}
	return NewChain(providers...)
}

// Chain asks its providers in order and stays with the first that is set up:
// a run does not change over to another account in its middle. It is safe for
// use by many goroutines.
type Chain struct {
	providers []Provider

	mu     sync.Mutex
	chosen Provider
}

// NewChain returns a chain of providers.
func NewChain(providers ...Provider) *Chain { return &Chain{providers: providers} }

// Retrieve returns the pair of the first provider that does not say ErrNone. Any
// other error of a provider ends the search. ErrNone names all that was looked
// at.
func (c *Chain) Retrieve(ctx context.Context) (Credentials, error) {
	if p := c.chosenProvider(); p != nil {
		return retrieve(ctx, p)
	}
	var looked []string
	for _, p := range c.providers {
		creds, err := retrieve(ctx, p)
		switch {
		case err == nil:
			if first := c.choose(p); first != p { // of another call at the same time
				return retrieve(ctx, first)
			}
			return creds, nil
		case !errors.Is(err, ErrNone):
			return Credentials{}, err
		}
		looked = append(looked, p.Source())
	}
	return Credentials{}, fmt.Errorf("%w in any of: %s", ErrNone, strings.Join(looked, "; "))
}

// retrieve asks p and names it in the error.
func retrieve(ctx context.Context, p Provider) (Credentials, error) {
	creds, err := p.Retrieve(ctx)
	if err != nil {
		return Credentials{}, fmt.Errorf("credentials from %s: %w", p.Source(), err)
	}
	return creds, nil
}

// Source names the provider that the chain stays with; "" before the first pair.
func (c *Chain) Source() string {
	if p := c.chosenProvider(); p != nil {
		return p.Source()
	}
	return ""
}

func (c *Chain) chosenProvider() Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chosen
}

// choose stays with p, unless one was chosen before, and returns the one chosen.
func (c *Chain) choose(p Provider) Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen == nil {
		c.chosen = p
	}
	return c.chosen
}
