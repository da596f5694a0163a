package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/verify"
)

const (
	levelFlag            = "level"
	requireRetentionFlag = "require-retention"
	tempDirFlag          = "temp-dir"
)

func verifyCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check batches against the contract, their receipts and their members",
		ArgsUsage: "[BATCH_ID ...]",
		Description: "With --ledger-dsn or --receipt, batches are held against their receipts and members;\n" +
			"without, against their own manifests only, which finds damage but not a forgery.",
		Flags: flags(storeFlags(), selectionFlags(), []cli.Flag{
			&cli.StringFlag{Name: levelFlag, Value: verify.LevelRows.String(), Usage: "how deep: `LEVEL` is head (sizes and checksums as the store names them), content (every byte) or rows (every row)"},
			&cli.IntFlag{Name: requireRetentionFlag, Usage: "call it a fault when the object lock of an object ends in less than `DAYS`", DefaultText: "none"},
		}, tempDirFlags(), jsonFlags(), recordFlags(), progressFlags(), logFlags()),
		CustomHelpTemplate: codes(exitArchive, exitNoBatch),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			opts, err := p.verifyOptions(c)
			if err != nil {
				return err
			}
			sel, err := p.selection(c, receiptOptional)
			if err != nil {
				return err
			}
			url, err := needStore(c)
			if err != nil {
				return err
			}
			return p.judge(ctx, c, report.PrinterOptions{
				Store: url, Against: sel.against(), Facts: []report.Fact{{Label: "level", Value: opts.Level.String()}},
			}, func(pr *report.Printer) error {
				store, err := p.openArchive(ctx, url, false)
				if err != nil {
					return err
				}
				defer store.close()
				return p.withBatches(ctx, sel, store, func(list []chosen) error {
					return p.eachBatch(ctx, pr, "verify", list, func(b chosen, task *progress.Task) error {
						opts.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
						rep, err := verify.Batch(ctx, store, b.Target, opts)
						return pr.Batch(verifiedBatch(&rep, err))
					})
				})
			})
		}),
	}
}

func tempDirFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: tempDirFlag, Usage: "`DIR` for temporary files; they hold rows and are removed", DefaultText: "$TMPDIR or /tmp"}}
}

func (p *program) verifyOptions(c *cli.Context) (verify.Options, error) {
	opts := verify.Options{Logger: p.log, TempDir: c.String(tempDirFlag)}
	var err error
	if opts.Level, err = verify.ParseLevel(c.String(levelFlag)); err != nil {
		return opts, usagef("--%s: %v", levelFlag, err)
	}
	days := c.Int(requireRetentionFlag)
	if c.IsSet(requireRetentionFlag) && (days < 1 || days > 36500) {
		return opts, usagef("--%s is %d, want 1 to 36500 days", requireRetentionFlag, days)
	}
	opts.RequireRetention = time.Duration(days) * 24 * time.Hour
	return opts, nil
}

// verifyDetails are the details of a batch in walletarchive.verify/v1.
type verifyDetails struct {
	Level      verify.Level           `json:"level"`
	Against    string                 `json:"against"`
	MoreFaults map[verify.Check]int64 `json:"more_faults,omitempty"`
	Objects    []verify.Object        `json:"objects"`
}

// verifiedBatch says what a report of package verify means for a batch.
func verifiedBatch(rep *verify.Report, err error) report.Batch {
	b := report.Batch{
		AppCode: rep.AppCode, BatchID: rep.BatchID, Outcome: report.Passed, Duration: rep.Duration, Err: err,
		Examined: report.Examined{Objects: len(rep.Objects), Bytes: rep.Bytes, Rows: rep.Rows, Members: rep.Members},
		Details:  verifyDetails{rep.Level, rep.Against, rep.MoreFaults, rep.Objects},
	}
	for _, f := range rep.Faults {
		b.Faults = append(b.Faults, report.Fault{
			Check: string(f.Check), Object: f.Object, Line: f.Line, Got: f.Got, Want: f.Want, Detail: f.Detail,
		})
	}
	for _, n := range rep.MoreFaults {
		b.FaultsOmitted += n
	}
	b.Unchecked, b.Notes = noteTexts(rep.Unchecked), noteTexts(rep.Notes)
	if err != nil && !rep.Failed() && outcomeOf(err) == report.ArchiveWrong { // the receipt itself is
		b.Faults, b.Err = []report.Fault{{Check: "receipt", Detail: err.Error()}}, nil
	}
	switch {
	case rep.Failed():
		b.Outcome = report.ArchiveWrong
	case err != nil:
		b.Outcome = outcomeOf(err)
	case !rep.Proven():
		b.Outcome = report.Unfinished
	}
	return b
}

func noteTexts(notes []verify.Note) []string {
	var texts []string
	for _, n := range notes {
		text := n.Text
		if n.Object != "" {
			text = n.Object + ": " + text
		}
		texts = append(texts, text)
	}
	return texts
}
