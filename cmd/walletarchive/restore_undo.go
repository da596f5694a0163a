package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

const (
	anyServerFlag     = "any-server"
	allowCascadesFlag = "allow-cascades"
)

// errNoEnd says that an undo did all it could, which may not be all.
var errNoEnd = errors.New("the receipt has no end: what it names was taken back, and whether it names all is not known; the command of a restore that was killed ends it when run again")

func restoreUndoCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "undo",
		Usage:     "take a restore back by its receipt",
		ArgsUsage: "RECEIPT",
		Description: "Removes exactly the rows that the restore inserted and that are still as it left them, and puts back those\n" +
			"that it overwrote. Rows that were changed since are left and listed. It may be run again at any time.",
		Flags: flags(dsnFlags(targetDSNFlag, "the target"), []cli.Flag{
			&cli.BoolFlag{Name: dryRunFlag, Usage: "say what would be done and change nothing", DisableDefaultText: true},
			&cli.BoolFlag{Name: anyServerFlag, Usage: "take a server that says it is another one, such as a replica that was promoted", DisableDefaultText: true},
			&cli.BoolFlag{Name: allowTriggersFlag, Usage: "undo although triggers of the table will run", DisableDefaultText: true},
			&cli.BoolFlag{Name: allowCascadesFlag, Usage: "undo although foreign keys will change rows of other tables", DisableDefaultText: true},
		}, yesFlags(), throttleFlags(), jsonFlags(), progressFlags(), logFlags()),
		CustomHelpTemplate: codes(exitTarget, exitLocked),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			o, err := p.undoOptions(c)
			if err != nil {
				return err
			}
			defer o.release()
			rep, err := p.runUndo(ctx, o)
			return p.printUndo(c, o.receipt, &rep, err)
		}),
	}
}

// undoOptions are what the command line of an undo asks for.
type undoOptions struct {
	restore.UndoOptions
	dsn     string
	receipt *restore.Receipt
	release func() // lets others write the receipt
	brake   throttleOptions
	yes     bool
}

// undoOptions reads the flags and the receipt, which nobody else writes until
// release is called. No server is contacted.
func (p *program) undoOptions(c *cli.Context) (o undoOptions, err error) {
	if c.NArg() != 1 {
		return o, usagef("which receipt? Give the file that the restore has named")
	}
	if o.dsn, err = p.needDSN(c, targetDSNFlag); err != nil {
		return o, err
	}
	o.UndoOptions = restore.UndoOptions{DryRun: c.Bool(dryRunFlag), AnyServer: c.Bool(anyServerFlag), Tool: tool(), Operator: operator(""), Logger: p.log}
	o.AllowTriggers, o.AllowCascades = c.Bool(allowTriggersFlag), c.Bool(allowCascadesFlag)
	if o.yes = c.Bool(yesFlag); !o.DryRun && !o.yes && !mayAsk() {
		return o, usagef("nobody can be asked here: give --%s or --%s", yesFlag, dryRunFlag)
	}
	if o.brake, err = p.throttleOptions(c); err != nil {
		return o, err
	}
	release, err := restore.HoldReceipt(c.Args().First())
	if errors.Is(err, restore.ErrJournalBusy) {
		return o, err
	}
	if err != nil {
		return o, usagef("%v", err)
	}
	o.release = func() { _ = release() } // no more than a lock is given up
	if o.receipt, err = restore.ReadReceipt(c.Args().First()); err != nil {
		o.release()
		return o, usagef("%v", err)
	}
	return o, nil
}

// runUndo looks at every row, asks, and then takes the restore back.
func (p *program) runUndo(ctx context.Context, o undoOptions) (rep restore.UndoReport, err error) {
	db, err := mysqldb.Open(ctx, o.dsn, mysqldb.Options{MaxConns: targetConns, Logger: p.log})
	if err != nil {
		return rep, fmt.Errorf("open the target: %w", err)
	}
	defer db.Close()
	look := o.UndoOptions
	look.DryRun = true
	if rep, err = p.undo(ctx, db, "look", o.receipt, look); err != nil || o.DryRun {
		return rep, err
	}
	if !o.yes {
		yes, err := p.confirm(ctx, fmt.Sprintf("Remove %s and put back %s in %s (%s left as they are)?",
			report.Plural(rep.Removed, "row"), report.Plural(rep.PutBack, "row"), rep.Target, report.Plural(rep.LeftCount, "row")))
		if err != nil {
			return rep, err
		}
		if !yes {
			return rep, errors.New("not confirmed: nothing was changed")
		}
	}
	brake, done, err := p.openThrottle(ctx, db, o.brake)
	if err != nil {
		return rep, err
	}
	defer done()
	o.RowsPerTransaction = o.brake.undoRows()
	o.Pause = func(ctx context.Context, rows int) error {
		return errors.Join(brake.Within(ctx, rows), brake.Before(ctx))
	}
	return p.undo(ctx, db, "undo", o.receipt, o.UndoOptions)
}

// undo runs an undo, or a look at it, under a progress task of that name.
func (p *program) undo(ctx context.Context, db *sql.DB, name string, r *restore.Receipt, opts restore.UndoOptions) (restore.UndoReport, error) {
	committed, unknown := r.Counts()
	task := p.progress.Task(name, progress.Counts{Rows: committed.Inserted + committed.Overwritten + unknown.Inserted + unknown.Overwritten})
	defer task.Done()
	opts.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
	return restore.Undo(ctx, db, r, opts)
}

// undoDocument is walletarchive.restore_undo/v1.
type undoDocument struct {
	Schema    string           `json:"schema"`
	Tool      manifest.Program `json:"tool"`
	Receipt   string           `json:"receipt"`
	StartedAt string           `json:"restore_started_at"`
	Operator  string           `json:"restore_operator"`
	restore.UndoReport
	NotReached int64  `json:"not_reached"`
	Complete   bool   `json:"complete"`
	DurationMS int64  `json:"duration_ms"`
	Error      string `json:"error,omitempty"`
}

// printUndo prints what an undo has done and returns what the run ends with.
func (p *program) printUndo(c *cli.Context, r *restore.Receipt, rep *restore.UndoReport, err error) error {
	if err == nil && !rep.ReceiptEnded && !rep.DryRun && rep.LeftCount == 0 {
		err = errNoEnd
	}
	if c.Bool(jsonFlag) {
		d := undoDocument{
			Schema: "walletarchive.restore_undo/v1", Tool: tool(), Receipt: r.Path, StartedAt: r.Header.StartedAt, Operator: r.Header.Operator,
			UndoReport: *rep, NotReached: rep.NotReached(), Complete: err == nil && rep.Complete(), DurationMS: rep.Duration.Milliseconds(),
		}
		if err != nil {
			d.Error = p.redact.clean(err.Error())
		}
		if perr := p.printJSON(d); perr != nil {
			return errors.Join(err, perr)
		}
	} else if rep.RunID != "" { // else nothing was looked at, and there is nothing to say
		p.printUndoText(r, rep)
	}
	if err != nil {
		return err
	}
	if rep.LeftCount > 0 {
		return &verdictError{outcome: report.TargetDiffers}
	}
	return nil
}

func (p *program) printUndoText(r *restore.Receipt, rep *restore.UndoReport) {
	line := func(label, format string, args ...any) {
		p.printf("%-10s %s\n", label, report.Printable(fmt.Sprintf(format, args...)))
	}
	by := r.Header.Operator
	if r.Header.Ticket != "" {
		by += ", ticket " + r.Header.Ticket
	}
	line("restore", "run %.8s of %s by %s", rep.RunID, r.Header.StartedAt, by)
	line("target", "%s", rep.Target)
	if rep.Unconfirmed > 0 {
		line("note", "%s never confirmed and looked up in the target", report.Plural(rep.Unconfirmed, "transaction"))
	}
	if !rep.ReceiptEnded {
		line("note", "this receipt has no end: its run was killed, or this is a copy that was cut off, and rows that it does not name stay")
	}
	for _, e := range rep.SideEffects {
		line("beside", "%s", strings.TrimSpace(e.Kind+" "+e.Name)+": "+e.Detail)
	}
	if len(rep.OtherColumns) > 0 {
		line("note", "rows put back keep what they have now in columns that the archive does not know: %s", strings.Join(rep.OtherColumns, ", "))
	}
	verb := ""
	if rep.DryRun {
		verb = "to be "
	}
	line("rows", "%s inserted or overwritten by it", report.Count(rep.Rows))
	line(verb+"removed", "%s", report.Count(rep.Removed))
	line(verb+"put back", "%s", report.Count(rep.PutBack))
	if rep.Respelled > 0 {
		line("respelled", "%s put back with the payload spelled otherwise", report.Count(rep.Respelled))
	}
	if rep.UndoneBefore > 0 {
		line("before", "%s taken back already, first by %s; what is there now is not of this restore and not looked at",
			report.Count(rep.UndoneBefore), undoOf(r.Undos))
	}
	if rep.Gone+rep.AlreadyBack > 0 {
		line("done", "%s gone or back already", report.Count(rep.Gone+rep.AlreadyBack))
	}
	line("left", "%s changed since, or refused by the target", report.Count(rep.LeftCount))
	if n := rep.NotReached(); n > 0 {
		line("not reached", "%s, because of the error", report.Count(n))
	}
	for _, l := range rep.Left {
		line("", "%s, event_id %q, %s by the restore: %s", l.AppCode, l.EventID, l.Outcome, l.Why)
	}
	if more := rep.LeftCount - int64(len(rep.Left)); more > 0 {
		line("", "and %s more", report.Count(more))
	}
	if !rep.DryRun {
		line("took", "%s", report.Duration(rep.Duration.Round(time.Millisecond)))
	}
}

// undoOf names the first of undos.
func undoOf(undos []restore.ReceiptUndo) string {
	if len(undos) == 0 {
		return "an earlier undo"
	}
	by := "the undo of " + undos[0].At
	if undos[0].Operator != "" {
		by += " by " + undos[0].Operator
	}
	return by
}
