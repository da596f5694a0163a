package tempfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamed makes a file without a name, which some file systems refuse.
func unnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE|unix.O_EXCL, 0o600)
}
