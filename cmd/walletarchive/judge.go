package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
)

const (
	metricsFileFlag = "metrics-file"
	historyFileFlag = "history-file"
)

// recordFlags are for commands that end with a verdict and may be run by a
// scheduler.
func recordFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: metricsFileFlag, Usage: "write the result to `FILE` for the textfile collector of Prometheus"},
		&cli.StringFlag{Name: historyFileFlag, Usage: "append the result to `FILE` as a line of JSON"},
	}
}

// judge runs work, which contacts things and prints batches, and ends it with a
// verdict: the summary on stdout, the metrics and history that the flags ask
// for, and an error that carries the exit code. Usage errors come before it.
func (p *program) judge(ctx context.Context, c *cli.Context, opts report.PrinterOptions, work func(*report.Printer) error) error {
	opts.Started = time.Now()
	pr := p.newPrinter(c, opts)
	runErr := work(pr)
	if exitCode(ctx, runErr) == exitUsage { // a store that cannot be opened as it is configured
		return runErr
	}
	sum, werr := pr.Close(runErr)
	err := verdict(sum, errors.Join(runErr, werr))
	err = p.finish(err)
	run := report.Run{
		Command: cmp.Or(opts.Command, c.Command.Name), AppCode: cmp.Or(opts.AppCode, c.String(appFlag)), Store: opts.Store,
		Started: opts.Started, Ended: time.Now(), Summary: sum, ExitCode: exitCode(ctx, err),
	}
	return errors.Join(err, record(c, run))
}

// record writes metrics and history where the flags ask for them.
func record(c *cli.Context, run report.Run) (err error) {
	if path := c.String(metricsFileFlag); path != "" {
		err = report.WriteMetrics(path, run)
	}
	if err != nil && run.ExitCode == exitOK {
		run.ExitCode = exitUnfinished
	}
	if path := c.String(historyFileFlag); path != "" {
		err = errors.Join(err, report.AppendHistory(path, run))
	}
	return err
}
