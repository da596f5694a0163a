package main

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/thaw"
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
			&cli.BoolFlag{Name: discoverFlag, Usage: "take the batches that the store lists, of --app or all apps, with a date from --since and before --until; for who has neither ledger nor receipts", DisableDefaultText: true},
			&cli.StringFlag{Name: levelFlag, Value: verify.LevelRows.String(), Usage: "how deep: `LEVEL` is head (sizes and checksums as the store names them), content (every byte) or rows (every row)"},
			&cli.IntFlag{Name: requireRetentionFlag, Usage: "call it a fault when the object lock of an object ends in less than `DAYS`", DefaultText: "none"},
		}, thawFlags(), tempDirFlags(), jsonFlags(), recordFlags(), progressFlags(), logFlags()),
		CustomHelpTemplate: codes(exitArchive, exitNoBatch),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			v, err := p.verification(c)
			if err != nil {
				return err
			}
			return p.judge(ctx, c, v.printed, func(pr *report.Printer) error {
				store, err := p.openArchive(ctx, v.at)
				if err != nil {
					return err
				}
				defer store.close()
				return v.batches(ctx, store, func(list []chosen) error { return v.run(ctx, pr, store, list) })
			})
		}),
	}
}

// verification is one run of verify.
type verification struct {
	p    *program
	at   place
	opts verify.Options
	thaw thaw.Options
	// batches finds them and calls work with them.
	batches func(ctx context.Context, a archive, work func([]chosen) error) error
	printed report.PrinterOptions
}

// verification reads the command line of verify. Nothing is contacted.
func (p *program) verification(c *cli.Context) (v verification, err error) {
	v.p = p
	if v.opts, err = p.verifyOptions(c); err != nil {
		return v, err
	}
	v.printed.Facts = []report.Fact{{Label: "level", Value: v.opts.Level.String()}}
	var d discovery
	var sel selection
	if c.Bool(discoverFlag) {
		d, err = p.discovery(c)
	} else {
		sel, err = p.selection(c, receiptOptional)
		sel.audit = sel.all
	}
	if err != nil {
		return v, err
	}
	if v.at, err = needStore(c); err != nil {
		return v, err
	}
	v.at.retention = v.opts.RequireRetention > 0
	v.printed.Store, v.printed.Against = v.at.url, sel.against()
	v.batches = func(ctx context.Context, a archive, work func([]chosen) error) error {
		return p.withBatches(ctx, sel, a, work)
	}
	if c.Bool(discoverFlag) {
		v.printed.Facts, v.printed.Details = append(v.printed.Facts, d.facts()...), d.details()
		v.batches = func(ctx context.Context, a archive, work func([]chosen) error) error {
			list, err := d.find(ctx, p, a)
			if err != nil {
				return err
			}
			return work(list)
		}
	}
	if v.thaw, err = p.thawOptions(c, v.at); err != nil {
		return v, err
	}
	if v.opts.Level == verify.LevelHead && v.thaw.Tier != "" {
		return v, usagef("--%s %s reads no data: there is nothing to thaw", levelFlag, v.opts.Level)
	}
	return v, nil
}

func (v *verification) run(ctx context.Context, pr *report.Printer, store archive, list []chosen) error {
	// What is asked of a store at level head it knows of cold objects too.
	if v.opts.Level != verify.LevelHead {
		if err := v.p.thaw(ctx, store, list, v.thaw); err != nil {
			return err
		}
	}
	return v.p.eachBatch(ctx, pr, "verify", list, func(b chosen, task *progress.Task) error {
		opts := v.opts
		opts.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
		rep, err := verify.Batch(ctx, store, b.Target, opts)
		out := auditedBatch(&b, &rep, err)
		if locks := retentionText(&rep, v.opts.RequireRetention > 0); locks != "" {
			out.Facts = append(out.Facts, report.Fact{Label: "retention", Value: locks})
		}
		return pr.Batch(out)
	})
}

// retentionText says for people until when the objects of a batch are locked; ""
// when none is and always is false.
func retentionText(rep *verify.Report, always bool) string {
	const none = "not locked"
	var parts []string
	ends := map[string]bool{}
	for _, o := range rep.Objects {
		until := none
		if o.RetainUntil != nil {
			until = "locked until " + o.RetainUntil.UTC().Format(time.RFC3339)
		}
		ends[until] = true
		parts = append(parts, path.Base(o.Key)+" "+until)
	}
	switch {
	case len(ends) == 0, len(ends) == 1 && ends[none] && !always:
		return ""
	case len(ends) == 1:
		_, until, _ := strings.Cut(parts[0], " ")
		return report.Plural(int64(len(parts)), "object") + " " + until
	}
	return strings.Join(parts, ", ")
}

func tempDirFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: tempDirFlag, Usage: "`DIR` for temporary files; they hold rows and are removed", DefaultText: "$TMPDIR or /tmp"}}
}

func (p *program) verifyOptions(c *cli.Context) (verify.Options, error) {
	opts := verify.Options{Logger: p.log, TempDir: c.String(tempDirFlag), Now: p.now}
	var err error
	if opts.Level, err = verify.ParseLevel(c.String(levelFlag)); err != nil {
		return opts, usagef("--%s: %v", levelFlag, err)
	}
	days := c.Int(requireRetentionFlag)
	if c.IsSet(requireRetentionFlag) && (days < 1 || days > maxLockDays) {
		return opts, usagef("--%s is %d, want 1 to %d days", requireRetentionFlag, days, maxLockDays)
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
		b.Faults, b.Err = []report.Fault{{Check: checkReceipt, Detail: err.Error()}}, nil
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
