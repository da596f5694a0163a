package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/thaw"
)

const (
	thawFlag     = "thaw"
	thawDaysFlag = "thaw-days"
	thawWaitFlag = "thaw-wait"
)

// thawFlags are for commands that read data objects.
func thawFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: thawFlag, DefaultText: "ask for nothing", Usage: "ask for readable copies of objects in cold storage, of all chosen batches at once: `TIER` is expedited, standard or bulk"},
		&cli.IntFlag{Name: thawDaysFlag, Value: thaw.DefaultDays, Usage: "how long the copies stay readable: `N` days"},
		&cli.DurationFlag{Name: thawWaitFlag, DefaultText: "ask, and end as not proven", Usage: "wait for the copies for up to `TIME`, 6h for example, and go on"},
	}
}

// thawOptions reads thawFlags. Nothing is contacted.
func (p *program) thawOptions(c *cli.Context, at place) (thaw.Options, error) {
	opts := thaw.Options{
		Tier: c.String(thawFlag), Days: c.Int(thawDaysFlag), Wait: c.Duration(thawWaitFlag),
		Now: p.now, Sleep: p.sleep, Logger: p.log,
	}
	switch {
	case opts.Tier == "" && (c.IsSet(thawDaysFlag) || c.IsSet(thawWaitFlag)):
		return opts, usagef("--%s and --%s are of use with --%s only", thawDaysFlag, thawWaitFlag, thawFlag)
	case opts.Tier != "" && !slices.Contains(thaw.Tiers, opts.Tier):
		return opts, usagef("--%s %q is none of %s", thawFlag, opts.Tier, strings.Join(thaw.Tiers, ", "))
	case opts.Tier != "" && !at.bucket:
		return opts, usagef("--%s: a directory has no cold storage", thawFlag)
	case opts.Days < 1 || opts.Days > thaw.MaxDays:
		return opts, usagef("--%s is %d, want 1 to %d", thawDaysFlag, opts.Days, thaw.MaxDays)
	case opts.Wait < 0:
		return opts, usagef("--%s is negative", thawWaitFlag)
	}
	return opts, nil
}

// thaw finds the batches of list that cannot be read because they are in cold
// storage, does about it what opts say, and gives those that cannot be read now
// an error that says so. A store without cold storage has none.
func (p *program) thaw(ctx context.Context, a archive, list []chosen, opts thaw.Options) error {
	store, ok := a.Store.(thaw.Store)
	if !ok {
		return nil
	}
	var groups [][]string
	var of []int // the batch of each group
	for i, b := range list {
		if b.err == nil {
			groups = append(groups, []string{b.Location.DataKey(), b.Location.ManifestKey(), b.Location.SuccessKey()})
			of = append(of, i)
		}
	}
	errs, err := thaw.Run(ctx, store, groups, opts)
	if err != nil {
		return fmt.Errorf("look for cold objects: %w", err)
	}
	for i, err := range errs {
		list[of[i]].err = err
	}
	return nil
}

// anyCold reports whether a batch of list cannot be read before it is thawed.
func anyCold(list []chosen) bool {
	return slices.ContainsFunc(list, func(b chosen) bool { return errors.Is(b.err, objstore.ErrCold) })
}

// unreadable is a batch on which no work is possible, as it is printed.
func unreadable(b chosen) report.Batch {
	out := report.Batch{AppCode: b.Location.AppCode, BatchID: b.Location.BatchID, Outcome: outcomeOf(b.err), Err: b.err}
	var cold *thaw.ColdError
	var shown *ledgerFault
	switch {
	case errors.As(b.err, &cold):
		out.Details = cold
	case errors.As(b.err, &shown):
		out.Faults, out.Err = []report.Fault{shown.Fault}, nil
	case out.Outcome == report.ArchiveWrong: // its receipt is
		out.Faults, out.Err = []report.Fault{{Check: checkReceipt, Detail: b.err.Error()}}, nil
	}
	return out
}
