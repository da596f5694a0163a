package sink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// ErrChanged is returned by [File.Commit] when the disk gives back something
// else than was written to it.
var ErrChanged = errors.New("the file does not hold what was written to it")

// File is a new file that appears under its name whole or not at all, and never
// replaces another. Until then it is a hidden file beside it, which a crash may
// leave behind. Only its owner may read it: it holds rows of a wallet.
type File struct {
	path string
	tmp  *os.File
	sum  hash.Hash
}

// Create begins the file of that name. The error is fs.ErrExist when there is
// one.
func Create(path string) (*File, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: os.ErrExist}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, err
	}
	return &File{path: path, tmp: tmp, sum: sha256.New()}, nil
}

// Write appends p.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.tmp.Write(p)
	f.sum.Write(p[:n])
	return n, err
}

// Commit makes what was written durable, reads it back, and gives it its name.
// The error is fs.ErrExist when a file of that name appeared meanwhile,
// [ErrChanged], or one of [os]; nothing is left then.
func (f *File) Commit() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", f.path, err)
		}
	}()
	defer func() { err = errors.Join(err, f.Discard()) }()
	if err := f.tmp.Sync(); err != nil {
		return err
	}
	if _, err := f.tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	got := sha256.New()
	if _, err := io.Copy(got, f.tmp); err != nil {
		return err
	}
	if [sha256.Size]byte(got.Sum(nil)) != [sha256.Size]byte(f.sum.Sum(nil)) {
		return ErrChanged
	}
	// Unlike Rename, Link fails when path exists.
	if err := os.Link(f.tmp.Name(), f.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path))
}

// Discard removes what was written and not committed. It may be called more than
// once, also after Commit.
func (f *File) Discard() error {
	if f.tmp == nil {
		return nil
	}
	tmp := f.tmp
	f.tmp = nil
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// syncDir makes a name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
