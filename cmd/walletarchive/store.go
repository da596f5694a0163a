package main

import (
	"context"
	"errors"
	"strings"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/filestore"
)

// openArchive opens the store that url names. A URL that makes no sense is a
// usage error.
func (p *program) openArchive(ctx context.Context, url string) (archive, error) {
	dir, ok := strings.CutPrefix(url, "file://")
	if !ok {
		return archive{}, usagef("--%s: not a file:// URL", storeFlag)
	}
	s, err := filestore.Open(dir, filestore.Options{})
	if errors.Is(err, objstore.ErrConfig) {
		return archive{}, usagef("--%s: %v", storeFlag, err)
	}
	return archive{Store: s}, err
}
