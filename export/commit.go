package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// committer writes packed batches to the store and records them: docs/FORMAT.md
// "Commit order" from the data object to the receipt. Several batches may be
// written at once, one is recorded after the other.
type committer struct {
	store Store
	led   Ledger
	lock  Lock
	about About
	opts  Options
	// verifiedAtMS is of the latest receipt; the next one is later.
	verifiedAtMS int64
}

// written is one batch on its way through a committer.
type written struct {
	packed *packed
	done   chan struct{} // closed when the rest is set
	batch  *Batch        // not nil once there is something to say
	loc    manifest.Location
	whole  *verify.Whole // as it was read back; nil in a dry run and with err
	err    error
}

func (w *written) close() {
	w.packed.close()
	if w.whole != nil {
		_ = w.whole.Close() // its file has no name
	}
}

// write writes the objects of a batch and reads them back.
func (c *committer) write(ctx context.Context, w *written) {
	w.batch, w.err = c.put(ctx, w)
	w.packed.close()
	if w.err == nil && !c.opts.DryRun {
		w.whole, w.err = c.readBack(ctx, w.loc, w.batch)
	}
	close(w.done)
}

// put writes the three objects in their order.
func (c *committer) put(ctx context.Context, w *written) (*Batch, error) {
	p := w.packed
	m, err := c.manifest(p.figures, p.fidelity)
	if err != nil {
		return nil, err
	}
	b := &Batch{
		BatchID: m.BatchID, DataObjectKey: m.DataObjectKey, Rows: m.RowCount, FirstCursor: m.FirstCursor, LastCursor: m.LastCursor,
		CompressedBytes: m.CompressedBytes, NDJSONSHA256: m.NDJSONSHA256, Fidelity: m.PayloadFidelity,
	}
	if c.opts.DryRun {
		return b, nil
	}
	log := c.opts.Logger.With("app_code", m.AppCode, "batch_id", m.BatchID)
	loc, err := m.Location()
	if err != nil {
		return b, err
	}
	if err := c.putData(ctx, p, &m, b); err != nil {
		return b, err
	}
	raw, err := c.putManifest(ctx, &m, loc, b)
	if err != nil {
		return b, err
	}
	if err := c.putSuccess(ctx, &m, raw, loc, b); err != nil {
		return b, err
	}
	w.loc = loc
	log.InfoContext(ctx, "batch written, reading it back", "row_count", m.RowCount, "compressed_bytes", m.CompressedBytes, "adopted", b.Adopted)
	return b, nil
}

func (c *committer) manifest(f manifest.Figures, fidelity *manifest.PayloadFidelity) (manifest.Manifest, error) {
	m, err := manifest.New(c.opts.Prefix, c.opts.AppCode, f, c.opts.Now())
	if err != nil {
		return m, err
	}
	m.PayloadFidelity = fidelity
	m.EventIDCollation = c.about.EventIDCollation
	m.Source = c.about.Origin
	m.Writer = c.opts.Writer
	return m, nil
}

func (c *committer) putOptions(contentType string) objstore.PutOptions {
	o := c.opts.Put
	return objstore.PutOptions{ContentType: contentType, RetainUntil: o.RetainUntil, SSE: o.SSE, Tags: o.Tags}
}

// putData writes the data object. When another one is there that unpacks to
// the same rows, it is adopted and m takes its figures.
func (c *committer) putData(ctx context.Context, p *packed, m *manifest.Manifest, b *Batch) error {
	opts := c.putOptions("application/gzip")
	if objstore.Cold(c.opts.Put.DataStorageClass) {
		// freeze moves it, which an object lock could forbid, and locks it then.
		opts.RetainUntil = time.Time{}
	} else {
		opts.StorageClass = c.opts.Put.DataStorageClass
	}
	info, existed, err := c.store.Put(ctx, m.DataObjectKey, p.file, m.CompressedBytes, m.GzipSHA256, opts)
	b.Adopted, b.Versions.Data = existed, info.VersionID
	if !errors.Is(err, objstore.ErrExist) {
		return err // a store names operation and key
	}
	body, _, err := c.store.Get(ctx, m.DataObjectKey, "")
	if err != nil {
		return fmt.Errorf("read what is in the place of %s: %w", m.DataObjectKey, err)
	}
	defer body.Close()
	f, _, _, err := manifest.SumObject(ctx, body, manifest.ReaderOptions{MaxUncompressedBytes: m.UncompressedBytes})
	var framing *manifest.FramingError
	switch {
	case errors.As(err, &framing):
		return fmt.Errorf("%s holds no batch (%w): %w", m.DataObjectKey, err, ErrConflict)
	case err != nil:
		return fmt.Errorf("read what is in the place of %s: %w", m.DataObjectKey, err)
	case f.NDJSONSHA256 != m.NDJSONSHA256:
		return fmt.Errorf("%s unpacks to SHA-256 %s, not %s: %w", m.DataObjectKey, f.NDJSONSHA256, m.NDJSONSHA256, ErrConflict)
	}
	m.GzipSHA256, m.DataCRC64, m.CompressedBytes = f.GzipSHA256, f.DataCRC64, f.CompressedBytes
	b.CompressedBytes, b.Adopted = f.CompressedBytes, true
	return nil
}

// putManifest writes manifest.json and returns its bytes, or those of the one
// that an earlier run left there when it describes the same batch.
func (c *committer) putManifest(ctx context.Context, m *manifest.Manifest, loc manifest.Location, b *Batch) ([]byte, error) {
	raw, err := manifest.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	key := loc.ManifestKey()
	info, _, err := c.store.Put(ctx, key, bytes.NewReader(raw), int64(len(raw)), manifest.SumHash(raw), c.putOptions("application/json"))
	b.Versions.Manifest = info.VersionID
	if !errors.Is(err, objstore.ErrExist) {
		return raw, err
	}
	raw, err = readSmall(ctx, c.store, key, "")
	if err != nil {
		return nil, err
	}
	old, err := manifest.DecodeManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("%s (%w): %w", key, err, ErrConflict)
	}
	// When the batch was made and by which server and program may differ, what
	// it holds may not.
	same := *m
	same.CreatedAtMS, same.Source, same.Writer, same.PayloadFidelity = old.CreatedAtMS, old.Source, old.Writer, old.PayloadFidelity
	if again, err := manifest.EncodeManifest(&same); err != nil || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%s describes another batch: %w", key, ErrConflict)
	}
	b.Fidelity = old.PayloadFidelity
	return raw, nil
}

func (c *committer) putSuccess(ctx context.Context, m *manifest.Manifest, rawManifest []byte, loc manifest.Location, b *Batch) error {
	raw, err := manifest.EncodeSuccess(&manifest.Success{
		BatchID: m.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(rawManifest), RowCount: m.RowCount,
	})
	if err != nil {
		return err
	}
	key := loc.SuccessKey()
	info, _, err := c.store.Put(ctx, key, bytes.NewReader(raw), int64(len(raw)), manifest.SumHash(raw), c.putOptions("application/json"))
	b.Versions.Success = info.VersionID
	if errors.Is(err, objstore.ErrExist) {
		return fmt.Errorf("%s: %w", key, ErrConflict)
	}
	return err
}

// readBack reads the whole batch back. There is no Whole unless it is the batch
// that was read from the source, and every rule holds.
func (c *committer) readBack(ctx context.Context, loc manifest.Location, b *Batch) (whole *verify.Whole, err error) {
	v, report, err := verify.Read(ctx, c.store, verify.Target{Location: loc, Versions: b.Versions}, verify.Options{
		TempDir: c.opts.TempDir, Now: c.opts.Now, Logger: c.opts.Logger,
	})
	b.Verify = &report
	if err != nil {
		return nil, fmt.Errorf("read batch %s back: %w", b.BatchID, err)
	}
	if v == nil {
		return nil, fmt.Errorf("batch %s: %d faults: %w", b.BatchID, len(report.Faults), ErrNotWhole)
	}
	defer func() {
		if err != nil {
			_ = v.Close() // its file has no name
		}
	}()
	if m := v.Manifest(); m.NDJSONSHA256 != b.NDJSONSHA256 || m.RowCount != b.Rows {
		return nil, fmt.Errorf("batch %s came back with other rows than were read: %w", b.BatchID, ErrNotWhole)
	}
	if err := c.retain(ctx, loc, report.Objects); err != nil {
		return nil, fmt.Errorf("batch %s: %w", b.BatchID, err)
	}
	return v, nil
}

// record writes the receipt of a batch with the members that came back, when the
// lock is still ours. Every batch before it is recorded.
func (c *committer) record(ctx context.Context, w *written) error {
	b := w.batch
	m := w.whole.Manifest()
	at := max(c.opts.Now().UnixMilli(), c.verifiedAtMS+1) // docs/FORMAT.md "Ledger": later than the one it follows
	receipt, err := manifest.NewReceipt(&m, w.whole.ManifestBytes(), w.whole.SuccessBytes(), at)
	if err != nil {
		return err
	}
	if err := c.lock.Check(ctx); err != nil {
		return fmt.Errorf("before recording batch %s: %w", b.BatchID, err)
	}
	b.Existed, err = c.led.Record(ctx, receipt, members(ctx, w.whole, &receipt))
	if err != nil {
		return fmt.Errorf("record batch %s: %w", b.BatchID, err)
	}
	b.Recorded, c.verifiedAtMS = true, at
	c.opts.Logger.InfoContext(ctx, "batch recorded", "batch_id", b.BatchID, "row_count", b.Rows, "existed", b.Existed)
	return c.freeze(ctx, w.loc, b)
}

// members yields the members of a verified batch, in no order.
func members(ctx context.Context, v *verify.Whole, r *manifest.Receipt) iter.Seq2[manifest.Member, error] {
	return func(yield func(manifest.Member, error) bool) {
		for c, err := range v.Cursors(ctx) {
			if err != nil {
				yield(manifest.Member{}, err)
				return
			}
			if !yield(r.Member(c.EventID, c.UpdatedAtMS), nil) {
				return
			}
		}
	}
}

// readSmall reads a manifest or a marker.
func readSmall(ctx context.Context, store Store, key, version string) ([]byte, error) {
	body, _, err := store.Get(ctx, key, version)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, manifest.MaxManifestBytes+1))
}
