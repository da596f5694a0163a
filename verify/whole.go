package verify

import (
	"context"
	"fmt"
	"iter"

	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// Whole is a batch that was found good, of whose rows only the cursors are kept:
// enough to record its members. Close it.
type Whole struct {
	manifest                    manifest.Manifest
	manifestBytes, successBytes []byte
	ids                         *spill.Set
}

// Read verifies the batch that t names at [LevelRows]. The Whole is nil, with a
// nil error, when the report is not proven. Errors are those of [Batch].
func Read(ctx context.Context, src Source, t Target, opts Options) (*Whole, Report, error) {
	opts.Level = LevelRows
	r := newRun(src, t, opts.withDefaults())
	r.keepIDs = true
	err := r.verify(ctx)
	report := r.finish()
	if err != nil || !report.Proven() {
		_ = r.ids.Close() // nothing is wanted of it
		return nil, report, err
	}
	return &Whole{manifest: *report.Manifest, manifestBytes: r.manifestBytes, successBytes: r.successBytes, ids: r.ids}, report, nil
}

// Manifest returns the manifest that was verified.
func (w *Whole) Manifest() manifest.Manifest { return w.manifest }

// ManifestBytes and SuccessBytes return the two small objects as they were read
// back. The caller must not change them.
func (w *Whole) ManifestBytes() []byte { return w.manifestBytes }
func (w *Whole) SuccessBytes() []byte  { return w.successBytes } // see ManifestBytes

// Cursors yields the cursor of every row that was verified, in no order that
// means anything. The last pair carries an error when ctx is done or the
// temporary file cannot be read back as it was written; the caller must not keep
// what it made of the cursors before it then.
func (w *Whole) Cursors(ctx context.Context) iter.Seq2[manifest.Cursor, error] {
	return func(yield func(manifest.Cursor, error) bool) {
		for e, err := range w.ids.All(ctx) {
			if err != nil {
				yield(manifest.Cursor{}, fmt.Errorf("event_ids of batch %s: %w", w.manifest.BatchID, err))
				return
			}
			if !yield(manifest.Cursor{UpdatedAtMS: e.UpdatedAtMS, EventID: e.EventID}, nil) {
				return
			}
		}
	}
}

// Close removes the temporary file, if there is one. Cursors must not be in use.
func (w *Whole) Close() error { return w.ids.Close() }
