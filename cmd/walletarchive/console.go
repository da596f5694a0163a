package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
)

// setUp makes the log and the progress display that the flags ask for. A
// command without these flags gets their defaults.
func (p *program) setUp(c *cli.Context) error {
	var level slog.Level
	if text := c.String(logLevelFlag); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return usagef("--%s %q is none of debug, info, warn and error", logLevelFlag, text)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	out := p.redact.writer(p.stderr)
	switch format := c.String(logFormatFlag); format {
	case "", "text":
		p.log = slog.New(slog.NewTextHandler(out, opts))
	case "json":
		p.logJSON = true
		p.log = slog.New(slog.NewJSONHandler(out, opts))
	default:
		return usagef("--%s %q is neither text nor json", logFormatFlag, format)
	}
	text := c.String(progressFlag)
	if text == "" {
		return nil
	}
	mode, err := progress.ParseMode(text)
	if err != nil {
		return usagef("--%s: %v", progressFlag, err)
	}
	p.progress = progress.New(p.stderr, progress.Options{Mode: mode, Interval: lineInterval(c), Logger: p.log})
	if p.progress.Mode() == progress.Bars && report.IsTerminal(p.stdout.w) {
		p.stdout.hold()
	}
	return nil
}

// restoreLineInterval is how often a restore says where it stands where there is
// no terminal: somebody waits for it.
const restoreLineInterval = 10 * time.Second

// lineInterval returns how often a command says where it stands; 0 is the
// default.
func lineInterval(c *cli.Context) time.Duration {
	if strings.HasPrefix(c.Command.HelpName, programName+" restore") {
		return restoreLineInterval
	}
	return 0
}

// printState says where the run stands, in answer to a signal.
func (p *program) printState() {
	switch {
	case p.progress.Mode() == progress.Off:
		p.log.Info("running; where it stands is not known with --" + progressFlag + " off")
	case p.progress.LogNow() == 0:
		p.log.Info("running, between two tasks")
	}
}

// printJSON writes v to stdout as indented JSON.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printf writes a line for people to stdout. release reports a failed write.
func (p *program) printf(format string, args ...any) {
	fmt.Fprintf(p.stdout, format, args...)
}

// newPrinter returns the printer of a command that ends with a verdict.
func (p *program) newPrinter(c *cli.Context, opts report.PrinterOptions) *report.Printer {
	opts.Command = cmp.Or(opts.Command, c.Command.Name)
	opts.Tool = tool()
	opts.Color = report.ColorAllowed(p.stdout.w)
	if c.Bool(jsonFlag) {
		opts.Format = report.JSON
	}
	return report.NewPrinter(p.stdout, opts)
}

// conclude prints the summary and returns what the run ends with. runErr is why
// the run could not be finished, nil when it was.
func conclude(pr *report.Printer, runErr error) error {
	sum, werr := pr.Close(runErr)
	return verdict(sum, errors.Join(runErr, werr))
}

// resultWriter is stdout. It remembers the first error, so that a result that
// nobody could read is never a success, and holds results back while bars are
// drawn on the same terminal.
type resultWriter struct {
	w    io.Writer
	held *bytes.Buffer // nil unless results are held back
	err  error
}

func (r *resultWriter) Write(b []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.held != nil {
		return r.held.Write(b)
	}
	n, err := r.w.Write(b)
	r.err = err
	return n, err
}

// hold keeps what is written in memory until release.
func (r *resultWriter) hold() { r.held = &bytes.Buffer{} }

// release writes what was held back and returns the first error of any write.
func (r *resultWriter) release() error {
	if r.held != nil {
		text := r.held.Bytes()
		r.held = nil
		r.Write(text)
	}
	return r.err
}
