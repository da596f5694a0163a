package filestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace renames a file inside dir; the error is EEXIST when newName
// is taken. FAT and exFAT take it, NFS does not (man 2 rename).
func renameNoReplace(dir *os.File, oldName, newName string) error {
	fd := int(dir.Fd())
	if err := unix.Renameat2(fd, oldName, fd, newName, unix.RENAME_NOREPLACE); err != nil {
		return os.NewSyscallError("renameat2", err)
	}
	return nil
}
