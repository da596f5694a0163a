package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/sink"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

const toFlag = "to"

// toFlags are for a restore that has no server to go to.
func toFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{
		Name: toFlag, Usage: "write the rows to a new file instead of a server: `WHERE` is ndjson:FILE, sql:FILE or csv:FILE, with - for stdout",
	}}
}

// destination reads --to and refuses what goes with a server only. Nothing is
// written.
func destination(c *cli.Context) (d sink.Destination, err error) {
	for _, f := range []string{targetDSNFlag, targetDSNFlag + "-file"} {
		if c.IsSet(f) {
			return d, usagef("--%s and --%s: give one", toFlag, f)
		}
	}
	if d, err = sink.Parse(c.String(toFlag)); err != nil {
		return d, usagef("--%s %v", toFlag, err)
	}
	if d.Path == sink.Stdout {
		return d, nil
	}
	return d, needNewFile(toFlag, d.Path)
}

// toFile is a restore into a file or stdout.
type toFile struct {
	*restoring
	to   sink.Destination
	data io.Writer // stdout
}

// restoreToFile is restore with --to. Rows that go to stdout leave it to them
// alone: the report is on stderr then.
func (p *program) restoreToFile(ctx context.Context, c *cli.Context, w restoreWish) error {
	to, err := destination(c)
	if err != nil {
		return err
	}
	if to.Path == sink.Stdout && wasClosed(p.stdout.w) {
		return usagef("--%s %s: stdout is closed, so the rows would be lost", toFlag, to)
	}
	if to.Format != sink.SQL && c.IsSet(targetTableFlag) {
		return usagef("--%s is for a server and for sql:FILE", targetTableFlag)
	}
	for _, flag := range []string{expectRestoredFlag, missingFlag, onConflictFlag, confirmOverwriteFlag, saveOldFlag, relayQueryFlag, allowTriggersFlag, journalFlag, journalTableFlag} {
		if c.IsSet(flag) {
			return usagef("--%s is for a server, and --%s has none", flag, toFlag)
		}
	}
	opts, err := p.restoreOptions(c)
	if err != nil {
		return err
	}
	facts := []report.Fact{{Label: "to", Value: to.String()}}
	if !w.rows.all() {
		facts = append(facts, report.Fact{Label: "rows", Value: "only those chosen: " + strings.Join(w.rows.facts(), ", ")})
	}
	if opts.DryRun {
		facts = append(facts, report.Fact{Label: "dry run", Value: "nothing is written"})
	}
	f := &toFile{to: to, data: p.stdout.w}
	if to.Path == sink.Stdout {
		p.stdout = &resultWriter{w: p.redact.writer(p.stderr)}
	}
	f.restoring = &restoring{p: p, opts: opts, into: f.take}
	return p.judge(ctx, c, w.printed(facts), func(pr *report.Printer) error { return f.carryOut(ctx, pr, w) })
}

// take writes the rows of all batches. What is said of a batch is said when the
// file is there.
func (f *toFile) take(ctx context.Context, whole []verified) error {
	reports, file, err := f.write(ctx, whole)
	if err != nil {
		return errors.Join(err, f.leave(whole, "not restored, since the rows could not all be written"))
	}
	for i, v := range whole {
		b := verifiedBatch(&v.report, nil)
		b.Duration += reports[i].Duration
		b.Facts = append(b.Facts, report.Fact{Label: "rows", Value: fmt.Sprintf("%s written of %s",
			report.Count(reports[i].Written), report.Count(reports[i].Rows))})
		if i == len(whole)-1 {
			b.Facts = append(b.Facts, report.Fact{Label: "file", Value: fmt.Sprintf("%s, %s rows, %s, SHA-256 %s",
				f.to, report.Count(file.Rows), report.Bytes(file.Bytes), file.SHA256)})
		}
		b.Details = fileDetails{FileReport: reports[i], DryRun: f.opts.DryRun, To: f.to.String(), File: file, Verify: b.Details.(verifyDetails)}
		if err := f.pr.Batch(b); err != nil {
			return err
		}
	}
	return nil
}

// fileDetails are the details of a batch in walletarchive.restore/v1 with --to.
type fileDetails struct {
	restore.FileReport
	DryRun bool          `json:"dry_run"`
	To     string        `json:"to"`
	File   fileTotals    `json:"file"` // of all batches
	Verify verifyDetails `json:"verify"`
}

// fileTotals are what was written in all.
type fileTotals struct {
	Rows   int64         `json:"rows"`
	Bytes  int64         `json:"bytes"`
	SHA256 manifest.Hash `json:"sha256"`
}

// write writes the rows of all batches. Nothing is left of a file when the error
// is not nil.
func (f *toFile) write(ctx context.Context, whole []verified) (reports []restore.FileReport, totals fileTotals, err error) {
	out, commit := f.data, func() error { return nil }
	switch {
	case f.opts.DryRun:
		out = io.Discard
	case f.to.Path == sink.Stdout:
		if report.IsTerminal(f.data) {
			f.p.progress.Close() // bars would be drawn into the rows
		}
	default:
		file, err := sink.Create(f.to.Path)
		if err != nil {
			return nil, totals, err
		}
		defer func() { err = errors.Join(err, file.Discard()) }()
		out, commit = file, file.Commit
	}
	var total progress.Counts
	for _, v := range whole {
		total.Batches++
		total.Rows += v.rows.Manifest().RowCount
	}
	task := f.p.progress.Task("restore", total)
	defer task.Done()
	w := sink.NewWriter(out, f.to.Format, sink.Options{
		Table: f.opts.Table, Origin: fmt.Sprintf("%s %s, %s", programName, programVersion(), report.Plural(int64(len(whole)), "batch")),
	})
	for _, v := range whole {
		r, err := restore.ToFile(ctx, v.rows, w, restore.FileOptions{
			Keep:     f.opts.Select,
			Progress: func(rows int64) { task.Add(progress.Counts{Rows: rows}) },
		})
		if err != nil {
			return nil, totals, err
		}
		reports = append(reports, r)
		task.Add(progress.Counts{Batches: 1})
	}
	t, err := w.Close()
	if err != nil {
		return nil, totals, fmt.Errorf("write %s: %w", f.to, err)
	}
	return reports, fileTotals(t), commit()
}
