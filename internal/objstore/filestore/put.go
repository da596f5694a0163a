package filestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Put writes the object. It costs one pass over body, or, when the key is
// taken, one over the file that is there.
//
// opts.ContentType is dropped, and "STANDARD" is the only storage class; see
// the package comment.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error) {
	if err := errors.Join(check(key, ""), CheckPut(opts)); err != nil {
		return objstore.Info{}, false, fmt.Errorf("put object: %w", err)
	}
	info, existed, err := s.put(ctx, key, body, size, sum)
	if err != nil {
		return objstore.Info{}, false, fmt.Errorf("put object %s: %w", key, err)
	}
	return info, existed, nil
}

// CheckPut refuses options that a directory cannot honour. The error wraps
// objstore.ErrConfig.
func CheckPut(opts objstore.PutOptions) error {
	switch {
	case !opts.RetainUntil.IsZero():
		return fmt.Errorf("a directory has no object lock: %w", objstore.ErrConfig)
	case opts.StorageClass != "" && opts.StorageClass != "STANDARD":
		return fmt.Errorf("a directory has no storage class %q: %w", opts.StorageClass, objstore.ErrConfig)
	case opts.SSE != "":
		return fmt.Errorf("a directory has no server-side encryption: %w", objstore.ErrConfig)
	case len(opts.Tags) != 0:
		return fmt.Errorf("a directory has no tags: %w", objstore.ErrConfig)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash) (objstore.Info, bool, error) {
	info, err := s.adopt(ctx, key, size, sum)
	if !errors.Is(err, objstore.ErrNotExist) {
		return info, err == nil, err
	}
	dir := parent(key)
	temp, err := s.createTemp(dir)
	if err != nil {
		return objstore.Info{}, false, err
	}
	name := path.Join(dir, path.Base(temp.Name()))
	got, st, err := fill(ctx, temp, body, size, sum)
	if err == nil {
		err = s.publish(name, key)
	}
	// After a rename the temporary name is gone already.
	if rm := s.root.Remove(name); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	if errors.Is(err, fs.ErrExist) {
		// Another writer was faster.
		info, err := s.adopt(ctx, key, size, sum)
		return info, err == nil, err
	}
	if err != nil {
		return objstore.Info{}, false, err
	}
	if err := s.syncDir(dir); err != nil {
		return objstore.Info{}, false, err
	}
	return objstore.Info{Key: key, Size: got.size, CRC64: &got.crc64, ModTime: st.ModTime()}, false, nil
}

// adopt succeeds when the object is there with just these bytes. The error is
// objstore.ErrNotExist when nothing has the key and objstore.ErrExist when
// something else has.
func (s *Store) adopt(ctx context.Context, key string, size int64, sum manifest.Hash) (objstore.Info, error) {
	if st, err := s.root.Lstat(key); err != nil {
		return objstore.Info{}, absent(err)
	} else if st.IsDir() {
		return objstore.Info{}, fmt.Errorf("a folder has this name: %w", objstore.ErrExist)
	}
	f, st, err := s.open(key)
	if errors.Is(err, objstore.ErrNotExist) {
		return objstore.Info{}, fmt.Errorf("%w: it is no regular file", objstore.ErrExist)
	}
	if err != nil {
		return objstore.Info{}, err
	}
	if st.Size() != size {
		return objstore.Info{}, errors.Join(
			fmt.Errorf("%w: it has %d bytes, not %d", objstore.ErrExist, st.Size(), size), f.Close())
	}
	got, err := copyAndSum(ctx, io.Discard, f)
	if err == nil && got.sha256 != sum {
		err = fmt.Errorf("%w: its sha256 is %s, not %s", objstore.ErrExist, got.sha256, sum)
	}
	if err != nil {
		return objstore.Info{}, errors.Join(err, f.Close())
	}
	// Who wrote it may have died before it was on disk.
	if err := syncAndClose(f); err != nil {
		return objstore.Info{}, err
	}
	if err := s.syncDir(parent(key)); err != nil {
		return objstore.Info{}, err
	}
	if err := s.makeDir(parent(key)); err != nil {
		return objstore.Info{}, err
	}
	return objstore.Info{Key: key, Size: got.size, CRC64: &got.crc64, ModTime: st.ModTime()}, nil
}

// createTemp makes a temporary file in dir, which it makes when needed.
func (s *Store) createTemp(dir string) (*os.File, error) {
	name := path.Join(dir, tempPrefix+rand.Text()+tempSuffix)
	for try := 0; ; try++ {
		var f *os.File
		err := s.makeDir(dir)
		if err == nil {
			f, err = s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		}
		// Delete takes empty folders away, perhaps the one just made.
		if errors.Is(err, fs.ErrNotExist) && try < 10 {
			s.durable.Delete(dir)
			continue
		}
		if errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("a folder of the key is taken by an object: %w: %w", objstore.ErrExist, err)
		}
		return f, err
	}
}

// fill writes body into f, syncs and closes it.
func fill(ctx context.Context, f *os.File, body io.ReaderAt, size int64, sum manifest.Hash) (sums, fs.FileInfo, error) {
	got, err := copyAndSum(ctx, f, io.NewSectionReader(body, 0, size))
	switch {
	case err != nil:
	case got.size != size:
		err = fmt.Errorf("the body has %d bytes, not %d: %w", got.size, size, io.ErrUnexpectedEOF)
	case got.sha256 != sum:
		err = fmt.Errorf("the body has sha256 %s, not %s as the caller says", got.sha256, sum)
	}
	st, statErr := f.Stat()
	if err := errors.Join(err, statErr); err != nil {
		return sums{}, nil, errors.Join(err, f.Close())
	}
	return got, st, syncAndClose(f)
}

// publish gives the finished temporary file its name, if no other file has it:
// else the error is fs.ErrExist.
func (s *Store) publish(temp, key string) error {
	err := s.root.Link(temp, key)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return s.rename(temp, key) // no hard links on this file system
	}
	return err
}

// rename is publish on a file system without hard links.
func (s *Store) rename(temp, key string) error {
	dir, err := s.root.Open(parent(key))
	if err != nil {
		return err
	}
	err = renameNoReplace(dir, path.Base(temp), path.Base(key))
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("this file system has neither hard links nor a rename that cannot overwrite: %w: %w", objstore.ErrConfig, err)
	}
	return errors.Join(err, dir.Close())
}

// makeDir makes dir and the folders above it and has them on disk when it
// returns.
func (s *Store) makeDir(dir string) error {
	if _, ok := s.durable.Load(dir); ok || dir == "." {
		return nil
	}
	above := "."
	for seg := range strings.SplitSeq(dir, "/") {
		d := path.Join(above, seg)
		err := s.root.Mkdir(d, dirMode)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// One that exists may have been made by a process that died before
		// its sync.
		if _, ok := s.durable.Load(d); err == nil || !ok {
			if err := s.syncDir(above); err != nil {
				return err
			}
			s.durable.Store(d, nil)
		}
		above = d
	}
	return nil
}

func (s *Store) syncDir(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return syncAndClose(f)
}

func syncAndClose(f *os.File) error { return errors.Join(f.Sync(), f.Close()) }

// parent is the folder of a key, "." for the root.
func parent(key string) string { return path.Dir(key) }
