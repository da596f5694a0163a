package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// Batch restores the batch v into a table of db, which must be a pool of
// mysqldb.Open. It uses one connection at a time.
//
// A nil error means that every row of the batch is in the target with its
// archived value, and [Report.Complete] says the same; after a dry run, that
// nothing stands in the way. Rows that are there already are compared and left as
// they are. The transaction is begun again, up to opts.MaxAttempts times, when
// something that has nothing to do with the batch undid it.
//
// The error is an [ErrConflict] with its evidence when the target refuses or
// differs, [ErrOutcomeUnknown], ctx.Err() when cancelled before the commit was
// asked for, that of v.Rows, or what the server or the temporary file gave. The
// target then holds nothing that this call wrote, unless the error is
// ErrOutcomeUnknown. The Report is filled as far as things went in any case.
//
// Where v was opened with a [Collector] and opts.Select is nil, the rows are those
// that it holds; else they are read again from v.
//
// Memory is bounded by opts.WindowBytes and one bit a row, not by the batch.
func Batch(ctx context.Context, v *verify.Verified, db *sql.DB, opts Options) (Report, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Report{}, err
	}
	m := v.Manifest()
	r := &restorer{
		manifest: m, db: db, opts: opts,
		log: opts.Logger.With("app_code", m.AppCode, "batch_id", m.BatchID),
		report: Report{
			AppCode: m.AppCode, BatchID: m.BatchID, Table: opts.Table, DryRun: opts.DryRun, Rows: m.RowCount,
			Problems: []Problem{}, Conflicts: []Conflict{}, ConflictColumns: map[string]int64{},
		},
	}
	began := opts.Now()
	err = r.run(ctx, v)
	r.report.Duration = opts.Now().Sub(began)
	if err != nil {
		return r.report, fmt.Errorf("restore batch %s: %w", m.BatchID.Short(), err)
	}
	return r.report, nil
}

// restorer is the work on one batch.
type restorer struct {
	manifest manifest.Manifest
	db       *sql.DB
	opts     Options
	log      *slog.Logger
	table    outbox.Table
	rows     *sorter
	report   Report
	told     int64 // rows that Progress was told of
	needs    *outbox.Needs
	selected lines
	expected *expected // nil without Options.Expect
	// doubts are why there is a rehearsal; see prove.
	doubts []string
	// rehearsed says that there is no rehearsal to be made any more.
	rehearsed bool
}

func (r *restorer) run(ctx context.Context, v *verify.Verified) error {
	c, err := r.collect(ctx, v)
	if c != v.Collected() {
		defer func() {
			if cerr := c.Close(); cerr != nil {
				r.log.WarnContext(ctx, "close the file of sorted rows", "error", cerr)
			}
		}()
	}
	if err != nil {
		return err
	}
	r.rows, r.needs, r.report.Selected = c.rows, &c.needs, c.rows.rows
	if r.opts.Expect != nil {
		if r.expected, err = expect(r.opts.Expect, r.manifest.RowCount, r.selected); err != nil {
			return err
		}
	}
	err = r.retry(ctx, mysqldb.IsConnLost, func() error { return r.preflight(ctx) })
	if err != nil {
		return err
	}
	if err := r.transactions(ctx); err != nil || r.opts.DryRun {
		return err
	}
	return r.opts.afterCommit(ctx)
}

// collect returns the selected rows, sorted, and what they need of a table: those
// that were collected while the batch was verified, or those of another reading.
func (r *restorer) collect(ctx context.Context, v *verify.Verified) (*Collector, error) {
	r.selected = newLines(r.manifest.RowCount)
	if c, ok := v.Collected().(*Collector); ok && r.opts.Select == nil {
		for line := int64(1); line <= r.manifest.RowCount; line++ {
			r.selected.add(line)
		}
		if c.rows.rows != r.manifest.RowCount {
			return c, fmt.Errorf("collect the archived rows: %d of %d", c.rows.rows, r.manifest.RowCount)
		}
		return c, c.finish()
	}
	c := newCollector(r.opts, r.manifest.UncompressedBytes)
	all := int64(0)
	for row, err := range v.Rows(ctx) {
		if err != nil {
			return c, fmt.Errorf("read the archived rows: %w", err)
		}
		all++
		if r.opts.Select != nil && !r.opts.Select(&row.Record) {
			continue
		}
		r.selected.add(row.Line)
		if err := c.Add(row); err != nil {
			return c, err
		}
	}
	if all != r.manifest.RowCount {
		// verify.Open has counted them.
		return c, fmt.Errorf("read the archived rows: %d of %d", all, r.manifest.RowCount)
	}
	return c, c.finish()
}

// preflight finds what the target would refuse or change, and returns a
// *PreflightError when going on could not end well.
func (r *restorer) preflight(ctx context.Context) error {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	defer conn.Close()
	r.table, err = outbox.Describe(ctx, conn, r.opts.Table)
	var found []outbox.Problem
	switch {
	case errors.Is(err, outbox.ErrNoTable):
		found = []outbox.Problem{{Code: noTable, Detail: err.Error(), Fatal: true}}
	case err != nil:
		return err
	case r.opts.CompareOnly:
		r.report.ServerVersion = r.table.Server.Version
		found = r.table.CheckReading()
	default:
		r.report.ServerVersion = r.table.Server.Version
		settings, err := mysqldb.ReadSettings(ctx, conn)
		if err != nil {
			return err
		}
		found = r.table.CheckTarget(r.needs, settings, r.manifest.EventIDCollation)
		r.doubts = r.prove(&r.table, settings)
		found = append(found, r.checkFidelity()...)
		found = append(found, r.checkTriggers()...)
	}
	r.report.Problems = []Problem{} // of this try
	fatal := &PreflightError{Table: r.opts.Table}
	for _, f := range found {
		p := Problem(f)
		if p.Code == outbox.HasTrigger && r.opts.AllowTriggers {
			p.Fatal = false
		}
		if r.opts.ignore(p) {
			continue
		}
		r.report.Problems = append(r.report.Problems, p)
		if p.Fatal {
			fatal.Problems = append(fatal.Problems, p)
		} else {
			r.log.InfoContext(ctx, "preflight", "table", r.opts.Table, "problem", p.String())
		}
	}
	if len(fatal.Problems) > 0 {
		return fatal
	}
	return nil
}

// Codes of problems that package outbox does not know.
const (
	noTable         outbox.Code = "no_table"
	payloadUnstable outbox.Code = "payload_unstable"
)

// checkFidelity says what the archive itself announced of its payloads.
func (r *restorer) checkFidelity() []outbox.Problem {
	f := r.manifest.PayloadFidelity
	if f == nil || !f.Checked {
		return nil
	}
	var all []outbox.Problem
	if f.TextUnstableRows > 0 && !r.table.Server.KeepsJSONText() {
		all = append(all, outbox.Problem{Column: payloadColumn, Code: payloadUnstable, Fatal: r.opts.StrictPayload, Detail: fmt.Sprintf(
			"%d payloads hold a value, such as a DECIMAL, that the source server itself spells otherwise once its text is parsed", f.TextUnstableRows)})
	}
	if f.ValueUnstableRows > 0 {
		all = append(all, outbox.Problem{Column: payloadColumn, Code: payloadUnstable, Detail: fmt.Sprintf(
			"%d payloads hold a value, such as a DATETIME or a BLOB, that comes back as a JSON string of the same text", f.ValueUnstableRows)})
	}
	return all
}

// checkTriggers lists the triggers that package outbox is silent about, since
// they run for other statements than INSERT.
func (r *restorer) checkTriggers() []outbox.Problem {
	var all []outbox.Problem
	for _, tr := range r.table.Triggers {
		switch tr.Event {
		case "INSERT":
		case "UPDATE":
			if r.opts.OnConflict == Overwrite {
				all = append(all, outbox.Problem{Code: outbox.HasTrigger, Fatal: true, Detail: fmt.Sprintf(
					"trigger %s runs %s every row that is overwritten", tr.Name, strings.ToLower(tr.Timing))})
				continue
			}
			fallthrough
		default:
			all = append(all, outbox.Problem{Code: outbox.HasTrigger, Detail: fmt.Sprintf(
				"trigger %s runs %s %s and not for this restore", tr.Name, strings.ToLower(tr.Timing), tr.Event)})
		}
	}
	return all
}

// transactions runs one after another until one comes to its end.
func (r *restorer) transactions(ctx context.Context) error {
	careful := false
	again := func(err error) bool {
		// A row that is there already although none was seen appeared meanwhile, or
		// the target's collation takes two rows for one: looking up every key tells.
		if errors.Is(err, outbox.ErrDuplicate) && !careful {
			careful = true
			return true
		}
		return errors.Is(err, errMeanwhile) || mysqldb.IsRetryable(err) || mysqldb.IsConnLost(err)
	}
	return r.retry(ctx, again, func() error {
		r.report.Attempts++
		r.report.Present, r.report.Missing, r.report.Inserted, r.report.Respelled = 0, 0, 0, 0
		r.report.Overwritten, r.report.Skipped = 0, 0
		r.report.ConflictCount, r.report.Conflicts, r.report.ConflictColumns = 0, []Conflict{}, map[string]int64{}
		r.report.State, r.report.CommitReadBack = Untouched, false
		r.report.States = nil
		return r.attempt(ctx, careful)
	})
}

// retry calls f until it succeeds, again says that a further try would not help,
// or opts.MaxAttempts is reached.
func (r *restorer) retry(ctx context.Context, again func(error) bool, f func() error) error {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval = r.opts.backoff
	for n := 1; ; n++ {
		err := f()
		switch {
		case err == nil, errors.Is(err, ErrOutcomeUnknown):
			return err
		case ctx.Err() != nil && !errors.Is(err, ErrConflict):
			return ctx.Err() // else it may read like a connection that was lost
		case n >= r.opts.MaxAttempts, !again(err):
			return err
		}
		wait := waits.NextBackOff()
		r.log.WarnContext(ctx, "undone by the server or the network, trying again", "attempt", n, "wait", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress tells of rows that were not told of in an earlier attempt.
func (r *restorer) progress() {
	done := r.report.Present + r.report.Inserted + r.report.Overwritten + r.report.Skipped
	if r.opts.DryRun {
		done = r.report.Present + r.report.Missing + r.report.ConflictCount
	}
	if done > r.told {
		r.opts.Progress(done - r.told)
		r.told = done
	}
}
