package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/objstore/open"
	"github.com/hyapp/walletarchive/internal/progress"
)

// programName is the name of the binary in messages and in what it writes.
const programName = "walletarchive"

// program is one run of the binary: its streams, and what the flags that all
// commands share make of them.
type program struct {
	stdout *resultWriter
	stderr *progress.Output
	// redact hides the secrets that were resolved so far in what is written
	// to stderr.
	redact *redactor
	// log and progress are set before the Action of a command runs.
	log      *slog.Logger
	progress *progress.Reporter
	logJSON  bool
	// open, now and sleep are how stores are opened, the clock, and waiting: the
	// real ones but in tests.
	open  open.Options
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

func newProgram(stdout, stderr io.Writer) *program {
	p := &program{stdout: &resultWriter{w: stdout}, stderr: progress.NewOutput(stderr), redact: &redactor{}, now: time.Now}
	p.log = slog.New(slog.NewTextHandler(p.redact.writer(p.stderr), nil))
	return p
}

// run is main without the process: it returns the exit code of exit.go's table
// and leaves nothing running.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := newProgram(stdout, stderr)
	return p.run(ctx, newApp(p), args)
}

func (p *program) run(ctx context.Context, app *cli.App, args []string) int {
	args, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	code := exitCode(ctx, err)
	p.reportError(err, code)
	return code
}

// reportError says on stderr why the run did not end well. What a verdict has
// to say is already on stdout.
func (p *program) reportError(err error, code int) {
	text := errorText(err)
	if text == "" {
		return
	}
	if p.logJSON && code != exitUsage {
		p.log.Error(text, "exit_code", code)
		return
	}
	fmt.Fprintf(p.redact.writer(p.stderr), "%s: %s\n", programName, text)
}

func newApp(p *program) *cli.App {
	app := &cli.App{
		Name:            programName,
		Usage:           "archive delivered wallet events and prove that they can come back",
		Version:         programVersion(),
		HideHelpCommand: true, // arrange understands "help COMMAND"
		// A comma is part of a tag.
		DisableSliceFlagSeparator: true,
		Writer:                    p.stdout,
		ErrWriter:                 p.redact.writer(p.stderr),
		// The default calls os.Exit inside Run.
		ExitErrHandler:        func(*cli.Context, error) {},
		OnUsageError:          usageErrorOf,
		Action:                refuseNoCommand,
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\nEXIT CODES:\n" + exitHelp(exitCodes()...),
		Commands: []*cli.Command{
			receiptsCommand(p),
			storeCommand(p),
			schemaCommand(p),
			versionCommand(p),
			exportCommand(p),
			verifyCommand(p),
			restoreCommand(p),
			drillCommand(p),
			demoCommand(p),
		},
	}
	for _, c := range app.Commands {
		finish(c)
	}
	return app
}

// finish sets what every command needs and none may forget.
func finish(c *cli.Command) {
	c.HideHelpCommand = true
	c.OnUsageError = usageErrorOf
	if c.Action == nil {
		c.Action = refuseNoCommand
	}
	for _, sub := range c.Subcommands {
		finish(sub)
	}
}

// refuseNoCommand is the Action of whatever needs a command after it: without
// it, an unknown command would print help and exit with 0.
func refuseNoCommand(c *cli.Context) error {
	names := make([]string, 0, len(c.Command.Subcommands))
	for _, sub := range c.Command.Subcommands {
		names = append(names, sub.Name)
	}
	list := strings.Join(names, ", ")
	if c.Args().Present() {
		return usagef("there is no command %q; the commands are %s", c.Args().First(), list)
	}
	return usagef("which command? The commands are %s; %s help COMMAND explains one", list, programName)
}

// usageErrorOf turns what the flag parser says into a usage error. Its own
// reaction would be to print help on stdout.
func usageErrorOf(_ *cli.Context, err error, _ bool) error {
	return usagef("%v", err)
}

// codes returns the help template of a command, which ends with the exit codes
// it may end with. 0, 1, 3 and 130 are understood.
func codes(more ...int) string {
	all := append([]int{exitOK, exitUnfinished, exitUsage, exitCancelled}, more...)
	return cli.SubcommandHelpTemplate + "\nEXIT CODES:\n" + exitHelp(all...)
}

// action wraps the work of a command: streams and log as the flags ask, no
// arguments unless the command takes some, progress off the screen and results
// really written before it ends.
func (p *program) action(work func(ctx context.Context, c *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Command.ArgsUsage == "" && c.Args().Present() {
			return usagef("%s takes no arguments, got %q", c.Command.FullName(), c.Args().First())
		}
		if err := p.setUp(c); err != nil {
			return err
		}
		defer p.watchState()()
		return p.finish(work(c.Context, c))
	}
}

// finish takes progress off the screen and makes sure that results were really
// written. It may be called more than once.
func (p *program) finish(err error) error {
	p.progress.Close()
	if werr := p.stdout.release(); werr != nil {
		return unwritten(err, werr)
	}
	return err
}
