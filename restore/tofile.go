package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/hyapp/walletarchive/internal/sink"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// FileOptions are the settings of [ToFile]. The zero value writes every row.
type FileOptions struct {
	// Keep chooses rows; nil keeps all. It must not change the record.
	Keep func(*manifest.Record) bool
	// Progress, when not nil, is told how many more rows were read.
	Progress func(rows int64)
	Now      func() time.Time // nil means time.Now
}

// FileReport says what [ToFile] did with one batch.
type FileReport struct {
	Rows     int64         `json:"rows"`    // of the batch, each held against its leaf hash
	Written  int64         `json:"written"` // of them, to the file
	Duration time.Duration `json:"-"`
}

// ToFile writes the rows of the batch v to w, in the order of the archive. Every
// row is hashed again on its way, and what was written is only good when the
// error is nil: it is that of v.Rows or w, ctx.Err(), or says that a row is not
// the one that was verified. The caller closes w and makes the file appear.
func ToFile(ctx context.Context, v *verify.Verified, w *sink.Writer, opts FileOptions) (FileReport, error) {
	now := opts.Now
	if now == nil {
		now = time.Now
	}
	began := now()
	var r FileReport
	err := toFile(ctx, v, w, opts, &r)
	r.Duration = now().Sub(began)
	if err != nil {
		return r, fmt.Errorf("write batch %s: %w", v.Manifest().BatchID.Short(), err)
	}
	return r, nil
}

func toFile(ctx context.Context, v *verify.Verified, w *sink.Writer, opts FileOptions, r *FileReport) error {
	var c comparer
	const step = 1000 // rows between two calls of Progress
	told := int64(0)
	for row, err := range v.Rows(ctx) {
		if err != nil {
			return fmt.Errorf("read the archived rows: %w", err)
		}
		if c.leaf(&row.Record) != row.LeafHash {
			return fmt.Errorf("%w: line %d", errSortedRows, row.Line)
		}
		r.Rows++
		if opts.Keep == nil || opts.Keep(&row.Record) {
			if err := w.Write(&row.Record); err != nil {
				return err
			}
			r.Written++
		}
		if opts.Progress != nil && r.Rows-told >= step {
			opts.Progress(r.Rows - told)
			told = r.Rows
		}
	}
	if opts.Progress != nil {
		opts.Progress(r.Rows - told)
	}
	if m := v.Manifest(); r.Rows != m.RowCount {
		return fmt.Errorf("read the archived rows: %d of %d", r.Rows, m.RowCount)
	}
	return nil
}
