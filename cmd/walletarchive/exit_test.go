package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/export"
	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
	"github.com/hyapp/walletarchive/verify"
)

// wrapped is err as a command would hand it on.
func wrapped(err error) error { return fmt.Errorf("verify batch x: %w", err) }

func outcome(o report.Outcome, err error) error {
	return verdict(report.Summary{Outcome: o, Verdict: o.Verdict()}, err)
}

type exitTest struct {
	name      string
	err       error
	cancelled bool
	want      int
}

func TestExitCode(t *testing.T) {
	other := errors.New("connection refused")
	tests := []exitTest{
		{"nothing wrong", nil, false, exitOK},
		{"nothing wrong before the signal", nil, true, exitOK},
		{"proven", outcome(report.Passed, nil), false, exitOK},
		{"any other error", other, false, exitUnfinished},
		{"unfinished", outcome(report.Unfinished, other), false, exitUnfinished},
		{"proven but not to the end", outcome(report.Passed, other), false, exitUnfinished},
		{"a driver's own cancellation is no signal", wrapped(context.Canceled), false, exitUnfinished},
		{"a time limit is no signal", wrapped(context.DeadlineExceeded), false, exitUnfinished},
		{"objects that cannot be read twice alike", wrapped(verify.ErrUnstable), false, exitUnfinished},
		{"usage", usagef("--store is missing"), false, exitUsage},
		{"usage outranks the signal", usagef("--store is missing"), true, exitUsage},
		{"the archive is wrong", outcome(report.ArchiveWrong, nil), false, exitArchive},
		{"the archive is wrong and the rest unknown", outcome(report.ArchiveWrong, wrapped(other)), false, exitArchive},
		{"the archive is wrong, then a signal", outcome(report.ArchiveWrong, context.Canceled), true, exitArchive},
		{"a bad receipt", wrapped(manifest.ErrBadReceipt), false, exitArchive},
		{"a receipt file that cannot be read", wrapped(manifest.ErrBadDocument), false, exitArchive},
		{"a manifest that cannot be read in the place of a batch", wrapped(errors.Join(manifest.ErrBadDocument, export.ErrConflict)), false, exitTarget},
		{"members missing", wrapped(manifest.ErrMemberCount), false, exitArchive},
		{"members of another batch", wrapped(manifest.ErrForeignMember), false, exitArchive},
		{"a report that stopped at a bad receipt", outcome(report.Unfinished, wrapped(manifest.ErrBadReceipt)), false, exitUnfinished},
		{"a DSN that cannot be read", wrapped(mysqldb.ErrBadDSN), false, exitUsage},
		{"export options that make no sense", wrapped(export.ErrOptions), false, exitUsage},
		{"a cutoff that is too young", wrapped(export.ErrCutoff), false, exitUsage},
		{"a batch that did not come back whole", wrapped(export.ErrNotWhole), false, exitArchive},
		{"an archive that is not that of the plan", wrapped(errArchiveChanged), false, exitArchive},
		{"a target that is not that of the plan", wrapped(&restore.ChangedError{}), false, exitTarget},
		{"another object in the place of a batch", wrapped(export.ErrConflict), false, exitTarget},
		{"a target that differs", wrapped(restore.ErrConflict), false, exitTarget},
		{"a commit whose outcome is not known", wrapped(restore.ErrOutcomeUnknown), false, exitUnfinished},
		{"no receipt", wrapped(ledger.ErrNoReceipt), false, exitNoBatch},
		{"no receipt fits", wrapped(errNothing), false, exitNoBatch},
		{"no row fits", wrapped(errNoRows), false, exitNoBatch},
		{"the ledger holds something else", wrapped(&ledger.ConflictError{}), false, exitTarget},
		{"the ledger gives something else back", wrapped(ledger.ErrReadBack), false, exitTarget},
		{"another run", wrapped(ledger.ErrLocked), false, exitLocked},
		{"another run with this journal", wrapped(restore.ErrJournalBusy), false, exitLocked},
		{"a receipt of another target", wrapped(restore.ErrOtherTarget), false, exitTarget},
		{"an undo that triggers would join", wrapped(restore.ErrSideEffects), false, exitTarget},
		{"a lock that was lost", wrapped(ledger.ErrLockLost), false, exitUnfinished},
		{"an outcome that is not known", wrapped(ledger.ErrOutcomeUnknown), false, exitUnfinished},
		{"no such batch", wrapped(verify.ErrNoBatch), false, exitNoBatch},
		{"nothing selected", outcome(report.NoBatch, nil), false, exitNoBatch},
		{"the target differs", outcome(report.TargetDiffers, nil), false, exitTarget},
		{"another object has the key", wrapped(objstore.ErrExist), false, exitTarget},
		{"not cleaned up", cleanedUp(nil, other), false, exitCleanup},
		{"not cleaned up, then a signal", cleanedUp(nil, other), true, exitCleanup},
		{"failed and not cleaned up", cleanedUp(outcome(report.TargetDiffers, nil), other), false, exitTarget},
		{"unfinished and not cleaned up", cleanedUp(other, other), false, exitUnfinished},
		{"cleaned up", cleanedUp(nil, nil), false, exitOK},
		{"a signal", wrapped(context.Canceled), true, exitCancelled},
		{"a signal that a driver words otherwise", errors.New("invalid connection"), true, exitCancelled},
		{"a signal between two batches", outcome(report.Unfinished, context.Canceled), true, exitCancelled},
		{"a result that nobody could read", unwritten(nil, other), false, exitUnfinished},
		{"a fault that nobody could read", unwritten(outcome(report.ArchiveWrong, nil), other), false, exitArchive},
	}
	seen := map[int]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancelled {
				cancel()
			}
			if got := exitCode(ctx, tt.err); got != tt.want {
				t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
			}
			if tt.err != nil && !errors.As(tt.err, new(*usageError)) && !errors.As(tt.err, new(*cleanupError)) {
				if got := exitCode(ctx, wrapped(tt.err)); got != tt.want {
					t.Errorf("exitCode of the wrapped error = %d, want %d", got, tt.want)
				}
			}
		})
		seen[tt.want] = true
	}
	for code := range exitMeanings {
		if !seen[code] {
			t.Errorf("no row of this test gives code %d", code)
		}
	}
	fired := func(matches func(error) bool) bool {
		return slices.ContainsFunc(tests, func(tt exitTest) bool {
			err := tt.err
			if tt.cancelled {
				err = errors.Join(err, errCancelled)
			}
			return err != nil && matches(err)
		})
	}
	for i, rule := range exitRules {
		if !fired(rule.matches) {
			t.Errorf("no row of this test fires exit rule %d, code %d", i, rule.code)
		}
	}
	for i, rule := range outcomeRules {
		if !fired(rule.matches) {
			t.Errorf("no row of this test fires outcome rule %d, %v", i, rule.outcome)
		}
	}
}

func TestExitHelpListsEveryCode(t *testing.T) {
	help := exitHelp(exitCodes()...)
	for _, code := range slices.Sorted(maps.Keys(exitMeanings)) {
		if !strings.Contains(help, fmt.Sprintf("%6d  %s\n", code, exitMeanings[code])) {
			t.Errorf("help lacks code %d:\n%s", code, help)
		}
	}
	if _, used := exitMeanings[2]; used {
		t.Error("code 2 belongs to a panic")
	}
}

func TestErrorText(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"none", nil, ""},
		{"one", a, "a"},
		{"two", errors.Join(a, b), "a; b"},
		{"the same twice", errors.Join(a, errors.Join(b, a)), "a; b"},
		{"words around two", fmt.Errorf("x: %w and %w", a, b), "x: a and b"},
		{"a verdict", outcome(report.ArchiveWrong, nil), ""},
		{"a verdict that came early", outcome(report.Unfinished, a), "a"},
		{"a verdict and a cleanup", cleanedUp(outcome(report.TargetDiffers, nil), b), "clean up: b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := errorText(tt.err); got != tt.want {
				t.Errorf("errorText = %q, want %q", got, tt.want)
			}
		})
	}
}
