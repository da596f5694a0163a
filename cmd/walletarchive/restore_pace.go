package main

import (
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/manifest"
)

// pace tells a task how far one batch is, in rows and in the bytes of NDJSON that
// they take on average.
type pace struct {
	task        *progress.Task
	rowCount    int64
	byteCount   int64
	done, bytes int64
}

func newPace(task *progress.Task, m manifest.Manifest) *pace {
	return &pace{task: task, rowCount: m.RowCount, byteCount: m.UncompressedBytes}
}

// rows counts n more rows.
func (p *pace) rows(n int64) {
	p.done += n
	bytes := int64(float64(p.byteCount) * float64(p.done) / float64(p.rowCount))
	p.task.Add(progress.Counts{Rows: n, Bytes: bytes - p.bytes})
	p.bytes = bytes
}

// end counts the batch, and what of it was not to be restored.
func (p *pace) end() {
	p.task.Add(progress.Counts{Batches: 1, Rows: p.rowCount - p.done, Bytes: p.byteCount - p.bytes})
}
