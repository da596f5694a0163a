package storetest

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Below returns s as it is below a prefix, so that each subtest finds a store
// without objects in a bucket that has some. prefix is not empty.
func Below(s objstore.Store, prefix string) objstore.Store { return &below{s, prefix + "/"} }

type below struct {
	objstore.Store
	prefix string
}

// key leaves a bad key as bad as it is.
func (b *below) key(key string) string {
	if manifest.CheckKey(key) != nil {
		return key
	}
	return b.prefix + key
}

func (b *below) info(info objstore.Info) objstore.Info {
	info.Key = strings.TrimPrefix(info.Key, b.prefix)
	return info
}

func (b *below) Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error) {
	info, existed, err := b.Store.Put(ctx, b.key(key), body, size, sum, opts)
	return b.info(info), existed, err
}

func (b *below) Head(ctx context.Context, key, versionID string) (objstore.Info, error) {
	info, err := b.Store.Head(ctx, b.key(key), versionID)
	return b.info(info), err
}

func (b *below) Get(ctx context.Context, key, versionID string) (io.ReadCloser, objstore.Info, error) {
	r, info, err := b.Store.Get(ctx, b.key(key), versionID)
	return r, b.info(info), err
}

func (b *below) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range b.Store.List(ctx, b.prefix+prefix) {
			if !yield(b.info(info), err) {
				return
			}
		}
	}
}

func (b *below) Delete(ctx context.Context, key, versionID string) error {
	return b.Store.Delete(ctx, b.key(key), versionID)
}
