package main

import (
	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

const expectRestoredFlag = "expect-restored"

// expectFlags turn a dry run into a proof.
func expectFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{
		Name: expectRestoredFlag, DisableDefaultText: true,
		Usage: "write nothing and prove that every chosen row is in the target as archived; one that is missing or differs ends with 6",
	}}
}

// expecting makes a dry run of opts where expectFlags ask for a proof, and reports
// whether they do.
func expecting(c *cli.Context, opts *restore.Options) (bool, error) {
	if !c.Bool(expectRestoredFlag) {
		return false, nil
	}
	for _, f := range []string{missingFlag, onConflictFlag} {
		if c.IsSet(f) {
			return false, usagef("--%s: nothing is restored, so leave --%s out", expectRestoredFlag, f)
		}
	}
	opts.DryRun, opts.CompareOnly = true, true
	return true, nil
}

// expectRestored makes a fault of the rows that a dry run has found to be missing.
// Those that differ are faults already.
func expectRestored(b report.Batch, rep restore.Report) report.Batch {
	switch {
	case b.Outcome != report.Passed && b.Outcome != report.TargetDiffers:
		return b // it was not looked at as a whole
	case rep.Missing > 0:
		b.Outcome = report.TargetDiffers
		b.Faults = append(b.Faults, report.Fault{
			Check: "rows_missing", Object: rep.Table, Got: report.Plural(rep.Missing, "row") + " missing", Want: report.Plural(rep.Selected, "row") + " as archived",
		})
	case b.Outcome == report.Passed && rep.Present != rep.Selected:
		b.Outcome = report.Unfinished
		b.Unchecked = append(b.Unchecked, report.Plural(rep.Selected-rep.Present, "row")+" neither found nor found to be missing")
	}
	return b
}
