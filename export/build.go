package export

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/tempfile"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// builder reads rows and packs them into batches.
type builder struct {
	src   Source
	store Store
	led   Ledger
	opts  Options
	more  bool // MaxBatches ended the run
}

// packed is one batch in a private file, not yet written to the store.
type packed struct {
	file     *os.File
	figures  manifest.Figures
	fidelity *manifest.PayloadFidelity
}

func (p *packed) close() { _ = p.file.Close() } // it has no name and nothing is wanted of it

func (b *builder) run(ctx context.Context, after manifest.Cursor, out chan<- *packed) error {
	next, stop := iter.Pull2(b.src.Rows(ctx, b.opts.AppCode, after, b.opts.CutoffMS))
	defer stop()
	row, err, ok := next()
	resuming := !b.opts.DryRun
	for n := 0; ok && err == nil; n++ {
		if b.opts.MaxBatches > 0 && n == b.opts.MaxBatches {
			b.more = true
			return nil
		}
		limit := int64(b.opts.BatchRows)
		if resuming {
			left, err := b.resumeRows(ctx, row.Record.Cursor(), limit)
			if err != nil {
				return err
			}
			if resuming = left > 0; resuming {
				limit = left
			}
		}
		var p *packed
		p, row, ok, err = b.pack(row, next, limit)
		if p == nil {
			return err
		}
		select {
		case out <- p:
		case <-ctx.Done():
			p.close()
			return ctx.Err()
		}
	}
	return err
}

// pack makes one batch of at most limit rows that starts with row. It returns
// the row behind the batch, if there is one, and no batch after an error in it.
func (b *builder) pack(row Row, next func() (Row, error, bool), limit int64) (_ *packed, after Row, ok bool, err error) {
	file, err := tempfile.New(b.opts.TempDir)
	if err != nil {
		return nil, Row{}, false, fmt.Errorf("make a file for the batch: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close() // the file has no name
		}
	}()
	buf := bufio.NewWriterSize(file, 256<<10)
	w := manifest.NewWriter(buf, b.opts.AppCode)
	fidelity := manifest.PayloadFidelity{Checked: b.src.About().FidelityChecked, TextUnstableEventIDs: []string{}, ValueUnstableEventIDs: []string{}}
	var n int64
	for ok = true; ok && n < limit; row, err, ok = next() {
		if err != nil {
			break
		}
		if err = w.Write(row.Record); err != nil {
			break
		}
		count(&fidelity.TextUnstableRows, &fidelity.TextUnstableEventIDs, row.TextUnstable, row.Record.EventID)
		count(&fidelity.ValueUnstableRows, &fidelity.ValueUnstableEventIDs, row.ValueUnstable, row.Record.EventID)
		if n++; n%1000 == 0 {
			b.opts.Progress(1000)
		}
	}
	b.opts.Progress(n % 1000)
	figures, closeErr := w.Close()
	switch {
	case err != nil:
		return nil, Row{}, false, fmt.Errorf("pack rows of %s: %w", b.opts.AppCode, err)
	case closeErr != nil:
		err = closeErr
		return nil, Row{}, false, fmt.Errorf("pack rows of %s: %w", b.opts.AppCode, err)
	}
	if err = buf.Flush(); err != nil {
		return nil, Row{}, false, fmt.Errorf("write the batch to a file: %w", err)
	}
	if figures.CompressedBytes > MaxBatchBytes {
		err = fmt.Errorf("batch of %d rows has %d bytes, a store takes %d: use a smaller --batch-rows: %w",
			n, figures.CompressedBytes, int64(MaxBatchBytes), objstore.ErrTooLarge)
		return nil, Row{}, false, err
	}
	return &packed{file: file, figures: figures, fidelity: &fidelity}, row, ok, nil
}

func count(n *int64, ids *[]string, unstable bool, eventID string) {
	if !unstable {
		return
	}
	if *n++; *n <= manifest.MaxUnstableEventIDs {
		*ids = append(*ids, eventID)
	}
}

// resumeRows looks for a batch that an earlier run began at first and never
// recorded, and returns how many rows it has, at most limit, or zero. So this
// run makes the same batch and adopts it rather than leave it beside another one
// with the same rows. There may be several, one behind the other. A listing may
// lag; then the batch is made afresh, which is right too.
func (b *builder) resumeRows(ctx context.Context, first manifest.Cursor, limit int64) (int64, error) {
	day := manifest.JoinPrefix(b.opts.Prefix, "app_code="+b.opts.AppCode+"/date="+manifest.PartitionDate(first.UpdatedAtMS)+"/")
	for info, err := range b.store.List(ctx, day) {
		if err != nil {
			return 0, fmt.Errorf("look for an unfinished batch under %s: %w", day, err)
		}
		loc, err := manifest.ParseLocation(info.Key)
		if err != nil || !strings.HasSuffix(info.Key, "/"+manifest.ManifestName) {
			continue
		}
		recorded, err := b.led.HasReceipt(ctx, b.opts.AppCode, loc.BatchID)
		if err != nil {
			return 0, fmt.Errorf("ask for the receipt of %s: %w", loc.BatchID, err)
		}
		if recorded {
			continue
		}
		raw, err := readSmall(ctx, b.store, info.Key, "")
		if err != nil {
			return 0, fmt.Errorf("read the manifest of an unfinished batch: %w", err)
		}
		m, err := manifest.DecodeManifest(raw)
		if err != nil || m.FirstCursor != first || m.RowCount < 1 {
			continue
		}
		if m.RowCount > limit {
			// It may be of a run with a larger batch, or a plant that would make
			// this one as large as it likes.
			b.opts.Logger.WarnContext(ctx, "a larger batch without a receipt begins with the same row and is left alone", "batch_id", loc.BatchID,
				"row_count", m.RowCount, "batch_rows", limit)
			continue
		}
		b.opts.Logger.InfoContext(ctx, "an earlier run left this batch without a receipt", "batch_id", loc.BatchID, "row_count", m.RowCount)
		return m.RowCount, nil
	}
	return 0, nil
}

var _ verify.Source = Store(nil)
