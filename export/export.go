// Package export moves delivered rows of wallet_outbox into batches of an
// archive and records a VERIFIED receipt for each, in the commit order of
// docs/FORMAT.md "Commit order". Only the receipt moves the cursor, so a run
// that stopped anywhere is made good by running it again.
//
// It deletes nothing from MySQL. Start with [Run].
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// Defaults of [Options].
const (
	DefaultBatchRows = 50_000
	DefaultMinAge    = time.Hour
	// MaxBatchBytes is the largest data object: COS takes no larger one in a
	// single PUT.
	MaxBatchBytes = 5 << 30
)

// Errors of [Run]; compare with errors.Is.
var (
	// ErrCutoff is returned before anything is contacted when the cutoff is in
	// the future or younger than Options.MinAge.
	ErrCutoff = errors.New("cutoff is too young: a transaction that commits late could slip behind the cursor")
	// ErrOptions is returned for options that make no sense, before anything is
	// contacted.
	ErrOptions = errors.New("export options")
	// ErrConflict is returned when an object of the batch is there already and
	// holds something else.
	ErrConflict = errors.New("another object is in the place of this batch")
	// ErrNotWhole is returned when the batch that was read back breaks a rule;
	// Report.Verify of the last batch has the faults. No receipt was written.
	ErrNotWhole = errors.New("the batch that was read back is not whole")
	// ErrNotLocked is returned when the store does not lock an object although it
	// was asked to and did not refuse.
	ErrNotLocked = errors.New("the object is not locked")
)

// Row is one row of the source with what the source server found about its
// payload.
type Row struct {
	Record *manifest.Record
	// TextUnstable and ValueUnstable are as in manifest.PayloadFidelity; false
	// when the source does not check.
	TextUnstable, ValueUnstable bool
}

// Source is the table that is exported.
type Source interface {
	// Rows yields the delivered rows of app behind after and before cutoffMS
	// (exclusive, Unix milliseconds) in the order of docs/FORMAT.md "Cursor".
	// A row is valid until the next one is asked for.
	Rows(ctx context.Context, app string, after manifest.Cursor, cutoffMS int64) iter.Seq2[Row, error]
	// About says where the rows come from.
	About() About
}

// About is what a manifest says of its source.
type About struct {
	Origin           manifest.Origin
	EventIDCollation string
	FidelityChecked  bool // whether Rows fills TextUnstable and ValueUnstable
}

// Store is where batches go; see objstore.Store for the contract.
type Store interface {
	verify.Source
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, sum manifest.Hash, opts objstore.PutOptions) (objstore.Info, bool, error)
	List(ctx context.Context, prefix string) iter.Seq2[objstore.Info, error]
}

// Ledger keeps receipts; see internal/ledger for the rules.
type Ledger interface {
	// Latest returns the VERIFIED receipt that the next batch follows, and false
	// when there is none.
	Latest(ctx context.Context, app string) (manifest.Receipt, bool, error)
	// HasReceipt reports whether the batch has a VERIFIED receipt.
	HasReceipt(ctx context.Context, app string, id manifest.BatchID) (bool, error)
	// Record writes a receipt with its members in one transaction. existed is
	// true when the same receipt was there already.
	Record(ctx context.Context, r manifest.Receipt, members iter.Seq2[manifest.Member, error]) (existed bool, err error)
}

// Lock is the advisory lock of one app_code, held by the caller for the whole
// run.
type Lock interface {
	// Check returns an error when the lock is no longer ours.
	Check(ctx context.Context) error
}

// Options of [Run]. CutoffMS has no default.
type Options struct {
	AppCode string
	Prefix  string // of object keys, without a trailing slash; "" is the root
	// CutoffMS ends the export: only rows with an earlier updated_at_ms are
	// taken. Unix milliseconds, exclusive.
	CutoffMS int64
	// MinAge is the least age of the cutoff; 0 means [DefaultMinAge]. Negative
	// means none, for tests.
	MinAge     time.Duration
	BatchRows  int // rows of a batch; 0 means [DefaultBatchRows]
	MaxBatches int // batches of this run; 0 means no limit
	// DryRun reads and packs, and writes neither objects nor receipts.
	DryRun  bool
	Put     PutOptions
	TempDir string // "" means os.TempDir; needs room for three batches, compressed
	Writer  manifest.Program
	Now     func() time.Time // nil means time.Now
	Logger  *slog.Logger     // nil discards
	// Progress, when not nil, is told how many more rows were packed. It is
	// called from one goroutine.
	Progress func(rows int64)
}

// PutOptions are what the objects of a batch are written with.
type PutOptions struct {
	// RetainUntil locks all three objects until then; zero locks none. An object
	// that an earlier run wrote is locked for longer where its lock ends before.
	// No receipt is recorded for a batch that the store does not lock. The store
	// must be an objstore.Retainer.
	RetainUntil time.Time
	SSE         string // as in objstore.PutOptions
	Tags        map[string]string
	// DataStorageClass is of the data object only; manifest and marker are
	// always STANDARD, so that a verification needs no thawing. "" is STANDARD.
	// A cold class (objstore.Cold) is set, with the lock, once the receipt is
	// recorded; the store must be an objstore.Reclassifier. A run that finds the
	// data of the latest receipt still in STANDARD moves that too: so an earlier
	// run leaves it that stopped in between.
	DataStorageClass string
}

func (o Options) withDefaults() (Options, error) {
	if err := manifest.CheckAppCode(o.AppCode); err != nil {
		return o, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.Prefix != "" {
		if err := manifest.CheckKey(o.Prefix); err != nil {
			return o, fmt.Errorf("%w: prefix: %w", ErrOptions, err)
		}
	}
	if o.BatchRows < 0 || o.MaxBatches < 0 {
		return o, fmt.Errorf("%w: batch rows and max batches cannot be negative", ErrOptions)
	}
	if o.BatchRows == 0 {
		o.BatchRows = DefaultBatchRows
	}
	if o.MinAge == 0 {
		o.MinAge = DefaultMinAge
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if r := o.Put.RetainUntil; !r.IsZero() && !r.After(o.Now()) {
		return o, fmt.Errorf("%w: the lock would end at %s, which is past", ErrOptions, r.UTC().Format(time.RFC3339))
	}
	if youngest := o.Now().Add(-max(o.MinAge, 0)); o.MinAge > 0 && o.CutoffMS > youngest.UnixMilli() {
		return o, fmt.Errorf("cutoff %s, at least %s old is wanted: %w",
			time.UnixMilli(o.CutoffMS).UTC().Format(time.RFC3339), o.MinAge, ErrCutoff)
	}
	if o.CutoffMS <= 0 {
		return o, fmt.Errorf("%w: no cutoff", ErrOptions)
	}
	return o, nil
}

// Check reports what [Run] would refuse before it contacts anything:
// [ErrOptions] or [ErrCutoff].
func Check(opts Options) error {
	_, err := opts.withDefaults()
	return err
}

// Report says what a run did.
type Report struct {
	AppCode  string  `json:"app_code"`
	CutoffMS int64   `json:"cutoff_ms"`
	DryRun   bool    `json:"dry_run"`
	Batches  []Batch `json:"batches"`
	Rows     int64   `json:"rows"` // of all batches that have a receipt, or would get one
	// More is true when MaxBatches ended the run before the cutoff did.
	More bool `json:"more"`
	// MovedBatchID is the batch of an earlier run whose data object this one has
	// moved to its cold class; "" when there was none to move.
	MovedBatchID manifest.BatchID `json:"moved_batch_id,omitempty"`
	Duration     time.Duration    `json:"-"`
}

// Batch says what became of one batch.
type Batch struct {
	BatchID         manifest.BatchID `json:"batch_id"`
	DataObjectKey   string           `json:"data_object_key"`
	Rows            int64            `json:"rows"`
	FirstCursor     manifest.Cursor  `json:"first_cursor"`
	LastCursor      manifest.Cursor  `json:"last_cursor"`
	CompressedBytes int64            `json:"compressed_bytes"`
	NDJSONSHA256    manifest.Hash    `json:"ndjson_sha256"`
	// Adopted is true when an earlier run had written the data object already.
	Adopted bool `json:"adopted"`
	// Recorded is true when the receipt is in the ledger, Existed when it was
	// there before this run.
	Recorded bool                      `json:"recorded"`
	Existed  bool                      `json:"existed"`
	Fidelity *manifest.PayloadFidelity `json:"payload_fidelity"`
	// Verify is what reading back found; nil in a dry run.
	Verify *verify.Report `json:"verify"`
	// StorageClass is the cold class that the data object was moved to; "" when
	// it was moved to none.
	StorageClass string `json:"storage_class,omitempty"`
	// Versions are the version ids of the three objects on a versioned store.
	Versions verify.Versions `json:"versions"`
}

// Run exports batches until the cutoff, Options.MaxBatches or an error. While
// one batch is recorded, the next ones are written and read back, and the one
// after them is read and packed; batches are recorded strictly in order. lock is
// nil in a dry run only.
//
// The error is [ErrCutoff] or [ErrOptions] before anything is contacted, then
// [ErrConflict], [ErrNotWhole], [ErrNotLocked], [manifest.ExactnessError], ctx.Err(), or what
// the source, the store, the ledger or the lock returned. The Report lists what
// was recorded before it.
func Run(ctx context.Context, src Source, store Store, led Ledger, lock Lock, opts Options) (report Report, err error) {
	opts, err = opts.withDefaults()
	report = Report{AppCode: opts.AppCode, CutoffMS: opts.CutoffMS, DryRun: opts.DryRun, Batches: []Batch{}}
	if err != nil {
		return report, err
	}
	if err := able(store, opts.Put); err != nil && !opts.DryRun {
		return report, err
	}
	started := opts.Now()
	defer func() { report.Duration = opts.Now().Sub(started) }()
	last, some, err := led.Latest(ctx, opts.AppCode)
	if err != nil {
		return report, fmt.Errorf("read the latest receipt of %s: %w", opts.AppCode, err)
	}
	var after manifest.Cursor
	if some {
		after = last.LastCursor()
	}
	opts.Logger.InfoContext(ctx, "export starts", "app_code", opts.AppCode, "cutoff_ms", opts.CutoffMS,
		"after_updated_at_ms", after.UpdatedAtMS, "after_event_id", after.EventID)
	b := &builder{src: src, store: store, led: led, opts: opts}
	c := &committer{store: store, led: led, lock: lock, about: src.About(), opts: opts, verifiedAtMS: last.VerifiedAtMS}
	if some && !opts.DryRun {
		if report.MovedBatchID, err = c.freezeLast(ctx, &last); err != nil {
			return report, err
		}
	}
	err = pipeline(ctx, b, c, after, &report)
	report.More = b.more
	return report, err
}
