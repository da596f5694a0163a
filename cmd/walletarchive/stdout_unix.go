//go:build unix

package main

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// wasClosed reports whether w stands for a standard stream that was closed when
// the process began. The Go runtime opens the null device in its place, for reading
// and writing; a shell that was told to use that device opens it for writing only.
func wasClosed(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	if err != nil || !os.SameFile(null, info) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), syscall.F_GETFL, 0)
	return err == nil && flags&syscall.O_ACCMODE == syscall.O_RDWR
}
