// Package drill proves that a batch restores: it verifies the batch, restores
// it into a scratch server through package restore, and then compares on its
// own, without trusting the restore: every row of the scratch table against its
// line in the archive, the server's own COUNT, SUM, MIN and MAX against the
// receipt, and the SHA-256 of the rows exported again against ndjson_sha256.
//
// A comparison that found a difference is a [Report] that says so; an error
// means that the drill could not be finished and says nothing about the data.
// Start with [Run].
package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
	"github.com/hyapp/walletarchive/verify"
)

// Scratch is the server that a drill restores into.
type Scratch struct {
	// DB is a pool to a database of its own, in which the drill makes tables.
	DB *sql.DB
	// Server is what the server says it is.
	Server mysqldb.Server
}

// Options of [Run]. The zero value is usable.
type Options struct {
	// StrictPayload makes a payload that came back spelled otherwise a fault
	// even where its value is the same and the archive announced it.
	StrictPayload bool
	// KeepTables leaves the restored tables in the scratch database.
	KeepTables bool
	TempDir    string           // as verify.Options.TempDir
	Now        func() time.Time // nil means time.Now
	Logger     *slog.Logger     // nil discards
	// Progress, when not nil, is told of each step and how many more rows it
	// handled. It is called from one goroutine at a time.
	Progress func(step Step, rows int64)

	// afterRestore, for tests, changes the scratch table before it is compared.
	afterRestore func(ctx context.Context, db *sql.DB, table string) error
}

// Step is a part of a drill, for progress and timing.
type Step string

// The steps of a drill, in their order.
const (
	StepVerify  Step = "verify"
	StepRestore Step = "restore"
	StepCompare Step = "compare"
)

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Step, int64) {}
	}
	return o
}

// Check is one comparison that the drill made after the restore.
type Check struct {
	Name string `json:"name"`
	Got  string `json:"got"`
	Want string `json:"want"`
	OK   bool   `json:"ok"`
}

// Batch is the outcome of the drill of one batch.
type Batch struct {
	AppCode string           `json:"app_code"`
	BatchID manifest.BatchID `json:"batch_id"`
	Verify  verify.Report    `json:"verify"`
	// Restore is nil when the batch did not verify and so was not restored.
	Restore *restore.Report `json:"restore"`
	Table   string          `json:"table"`     // in the scratch database
	Collate string          `json:"collation"` // of the scratch table
	Checks  []Check         `json:"checks"`
	// Rows were compared one by one; Identical of them have the archived row
	// hash, Respelled the same value in a payload spelled otherwise.
	Rows             int64 `json:"rows"`
	Identical        int64 `json:"identical"`
	Respelled        int64 `json:"respelled"`
	RespelledAllowed int64 `json:"respelled_allowed"`
	// ValueUnstable rows are known, from payload_fidelity, to come back with
	// another JSON type (a DATETIME or BLOB that is a string now).
	ValueUnstable int64        `json:"value_unstable"`
	Missing       int64        `json:"missing"`
	Added         int64        `json:"added"`
	Changed       int64        `json:"changed"`
	Differences   []Difference `json:"differences"` // the first of each kind
	Notes         []string     `json:"notes"`
	// RestoreFault is why the target refused rows, "" when it took them all.
	RestoreFault string `json:"restore_fault,omitempty"`

	Took map[Step]time.Duration `json:"-"`
}

// Proven reports whether the batch verified, restored, and passed every
// comparison, and at least one row was compared.
func (b *Batch) Proven() bool {
	return b.Verify.Proven() && b.Rows > 0 && len(b.Checks) > 0 && !b.Differs()
}

// Differs reports whether what was restored is not what the archive holds.
func (b *Batch) Differs() bool {
	if b.RestoreFault != "" {
		return true
	}
	for _, c := range b.Checks {
		if !c.OK {
			return true
		}
	}
	return false
}

// Report is the outcome of a drill.
type Report struct {
	Server   string        `json:"server"` // version of the scratch server; "" when none was started
	Batches  []Batch       `json:"batches"`
	Started  time.Duration `json:"-"` // how long the scratch server took to start
	Duration time.Duration `json:"-"`
}

// Run drills the targets one after another. start is called once, when the
// first batch has verified; the caller closes what it started after Run.
//
// A batch that breaks the contract or does not come back as it was is in the
// Report, and the next one is drilled. The error is that of verify.Batch, of
// start, of the scratch server, or ctx.Err(); the Report then holds what was
// finished before and, last, the batch of the error when something was proven
// wrong of it already.
func Run(ctx context.Context, src verify.Source, targets []verify.Target, start func(context.Context) (Scratch, error), opts Options) (Report, error) {
	opts = opts.withDefaults()
	began := opts.Now()
	report := Report{Batches: []Batch{}}
	defer func() { report.Duration = opts.Now().Sub(began) }()
	var scratch *Scratch
	for _, t := range targets {
		b := Batch{
			AppCode: t.Location.AppCode, BatchID: t.Location.BatchID, Checks: []Check{}, Differences: []Difference{}, Notes: []string{},
			Took: make(map[Step]time.Duration),
		}
		log := opts.Logger.With("app_code", b.AppCode, "batch_id", b.BatchID)
		var v *verify.Verified
		collected := restore.NewCollector(restore.Options{TempDir: opts.TempDir}, t.Receipt)
		err := b.timed(opts, StepVerify, func() (err error) {
			v, b.Verify, err = verify.Open(ctx, src, t, verify.Options{
				TempDir: opts.TempDir, Now: opts.Now, Logger: opts.Logger,
				Progress: func(rows int64) { opts.Progress(StepVerify, rows) },
				Collect:  collected,
			})
			return err
		})
		if err == nil && v != nil {
			if scratch == nil {
				scratch, err = launch(ctx, start, opts, &report)
			}
			if err == nil {
				err = b.drill(ctx, v, collected.Needs(), *scratch, opts)
			}
			err = errors.Join(err, v.Close())
		}
		err = errors.Join(err, collected.Close())
		if err != nil {
			if b.Verify.Failed() || b.Differs() {
				report.Batches = append(report.Batches, b)
			}
			return report, fmt.Errorf("drill batch %s: %w", b.BatchID, err)
		}
		log.InfoContext(ctx, "batch drilled", "proven", b.Proven(), "rows", b.Rows, "identical", b.Identical, "respelled", b.Respelled)
		report.Batches = append(report.Batches, b)
	}
	return report, nil
}

func launch(ctx context.Context, start func(context.Context) (Scratch, error), opts Options, report *Report) (*Scratch, error) {
	began := opts.Now()
	s, err := start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the scratch server: %w", err)
	}
	report.Started = opts.Now().Sub(began)
	report.Server = s.Server.String()
	return &s, nil
}

func (b *Batch) timed(opts Options, step Step, f func() error) error {
	began := opts.Now()
	defer func() { b.Took[step] += opts.Now().Sub(began) }()
	return f()
}

// drill restores a verified batch into a table of its own and compares.
func (b *Batch) drill(ctx context.Context, v *verify.Verified, needs *outbox.Needs, s Scratch, opts Options) error {
	m := v.Manifest()
	b.Table = outbox.DefaultTable + "_" + m.BatchID.Short()
	var err error
	if b.Collate, err = collation(ctx, s.DB, m.EventIDCollation); err != nil {
		return err
	}
	if b.Collate != m.EventIDCollation && m.EventIDCollation != "" {
		b.note("the scratch server has no collation %s; the table uses %s, and the order within a millisecond is taken from the archive", m.EventIDCollation, b.Collate)
	}
	refused := false
	err = b.timed(opts, StepRestore, func() error {
		if _, err := s.DB.ExecContext(ctx, outbox.SchemaFor(b.Table, b.Collate, needs)); err != nil {
			return fmt.Errorf("make scratch table %s: %w", b.Table, err)
		}
		r, err := restore.Batch(ctx, v, s.DB, restore.Options{
			Table: b.Table, StrictPayload: opts.StrictPayload, Logger: opts.Logger, Scratch: true,
			Progress: func(rows int64) { opts.Progress(StepRestore, rows) },
		})
		b.Restore = &r
		if errors.Is(err, restore.ErrConflict) {
			b.RestoreFault, refused = err.Error(), true
			return nil
		}
		return err
	})
	if !opts.KeepTables {
		defer func() {
			dropCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			// That it stays says nothing about the batch, and whoever made the
			// database removes it whole.
			if _, dropErr := s.DB.ExecContext(dropCtx, "DROP TABLE IF EXISTS "+mysqldb.QuoteName(b.Table)); dropErr != nil {
				b.note("scratch table %s could not be dropped: %v", b.Table, dropErr)
				opts.Logger.WarnContext(ctx, "scratch table could not be dropped", "table", b.Table, "error", dropErr)
			}
		}()
	}
	if err != nil || refused {
		return err
	}
	if opts.afterRestore != nil {
		if err := opts.afterRestore(ctx, s.DB, b.Table); err != nil {
			return err
		}
	}
	return b.timed(opts, StepCompare, func() error { return b.compare(ctx, v, s, opts) })
}

func (b *Batch) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// collation picks that of the source where the scratch server has it for
// utf8mb4, else one that tells any two event_ids apart. MariaDB lists a collation
// that several charsets share without the name of the charset.
func collation(ctx context.Context, db *sql.DB, source string) (string, error) {
	for _, want := range []string{source, "utf8mb4_0900_bin", "utf8mb4_nopad_bin", outbox.DefaultCollation} {
		var n int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"+
			" WHERE COLLATION_NAME IN (?, ?) AND CHARACTER_SET_NAME = 'utf8mb4'", want, strings.TrimPrefix(want, "utf8mb4_")).Scan(&n)
		if err != nil {
			return "", fmt.Errorf("ask for collation %q: %w", want, err)
		}
		if n > 0 {
			return want, nil
		}
	}
	return outbox.DefaultCollation, nil
}
