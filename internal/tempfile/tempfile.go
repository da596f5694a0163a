// Package tempfile makes files that nobody else can name and that are gone when
// they are closed, also after a crash. Batches are held in such files while
// they are worked on, since they hold rows of users.
package tempfile

import (
	"errors"
	"fmt"
	"os"
)

// New returns an empty file in dir, "" for os.TempDir, open for reading and
// writing by this user only. It has no name: on Linux it never had one where the
// file system allows that, elsewhere it is made under a name that begins with
// "walletarchive-" and unlinked at once, so that only a crash between the two
// leaves an empty file. The caller closes it.
func New(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if f, err := unnamed(dir); err == nil {
		return f, nil
	}
	f, err := os.CreateTemp(dir, "walletarchive-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink a temporary file: %w", err), f.Close())
	}
	return f, nil
}
