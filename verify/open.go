package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/hyapp/walletarchive/internal/tempfile"
	"github.com/hyapp/walletarchive/manifest"
)

var errSpoolChanged = errors.New("the local copy changed after it was verified")

// Verified is a batch that was found good, with its data held locally, so that
// what is read from it is what was checked. Close it.
type Verified struct {
	manifest                    manifest.Manifest
	manifestBytes, successBytes []byte
	receipt                     *manifest.Receipt
	spool                       *os.File
	maxLineBytes                int
	collected                   Collector
}

// Open verifies the batch that t names at [LevelRows] and keeps its data object
// in a private file under opts.TempDir, which needs room for the compressed
// bytes. The Verified is nil, with a nil error, when the report is not proven.
// Errors are those of [Batch], and [os] errors of the file.
func Open(ctx context.Context, src Source, t Target, opts Options) (*Verified, Report, error) {
	opts.Level = LevelRows
	opts = opts.withDefaults()
	spool, err := tempfile.New(opts.TempDir)
	if err != nil {
		return nil, Report{}, fmt.Errorf("make a file for the batch: %w", err)
	}
	r := newRun(src, t, opts)
	r.spool = spool
	err = r.verify(ctx)
	report := r.finish()
	if err != nil || !report.Proven() {
		spool.Close()
		return nil, report, err
	}
	return &Verified{
		manifest: *report.Manifest, manifestBytes: r.manifestBytes, successBytes: r.successBytes,
		receipt: t.Receipt, spool: spool, maxLineBytes: opts.MaxLineBytes, collected: opts.Collect,
	}, report, nil
}

// Manifest returns the manifest that was verified.
func (v *Verified) Manifest() manifest.Manifest { return v.manifest }

// ManifestBytes and SuccessBytes return the two small objects as they were read
// back. The caller must not change them.
func (v *Verified) ManifestBytes() []byte { return v.manifestBytes }
func (v *Verified) SuccessBytes() []byte  { return v.successBytes } // see ManifestBytes

// Receipt returns the receipt that the batch was held against, nil when it was
// held against its manifest only.
func (v *Verified) Receipt() *manifest.Receipt { return v.receipt }

// Collected returns [Options.Collect], which was given exactly the rows that were
// verified; nil when there was none.
func (v *Verified) Collected() Collector { return v.collected }

// Rows yields every row in file order, decoded again from the private file. The
// last pair carries an error when ctx is done, or when the bytes are no longer
// those that were verified; the caller must not keep what it made of the rows
// before it then. Rows may be ranged over more than once and at once.
func (v *Verified) Rows(ctx context.Context) iter.Seq2[*manifest.Row, error] {
	return func(yield func(*manifest.Row, error) bool) {
		size := v.manifest.CompressedBytes
		rd := manifest.NewReader(io.NewSectionReader(v.spool, 0, size), manifest.ReaderOptions{
			MaxLineBytes: v.maxLineBytes, MaxCompressedBytes: size, MaxUncompressedBytes: v.manifest.UncompressedBytes,
		})
		defer rd.Close()
		for {
			row, err := rd.Next()
			if err == nil {
				err = ctx.Err()
			}
			if err == io.EOF {
				if f, _ := rd.Figures(); f.NDJSONSHA256 == v.manifest.NDJSONSHA256 && f.GzipSHA256 == v.manifest.GzipSHA256 {
					return
				}
				err = fmt.Errorf("batch %s: %w", v.manifest.BatchID, errSpoolChanged)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Close removes the private file. Rows must not be in use.
func (v *Verified) Close() error { return v.spool.Close() }
