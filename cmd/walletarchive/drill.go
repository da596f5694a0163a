package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/drill"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/scratch"
	"github.com/hyapp/walletarchive/internal/thaw"
	"github.com/hyapp/walletarchive/verify"
)

// scratchFlag says where a drill restores to; a DSN in it is a secret, so that
// the environment variable exists.
const (
	scratchFlag = "scratch"
	scratchEnv  = "WALLETARCHIVE_SCRATCH"
)

func drillCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "drill",
		Usage:     "restore batches into a scratch server and hold what comes back against the archive",
		ArgsUsage: "[BATCH_ID...]",
		Flags: flags(storeFlags(), selectionFlags(), []cli.Flag{
			&cli.StringFlag{Name: scratchFlag, DefaultText: scratch.ModeAuto, Usage: "`WHERE` to restore: auto (local where a server is installed, else docker), local, docker, or dsn:DSN of a running server, on which a database of its own is made; with a password better in $" + scratchEnv},
			&cli.StringFlag{Name: "image", Value: scratch.DefaultImage, Usage: "Docker `IMAGE` for --scratch docker"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the scratch server and its tables, and say how to reach and remove them", DisableDefaultText: true},
		}, strictPayloadFlags(), thawFlags(), tempDirFlags(), jsonFlags(), recordFlags(), logFlags(), progressFlags()),
		CustomHelpTemplate: codes(exitArchive, exitNoBatch, exitTarget, exitCleanup),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			at, err := needStore(c)
			if err != nil {
				return err
			}
			sel, err := p.selection(c, receiptNeeded)
			if err != nil {
				return err
			}
			sopts, err := p.scratchOptions(c)
			if err != nil {
				return err
			}
			thaws, err := p.thawOptions(c, at)
			if err != nil {
				return err
			}
			dopts := drill.Options{
				StrictPayload: c.Bool(strictPayloadFlag), KeepTables: sopts.Keep, TempDir: c.String(tempDirFlag), Logger: p.log,
			}
			s := &scratchServer{opts: sopts}
			err = p.judge(ctx, c, report.PrinterOptions{Store: at.url, Against: sel.against()}, func(pr *report.Printer) error {
				return p.drill(ctx, pr, at, sel, s, thaws, dopts)
			})
			if kept := s.kept(); kept != "" {
				p.log.Info("the scratch server was kept", "server", s.server.Describe(), "how", kept)
			}
			return cleanedUp(err, s.close(ctx))
		}),
	}
}

func (p *program) scratchOptions(c *cli.Context) (scratch.Options, error) {
	mode := c.String(scratchFlag)
	if mode == "" {
		mode = os.Getenv(scratchEnv)
	}
	if mode == "" {
		mode = scratch.ModeAuto
	}
	if dsn, ok := strings.CutPrefix(mode, scratch.ModeDSN); ok {
		from, variable := "$"+scratchEnv, ""
		if c.IsSet(scratchFlag) {
			from, variable = "--"+scratchFlag, scratchEnv
		}
		if err := p.checkDSN(dsn, from, variable); err != nil {
			return scratch.Options{}, err
		}
	} else if mode != scratch.ModeAuto && mode != scratch.ModeLocal && mode != scratch.ModeDocker {
		return scratch.Options{}, usagef("--%s %q is none of auto, local, docker and dsn:DSN", scratchFlag, maskArgument(mode))
	}
	return scratch.Options{
		Mode: mode, Image: c.String("image"), Keep: c.Bool("keep"), TempDir: c.String(tempDirFlag), Logger: p.log,
		// The drill's loader is as fast as the server lets it.
		ServerArgs: []string{"--local-infile=1"},
	}, nil
}

// scratchServer starts the server of a drill when it is first needed.
type scratchServer struct {
	opts   scratch.Options
	server *scratch.Server
	target drill.Scratch
	took   time.Duration
}

func (s *scratchServer) start(ctx context.Context) (drill.Scratch, error) {
	if s.server != nil {
		return s.target, nil
	}
	began := time.Now()
	server, err := scratch.Start(ctx, s.opts)
	if err != nil {
		return drill.Scratch{}, err
	}
	s.server = server
	db, err := mysqldb.Open(ctx, server.DSN(server.Database), mysqldb.Options{MaxConns: targetConns, Logger: s.opts.Logger})
	if err != nil {
		return drill.Scratch{}, fmt.Errorf("open the scratch database: %w", err)
	}
	s.target = drill.Scratch{DB: db, Server: server.Identity}
	s.took = time.Since(began)
	return s.target, nil
}

func (s *scratchServer) kept() string {
	if s.server == nil {
		return ""
	}
	return s.server.Kept
}

// close removes what start made. It does its work also when ctx is cancelled.
func (s *scratchServer) close(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	var err error
	if s.target.DB != nil {
		err = s.target.DB.Close()
	}
	return errors.Join(err, s.server.Close(ctx))
}

func (p *program) drill(ctx context.Context, pr *report.Printer, at place, sel selection, s *scratchServer, thaws thaw.Options, opts drill.Options) error {
	store, err := p.openArchive(ctx, at)
	if err != nil {
		return err
	}
	defer store.close()
	return p.withBatches(ctx, sel, store, func(list []chosen) error {
		if err := p.thaw(ctx, store, list, thaws); err != nil {
			return err
		}
		return p.eachBatch(ctx, pr, "drill", list, func(b chosen, task *progress.Task) error {
			opts.Progress = func(step drill.Step, rows int64) {
				if step == drill.StepCompare {
					task.Add(progress.Counts{Rows: rows})
				}
			}
			rep, err := drill.Run(ctx, store, []verify.Target{b.Target}, s.start, opts)
			if err != nil && len(rep.Batches) == 0 {
				return pr.Batch(report.Batch{AppCode: b.Location.AppCode, BatchID: b.Location.BatchID, Outcome: outcomeOf(err), Err: err, Duration: rep.Duration})
			}
			for i := range rep.Batches {
				out := drilledBatch(&rep.Batches[i], s)
				out.Err = errors.Join(out.Err, err) // beside what was proven wrong before
				if err := pr.Batch(out); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// drillDetails is the part of the JSON document that drill adds to a batch.
type drillDetails struct {
	*drill.Batch
	ScratchServer string `json:"scratch_server"`
	ScratchWhy    string `json:"scratch_why"`
	StartMS       int64  `json:"scratch_start_ms"` // of the server, which serves every batch
	VerifyMS      int64  `json:"verify_ms"`
	RestoreMS     int64  `json:"restore_ms"`
	CompareMS     int64  `json:"compare_ms"`
}

// drilledBatch turns the outcome of a drill into what is printed.
func drilledBatch(b *drill.Batch, s *scratchServer) report.Batch {
	out := verifiedBatch(&b.Verify, nil)
	d := drillDetails{
		Batch: b, StartMS: s.took.Milliseconds(), VerifyMS: b.Took[drill.StepVerify].Milliseconds(),
		RestoreMS: b.Took[drill.StepRestore].Milliseconds(), CompareMS: b.Took[drill.StepCompare].Milliseconds(),
	}
	out.Duration = b.Took[drill.StepVerify] + b.Took[drill.StepRestore] + b.Took[drill.StepCompare]
	if s.server != nil {
		d.ScratchServer, d.ScratchWhy = s.server.Describe(), s.server.Why
		out.Facts = append(out.Facts, report.Fact{Label: "scratch server", Value: d.ScratchServer + "; " + d.ScratchWhy})
	}
	out.Details = d
	if !b.Verify.Proven() {
		return out
	}
	if len(b.Checks) > 0 { // else nothing was restored that could be compared
		out.Facts = append(out.Facts,
			report.Fact{Label: "restored", Value: fmt.Sprintf("%s compared one by one, %s identical, %s respelled (%s expected), %s missing, %s added, %s changed",
				report.Plural(b.Rows, "row"), report.Count(b.Identical), report.Count(b.Respelled), report.Count(b.RespelledAllowed),
				report.Count(b.Missing), report.Count(b.Added), report.Count(b.Changed))},
			report.Fact{Label: "checks", Value: fmt.Sprintf("%d of %d passed", passedChecks(b.Checks), len(b.Checks))})
	}
	out.Notes = append(out.Notes, b.Notes...)
	for _, c := range b.Checks {
		if !c.OK {
			out.Faults = append(out.Faults, report.Fault{Check: c.Name, Object: b.Table, Got: c.Got, Want: c.Want})
		}
	}
	for _, x := range b.Differences {
		if x.Kind == drill.RowRespelled {
			continue
		}
		f := report.Fault{Check: "row " + string(x.Kind), Object: b.Table, Line: x.Line, Row: x.EventID, Column: strings.Join(x.Columns, ", ")}
		if !x.Want.IsZero() {
			f.Want = "row hash " + x.Want.String()
		}
		if !x.Got.IsZero() {
			f.Got = "row hash " + x.Got.String()
		}
		out.Faults = append(out.Faults, f)
	}
	if b.RestoreFault != "" {
		out.Faults = append(out.Faults, report.Fault{Check: "restore", Object: b.Table, Detail: b.RestoreFault})
	}
	switch {
	case b.Differs():
		out.Outcome = report.TargetDiffers
	case b.Proven():
		out.Outcome = report.Passed
	default:
		out.Outcome, out.Err = report.Unfinished, errors.New("nothing was compared")
	}
	return out
}

func passedChecks(all []drill.Check) int {
	n := 0
	for _, c := range all {
		if c.OK {
			n++
		}
	}
	return n
}
