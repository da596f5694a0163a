package report

import (
	"errors"
	"fmt"
	"os"
)

// AppendHistory adds the run to the file at path as one line of JSON, making
// the file when it is not there, and syncs it. Several processes may append to
// one file at once: a line is one write to a file opened for appending. A line
// that an earlier crash cut short is closed off first, so that it spoils no
// other.
func AppendHistory(path string, run Run) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("append history %s: %w", path, err)
		}
	}()
	text, err := marshal(run.document())
	if err != nil {
		return err
	}
	// Read too, to see how the file ends.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = "\n" + text
		}
	}
	if _, err := f.WriteString(text + "\n"); err != nil {
		return err
	}
	return f.Sync()
}
