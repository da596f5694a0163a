package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/objstore"
)

// List walks the folders that can hold a key with prefix. Temporary files,
// links and other special files are left out.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		fail := func(err error) { yield(objstore.Info{}, fmt.Errorf("list objects %q: %w", prefix, err)) }
		if err := objstore.CheckPrefix(prefix); err != nil {
			fail(err)
			return
		}
		folder := "" // ends with a slash unless it is the root
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			folder = prefix[:i+1]
		}
		if _, err := s.walk(ctx, folder, prefix, yield); err != nil {
			fail(err)
		}
	}
}

// walk yields the objects below folder. more is false when the caller wants no
// more of them.
func (s *Store) walk(ctx context.Context, folder, prefix string, yield func(objstore.Info, error) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	entries, err := s.readDir(path.Clean(folder))
	if err != nil {
		return true, err
	}
	for _, e := range entries {
		key := folder + sortName(e)
		switch {
		case !strings.HasPrefix(key, prefix):
			continue
		case e.IsDir():
			more, err = s.walk(ctx, key, prefix, yield)
		case e.Type().IsRegular() && !isTemp(e.Name()):
			st, statErr := s.root.Lstat(key)
			if errors.Is(statErr, fs.ErrNotExist) {
				continue // deleted since
			}
			if statErr != nil {
				return false, statErr
			}
			more = yield(objstore.Info{Key: key, Size: st.Size(), ModTime: st.ModTime()}, nil)
		default:
			continue
		}
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// sortName is the name as it counts for the order of keys: what is below a
// folder comes after its slash.
func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// readDir returns the entries of a folder in the order of their keys; a folder
// that is not there has none.
func (s *Store) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, unlessAbsent(err)
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(unlessAbsent(err), f.Close()); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	return entries, nil
}

func unlessAbsent(err error) error {
	if err = absent(err); errors.Is(err, objstore.ErrNotExist) {
		return nil
	}
	return err
}
