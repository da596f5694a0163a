package restore

import (
	"cmp"

	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// sortedWindows is how many windows of rows are sorted in memory at once.
const sortedWindows = 3

// Collector sorts the rows of a batch while it is verified: as the Collect of
// verify.Options it spares [Batch] another reading. Close it after the last Batch.
// It is used by one goroutine at a time.
type Collector struct {
	dir      string
	budget   int
	expect   int64
	rows     *sorter
	needs    outbox.Needs
	finished bool
}

// NewCollector returns a Collector for the batch of receipt, which may be nil. It
// takes memory bounded by opts.WindowBytes, and otherwise a file under opts.TempDir.
func NewCollector(opts Options, receipt *manifest.Receipt) *Collector {
	expect := int64(0)
	if receipt != nil {
		expect = receipt.UncompressedBytes
	}
	return newCollector(opts, expect)
}

// newCollector expects about so many bytes of lines; 0 means that nobody knows.
func newCollector(opts Options, expect int64) *Collector {
	c := &Collector{dir: opts.TempDir, budget: sortedWindows * cmp.Or(opts.WindowBytes, DefaultWindowBytes), expect: expect}
	c.rows = newSorter(c.dir, c.budget, c.expect)
	return c
}

// Reset drops what was added.
func (c *Collector) Reset() error {
	err := c.rows.close()
	c.rows, c.needs, c.finished = newSorter(c.dir, c.budget, c.expect), outbox.Needs{}, false
	return err
}

// Add copies row. The error is that of the file.
func (c *Collector) Add(row *manifest.Row) error {
	c.needs.Add(&row.Record)
	return c.rows.add(row)
}

// Needs returns what a table must be able to hold for the rows that were added.
// The caller must not change it.
func (c *Collector) Needs() *outbox.Needs { return &c.needs }

// Close removes the file, if there is one.
func (c *Collector) Close() error { return c.rows.close() }

// finish ends the adding; from then on the rows may be ranged over.
func (c *Collector) finish() error {
	if c.finished {
		return nil
	}
	c.finished = true
	return c.rows.finish()
}
