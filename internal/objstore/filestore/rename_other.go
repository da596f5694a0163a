//go:build !linux

package filestore

import (
	"errors"
	"os"
)

func renameNoReplace(*os.File, string, string) error { return errors.ErrUnsupported }
