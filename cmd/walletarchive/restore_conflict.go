package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

// Names of the flags that decide what a restore may do to the target.
const (
	onConflictFlag       = "on-conflict"
	confirmOverwriteFlag = "confirm-overwrite"
	saveOldFlag          = "save-old"
	relayQueryFlag       = "relay-query"
	allowTriggersFlag    = "allow-triggers"
)

// conflictFlags decide what becomes of rows that differ, and what the target may
// do to what is written.
func conflictFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: onConflictFlag, Value: restore.Fail.String(),
			Usage: "`WHAT` becomes of a row that the target holds otherwise: fail writes nothing of its batch, skip leaves it and the run " +
				"ends with 6, overwrite makes it as archived",
		},
		&cli.StringFlag{Name: relayQueryFlag, Value: restore.DefaultRelayQuery, Usage: "SQL `CONDITION` by which the relay picks rows to dispatch; it must select none of what is restored"},
		&cli.BoolFlag{Name: allowTriggersFlag, Usage: "restore although triggers of the table will run", DisableDefaultText: true},
	}
}

// overwriteFlags confirm what --on-conflict=overwrite is about to do.
func overwriteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Int64Flag{Name: confirmOverwriteFlag, Usage: "how many rows in all are to be overwritten: the `N` that a plan or a dry run has found", DefaultText: "none"},
		&cli.StringFlag{Name: saveOldFlag, Usage: "write the rows that are overwritten to a new `FILE`, a line each, before they are; the receipt holds them, too"},
	}
}

// conflictOptions reads conflictFlags into opts.
func conflictOptions(c *cli.Context, opts *restore.Options) error {
	how, err := restore.ParseOnConflict(c.String(onConflictFlag))
	if err != nil {
		return usagef("--%s %v", onConflictFlag, err)
	}
	if c.Bool(missingFlag) {
		if c.IsSet(onConflictFlag) && how != restore.Skip {
			return usagef("--%s leaves rows that are there, and --%s %s does not", missingFlag, onConflictFlag, how)
		}
		how = restore.Skip
	}
	opts.OnConflict, opts.AllowTriggers, opts.RelayQuery = how, c.Bool(allowTriggersFlag), c.String(relayQueryFlag)
	if err := restore.CheckRelayQuery(opts.RelayQuery); err != nil {
		return usagef("--%s: %v", relayQueryFlag, err)
	}
	return nil
}

// overwriting is what overwriteFlags ask for.
type overwriting struct {
	confirmed int64
	saveOld   string // "" when no file is asked for
}

// overwritingOf reads overwriteFlags. Nothing is written.
func overwritingOf(c *cli.Context, opts restore.Options) (o overwriting, err error) {
	o.confirmed, o.saveOld = c.Int64(confirmOverwriteFlag), c.String(saveOldFlag)
	switch over := opts.OnConflict == restore.Overwrite; {
	case !over && c.IsSet(confirmOverwriteFlag), !over && o.saveOld != "":
		return o, usagef("--%s and --%s are for --%s %s", confirmOverwriteFlag, saveOldFlag, onConflictFlag, restore.Overwrite)
	case over && !opts.DryRun && !c.IsSet(confirmOverwriteFlag):
		return o, usagef("--%s %s needs --%s N with the number that a plan or --%s has found", onConflictFlag, restore.Overwrite, confirmOverwriteFlag, dryRunFlag)
	case o.confirmed < 0:
		return o, usagef("--%s is negative", confirmOverwriteFlag)
	}
	return o, o.checkFile()
}

func (o *overwriting) checkFile() error {
	if o.saveOld == "" {
		return nil
	}
	if _, err := os.Lstat(o.saveOld); err == nil {
		return usagef("--%s: %s is there already, and no file is replaced: give another (after an interruption, too; the receipt holds all old rows)", saveOldFlag, o.saveOld)
	}
	return needDir(saveOldFlag, o.saveOld)
}

// needDir refuses a file whose directory is not there.
func needDir(flag, path string) error {
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return usagef("--%s: there is no directory %s", flag, filepath.Dir(path))
	}
	return nil
}

// surveyed is what a dry run has found of one batch.
type surveyed struct {
	verified
	found restore.Report
	err   error // an ErrConflict, or nil
}

// survey looks at every batch as a restore would, up to the first write. The
// error is why it could not be finished.
func (r *restoring) survey(ctx context.Context, db *sql.DB, whole []verified) ([]surveyed, error) {
	var total progress.Counts
	for _, v := range whole {
		total.Batches++
		total.Rows += v.rows.Manifest().RowCount
	}
	task := r.p.progress.Task("compare", total)
	defer task.Done()
	opts := r.opts
	opts.DryRun, opts.Hooks, opts.ConfirmOverwrite = true, nil, 0
	opts.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
	all := make([]surveyed, 0, len(whole))
	for i, v := range whole {
		if r.plan != nil {
			opts.Expect, opts.Rehearsed = r.plan.Batches[i].States, r.plan.rehearsed(i)
		}
		rep, err := restore.Batch(ctx, v.rows, db, opts)
		if err != nil && !errors.Is(err, restore.ErrConflict) {
			return all, err
		}
		all = append(all, surveyed{verified: v, found: rep, err: err})
		task.Add(progress.Counts{Batches: 1})
	}
	return all, nil
}

// confirm compares the number of rows that would be overwritten with the number
// that was confirmed, and returns that of each batch. An earlier run of the same
// receipt has overwritten done rows: who goes on where it was stopped has confirmed
// them, too, and who has counted anew since has not. Without an error nothing stands in the way of any
// batch; with one, every batch has been printed.
func (r *restoring) confirm(ctx context.Context, db *sql.DB, whole []verified, done int64) ([]int64, error) {
	all, err := r.survey(ctx, db, whole)
	if err != nil {
		return nil, errors.Join(err, r.leave(whole, "nothing was written: the target could not be compared"))
	}
	found, refused := int64(0), false
	counts := make([]int64, len(all))
	for i, s := range all {
		counts[i] = s.found.ConflictCount
		found += counts[i]
		refused = refused || s.err != nil
	}
	confirmed := found == r.over.confirmed || found+done == r.over.confirmed
	if refused || !confirmed {
		number := &restore.OverwriteError{Table: r.opts.Table, Found: found, Confirmed: r.over.confirmed, Before: done}
		for _, s := range all {
			b := restoredBatch(s.verified, s.found, s.err)
			b.Notes = append(b.Notes, "nothing was written")
			if s.err == nil {
				b.Outcome = report.TargetDiffers
				if !confirmed {
					b.Faults = append(b.Faults, report.Fault{Check: "confirm_overwrite", Object: r.opts.Table, Detail: number.Error()})
				} else {
					b.Outcome = report.Unfinished
				}
			}
			if err := r.pr.Batch(b); err != nil {
				return nil, err
			}
		}
		return nil, errPrinted
	}
	return counts, nil
}

// errPrinted says that every batch was printed and there is no more to do.
var errPrinted = errors.New("the verdict is printed")
