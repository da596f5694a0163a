package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

// checkTableName refuses what no server of the family takes for the name of a table.
func checkTableName(flag, name string) error {
	switch {
	case !utf8.ValidString(name), strings.IndexFunc(name, func(r rune) bool { return r == 0 || r > 0xffff }) >= 0:
		return usagef("--%s %q: no table has such a name", flag, name)
	case utf8.RuneCountInString(name) > 64:
		return usagef("--%s: a table has a name of at most 64 characters, and %q has %d", flag, name, utf8.RuneCountInString(name))
	case strings.HasSuffix(name, " "):
		return usagef("--%s %q: no table has a name that ends with a space", flag, name)
	}
	return nil
}

// targetTableFlags name the table.
func targetTableFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: targetTableFlag, Value: outbox.DefaultTable, Usage: "`TABLE` to restore into, in the database of the DSN"}}
}

func restorePlanCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "say what a restore would do, and keep it for restore run",
		ArgsUsage: "[BATCH_ID ...]",
		Description: "Verifies every batch, compares it with the target and rehearses what is to be written, all as a restore does,\n" +
			"and stops before the first write.",
		Flags: flags(storeFlags(), selectionFlags(), dsnFlags(targetDSNFlag, "the target"), targetTableFlags(), []cli.Flag{
			&cli.StringFlag{Name: outFlag, Usage: "write the plan to a new `FILE`, for restore run --" + planFlag},
			&cli.StringFlag{Name: operatorFlag, Usage: "`WHO` plans, for the plan; or $" + operatorEnv, DefaultText: "the user of this machine"},
		}, rowFlags(), conflictFlags(), strictPayloadFlags(), thawFlags(), tempDirFlags(), jsonFlags(), recordFlags(), progressFlags(), logFlags()),
		CustomHelpTemplate: codes(exitArchive, exitNoBatch, exitTarget),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			wish, err := p.restoreWish(c)
			if err != nil {
				return err
			}
			r := &restoring{p: p}
			if r.dsn, err = p.needDSN(c, targetDSNFlag); err != nil {
				return err
			}
			if r.opts, err = p.restoreOptions(c); err != nil {
				return err
			}
			r.opts.DryRun = true
			out := c.String(outFlag)
			if err := needNewFile(outFlag, out); err != nil {
				return err
			}
			made := &planFile{}
			printed := wish.printed(restoreFacts(r.opts, &wish.rows))
			printed.Command, printed.Details = "restore_plan", planDetails{made}
			r.into = func(ctx context.Context, whole []verified) error {
				return r.makePlan(ctx, whole, planning{
					out: out, file: made, store: wish.at.url, against: wish.against(), operator: operatorOf(c),
				})
			}
			return p.judge(ctx, c, printed, func(pr *report.Printer) error { return r.carryOut(ctx, pr, wish) })
		}),
	}
}

// operatorOf returns who works, as the flag, the environment or the machine say.
func operatorOf(c *cli.Context) string {
	if name := cmp.Or(c.String(operatorFlag), os.Getenv(operatorEnv)); name != "" {
		return name
	}
	return localOperator()
}

// needNewFile refuses a file that is there, or that could not be made; "" is
// none.
func needNewFile(flag, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return usagef("--%s: %s is there already, and no file is replaced", flag, path)
	}
	return needDir(flag, path)
}

// planDetails are the details of the document of restore plan: the plan, null
// when there is none.
type planDetails struct{ file *planFile }

// MarshalJSON returns the bytes that a file of the plan holds.
func (d planDetails) MarshalJSON() ([]byte, error) {
	if d.file.Plan == nil {
		return []byte("null"), nil
	}
	return d.file.text()
}

// planning is what a plan says beside what is found.
type planning struct {
	out                      string    // "" keeps no file
	file                     *planFile // takes the plan
	store, against, operator string
}

// makePlan looks at the target as a restore does, up to the first write.
func (r *restoring) makePlan(ctx context.Context, whole []verified, with planning) error {
	db, err := mysqldb.Open(ctx, r.dsn, mysqldb.Options{MaxConns: targetConns, Logger: r.p.log})
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	defer db.Close()
	fail := func(err error) error {
		return errors.Join(err, r.leave(whole, "no plan was made: the target could not be compared"))
	}
	// Before the rows: a later change of either is seen by the run.
	target, err := restore.DescribeTarget(ctx, db, r.opts.Table)
	if err != nil {
		return fail(err)
	}
	all, err := r.survey(ctx, db, whole)
	if err != nil {
		return fail(err)
	}
	plan := planOf(all, r.opts, r.rows)
	plan.CreatedAt = r.p.now().UTC().Format(time.RFC3339Nano)
	plan.Store, plan.Against, plan.Operator, plan.Target = with.store, with.against, with.operator, target
	if *with.file, err = plan.encode(); err != nil {
		return fail(err)
	}
	var written error
	if with.out != "" {
		written = with.file.write(with.out)
	}
	for i, s := range all {
		b := restoredBatch(s.verified, s.found, s.err)
		b.Facts = append(b.Facts, plan.Batches[i].facts()...)
		if i == len(all)-1 {
			b.Facts = append(b.Facts, plan.facts()...)
			if with.out != "" && written == nil {
				b.Facts = append(b.Facts, report.Fact{Label: "plan file", Value: fmt.Sprintf("%s, SHA-256 %s", with.out, plan.id)})
			}
		}
		if err := r.pr.Batch(b); err != nil {
			return errors.Join(written, err)
		}
	}
	return written
}

// facts tell people of one batch of a plan what its report does not.
func (b *planBatch) facts() []report.Fact {
	all := []report.Fact{{Label: "archive", Value: fmt.Sprintf("%s, %s packed, %s",
		report.Bytes(b.Bytes), report.Bytes(b.CompressedBytes), report.Plural(b.ColdObjects, "cold object"))}}
	var columns []string
	for _, name := range slices.Sorted(maps.Keys(b.DifferentColumns)) {
		columns = append(columns, fmt.Sprintf("%s in %s", name, report.Plural(b.DifferentColumns[name], "row")))
	}
	if len(columns) > 0 {
		all = append(all, report.Fact{Label: "different", Value: strings.Join(columns, ", ")})
	}
	return all
}

// facts tell people what the plan comes to.
func (p *restorePlan) facts() []report.Fact {
	all := []report.Fact{{Label: "target", Value: p.Target.String()}}
	if f := p.Totals.Found; f != nil {
		text := fmt.Sprintf("insert %s", report.Plural(f.Insert, "row"))
		if f.Overwrite > 0 {
			text += fmt.Sprintf(", overwrite %s", report.Plural(f.Overwrite, "row"))
		}
		if f.Skip > 0 {
			text += fmt.Sprintf(", leave %s that the target holds otherwise", report.Plural(f.Skip, "row"))
		}
		if n := f.Different - f.Overwrite - f.Skip; n > 0 {
			text += fmt.Sprintf(", but %s that the target holds otherwise are in the way", report.Plural(n, "row"))
		}
		all = append(all, report.Fact{Label: "in all", Value: fmt.Sprintf("%s; %s there already", text, report.Plural(f.Present, "row"))})
	}
	if e := p.Estimate; e.DurationMS != nil {
		all = append(all, report.Fact{Label: "estimate", Value: fmt.Sprintf("%s, at %s rows/s, the rate of the rehearsal of %s",
			(time.Duration(*e.DurationMS) * time.Millisecond).Round(10*time.Millisecond), report.Count(*e.RowsPerSecond), report.Plural(e.MeasuredRows, "row"))})
	} else {
		all = append(all, report.Fact{Label: "estimate", Value: e.Basis})
	}
	if !p.Runnable {
		all = append(all, report.Fact{Label: "runnable", Value: "no: " + strings.Join(p.Why, "; ")})
	}
	return all
}
