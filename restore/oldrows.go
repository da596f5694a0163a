package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// OldRows keeps the rows that a restore overwrites in a file, a canonical line
// each, as the target held them. They are on disk before the commit is asked for.
// It may be used for one batch after another.
type OldRows struct {
	f    *os.File
	w    *bufio.Writer
	buf  []byte
	n    int64 // rows of the transaction at hand
	kept int64 // bytes of transactions that were committed
	rows int64
}

// CreateOldRows makes the file, which must not be there yet; only its owner may
// read it. The caller closes it.
func CreateOldRows(path string) (*OldRows, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the file of old rows: %w", err)
	}
	return &OldRows{f: f, w: bufio.NewWriter(f)}, nil
}

// Rows returns how many rows of committed transactions the file holds.
func (o *OldRows) Rows() int64 { return o.rows }

// Hooks returns what fills the file.
func (o *OldRows) Hooks() Hooks {
	return Hooks{
		Begin: func(context.Context) error { return o.rewind() },
		Row: func(_ context.Context, r RowOutcome) error {
			if r.Outcome != Overwritten {
				return nil
			}
			o.n++
			o.buf = append(r.Old.AppendLine(o.buf[:0]), '\n')
			_, err := o.w.Write(o.buf)
			return err
		},
		BeforeCommit: func(context.Context, mysqldb.Session) error {
			if err := o.w.Flush(); err != nil {
				return fmt.Errorf("write old rows: %w", err)
			}
			if err := o.f.Sync(); err != nil {
				return fmt.Errorf("write old rows: %w", err)
			}
			return nil
		},
		AfterCommit: func(context.Context) error {
			size, err := o.f.Seek(0, io.SeekCurrent)
			if err != nil {
				return fmt.Errorf("keep old rows: %w", err)
			}
			o.kept, o.rows, o.n = size, o.rows+o.n, 0
			return nil
		},
	}
}

// rewind takes back the rows of a transaction that was rolled back.
func (o *OldRows) rewind() error {
	o.n = 0
	o.w.Reset(o.f)
	if err := o.f.Truncate(o.kept); err != nil {
		return fmt.Errorf("take back old rows: %w", err)
	}
	_, err := o.f.Seek(o.kept, io.SeekStart)
	return err
}

// Close closes the file. Rows of a last transaction whose fate is not known, or
// that was rolled back, stay in it: too many is the safe side.
func (o *OldRows) Close() error { return errors.Join(o.w.Flush(), o.f.Close()) }
