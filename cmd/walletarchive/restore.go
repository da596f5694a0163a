package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/thaw"
	"github.com/hyapp/walletarchive/restore"
	"github.com/hyapp/walletarchive/verify"
)

const (
	targetTableFlag   = "target-table"
	dryRunFlag        = "dry-run"
	strictPayloadFlag = "strict-payload"
)

func restoreCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "restore",
		Usage:     "put batches back into a MySQL table and prove that every row is there",
		ArgsUsage: "[BATCH_ID ...]",
		Description: "Every batch is verified before the target is touched. Then each batch is one transaction: rows that\n" +
			"are there and identical are left, one that differs is a conflict and nothing of its batch is written.",
		Flags: flags(storeFlags(), selectionFlags(), dsnFlags(targetDSNFlag, "the target"), targetTableFlags(), []cli.Flag{
			&cli.BoolFlag{Name: dryRunFlag, Usage: "say what would be done and write nothing", DisableDefaultText: true},
		}, expectFlags(), rowFlags(), conflictFlags(), overwriteFlags(), toFlags(), journalFlags(), throttleFlags(), strictPayloadFlags(), thawFlags(), tempDirFlags(), jsonFlags(), recordFlags(), progressFlags(), logFlags()),
		Subcommands:        []*cli.Command{restorePlanCommand(p), restoreRunCommand(p), restoreUndoCommand(p)},
		CustomHelpTemplate: codes(exitArchive, exitNoBatch, exitTarget, exitLocked),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			wish, err := p.restoreWish(c)
			if err != nil {
				return err
			}
			if c.IsSet(toFlag) {
				return p.restoreToFile(ctx, c, wish)
			}
			dsn, err := p.needDSN(c, targetDSNFlag)
			if err != nil {
				return err
			}
			journal, err := p.journalOptions(c)
			if err != nil {
				return err
			}
			brake, err := p.throttleOptions(c)
			if err != nil {
				return err
			}
			opts, err := p.restoreOptions(c)
			if err != nil {
				return err
			}
			expect, err := expecting(c, &opts)
			if err != nil {
				return err
			}
			over, err := overwritingOf(c, opts)
			if err != nil {
				return err
			}
			r := &restoring{p: p, opts: opts, over: over, dsn: dsn, journal: journal, brake: brake, expect: expect}
			return p.judge(ctx, c, wish.printed(restoreFacts(opts, &wish.rows)), func(pr *report.Printer) error {
				return r.carryOut(ctx, pr, wish)
			})
		}),
	}
}

// restoreWish is what a restore is to take out of the archive.
type restoreWish struct {
	selection
	at    place
	thaws thaw.Options
	rows  rowChoice
}

// restoreWish reads the flags that choose. Nothing is contacted.
func (p *program) restoreWish(c *cli.Context) (w restoreWish, err error) {
	if w.selection, err = p.selection(c, receiptOrEvents); err != nil {
		return w, err
	}
	if w.at, err = needStore(c); err != nil {
		return w, err
	}
	if w.thaws, err = p.thawOptions(c, w.at); err != nil {
		return w, err
	}
	w.rows, err = p.rowChoice(c, w.selection)
	return w, err
}

// printed returns how the result is printed, with further facts.
func (w *restoreWish) printed(facts []report.Fact) report.PrinterOptions {
	return report.PrinterOptions{AppCode: w.app, Store: w.at.url, Against: w.against(), Facts: facts}
}

// carryOut opens the archive, finds the batches and runs r on them.
func (r *restoring) carryOut(ctx context.Context, pr *report.Printer, w restoreWish) error {
	store, err := r.p.openArchive(ctx, w.at)
	if err != nil {
		return err
	}
	defer store.close()
	r.pr, r.store, r.thaw, r.rows = pr, store, w.thaws, &w.rows
	return r.p.withRows(ctx, w.selection, &w.rows, store, func(list []chosen) error { return r.run(ctx, list) })
}

// strictPayloadFlags are for commands that hold rows of a server against the
// archive.
func strictPayloadFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{
		Name: strictPayloadFlag, Usage: "call a payload different that the server spells otherwise, although its value is the same", DisableDefaultText: true,
	}}
}

// targetConns is enough for the transaction of a batch, what is read back beside
// it, and a query.
const targetConns = 4

func (p *program) restoreOptions(c *cli.Context) (restore.Options, error) {
	opts := restore.Options{
		Table: c.String(targetTableFlag), DryRun: c.Bool(dryRunFlag), StrictPayload: c.Bool(strictPayloadFlag),
		TempDir: c.String(tempDirFlag), Logger: p.log,
	}
	if err := checkTableName(targetTableFlag, opts.Table); err != nil {
		return opts, err
	}
	return opts, conflictOptions(c, &opts)
}

func restoreFacts(opts restore.Options, rows *rowChoice) []report.Fact {
	facts := []report.Fact{{Label: "table", Value: opts.Table}}
	if !rows.all() {
		facts = append(facts, report.Fact{Label: "rows", Value: "only those chosen: " + strings.Join(rows.facts(), ", ")})
	}
	if opts.OnConflict != restore.Fail {
		facts = append(facts, report.Fact{Label: "conflicts", Value: opts.OnConflict.String()})
	}
	if opts.DryRun {
		facts = append(facts, report.Fact{Label: "dry run", Value: "nothing is written"})
	}
	return facts
}

// restoring is one run of restore.
type restoring struct {
	p       *program
	pr      *report.Printer
	store   archive
	opts    restore.Options
	rows    *rowChoice
	over    overwriting
	thaw    thaw.Options
	dsn     string
	journal journalOptions
	brake   throttleOptions
	expect  bool // every row is there already; see expectRestored
	// plan is what is to be done and nothing else; nil where the flags say it.
	plan *restorePlan
	yes  bool // nobody is asked about the plan
	// into takes the batches when all are whole; nil puts them into the target.
	into func(ctx context.Context, whole []verified) error
}

// verified is a batch whose rows may be restored.
type verified struct {
	chosen
	rows   *verify.Verified
	report verify.Report
	// collected are the rows, sorted; nil where they are to be read again.
	collected *restore.Collector
}

// close removes the local copies of the batch.
func (v verified) close() error {
	err := v.rows.Close()
	if v.collected != nil {
		err = errors.Join(err, v.collected.Close())
	}
	return err
}

// run verifies every batch and then, when all are whole, restores each.
func (r *restoring) run(ctx context.Context, list []chosen) error {
	if ok, err := r.readable(ctx, list); !ok {
		return err
	}
	whole, err := r.verify(ctx, list)
	defer func() {
		for _, v := range whole {
			if err := v.close(); err != nil {
				r.p.log.Warn("close the spooled batch", "batch_id", v.Location.BatchID, "error", err)
			}
		}
	}()
	if err != nil {
		return err
	}
	if len(whole) < len(list) {
		return r.leave(whole, "not restored, since not every batch that was asked for is whole")
	}
	if len(whole) == 0 {
		return nil
	}
	if !r.rows.all() {
		if _, err := countRows(ctx, whole, r.rows); errors.Is(err, errNoRows) {
			return r.none(whole, err)
		} else if err != nil {
			return errors.Join(err, r.leave(whole, "not restored: its rows could not be looked through"))
		}
		r.opts.Select = r.rows.filter().keep
	}
	if r.into != nil {
		return r.into(ctx, whole)
	}
	db, err := mysqldb.Open(ctx, r.dsn, mysqldb.Options{MaxConns: targetConns, Logger: r.p.log})
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	defer db.Close()
	return r.load(ctx, db, whole)
}

// load restores each batch, and keeps the receipt of it.
func (r *restoring) load(ctx context.Context, db *sql.DB, whole []verified) (err error) {
	brake, done, err := r.p.openThrottle(ctx, db, r.brake)
	if err != nil {
		return errors.Join(err, r.leave(whole, "not tried, since nobody could tell when to wait"))
	}
	defer done()
	opts := r.brake.throttled(brake, r.opts)
	id := planID(whole, r.rows.text(), opts)
	var overwrite []int64 // of each batch
	if r.plan != nil {
		id = r.plan.id.String()
		if overwrite, err = r.hold(ctx, db, whole); errors.Is(err, errPrinted) {
			return nil
		} else if err != nil {
			return err
		}
		opts.Rehearsed = true
	}
	var journal *restore.Journal // nil in a dry run
	complete := false
	if !opts.DryRun {
		journal, err = r.p.openJournal(ctx, db, r.journal, id, opts.Table)
		if errors.Is(err, restore.ErrOtherRun) {
			return r.refuse(whole, "journal", err)
		}
		if err != nil {
			return errors.Join(err, r.leave(whole, "not tried without a receipt of it"))
		}
		defer func() { err = errors.Join(err, journal.Close(complete)) }()
	}
	if opts.OnConflict == restore.Overwrite && !opts.DryRun {
		if r.plan == nil {
			before, _ := journal.Resumed()
			if overwrite, err = r.confirm(ctx, db, whole, before.Overwritten); errors.Is(err, errPrinted) {
				return nil
			} else if err != nil {
				return err
			}
			opts.Rehearsed = true
		}
		if r.over.saveOld != "" {
			old, cerr := restore.CreateOldRows(r.over.saveOld)
			if cerr != nil {
				return errors.Join(cerr, r.leave(whole, "not tried without a file of the old rows"))
			}
			defer func() { err = errors.Join(err, old.Close()) }()
			opts.Hooks = append(opts.Hooks, old.Hooks())
		}
	}
	var total progress.Counts
	for _, v := range whole {
		m := v.rows.Manifest()
		total.Batches++
		total.Rows += m.RowCount
		total.Bytes += m.UncompressedBytes
	}
	task := r.p.progress.Task("restore", total)
	defer task.Done()
	hooks, restored := opts.Hooks, 0
	for i, v := range whole {
		if ctx.Err() != nil {
			r.p.howToGoOn(journal)
			return errors.Join(ctx.Err(), r.leave(whole[i:], "not tried after the interruption"))
		}
		if journal != nil {
			opts.Hooks = append(hooks[:len(hooks):len(hooks)], journal.Hooks(v.rows.Manifest().AppCode, v.rows.Manifest().BatchID))
		}
		if overwrite != nil {
			opts.ConfirmOverwrite = overwrite[i]
		}
		if r.plan != nil {
			opts.Expect = r.plan.Batches[i].States
		}
		pace := newPace(task, v.rows.Manifest())
		opts.Progress = pace.rows
		rep, err := r.batch(ctx, db, v, opts)
		if journal != nil && err != nil {
			err = errors.Join(err, journal.Settle(rep.State))
		}
		b := restoredBatch(v, rep, err)
		if r.expect {
			b = expectRestored(b, rep)
		}
		if perr := r.pr.Batch(receipted(b, journal)); perr != nil {
			return perr
		}
		// A conflict is of one batch. What else goes wrong is of the server, of
		// this machine or the operator's wish, and the next batch would meet it. And
		// a plan holds as a whole.
		if err != nil && (r.plan != nil || !errors.Is(err, restore.ErrConflict)) {
			r.p.howToGoOn(journal)
			return errors.Join(ctx.Err(), r.leave(whole[i+1:], "not tried after the batch before"))
		}
		if err == nil && rep.Complete() {
			restored++
		}
		pace.end()
	}
	complete = restored == len(whole)
	return nil
}

// batch restores one batch, to its end even when ctx ends meanwhile.
func (r *restoring) batch(ctx context.Context, db *sql.DB, v verified, opts restore.Options) (restore.Report, error) {
	work, cancel := r.p.lenient(ctx)
	defer cancel()
	return restore.Batch(work, v.rows, db, opts)
}

// none prints batches none of whose rows fits what was asked for.
func (r *restoring) none(whole []verified, why error) error {
	for _, v := range whole {
		b := verifiedBatch(&v.report, nil)
		b.Outcome, b.Err = report.NoBatch, why
		if err := r.pr.Batch(b); err != nil {
			return err
		}
	}
	return nil
}

// refuse prints batches of which none was tried, since something stands in the
// way of all of them.
func (r *restoring) refuse(whole []verified, check string, why error) error {
	for _, v := range whole {
		b := verifiedBatch(&v.report, nil)
		b.Outcome = report.TargetDiffers
		b.Faults = append(b.Faults, report.Fault{Check: check, Detail: why.Error()})
		if err := r.pr.Batch(b); err != nil {
			return err
		}
	}
	return nil
}

// readable reports whether every batch can be read now. When one is in cold
// storage all are printed, and none is read: nothing could be restored.
func (r *restoring) readable(ctx context.Context, list []chosen) (bool, error) {
	if err := r.p.thaw(ctx, r.store, list, r.thaw); err != nil {
		return false, err
	}
	if !anyCold(list) {
		return true, nil
	}
	return false, r.p.eachBatch(ctx, r.pr, "verify", list, func(b chosen, _ *progress.Task) error {
		return r.pr.Batch(report.Batch{
			AppCode: b.Location.AppCode, BatchID: b.Location.BatchID, Outcome: report.Unfinished,
			Notes: []string{"not read, since not every batch that was asked for can be read now"},
		})
	})
}

// verify returns the batches that are whole, their rows at hand, and prints the
// others.
func (r *restoring) verify(ctx context.Context, list []chosen) (whole []verified, err error) {
	err = r.p.eachBatch(ctx, r.pr, "verify", list, func(b chosen, task *progress.Task) error {
		opts := verify.Options{TempDir: r.opts.TempDir, Logger: r.p.log}
		opts.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
		var collected *restore.Collector
		if len(list) == 1 && r.into == nil && r.rows.all() {
			// The sorted rows of one batch have room, and those of many have not.
			collected = restore.NewCollector(r.opts, b.Receipt)
			opts.Collect = collected
		}
		rows, rep, err := verify.Open(ctx, r.store, b.Target, opts)
		if rows == nil {
			if collected != nil {
				err = errors.Join(err, collected.Close())
			}
			rep.AppCode, rep.BatchID = b.Location.AppCode, b.Location.BatchID // also when there is no report
			return r.pr.Batch(verifiedBatch(&rep, err))
		}
		whole = append(whole, verified{chosen: b, rows: rows, report: rep, collected: collected})
		return nil
	})
	return whole, err
}

// leave prints batches that were verified and not restored.
func (r *restoring) leave(whole []verified, why string) error {
	for _, v := range whole {
		b := verifiedBatch(&v.report, nil)
		b.Outcome = report.Unfinished
		b.Notes = append(b.Notes, why)
		if err := r.pr.Batch(b); err != nil {
			return err
		}
	}
	return nil
}
