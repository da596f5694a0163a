package restore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// Defaults of [Options].
const (
	// DefaultWindowBytes is how much of a batch is in flight at once; see
	// docs/DESIGN.md "Restoring".
	DefaultWindowBytes = 4 << 20
	// DefaultMaxAttempts is how often a transaction is begun for one batch.
	DefaultMaxAttempts = 5
)

// Options of [Batch]. The zero value restores into wallet_outbox.
type Options struct {
	// Table is the target, in the database of the pool; "" means
	// outbox.DefaultTable.
	Table string
	// DryRun does everything up to the first write, and then nothing more.
	DryRun bool
	// CompareOnly is a DryRun that looks whether the rows are in the target, and at
	// nothing that matters to writing alone: no trigger, key, width or engine stands
	// in the way, and nothing is rehearsed. It goes with Fail.
	CompareOnly bool
	// StrictPayload takes a payload that the server spells otherwise for a
	// difference, although its value is the same under exact decimal arithmetic.
	StrictPayload bool
	// Select chooses the rows to restore, after the whole batch was verified; nil
	// chooses all. It is called from one goroutine and must not change the record.
	Select func(*manifest.Record) bool
	// OnConflict says what becomes of rows that the target holds otherwise.
	OnConflict OnConflict
	// ConfirmOverwrite is how many rows of the batch Overwrite is to overwrite: if
	// it finds another number, nothing is written. A dry run finds the number.
	ConfirmOverwrite int64
	// Expect is what a plan has found: unless each selected row is still so, or is
	// as archived and the plan was going to make it so, nothing is written and the
	// error is a *ChangedError. nil expects nothing.
	Expect *RowStates
	// AllowTriggers restores although triggers of the target will run. Their
	// effects on other tables are theirs; what they do to the rows is found.
	AllowTriggers bool
	// RelayQuery is the condition, in SQL, by which a relay picks rows of the
	// table to dispatch; "" means DefaultRelayQuery. It must select none of what
	// is restored, before anything is written and after; see CheckRelayQuery.
	RelayQuery string
	// Rehearsed says that a dry run with the same options has just passed, so that
	// the rehearsal is left out.
	Rehearsed bool
	// Scratch says that the target is a private table with no relay, thrown away
	// afterwards: no rehearsal is made and no relay asked about. What was written
	// is read back as ever.
	Scratch bool
	// Method is how rows are handed to the server. The zero value, outbox.Auto,
	// is the faster one of what the server allows.
	Method outbox.Method
	// WindowBytes is about how many bytes of rows, as they are in memory, are
	// loaded and read back together; the whole restore takes some ten times as
	// much. 0 means DefaultWindowBytes. A single larger row is still taken.
	WindowBytes int
	// StatementBytes is about how many bytes of rows one statement carries, if the
	// window has as many; 0 means outbox.DefaultLoadBytes or DefaultInsertBytes.
	StatementBytes int
	// MaxAttempts bounds how often the transaction is begun, when a deadlock, a
	// lock wait, a lost connection or a row that appeared meanwhile undid it. 0
	// means DefaultMaxAttempts, 1 never tries again.
	MaxAttempts int
	// TempDir takes a copy of the batch, sorted, as large as its NDJSON, when it
	// is more than three windows; "" means os.TempDir. The file has no name.
	TempDir string
	Now     func() time.Time // nil means time.Now
	Logger  *slog.Logger     // nil discards
	// Progress, when not nil, is told how many more rows are known to be in the
	// target as archived (in a dry run: were compared). It is called from one
	// goroutine, and never told of the same row twice.
	Progress func(rows int64)
	// Hooks are called in this order.
	Hooks []Hooks

	// ignore, for tests, drops problems of the preflight, so that what they would
	// have led to is seen.
	ignore func(Problem) bool
	// backoff, for tests, is the first wait before another attempt; 0 means
	// firstWait.
	backoff time.Duration
	// settle, for tests, replaces settleTimeout.
	settle time.Duration
}

// firstWait is how long the first wait before another attempt is, at most; each
// further one may be half as long again.
const firstWait = 200 * time.Millisecond

func (o Options) withDefaults() (Options, error) {
	if o.WindowBytes < 0 || o.StatementBytes < 0 || o.MaxAttempts < 0 {
		return o, errors.New("restore options: a negative bound")
	}
	switch o.Method {
	case outbox.Auto, outbox.Insert, outbox.LoadData:
	default:
		return o, fmt.Errorf("restore options: unknown method %d", int(o.Method))
	}
	switch {
	case o.OnConflict < Fail || o.OnConflict > Overwrite:
		return o, fmt.Errorf("restore options: unknown %s", o.OnConflict)
	case o.CompareOnly && o.OnConflict != Fail:
		return o, errors.New("restore options: rows are only compared, so that no conflict is resolved")
	case o.ConfirmOverwrite != 0 && o.OnConflict != Overwrite:
		return o, errors.New("restore options: rows to overwrite are confirmed, and none may be")
	}
	o.RelayQuery = cmp.Or(o.RelayQuery, DefaultRelayQuery)
	if err := CheckRelayQuery(o.RelayQuery); err != nil {
		return o, fmt.Errorf("restore options: %w", err)
	}
	o.DryRun = o.DryRun || o.CompareOnly
	o.Table = cmp.Or(o.Table, outbox.DefaultTable)
	o.WindowBytes = cmp.Or(o.WindowBytes, DefaultWindowBytes)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, DefaultMaxAttempts)
	o.backoff = cmp.Or(o.backoff, firstWait)
	o.settle = cmp.Or(o.settle, settleTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if o.ignore == nil {
		o.ignore = func(Problem) bool { return false }
	}
	return o, nil
}
