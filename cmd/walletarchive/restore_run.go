package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

const planFlag = "plan"

func restoreRunCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "do exactly what a plan says",
		Description: "Verifies the batches of the plan again, refuses when the target, its rows or the archive have changed since it was\n" +
			"made, asks, and restores. After an interruption the same command goes on.",
		Flags: flags([]cli.Flag{
			&cli.StringFlag{Name: planFlag, Usage: "`FILE` of restore plan --" + outFlag},
		}, yesFlags(), storeFlags(), dsnFlags(ledgerDSNFlag, "the ledger"), receiptFlags(), dsnFlags(targetDSNFlag, "the target"),
			overwriteFlags(), journalFlags(), throttleFlags(), thawFlags(), tempDirFlags(), jsonFlags(), recordFlags(), progressFlags(), logFlags()),
		CustomHelpTemplate: codes(exitArchive, exitNoBatch, exitTarget, exitLocked),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			r, w, err := p.planned(c)
			if err != nil {
				return err
			}
			facts := append([]report.Fact{{Label: "plan", Value: fmt.Sprintf("%s, made %s by %s", c.String(planFlag), r.plan.CreatedAt, r.plan.Operator)}},
				restoreFacts(r.opts, &w.rows)...)
			printed := w.printed(facts)
			printed.Command = "restore" // it is one
			return p.judge(ctx, c, printed, func(pr *report.Printer) error { return r.carryOut(ctx, pr, w) })
		}),
	}
}

// planned reads the command line and the plan that it names. Nothing is
// contacted.
func (p *program) planned(c *cli.Context) (r *restoring, w restoreWish, err error) {
	fail := func(err error) (*restoring, restoreWish, error) { return nil, w, err }
	path := c.String(planFlag)
	if path == "" {
		return fail(usagef("--%s is missing", planFlag))
	}
	plan, err := readPlan(path)
	switch {
	case err != nil:
		return fail(usagef("--%s: %v", planFlag, err))
	case !plan.Runnable:
		return fail(usagef("--%s: %s says that it cannot be run: %s", planFlag, path, strings.Join(plan.Why, "; ")))
	}
	r = &restoring{p: p, plan: plan, yes: c.Bool(yesFlag)}
	if !r.yes && !mayAsk() {
		return fail(usagef("nobody can be asked here: give --%s", yesFlag))
	}
	if w.selection, err = p.planSelection(c, plan); err != nil {
		return fail(err)
	}
	w.rows = plan.Options.Rows
	if w.at, err = needStore(c); err != nil {
		return fail(err)
	}
	if w.at.url != plan.Store {
		return fail(usagef("--%s: the plan is about %s, not %s: make another plan", storeFlag, plan.Store, w.at.url))
	}
	if w.thaws, err = p.thawOptions(c, w.at); err != nil {
		return fail(err)
	}
	if r.dsn, err = p.needDSN(c, targetDSNFlag); err != nil {
		return fail(err)
	}
	if r.opts, err = plan.restoreOptions(); err != nil {
		return fail(usagef("--%s: %v", planFlag, err))
	}
	r.opts.TempDir, r.opts.Logger = c.String(tempDirFlag), p.log
	if r.over, err = plannedOverwriting(c, plan); err != nil {
		return fail(err)
	}
	if r.journal, err = p.journalOptions(c); err != nil {
		return fail(err)
	}
	if r.journal.table == plan.Target.Table {
		return fail(usagef("--%s names the table that is restored into", journalTableFlag))
	}
	r.brake, err = p.throttleOptions(c)
	return r, w, err
}

// planSelection returns the batches of the plan, and who vouches for them now.
func (p *program) planSelection(c *cli.Context, plan *restorePlan) (s selection, err error) {
	if s, err = p.vouching(c); err != nil {
		return s, err
	}
	for i := range plan.Batches {
		s.ids = append(s.ids, plan.Batches[i].BatchID)
	}
	s.app = plan.Batches[0].AppCode
	for _, b := range plan.Batches {
		if b.AppCode == s.app {
			continue
		}
		if s.ledgerDSN != "" {
			return s, usagef("the plan has batches of several apps: give --%s", receiptFlag)
		}
		s.app = "" // of any
		break
	}
	s.expect = plan.expectBatches
	return s, s.check(receiptNeeded)
}

// plannedOverwriting reads overwriteFlags: the number of rows is in the plan, and
// the operator says it, too.
func plannedOverwriting(c *cli.Context, plan *restorePlan) (o overwriting, err error) {
	o.confirmed, o.saveOld = c.Int64(confirmOverwriteFlag), c.String(saveOldFlag)
	over := plan.Options.OnConflict == restore.Overwrite.String()
	switch n := plan.Totals.Found.Overwrite; {
	case !over && (c.IsSet(confirmOverwriteFlag) || o.saveOld != ""):
		return o, usagef("the plan overwrites nothing: leave --%s and --%s out", confirmOverwriteFlag, saveOldFlag)
	case n > 0 && !c.IsSet(confirmOverwriteFlag):
		return o, usagef("the plan overwrites %s: confirm with --%s %d", report.Plural(n, "row"), confirmOverwriteFlag, n)
	case c.IsSet(confirmOverwriteFlag) && o.confirmed != n:
		return o, usagef("--%s is %d, and the plan overwrites %s", confirmOverwriteFlag, o.confirmed, report.Plural(n, "row"))
	}
	return o, o.checkFile()
}

// errArchiveChanged says that a batch is another one than when the plan was made.
var errArchiveChanged = errors.New("the archive has changed since the plan was made")

// expectBatches holds receipts, in the order of the plan's batches, against it:
// one that is another gets an errArchiveChanged.
func (p *restorePlan) expectBatches(list []chosen) []chosen {
	found := map[[2]string]*chosen{}
	for i := range list {
		l := list[i].Location
		found[[2]string{l.AppCode, string(l.BatchID)}] = &list[i]
	}
	ordered := make([]chosen, 0, len(p.Batches))
	for i := range p.Batches {
		b := &p.Batches[i]
		got := found[b.key()]
		switch {
		case got == nil:
			ordered = append(ordered, notFound(b.AppCode, b.BatchID))
			continue
		case got.err != nil:
		case got.Receipt.ManifestSHA256 != b.ManifestSHA256:
			got.err = fmt.Errorf("%w: the receipt of batch %s names manifest %s, it was %s", errArchiveChanged, b.BatchID.Short(), got.Receipt.ManifestSHA256, b.ManifestSHA256)
		case got.Receipt.VerifiedAtMS != b.ReceiptVerifiedAtMS:
			got.err = fmt.Errorf("%w: batch %s has a receipt of another verification", errArchiveChanged, b.BatchID.Short())
		}
		ordered = append(ordered, *got)
	}
	return ordered
}

// hold compares the target with the plan, row by row, rehearses what is left to be
// written, and asks. It returns how many rows of each batch are left to be
// overwritten, nil where the plan overwrites none. With an error every batch has
// been printed; nothing was written.
func (r *restoring) hold(ctx context.Context, db *sql.DB, whole []verified) ([]int64, error) {
	fail := func(err error, why string) ([]int64, error) {
		return nil, errors.Join(err, r.leave(whole, why))
	}
	const notCompared = "nothing was written: the target could not be compared with the plan"
	var changed *targetChangedError
	if err := r.sameTarget(ctx, db); errors.As(err, &changed) {
		return nil, errors.Join(r.refuse(whole, "plan", changed), errPrinted)
	} else if err != nil {
		return fail(err, notCompared)
	}
	all, err := r.survey(ctx, db, whole)
	if err != nil {
		return fail(err, notCompared)
	}
	left, refused := planFound{}, false
	counts := make([]int64, len(all))
	for i, s := range all {
		refused = refused || s.err != nil
		left.Insert += s.found.Missing
		if r.opts.OnConflict == restore.Overwrite {
			counts[i] = s.found.ConflictCount
			left.Overwrite += counts[i]
		}
	}
	if refused {
		return nil, errors.Join(r.refuseSurveyed(all), errPrinted)
	}
	if err := r.approve(ctx, left); err != nil {
		return fail(err, "nothing was written: it was not confirmed")
	}
	// Somebody may have thought for long. The rows are looked at in each transaction.
	if err := r.sameTarget(ctx, db); errors.As(err, &changed) {
		return nil, errors.Join(r.refuse(whole, "plan", changed), errPrinted)
	} else if err != nil {
		return fail(err, notCompared)
	}
	if r.opts.OnConflict != restore.Overwrite {
		counts = nil
	}
	return counts, nil
}

// targetChangedError says what of the target is not as in the plan.
type targetChangedError struct{ changes []string }

func (e *targetChangedError) Error() string {
	return "the target has changed since the plan was made: " + strings.Join(e.changes, "; ")
}

// sameTarget returns a *targetChangedError unless the target, but for its rows, is
// as in the plan, or why it could not be asked.
func (r *restoring) sameTarget(ctx context.Context, db *sql.DB) error {
	now, err := restore.DescribeTarget(ctx, db, r.opts.Table)
	if err != nil {
		return err
	}
	if changes := r.plan.Target.Changes(now); len(changes) > 0 {
		return &targetChangedError{changes}
	}
	return nil
}

// refuseSurveyed prints batches of which one may not be restored as planned.
func (r *restoring) refuseSurveyed(all []surveyed) error {
	for _, s := range all {
		b := restoredBatch(s.verified, s.found, s.err)
		b.Notes = append(b.Notes, "nothing was written")
		if s.err == nil {
			b.Outcome = report.Unfinished
		}
		if err := r.pr.Batch(b); err != nil {
			return err
		}
	}
	return nil
}

// approve shows the plan on the terminal and asks. left is what there is to do.
func (r *restoring) approve(ctx context.Context, left planFound) error {
	if r.yes {
		return nil
	}
	out := r.p.redact.writer(r.p.stderr)
	fmt.Fprintf(out, "The plan, made %s by %s:\n", r.plan.CreatedAt, r.plan.Operator)
	for i := range r.plan.Batches {
		b := &r.plan.Batches[i]
		fmt.Fprintf(out, "  batch %s of %s: %s; insert %s, overwrite %s, leave %s\n", b.BatchID.Short(), b.AppCode,
			report.Plural(b.Found.Selected, "row"), report.Count(b.Found.Insert), report.Count(b.Found.Overwrite), report.Count(b.Found.Skip))
		for _, problem := range b.Problems {
			fmt.Fprintf(out, "    %s\n", problem)
		}
	}
	for _, f := range r.plan.facts() {
		fmt.Fprintf(out, "  %s: %s\n", f.Label, f.Value)
	}
	yes, err := r.p.confirm(ctx, fmt.Sprintf("Insert %s and overwrite %s now, in %s?",
		report.Plural(left.Insert, "row"), report.Plural(left.Overwrite, "row"), r.plan.Target))
	if err == nil && !yes {
		err = errors.New("not confirmed: nothing was written")
	}
	return err
}

// planFaults are the rows that have changed since the plan was made, and how many
// more there are; nil when err is no *restore.ChangedError.
func planFaults(err error, table string) (all []report.Fault, more int64) {
	var changed *restore.ChangedError
	if !errors.As(err, &changed) {
		return nil, 0
	}
	for _, c := range changed.First {
		all = append(all, report.Fault{Check: "plan", Object: table, Line: c.Line, Row: c.EventID, Got: c.Found, Want: c.Planned})
	}
	return all, changed.Count - int64(len(changed.First))
}
