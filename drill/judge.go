package drill

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
	"github.com/hyapp/walletarchive/verify"
)

// compare holds the scratch table against the batch: row by row, by the
// server's own sums, and by exporting it again.
func (b *Batch) compare(ctx context.Context, v *verify.Verified, s Scratch, opts Options) error {
	m := v.Manifest()
	c := newComparison()
	table, err := outbox.Describe(ctx, s.DB, b.Table)
	if err != nil {
		return fmt.Errorf("describe scratch table %s: %w", b.Table, err)
	}
	var sum outbox.Summary
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { // on a connection of its own, while the rows are read
		var err error
		if sum, err = outbox.Summarize(gctx, s.DB, &table, ""); err != nil {
			return fmt.Errorf("sum up scratch table %s: %w", b.Table, err)
		}
		return nil
	})
	g.Go(func() error {
		// In the order of the primary key, and sorted here: the server would look up
		// each row by itself to give them in cursor order.
		sorted := restore.NewTimeSorter(opts.TempDir)
		defer sorted.Close()
		for rec, err := range c.own(outbox.ReadAll(gctx, s.DB, &table, "", outbox.AnyOrder), m.AppCode) {
			if err != nil {
				return fmt.Errorf("read the scratch table: %w", err)
			}
			if err := sorted.Add(rec); err != nil {
				return err
			}
		}
		return c.run(gctx, v.Rows(gctx), sorted.Rows(), func(n int64) { opts.Progress(StepCompare, n) })
	})
	if err := g.Wait(); err != nil {
		return err
	}
	b.Rows, b.Identical = c.rows, c.identical
	b.Respelled, b.Missing, b.Added, b.Changed = c.counts[RowRespelled], c.counts[RowMissing], c.counts[RowAdded], c.counts[RowChanged]
	b.Differences = c.named
	b.check("rows compared", c.rows, m.RowCount)
	b.check("rows missing", b.Missing, 0)
	b.check("rows added", b.Added, 0)
	b.check("rows changed", b.Changed, 0)
	b.respelled(c, &m, s.Server, opts.StrictPayload)
	b.reexported(c, &m)
	b.sums(&sum, &m)
	return nil
}

func (b *Batch) check(name string, got, want any) {
	g, w := fmt.Sprint(got), fmt.Sprint(want)
	b.Checks = append(b.Checks, Check{Name: name, Got: g, Want: w, OK: g == w})
}

// respelled judges payloads whose text is another and whose value is the same:
// the archive must have announced them where its source server parses JSON like
// the scratch server does.
func (b *Batch) respelled(c *comparison, m *manifest.Manifest, server mysqldb.Server, strict bool) {
	f := m.PayloadFidelity
	got := fmt.Sprintf("%d rows", b.Respelled)
	add := func(want string, ok bool) {
		b.Checks = append(b.Checks, Check{Name: "payloads respelled", Got: got, Want: want, OK: ok})
	}
	if f != nil {
		b.ValueUnstable = f.ValueUnstableRows
	}
	if b.ValueUnstable > 0 {
		b.note("%d rows hold a JSON value (DATETIME, BLOB) that comes back from its text as a string; the export counted them, the text is the same", b.ValueUnstable)
	}
	switch {
	case strict:
		add("0 rows", b.Respelled == 0)
	case f == nil || !f.Checked:
		b.RespelledAllowed = b.Respelled
		add("any number, since the source could not say (payload_fidelity was not checked)", true)
	default:
		b.RespelledAllowed = f.TextUnstableRows
		ok := b.Respelled <= f.TextUnstableRows
		if f.TextUnstableRows <= manifest.MaxUnstableEventIDs {
			for _, id := range c.respelled {
				ok = ok && slices.Contains(f.TextUnstableEventIDs, id)
			}
		}
		add(fmt.Sprintf("at most the %d rows that the export counted", f.TextUnstableRows), ok)
	}
	if b.Respelled > 0 {
		b.note("%d payloads are spelled otherwise by %s and have the same value under exact decimal arithmetic", b.Respelled, server)
	}
}

// reexported holds the table, exported again, against ndjson_sha256.
func (b *Batch) reexported(c *comparison, m *manifest.Manifest) {
	want := m.NDJSONSHA256.String()
	if !c.canonical {
		want = hex.EncodeToString(c.archived.Sum(nil))
		b.note("the data object holds lines that are not canonical; the re-export is held against the canonical lines of its rows")
	}
	if b.Respelled > 0 {
		b.note("the re-export takes the archive's spelling for the %d payloads that are spelled otherwise", b.Respelled)
	}
	b.check("re-export ndjson_sha256", hex.EncodeToString(c.reexport.Sum(nil)), want)
}

// sums holds what the server computed over the table against the manifest,
// which was verified against the receipt.
func (b *Batch) sums(s *outbox.Summary, m *manifest.Manifest) {
	b.check("server COUNT(*)", s.All.RowCount, m.RowCount)
	b.check("server SUM(available_delta)", s.All.AvailableDeltaTotal, m.AvailableDeltaTotal)
	b.check("server SUM(frozen_delta)", s.All.FrozenDeltaTotal, m.FrozenDeltaTotal)
	b.check("server MIN(created_at_ms)", s.MinCreatedAtMS, m.MinCreatedAtMS)
	b.check("server MAX(created_at_ms)", s.MaxCreatedAtMS, m.MaxCreatedAtMS)
	if b.Collate == m.EventIDCollation {
		b.check("server first cursor", s.FirstCursor, m.FirstCursor)
		b.check("server last cursor", s.LastCursor, m.LastCursor)
	} else {
		b.check("server first updated_at_ms", s.FirstCursor.UpdatedAtMS, m.FirstCursor.UpdatedAtMS)
		b.check("server last updated_at_ms", s.LastCursor.UpdatedAtMS, m.LastCursor.UpdatedAtMS)
	}
	assets := make(map[string]bool)
	for a := range m.TotalsByAsset {
		assets[a] = true
	}
	if m.TotalsByAsset == nil {
		return
	}
	for a := range s.ByAsset {
		assets[a] = true
	}
	for _, a := range slices.Sorted(maps.Keys(assets)) {
		b.check(fmt.Sprintf("server totals of %q", a), s.ByAsset[a], m.TotalsByAsset[a])
	}
}
