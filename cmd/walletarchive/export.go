package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/export"
	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

// exportOptions are what the command line of export asks for.
type exportOptions struct {
	export.Options
	store                place
	sourceDSN, ledgerDSN string
	table                string
	reader               outbox.ReaderOptions
}

// exportConnections is how many pages are read at once by default. In the order of
// the cursor each row of a table larger than the buffer pool is a page from the
// disk, which most of the time is spent waiting for: four take 0.77 of the time
// of two (MariaDB 10.11, 285 MB of rows, a pool of 64 MiB).
const exportConnections = 4

// sourceConns lets several pages be read at once beside the ledger's needs.
const sourceConns = 8

func exportCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "pack delivered events into batches, read each back, and record its receipt",
		Flags: flags(storeFlags(), appFlags(), dsnFlags(sourceDSNFlag, "the source"), dsnFlags(ledgerDSNFlag, "the ledger (default: the source)"), []cli.Flag{
			&cli.DurationFlag{Name: "older-than", Usage: "take events delivered at least `AGE` ago, 720h for example", DefaultText: "none"},
			&cli.Int64Flag{Name: "cutoff-ms", Usage: "take events delivered before `N`, in Unix milliseconds", DefaultText: "none"},
			&cli.DurationFlag{Name: "min-age", Value: export.DefaultMinAge, Usage: "refuse a cutoff younger than `AGE`, since a transaction that commits late could slip behind the cursor"},
			&cli.StringFlag{Name: "table", Value: outbox.DefaultTable, Usage: "name of the source `TABLE`"},
			&cli.IntFlag{Name: "batch-rows", Value: export.DefaultBatchRows, Usage: "rows of a batch: `N`"},
			&cli.IntFlag{Name: "page-rows", Value: outbox.DefaultPageRows, Usage: fmt.Sprintf("rows of one SELECT: `N`, at most %d", outbox.MaxPageRows)},
			&cli.IntFlag{Name: "max-batches", Usage: "stop after `N` batches", DefaultText: "no limit"},
			&cli.IntFlag{Name: "connections", Value: exportConnections, Usage: "pages that are read at once: `N`"},
			&cli.StringFlag{Name: "payload-fidelity", Value: "check", Usage: "ask the source which payloads do not survive its own JSON parser: `HOW` is check or skip"},
			&cli.StringFlag{Name: "temp-dir", Usage: "`DIR` for three packed batches", DefaultText: "the system's"},
			&cli.BoolFlag{Name: "dry-run", Usage: "read and pack, and write nothing", DisableDefaultText: true},
		}, putFlags(), jsonFlags(), logFlags(), progressFlags()),
		CustomHelpTemplate: codes(exitArchive, exitTarget, exitLocked),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			opts, err := p.exportOptions(c)
			if err != nil {
				return err
			}
			rep, err := p.export(ctx, opts)
			if exitCode(ctx, err) == exitUsage {
				return err
			}
			if perr := p.printExport(c, &rep, opts.Put, err); perr != nil {
				return errors.Join(err, perr)
			}
			return err
		}),
	}
}

func (p *program) exportOptions(c *cli.Context) (o exportOptions, err error) {
	if o.store, err = needStore(c); err != nil {
		return o, err
	}
	if o.AppCode, err = needApp(c); err != nil {
		return o, err
	}
	if o.sourceDSN, err = p.needDSN(c, sourceDSNFlag); err != nil {
		return o, err
	}
	if o.ledgerDSN, err = p.dsn(c, ledgerDSNFlag); err != nil {
		return o, err
	}
	switch age, ms := c.Duration("older-than"), c.Int64("cutoff-ms"); {
	case c.IsSet("older-than") == c.IsSet("cutoff-ms"):
		return o, usagef("give one of --older-than and --cutoff-ms")
	case c.IsSet("cutoff-ms"):
		o.CutoffMS = ms
	default:
		o.CutoffMS = p.now().Add(-age).UnixMilli()
	}
	switch how := c.String("payload-fidelity"); how {
	case "check":
		o.reader.Fidelity = true
	case "skip":
	default:
		return o, usagef("--payload-fidelity %q is neither check nor skip", how)
	}
	for name, least := range map[string]int{"batch-rows": 1, "page-rows": 1, "max-batches": 0, "connections": 1} {
		if n := c.Int(name); n < least {
			return o, usagef("--%s is %d, want at least %d", name, n, least)
		}
	}
	if n := c.Int("page-rows"); n > outbox.MaxPageRows {
		return o, usagef("--page-rows is %d, at most %d", n, outbox.MaxPageRows)
	}
	if n := c.Int("connections"); n > outbox.MaxConnections {
		return o, usagef("--connections is %d, at most %d", n, outbox.MaxConnections)
	}
	if c.Duration("min-age") < 0 {
		return o, usagef("--min-age is negative")
	}
	// Options.MinAge 0 is the default, so a minimum of nothing is a nanosecond.
	o.MinAge = max(c.Duration("min-age"), 1)
	if o.Put, err = putOptions(c, o.store, p.now()); err != nil {
		return o, err
	}
	o.store.create, o.store.retention = !c.Bool("dry-run"), !o.Put.RetainUntil.IsZero()
	o.table = c.String("table")
	o.BatchRows, o.MaxBatches, o.DryRun = c.Int("batch-rows"), c.Int("max-batches"), c.Bool("dry-run")
	o.reader.AppCode, o.reader.CutoffMS = o.AppCode, o.CutoffMS
	o.reader.PageRows, o.reader.Connections = c.Int("page-rows"), c.Int("connections")
	o.TempDir, o.Writer, o.Logger, o.Now = c.String("temp-dir"), tool(), p.log, p.now
	return o, export.Check(o.Options)
}

// export opens everything that the export needs and runs it under the lock.
func (p *program) export(ctx context.Context, o exportOptions) (rep export.Report, err error) {
	rep = export.Report{AppCode: o.AppCode, CutoffMS: o.CutoffMS, DryRun: o.DryRun, Batches: []export.Batch{}}
	store, err := p.openArchive(ctx, o.store)
	if err != nil {
		return rep, err
	}
	defer store.close()
	o.Prefix = store.prefix
	db, err := mysqldb.Open(ctx, o.sourceDSN, mysqldb.Options{MaxConns: sourceConns + o.reader.Connections, Logger: p.log})
	if err != nil {
		return rep, fmt.Errorf("open the source: %w", err)
	}
	defer db.Close()
	src, err := p.openSource(ctx, db, o)
	if err != nil {
		return rep, err
	}
	task := p.progress.Task("export", progress.Counts{})
	defer task.Done()
	o.Options.Progress = func(rows int64) { task.Add(progress.Counts{Rows: rows}) }
	work := func(l *ledger.Ledger) (err error) {
		if o.DryRun {
			rep, err = export.Run(ctx, src, store.Store, book{l}, nil, o.Options)
			return err
		}
		lock, err := l.Lock(ctx, o.AppCode)
		if err != nil {
			return err
		}
		rep, err = export.Run(ctx, src, store.Store, book{l}, lock, o.Options)
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if rerr := lock.Release(release); rerr != nil {
			// Its connection ends with the process, and the lock with it.
			p.log.Warn("the lock could not be released", "app_code", o.AppCode, "error", rerr)
		}
		return err
	}
	if o.ledgerDSN == "" {
		err = work(ledger.New(db))
	} else {
		err = p.withLedger(ctx, o.ledgerDSN, work)
	}
	return rep, err // not in one expression: work sets rep
}

// openSource reads the definition of the source table and says what of it will
// not be archived.
func (p *program) openSource(ctx context.Context, db *sql.DB, o exportOptions) (*source, error) {
	table, err := outbox.Describe(ctx, db, o.table)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", o.table, err)
	}
	problems := table.CheckSource()
	var fatal []error
	for _, pr := range problems {
		if pr.Fatal {
			fatal = append(fatal, errors.New(pr.String()))
			continue
		}
		p.log.Warn("the source table: "+pr.String(), "table", o.table, "column", pr.Column, "code", string(pr.Code))
	}
	if len(fatal) > 0 {
		return nil, fmt.Errorf("table %s cannot be exported: %w", o.table, errors.Join(fatal...))
	}
	rd, err := outbox.NewReader(db, &table, o.reader)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", o.table, err)
	}
	return &source{rd: rd, about: export.About{
		Origin:           manifest.Origin{ServerVersion: table.Server.Version, Table: table.Name},
		EventIDCollation: table.EventIDCollation(),
		FidelityChecked:  rd.FidelityChecked(),
	}}, nil
}

// source is an outbox.Reader as export.Run wants it. The reader was made for
// one app and cutoff.
type source struct {
	rd    *outbox.Reader
	about export.About
}

func (s *source) About() export.About { return s.about }

func (s *source) Rows(ctx context.Context, _ string, after manifest.Cursor, _ int64) iter.Seq2[export.Row, error] {
	return func(yield func(export.Row, error) bool) {
		for row, err := range s.rd.Rows(ctx, after) {
			if err != nil {
				yield(export.Row{}, err)
				return
			}
			if !yield(export.Row{Record: &row.Record, TextUnstable: row.TextUnstable, ValueUnstable: row.ValueUnstable}, nil) {
				return
			}
		}
	}
}

// book is a ledger as export.Run wants it.
type book struct{ *ledger.Ledger }

func (b book) HasReceipt(ctx context.Context, app string, id manifest.BatchID) (bool, error) {
	_, err := b.Receipt(ctx, app, id)
	if errors.Is(err, ledger.ErrNoReceipt) {
		return false, nil
	}
	return err == nil, err
}

// exportDocument is the JSON document of export (docs/CLI.md "export").
type exportDocument struct {
	Schema string           `json:"schema"`
	Tool   manifest.Program `json:"tool"`
	export.Report
	DurationMS int64  `json:"duration_ms"`
	Error      string `json:"error,omitempty"`
}

func (p *program) printExport(c *cli.Context, rep *export.Report, put export.PutOptions, err error) error {
	if c.Bool(jsonFlag) {
		doc := exportDocument{Schema: report.Schema(c.Command.Name), Tool: tool(), Report: *rep, DurationMS: rep.Duration.Milliseconds()}
		if err != nil {
			doc.Error = p.redact.clean(err.Error())
		}
		return p.printJSON(doc)
	}
	verb := "recorded"
	if rep.DryRun {
		verb = "would be written"
	}
	var done int64
	for _, b := range rep.Batches {
		word := verb
		if rep.DryRun || b.Recorded {
			done++
		}
		switch {
		case rep.DryRun:
		case !b.Recorded:
			word = "NOT RECORDED"
		case b.Existed:
			word = "was recorded already"
		case b.Adopted:
			word = "recorded, with the objects of an earlier run"
		}
		p.printf("batch %s  %s  %s  %s\n", b.BatchID, report.Plural(b.Rows, "row"), report.Bytes(b.CompressedBytes), word)
		if f := b.Fidelity; f != nil && f.TextUnstableRows+f.ValueUnstableRows > 0 {
			p.printf("  payloads: %s will be spelled otherwise by MySQL, %s will lose a JSON type\n",
				report.Plural(f.TextUnstableRows, "row"), report.Plural(f.ValueUnstableRows, "row"))
		}
		if v := b.Verify; v != nil {
			for _, f := range v.Faults {
				p.printf("  %s\n", report.Printable(f.String()))
			}
		}
	}
	p.printf("%s in %s %s, delivered before %s, in %s\n", report.Plural(rep.Rows, "row"), report.Plural(done, "batch"),
		verb, time.UnixMilli(rep.CutoffMS).UTC().Format(time.RFC3339), report.Duration(rep.Duration))
	if kept := keptText(put); kept != "" && rep.Rows > 0 {
		p.printf("objects are %s\n", kept)
	}
	if rep.MovedBatchID != "" {
		p.printf("batch %s  data moved to %s, which an earlier run had left undone\n", rep.MovedBatchID, put.DataStorageClass)
	}
	if rep.More {
		p.printf("more rows are waiting: --max-batches ended the run\n")
	}
	return nil
}
