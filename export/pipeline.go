package export

import (
	"context"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/hyapp/walletarchive/manifest"
)

// Bounds of what is written and read back at once. A large batch is written
// alone: it keeps every processor busy by itself. Small ones wait for the disk
// or the network most of their time.
const (
	writingRows    = 4000
	writingBatches = 8 // also how many may be left in the store without a receipt
)

// pipeline carries batches from the source to the ledger: one is packed, some
// are written and read back, one is recorded, each in the order of the cursors.
// What it records is recorded even when a batch behind it fails.
func pipeline(ctx context.Context, b *builder, c *committer, after manifest.Cursor, report *Report) error {
	built := make(chan *packed)
	order := make(chan *written, writingBatches)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(built)
		return b.run(gctx, after, built)
	})
	g.Go(func() error {
		defer close(order)
		writing := semaphore.NewWeighted(writingRows)
		for p := range built {
			w := &written{packed: p, done: make(chan struct{})}
			room := min(p.figures.All.RowCount, writingRows)
			if err := writing.Acquire(gctx, room); err != nil {
				w.close()
				return err
			}
			select {
			case order <- w:
			case <-gctx.Done():
				w.close()
				return gctx.Err()
			}
			g.Go(func() error {
				defer writing.Release(room)
				c.write(gctx, w)
				return nil // its error has its turn in order
			})
		}
		return nil
	})
	g.Go(func() error {
		for w := range order {
			if err := c.finish(gctx, w, report); err != nil {
				return err
			}
		}
		return nil
	})
	err := g.Wait()
	for w := range order { // after an error
		w.close()
	}
	return err
}

// finish records a batch once it is written, and reports it.
func (c *committer) finish(ctx context.Context, w *written, report *Report) error {
	defer w.close()
	<-w.done // write ends with ctx
	err := w.err
	if err == nil && !c.opts.DryRun {
		err = c.record(ctx, w)
	}
	if w.batch != nil {
		report.Batches = append(report.Batches, *w.batch)
	}
	if err == nil {
		report.Rows += w.batch.Rows
	}
	return err
}
