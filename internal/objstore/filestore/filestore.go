// Package filestore keeps objects as files below one directory: the key is the
// path. It is the store behind file:// URLs; start with [Open].
//
// An object appears whole or not at all, is on disk when Put returns, and is
// never overwritten, also not by another process that writes the same key at
// the same moment. No key leads out of the directory, not even over a symbolic
// link (os.Root keeps that). A directory keeps no versions, storage classes,
// object locks, encryption or tags: asking for one is objstore.ErrConfig, not
// silence.
//
// A directory has no checksum service. Head reads the whole file to name its
// CRC64, so that a check by Head alone finds a flipped bit. Get does not read
// twice: its Info has a nil CRC64 and its body checks the length only; who
// reads the bytes hashes them.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Wallet events are nobody's business but the archive's owner and group; the
// umask may take more away.
const (
	fileMode = 0o640
	dirMode  = 0o750
)

// Temporary files have a name of their own kind, so that List can leave them
// out and no key can be one. Hive, Spark and DuckDB skip names with a dot.
const (
	tempPrefix = ".walletarchive-"
	tempSuffix = ".tmp"
)

// Options say how a directory is opened. The zero value is for reading and
// writing a directory that is there.
type Options struct {
	// Create makes the directory, and its parents, when it is not there.
	// Without it, a directory that is not there is objstore.ErrConfig, so that
	// a mistyped path is not taken for an empty archive.
	Create bool
}

// Store is a directory of objects. It implements objstore.Store.
type Store struct {
	root *os.Root
	dir  string // absolute
	// durable holds the folders whose entry in their parent this process has
	// synced.
	durable sync.Map
}

var _ objstore.Store = (*Store)(nil)

// Open returns the store in dir. The error wraps objstore.ErrConfig when dir
// is not there (see [Options]) or is not a directory. Call [Store.Close] when
// done.
func Open(dir string, opts Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if opts.Create {
		if err := makeRoot(abs); err != nil {
			return nil, fmt.Errorf("open store %s: %w", abs, err)
		}
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open store %s: the directory does not exist: %w", abs, objstore.ErrConfig)
	case err != nil:
		return nil, fmt.Errorf("open store %s: %w", abs, err)
	case !st.IsDir():
		return nil, fmt.Errorf("open store %s: not a directory: %w", abs, objstore.ErrConfig)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", abs, err)
	}
	return &Store{root: root, dir: abs}, nil
}

// makeRoot makes dir and its missing parents and syncs the folders that got a
// new entry.
func makeRoot(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for _, d := range missing {
		f, err := os.Open(filepath.Dir(d))
		if err != nil {
			return err
		}
		if err := syncAndClose(f); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the directory. No other method may be called afterwards.
func (s *Store) Close() error { return s.root.Close() }

// URL returns the file:// URL of the directory.
func (s *Store) URL() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(s.dir)}).String()
}

// check refuses keys that no store takes, keys of temporary files, and
// versions, which a directory does not keep.
func check(key, versionID string) error {
	if err := manifest.CheckKey(key); err != nil {
		return err
	}
	for seg := range strings.SplitSeq(key, "/") {
		if isTemp(seg) {
			return fmt.Errorf("key %q is the name of a temporary file: %w", key, manifest.ErrBadKey)
		}
	}
	if versionID != "" {
		return fmt.Errorf("version %q: a directory keeps no versions: %w", versionID, objstore.ErrConfig)
	}
	return nil
}

func isTemp(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// open opens the file of an object. What is no regular file, or can have none
// below it, is objstore.ErrNotExist.
func (s *Store) open(key string) (*os.File, fs.FileInfo, error) {
	// Stat first: opening a FIFO would wait for a writer.
	st, err := s.root.Stat(key)
	if err != nil {
		return nil, nil, absent(err)
	}
	if !st.Mode().IsRegular() {
		return nil, nil, notAnObject(st)
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, nil, absent(err)
	}
	st, err = f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notAnObject(st)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, st, nil
}

func notAnObject(st fs.FileInfo) error {
	return fmt.Errorf("%s is not a regular file: %w", st.Mode().Type(), objstore.ErrNotExist)
}

// absent turns what a file system says of a name that cannot be there into
// objstore.ErrNotExist and leaves any other error as it is.
func absent(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return objstore.ErrNotExist
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: %w", objstore.ErrNotExist, err)
	}
	return err
}

// Head reads the whole file and returns its length and CRC64. SHA256 stays nil:
// a directory has no place for what the writer claimed.
func (s *Store) Head(ctx context.Context, key, versionID string) (objstore.Info, error) {
	if err := check(key, versionID); err != nil {
		return objstore.Info{}, fmt.Errorf("head object: %w", err)
	}
	sums, st, err := s.sum(ctx, key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("head object %s: %w", key, err)
	}
	return objstore.Info{Key: key, Size: sums.size, CRC64: &sums.crc64, ModTime: st.ModTime()}, nil
}

// sum reads the file of an object from end to end.
func (s *Store) sum(ctx context.Context, key string) (sums, fs.FileInfo, error) {
	f, st, err := s.open(key)
	if err != nil {
		return sums{}, nil, err
	}
	got, err := copyAndSum(ctx, io.Discard, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return sums{}, nil, err
	}
	return got, st, nil
}

// Get opens the file. Info.CRC64 is nil and the body checks only the length;
// see the package comment.
func (s *Store) Get(ctx context.Context, key, versionID string) (io.ReadCloser, objstore.Info, error) {
	if err := check(key, versionID); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get object: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get object %s: %w", key, err)
	}
	f, st, err := s.open(key)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get object %s: %w", key, err)
	}
	info := objstore.Info{Key: key, Size: st.Size(), ModTime: st.ModTime()}
	return &body{ctx: ctx, file: f, key: key, size: st.Size()}, info, nil
}

// Delete removes the file, if it is there, and the folders that it leaves
// empty.
func (s *Store) Delete(ctx context.Context, key, versionID string) error {
	if err := check(key, versionID); err != nil {
		return fmt.Errorf("delete object: %w", err)
	}
	if err := s.remove(ctx, key); err != nil && !errors.Is(err, objstore.ErrNotExist) {
		return fmt.Errorf("delete object %s: %w", key, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := s.root.Lstat(key)
	if err != nil {
		return absent(err)
	}
	if st.IsDir() {
		return objstore.ErrNotExist
	}
	if err := s.root.Remove(key); err != nil {
		return absent(err)
	}
	dir := parent(key)
	// A folder that another Put uses in this moment is not empty or is made
	// again by it, so what cannot be removed is left without a word.
	for dir != "." && s.root.Remove(dir) == nil {
		s.durable.Delete(dir)
		dir = parent(dir)
	}
	return absent(s.syncDir(dir))
}
