//go:build unix

package restore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock on f that ends with the process, however it ends.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrJournalBusy
	}
	return err
}
