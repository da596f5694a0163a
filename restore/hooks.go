package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Hooks are told what a restore does, so that a receipt, a journal or a brake
// can be kept beside it. A nil function is not called. None is called in a dry
// run, and no two at once. An error of any but AfterCommit undoes the transaction
// and is what [Batch] returns.
type Hooks struct {
	// Begin is called after a transaction was begun. All that Row said before it
	// is void, since the transaction of that time was rolled back.
	Begin func(ctx context.Context) error
	// Row is told inside the transaction what becomes of a row, once for each
	// selected row, in no order. What the outcome points to is valid until Row
	// returns.
	Row func(ctx context.Context, o RowOutcome) error
	// BeforeCommit runs inside the transaction after every row was found in the
	// target as archived. What it writes on tx is committed or undone together
	// with the rows. It must not end the transaction. With this hook a batch of
	// which every row was there is committed, too.
	BeforeCommit func(ctx context.Context, tx mysqldb.Session) error
	// AfterCommit is called once the target is known to hold the batch: the state
	// is Committed or Unchanged. Its error does not undo anything, and ends
	// [Batch] nevertheless.
	AfterCommit func(ctx context.Context) error
	// Pause is called after a window of rows was written, with their number, and
	// may wait. The transaction holds its locks meanwhile.
	Pause func(ctx context.Context, rows int) error
}

// Outcome is what became of one row.
type Outcome int

// The outcomes; zero is none of them.
const (
	_           Outcome = iota
	Present             // it was there as archived, and was left
	Inserted            // it was not there, and was written
	Skipped             // it was there otherwise, and was left; see Skip
	Overwritten         // it was there otherwise, and is as archived now; see Overwrite
)

// String returns the name that the JSON documents use.
func (o Outcome) String() string {
	switch o {
	case Present:
		return "present"
	case Inserted:
		return "inserted"
	case Skipped:
		return "skipped"
	case Overwritten:
		return "overwritten"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// RowOutcome says what became of one row of a batch.
type RowOutcome struct {
	Row     *manifest.Row // as archived
	Outcome Outcome
	// Respelled says that the target spells the payload otherwise, with the same
	// value.
	Respelled bool
	// Old is what the target held, when the outcome is Overwritten. It is also
	// set for Skipped, unless what the target holds is no record of any archive.
	Old *manifest.Record
}

// begin calls every Begin.
func (o *Options) begin(ctx context.Context) error {
	for _, h := range o.Hooks {
		if h.Begin != nil {
			if err := h.Begin(ctx); err != nil {
				return fmt.Errorf("hook at the begin: %w", err)
			}
		}
	}
	return nil
}

// row calls every Row.
func (o *Options) row(ctx context.Context, outcome RowOutcome) error {
	if o.DryRun {
		return nil
	}
	for _, h := range o.Hooks {
		if h.Row != nil {
			if err := h.Row(ctx, outcome); err != nil {
				return fmt.Errorf("hook for line %d: %w", outcome.Row.Line, err)
			}
		}
	}
	return nil
}

// writes reports whether there is a BeforeCommit.
func (o *Options) writes() bool {
	for _, h := range o.Hooks {
		if h.BeforeCommit != nil {
			return true
		}
	}
	return false
}

// beforeCommit calls every BeforeCommit.
func (o *Options) beforeCommit(ctx context.Context, tx mysqldb.Session) error {
	for _, h := range o.Hooks {
		if h.BeforeCommit != nil {
			if err := h.BeforeCommit(ctx, tx); err != nil {
				return fmt.Errorf("hook before the commit: %w", err)
			}
		}
	}
	return nil
}

// afterCommit calls every AfterCommit, also after one has failed.
func (o *Options) afterCommit(ctx context.Context) error {
	var all error
	for _, h := range o.Hooks {
		if h.AfterCommit != nil {
			all = errors.Join(all, h.AfterCommit(ctx))
		}
	}
	if all != nil {
		return fmt.Errorf("the batch is in the target; hook after the commit: %w", all)
	}
	return nil
}

// pause calls every Pause.
func (o *Options) pause(ctx context.Context, rows int) error {
	for _, h := range o.Hooks {
		if h.Pause != nil {
			if err := h.Pause(ctx, rows); err != nil {
				return fmt.Errorf("pause after %d rows: %w", rows, err)
			}
		}
	}
	return nil
}
