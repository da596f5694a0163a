package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/export"
	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
	"github.com/hyapp/walletarchive/verify"
)

// The exit codes (docs/CLI.md "Exit codes"). 2 is never returned on purpose: a
// Go panic exits with it. Callers must read an unknown code as failure.
const (
	exitOK         = 0
	exitUnfinished = 1
	exitUsage      = 3
	exitArchive    = 4
	exitNoBatch    = 5
	exitTarget     = 6
	exitLocked     = 7
	exitCleanup    = 8
	exitCancelled  = 130
)

// exitMeanings says what each code means, for help texts.
var exitMeanings = map[int]string{
	exitOK:         "all that was asked is done and every check passed",
	exitUnfinished: "could not finish; says nothing about the data; a retry may help",
	exitUsage:      "usage or configuration; nothing was contacted",
	exitArchive:    "the archive is wrong: it breaks the contract, its receipt or its own manifest",
	exitNoBatch:    "no such batch: _SUCCESS or the receipt is absent, or nothing was selected",
	exitTarget:     "the target refused or differs",
	exitLocked:     "another run holds the lock",
	exitCleanup:    "the verdict is proven and printed, but cleaning up failed",
	exitCancelled:  "cancelled by SIGINT, SIGTERM or SIGHUP before a verdict",
}

// outcomeCodes are the codes of verdicts. One that is not here could not be
// finished, and what stopped it decides.
var outcomeCodes = map[report.Outcome]int{
	report.ArchiveWrong:  exitArchive,
	report.TargetDiffers: exitTarget,
	report.NoBatch:       exitNoBatch,
}

// exitRules map an error to a code; the first that matches decides. What no
// rule matches is exitUnfinished.
var exitRules = []struct {
	code    int
	matches func(error) bool
}{
	{exitUsage, func(err error) bool { return errors.As(err, new(*usageError)) }},
	{exitUsage, is(mysqldb.ErrBadDSN)},
	{exitUsage, is(export.ErrOptions)},
	{exitUsage, is(export.ErrCutoff)},
	{exitCleanup, func(err error) bool { return errors.As(err, new(*cleanupError)) }},
	{exitCancelled, is(errCancelled)},
	{exitLocked, is(ledger.ErrLocked)},
	{exitLocked, is(restore.ErrJournalBusy)},
	{exitArchive, outcomeOfIs(report.ArchiveWrong)},
	{exitTarget, outcomeOfIs(report.TargetDiffers)},
	{exitNoBatch, outcomeOfIs(report.NoBatch)},
}

// outcomeRules map an error to what it says of a batch; the first that matches
// decides. What no rule matches is Unfinished.
var outcomeRules = []struct {
	outcome report.Outcome
	matches func(error) bool
}{
	{report.ArchiveWrong, is(manifest.ErrBadReceipt)},
	{report.ArchiveWrong, is(manifest.ErrMemberCount)},
	{report.ArchiveWrong, is(manifest.ErrForeignMember)},
	{report.ArchiveWrong, is(export.ErrNotWhole)},
	{report.ArchiveWrong, is(errArchiveChanged)},
	// What an export wants to write is taken by something else.
	{report.TargetDiffers, is(objstore.ErrExist)},
	{report.TargetDiffers, is(export.ErrConflict)},
	{report.ArchiveWrong, is(manifest.ErrBadDocument)}, // not what stands where export wants to write
	{report.TargetDiffers, is(ledger.ErrConflict)},
	{report.TargetDiffers, is(ledger.ErrReadBack)},
	{report.TargetDiffers, is(restore.ErrConflict)},
	{report.TargetDiffers, is(restore.ErrOtherTarget)},
	{report.TargetDiffers, is(restore.ErrSideEffects)},
	{report.NoBatch, is(verify.ErrNoBatch)},
	{report.NoBatch, is(ledger.ErrNoReceipt)},
	{report.NoBatch, is(errNothing)},
	{report.NoBatch, is(errNoRows)},
}

// outcomeOf returns what err says of the batch that it is about.
func outcomeOf(err error) report.Outcome {
	for _, rule := range outcomeRules {
		if rule.matches(err) {
			return rule.outcome
		}
	}
	return report.Unfinished
}

// exitCode returns the code that a run ends with. A proven fault outranks
// whatever else went wrong.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	// A driver may answer a cancelled context with an error of its own.
	if ctx.Err() != nil {
		err = errors.Join(err, errCancelled)
	}
	var v *verdictError
	isVerdict := errors.As(err, &v)
	if isVerdict {
		if code, ok := outcomeCodes[v.outcome]; ok {
			return code
		}
	}
	for _, rule := range exitRules {
		// The report has said that the run is unfinished: no error may make
		// that a fault.
		if isVerdict && slices.Contains([]int{exitArchive, exitTarget, exitNoBatch}, rule.code) {
			continue
		}
		if rule.matches(err) {
			return rule.code
		}
	}
	return exitUnfinished
}

// errCancelled marks the error of a run whose context was cancelled by a signal.
var errCancelled = errors.New("cancelled")

// is returns a rule for one sentinel.
func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// outcomeOfIs returns a rule for the errors that say this of a batch.
func outcomeOfIs(o report.Outcome) func(error) bool {
	return func(err error) bool { return outcomeOf(err) == o }
}

// usageError says that the command line or the configuration is wrong. Nothing
// was contacted.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usagef returns a usageError. What looks like a password in its arguments is
// masked: any part of a command line may be a DSN in the wrong place.
func usagef(format string, args ...any) error {
	masked := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			masked[i] = maskArgument(v)
		case error:
			masked[i] = maskArgument(v.Error())
		default:
			masked[i] = arg
		}
	}
	return &usageError{fmt.Sprintf(format, masked...)}
}

// verdictError carries a verdict other than proven to the exit code. Its text
// is on stdout already.
type verdictError struct {
	outcome report.Outcome
	err     error // why the run could not be finished; nil when it was
}

func (e *verdictError) Error() string { return e.outcome.Verdict().String() }
func (e *verdictError) Unwrap() error { return e.err }

// verdict returns the error of a run that ended with this summary: nil when it
// is proven. runErr is what Printer.Close was given.
func verdict(s report.Summary, runErr error) error {
	if s.Outcome == report.Passed && runErr == nil {
		return nil
	}
	return &verdictError{outcome: s.Outcome, err: runErr}
}

// cleanupError says that something was left behind after a verdict.
type cleanupError struct{ err error }

func (e *cleanupError) Error() string { return "clean up: " + e.err.Error() }
func (e *cleanupError) Unwrap() error { return e.err }

// cleanedUp adds what went wrong while cleaning up, nil when nothing did, to
// what a run ends with. A verdict that is not proven keeps its code.
func cleanedUp(err, cleanup error) error {
	if cleanup == nil {
		return err
	}
	if err == nil {
		return &cleanupError{cleanup}
	}
	return errors.Join(err, fmt.Errorf("clean up: %w", cleanup))
}

// unwritten adds to what a run ends with that its result could not be written.
func unwritten(err, write error) error {
	if errors.Is(err, write) {
		return err
	}
	return errors.Join(err, fmt.Errorf("write the result: %w", write))
}

// errorText returns what to say on stderr about err: "" when its verdict has
// said everything.
func errorText(err error) string {
	var texts []string
	var walk func(error)
	walk = func(err error) {
		var v *verdictError
		switch parts := joined(err); {
		case err == nil:
		case parts != nil:
			for _, part := range parts {
				walk(part)
			}
		case errors.As(err, &v):
			walk(v.err)
		case !slices.Contains(texts, err.Error()):
			texts = append(texts, err.Error())
		}
	}
	walk(err)
	return strings.Join(texts, "; ")
}

// joined returns the errors that errors.Join put together, nil for any other.
func joined(err error) []error {
	j, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var texts []string
	for _, part := range j.Unwrap() {
		texts = append(texts, part.Error())
	}
	if err.Error() != strings.Join(texts, "\n") { // made by fmt.Errorf, with words of its own
		return nil
	}
	return j.Unwrap()
}

// exitCodes returns every code that is returned on purpose, in rising order.
func exitCodes() []int {
	all := make([]int, 0, len(exitMeanings))
	for code := range exitMeanings {
		all = append(all, code)
	}
	slices.Sort(all)
	return all
}

// exitHelp returns a line for each of the codes, for the end of a help text.
func exitHelp(codes ...int) string {
	slices.Sort(codes)
	var b strings.Builder
	for _, code := range codes {
		fmt.Fprintf(&b, "   %3d  %s\n", code, exitMeanings[code])
	}
	return b.String()
}
