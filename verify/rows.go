package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// progressRows is how many rows pass between two calls of Options.Progress.
const progressRows = 1000

// readRows decodes every row of in and checks what only rows can show. The
// error is that of manifest.Reader.Next, io.EOF excepted, or one of the set of
// event_ids or the members.
func (r *run) readRows(ctx context.Context, in io.Reader, opts manifest.ReaderOptions, m *manifest.Manifest, p *pass) (manifest.Figures, error) {
	set := spill.New(r.opts.TempDir, spill.Options{Expect: m.RowCount})
	if r.keepIDs {
		_ = r.ids.Close() // of the read before: only the last one counts
		r.ids = set
	} else {
		defer set.Close()
	}
	all := r.readMembers(ctx)
	defer all.close()
	rd := manifest.NewReader(in, opts)
	defer rd.Close()
	c := rowCheck{faults: &p.faults, target: r.target.Location, key: r.target.Location.DataKey(), m: m, byBytes: comparesByBytes(m.EventIDCollation)}
	c.unstable(m.PayloadFidelity)
	var respelled int64
	collect := r.opts.Collect
	if collect != nil {
		if err := collect.Reset(); err != nil {
			return manifest.Figures{}, fmt.Errorf("collect the rows: %w", err)
		}
	}
	for {
		row, err := rd.Next()
		var syntax *manifest.SyntaxError
		switch {
		case err == nil:
		case errors.As(err, &syntax) && rd.Lines() == syntax.Line:
			c.faults.add(Fault{Check: CheckLine, Object: c.key, Line: syntax.Line, Got: syntax.Error(), Want: "a record as docs/FORMAT.md has it"})
			continue
		default:
			r.opts.Progress(p.rows % progressRows)
			p.object, p.whole = rd.Object()
			if err != io.EOF {
				return manifest.Figures{}, err
			}
			figures, known := rd.Figures()
			if respelled > 0 {
				p.notes = append(p.notes, fmt.Sprintf("%d rows are spelled otherwise than the canonical line, which is allowed", respelled))
			}
			if known {
				c.figures(figures)
				c.named()
			}
			return figures, r.checkSets(ctx, set, known, all, p)
		}
		c.row(row)
		if collect != nil {
			if err := collect.Add(row); err != nil {
				return manifest.Figures{}, fmt.Errorf("collect the rows: %w", err)
			}
		}
		if !row.Canonical {
			respelled++
		}
		if err := set.Add(spill.Entry{EventID: row.EventID, UpdatedAtMS: row.UpdatedAtMS, Line: row.Line}); err != nil {
			return manifest.Figures{}, fmt.Errorf("remember event_id: %w", err)
		}
		if p.rows++; p.rows%progressRows == 0 {
			r.opts.Progress(progressRows)
		}
	}
}

// rowCheck holds rows against the rules that need no other row than the last.
type rowCheck struct {
	faults  *faults
	target  manifest.Location
	key     string // of the data object
	m       *manifest.Manifest
	byBytes bool
	last    manifest.Cursor
	started bool
	// pending are the event_ids of each list of payload_fidelity that no row had
	// yet; the rows come in the order of the lists.
	pending [2][]string
}

func (c *rowCheck) unstable(f *manifest.PayloadFidelity) {
	if f != nil {
		c.pending = [2][]string{f.TextUnstableEventIDs, f.ValueUnstableEventIDs}
	}
}

// named finds what payload_fidelity names and no row has. It is called after
// the last row.
func (c *rowCheck) named() {
	for i, name := range []string{"text_unstable_event_ids", "value_unstable_event_ids"} {
		if ids := c.pending[i]; len(ids) > 0 {
			c.faults.add(Fault{
				Check: CheckFidelity, Object: c.target.ManifestKey(), Got: fmt.Sprintf("event_id %q in %s", ids[0], name),
				Want: "a row of the batch, in the order of the lines",
			})
		}
	}
}

func (c *rowCheck) add(check Check, line int64, got, want string) {
	c.faults.add(Fault{Check: check, Object: c.key, Line: line, Got: got, Want: want})
}

func (c *rowCheck) row(row *manifest.Row) {
	if row.AppCode != c.m.AppCode {
		c.add(CheckRowAppCode, row.Line, fmt.Sprintf("%q", row.AppCode), fmt.Sprintf("%q", c.m.AppCode))
	}
	if row.Status != manifest.StatusDelivered {
		c.add(CheckRowStatus, row.Line, fmt.Sprintf("%q", row.Status), fmt.Sprintf("%q", manifest.StatusDelivered))
	}
	for i, ids := range c.pending {
		if len(ids) > 0 && ids[0] == row.EventID {
			c.pending[i] = ids[1:]
		}
	}
	cur := row.Cursor()
	switch {
	case !c.started:
	case cur.UpdatedAtMS < c.last.UpdatedAtMS:
		c.add(CheckRowOrder, row.Line, fmt.Sprintf("updated_at_ms %d", cur.UpdatedAtMS), fmt.Sprintf("at least %d", c.last.UpdatedAtMS))
	case c.byBytes && cur.UpdatedAtMS == c.last.UpdatedAtMS && cur.EventID < c.last.EventID && orderable(cur.EventID) && orderable(c.last.EventID):
		c.add(CheckRowOrder, row.Line, fmt.Sprintf("event_id %q", cur.EventID), fmt.Sprintf("after %q, since %s compares by bytes", c.last.EventID, c.m.EventIDCollation))
	}
	c.last, c.started = cur, true
}

// comparesByBytes reports whether a collation orders text like the bytes of its
// UTF-8: those that are called binary or ..._bin, and of these only where the
// charset is UTF-8 or a part of it. The bytes of latin1, for one, sort otherwise.
func comparesByBytes(collation string) bool {
	if collation == "binary" {
		return true
	}
	charset, _, _ := strings.Cut(collation, "_")
	switch charset {
	case "ascii", "utf8", "utf8mb3", "utf8mb4":
		return strings.HasSuffix(collation, "_bin")
	}
	return false
}

// orderable reports whether a _bin collation orders s like its bytes. Those that
// pad with spaces put a control character before the end of a string.
func orderable(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c <= ' ' }) < 0
}

// figures holds what was recomputed from the rows against the manifest.
func (c *rowCheck) figures(f manifest.Figures) {
	m, fs := c.m, c.faults
	differ(fs, CheckRowCount, c.key, f.All.RowCount, m.RowCount)
	differ(fs, CheckFirstCursor, c.key, f.FirstCursor, m.FirstCursor)
	differ(fs, CheckLastCursor, c.key, f.LastCursor, m.LastCursor)
	differ(fs, CheckMinCreatedAt, c.key, f.MinCreatedAtMS, m.MinCreatedAtMS)
	differ(fs, CheckMaxCreatedAt, c.key, f.MaxCreatedAtMS, m.MaxCreatedAtMS)
	differ(fs, CheckAvailableTotal, c.key, f.All.AvailableDeltaTotal, m.AvailableDeltaTotal)
	differ(fs, CheckFrozenTotal, c.key, f.All.FrozenDeltaTotal, m.FrozenDeltaTotal)
	if m.TotalsByAsset != nil {
		for asset, want := range m.TotalsByAsset {
			c.asset(asset, f.ByAsset[asset], want)
		}
		for asset, got := range f.ByAsset {
			if _, ok := m.TotalsByAsset[asset]; !ok {
				c.asset(asset, got, manifest.AssetTotals{})
			}
		}
	}
	if m.RowsRoot != nil {
		differ(fs, CheckRowsRoot, c.key, f.RowsRoot, *m.RowsRoot)
	}
}

func (c *rowCheck) asset(asset string, got, want manifest.AssetTotals) {
	if got == want {
		return
	}
	text := func(t manifest.AssetTotals) string {
		return fmt.Sprintf("%d rows, available %s, frozen %s", t.RowCount, t.AvailableDeltaTotal, t.FrozenDeltaTotal)
	}
	c.faults.add(Fault{Check: CheckTotalsByAsset, Object: c.key, Got: text(got), Want: text(want), Detail: fmt.Sprintf("asset_type %q", asset)})
}
