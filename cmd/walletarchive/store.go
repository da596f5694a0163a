package main

import (
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/open"
)

// archive is a store and the prefix under which its batches live.
type archive struct {
	objstore.Store
	prefix string // "" for the root
}

// close releases what the store holds of this machine.
func (a archive) close() {
	if c, ok := a.Store.(io.Closer); ok {
		_ = c.Close() // nothing is written through it
	}
}

// needStore returns --store, which the command cannot do without, after a look
// at its text.
func needStore(c *cli.Context) (string, error) {
	url := c.String(storeFlag)
	if url == "" {
		return "", usagef("--%s is missing", storeFlag)
	}
	if err := open.Check(url); err != nil {
		return "", usagef("--%s: %v", storeFlag, err)
	}
	return url, nil
}

// openArchive opens the store that url names, whose directory is made when
// create says so and it is not there. What cannot be used as it is configured
// is a usage error. The caller closes the archive.
func (p *program) openArchive(ctx context.Context, url string, create bool) (archive, error) {
	s, prefix, err := open.Open(ctx, url, open.Options{Create: create, Logger: p.log})
	if errors.Is(err, objstore.ErrConfig) {
		return archive{}, usagef("--%s: %v", storeFlag, err)
	}
	if err != nil {
		return archive{}, err
	}
	return archive{Store: s, prefix: prefix}, nil
}
