package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// able refuses what the store cannot do with objects that are there.
func able(store Store, put PutOptions) error {
	if _, ok := store.(objstore.Reclassifier); !ok && objstore.Cold(put.DataStorageClass) {
		return fmt.Errorf("%w: the store has no storage class %s", ErrOptions, put.DataStorageClass)
	}
	if _, ok := store.(objstore.Retainer); !ok && !put.RetainUntil.IsZero() {
		return fmt.Errorf("%w: the store has no object lock", ErrOptions)
	}
	return nil
}

// retain makes sure that the objects are locked for as long as is wanted, as
// the store says it: one that was there already has the lock that its own
// writer gave it, and a store may have taken the options of a Put for granted.
// Data that is going to be moved is locked by that.
func (c *committer) retain(ctx context.Context, loc manifest.Location, objects []verify.Object) error {
	if c.opts.Put.RetainUntil.IsZero() {
		return nil
	}
	for _, o := range objects {
		if o.Key == loc.DataKey() && objstore.Cold(c.opts.Put.DataStorageClass) {
			continue
		}
		var until time.Time
		if o.RetainUntil != nil {
			until = *o.RetainUntil
		}
		if err := c.retainObject(ctx, o.Key, o.VersionID, until); err != nil {
			return err
		}
	}
	return nil
}

// retainObject locks one object, which is locked until the time until.
func (c *committer) retainObject(ctx context.Context, key, versionID string, until time.Time) error {
	want := c.opts.Put.RetainUntil
	if !until.Before(want) { // also when none is wanted
		return nil
	}
	store, ok := c.store.(objstore.Retainer)
	if !ok {
		return fmt.Errorf("the store has no object lock: %w", ErrOptions)
	}
	if err := store.Retain(ctx, key, versionID, want); err != nil {
		return fmt.Errorf("lock %s: %w", key, err)
	}
	info, err := c.store.Head(ctx, key, versionID)
	if err != nil {
		return fmt.Errorf("ask for the lock of %s: %w", key, err)
	}
	if info.RetainUntil.Before(want) {
		return fmt.Errorf("%s: %w: the store took the order and says %s", key, ErrNotLocked, lockText(info.RetainUntil))
	}
	return nil
}

func lockText(until time.Time) string {
	if until.IsZero() {
		return "that it has no lock"
	}
	return "that its lock ends at " + until.UTC().Format(time.RFC3339)
}

// freeze moves the data object of a batch to a cold storage class. That comes
// last: a cold object cannot be read back, and after a stop before the receipt
// the next run has to read it.
func (c *committer) freeze(ctx context.Context, loc manifest.Location, b *Batch) error {
	class := c.opts.Put.DataStorageClass
	if !objstore.Cold(class) {
		return nil
	}
	version, err := c.move(ctx, loc.DataKey(), b.Versions.Data)
	if err != nil {
		return fmt.Errorf("batch %s is recorded, but its data object was not moved to %s (the same export run again does that): %w", b.BatchID, class, err)
	}
	b.Versions.Data, b.StorageClass = version, class
	return nil
}

// move moves one data object and returns its version then.
func (c *committer) move(ctx context.Context, key, versionID string) (string, error) {
	store, ok := c.store.(objstore.Reclassifier)
	if !ok {
		return "", fmt.Errorf("the store has no storage classes: %w", ErrOptions)
	}
	opts := c.putOptions("application/gzip")
	opts.StorageClass = c.opts.Put.DataStorageClass
	info, err := store.Reclassify(ctx, key, versionID, opts)
	if err != nil {
		return "", err
	}
	return info.VersionID, c.retainObject(ctx, key, info.VersionID, info.RetainUntil)
}

// freezeLast moves the data object of the latest receipt, when a run that
// stopped behind the receipt has left it in STANDARD, and returns its batch.
func (c *committer) freezeLast(ctx context.Context, last *manifest.Receipt) (manifest.BatchID, error) {
	class := c.opts.Put.DataStorageClass
	if !objstore.Cold(class) {
		return "", nil
	}
	loc, err := manifest.ParseLocation(last.DataObjectKey)
	if err != nil || loc.Prefix != c.opts.Prefix {
		return "", nil // of another archive
	}
	info, err := c.store.Head(ctx, loc.DataKey(), "")
	if errors.Is(err, objstore.ErrNotExist) {
		c.opts.Logger.WarnContext(ctx, "the data object of the latest receipt is not in this store", "batch_id", last.BatchID, "object_key", loc.DataKey())
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the data object of the latest receipt: %w", err)
	}
	switch ours := info.Size == last.CompressedBytes && info.CRC64 != nil && *info.CRC64 == last.DataCRC64; {
	case !ours:
		return "", nil // for verify to find
	case info.StorageClass == class && info.RetainUntil.IsZero():
		// It stopped between the move and the lock, if one was wanted.
		return "", c.retainObject(ctx, loc.DataKey(), info.VersionID, info.RetainUntil)
	case info.StorageClass != "":
		return "", nil
	}
	if _, err := c.move(ctx, loc.DataKey(), info.VersionID); err != nil {
		return "", fmt.Errorf("move the data object of batch %s, which an earlier run recorded, to %s: %w", last.BatchID, class, err)
	}
	c.opts.Logger.InfoContext(ctx, "moved the data object that an earlier run had left", "batch_id", last.BatchID, "storage_class", class)
	return last.BatchID, nil
}
