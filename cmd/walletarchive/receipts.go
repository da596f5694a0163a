package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

const outFlag = "out"

// noMembers is what is shown of a receipt without members.
const noMembers = "none: an older receipt, its rows are never eligible for a clean-up"

func receiptsCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:        "receipts",
		Usage:       "list, show and export the receipts of the ledger",
		Subcommands: []*cli.Command{receiptsListCommand(p), receiptsShowCommand(p), receiptsExportCommand(p)},
	}
}

func receiptsListCommand(p *program) *cli.Command {
	return p.receiptsSubcommand(&cli.Command{
		Name:  "list",
		Usage: "list receipts, the oldest first: all of them unless some are chosen",
		Flags: flags(selectionFlags(), jsonFlags(), logFlags()),
	}, receiptOrAll, func(_ context.Context, c *cli.Context, list []chosen) error {
		if c.Bool(jsonFlag) {
			return errors.Join(p.printReceiptsJSON(list), firstMissing(list))
		}
		return errors.Join(p.printReceiptsTable(list), firstMissing(list))
	})
}

func receiptsShowCommand(p *program) *cli.Command {
	return p.receiptsSubcommand(&cli.Command{
		Name:  "show",
		Usage: "print every field of receipts",
		Flags: flags(selectionFlags(), jsonFlags(), logFlags()),
	}, receiptNeeded, func(_ context.Context, c *cli.Context, list []chosen) error {
		if c.Bool(jsonFlag) {
			return errors.Join(p.printReceiptsJSON(list), missing(list))
		}
		for i, b := range list {
			if b.err == nil {
				p.printReceipt(i > 0, &b)
			}
		}
		return missing(list)
	})
}

func receiptsExportCommand(p *program) *cli.Command {
	return p.receiptsSubcommand(&cli.Command{
		Name:  "export",
		Usage: "write a receipt file, with which an auditor verifies without the ledger",
		Description: "The file holds each receipt and its members, one JSON object a line (docs/FORMAT.md \"Receipt file\").\n" +
			"Nothing is written when one of the batches has no receipt.",
		Flags: flags(selectionFlags(), []cli.Flag{
			&cli.StringFlag{Name: outFlag, Usage: "write to `FILE`, which must not exist, instead of stdout"},
		}, logFlags()),
	}, receiptNeeded, func(ctx context.Context, c *cli.Context, list []chosen) error {
		if err := missing(list); err != nil {
			return err
		}
		if path := c.String(outFlag); path != "" {
			return createFile(path, func(w io.Writer) error { return writeReceipts(ctx, w, list) })
		}
		if wasClosed(p.stdout.w) {
			return errors.New("stdout is closed, so the receipts would be lost")
		}
		return writeReceipts(ctx, p.stdout, list)
	})
}

// receiptsSubcommand completes a command that works on the receipts chosen.
func (p *program) receiptsSubcommand(c *cli.Command, need need, work func(context.Context, *cli.Context, []chosen) error) *cli.Command {
	c.ArgsUsage = "[BATCH_ID ...]"
	c.CustomHelpTemplate = codes(exitArchive, exitNoBatch)
	c.Action = p.action(func(ctx context.Context, c *cli.Context) error {
		sel, err := p.selection(c, need)
		if err != nil {
			return err
		}
		return p.withReceipts(ctx, sel, func(list []chosen) error { return work(ctx, c, list) })
	})
	return c
}

// missing returns an error when nothing was chosen or firstMissing has one.
func missing(list []chosen) error {
	if len(list) == 0 {
		return fmt.Errorf("nothing selected: %w", errNothing)
	}
	return firstMissing(list)
}

// firstMissing returns why the first batch without a usable receipt has none.
func firstMissing(list []chosen) error {
	for _, b := range list {
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// receiptJSON is a receipt in walletarchive.receipts/v1.
type receiptJSON struct {
	manifest.Receipt
	// MemberCount is 0 for an older receipt, whose rows are never eligible for
	// a clean-up.
	MemberCount int64 `json:"member_count"`
}

// receiptsJSON is the document of receipts list --json and receipts show --json.
type receiptsJSON struct {
	Schema   string        `json:"schema"`
	Receipts []receiptJSON `json:"receipts"`
}

func (p *program) printReceiptsJSON(list []chosen) error {
	doc := receiptsJSON{Schema: report.Schema("receipts"), Receipts: []receiptJSON{}}
	for _, b := range list {
		if b.err == nil {
			doc.Receipts = append(doc.Receipts, receiptJSON{*b.Receipt, b.members})
		}
	}
	return p.printJSON(doc)
}

func (p *program) printReceiptsTable(list []chosen) error {
	var n, rows int64
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "APP\tBATCH\tROWS\tFIRST DELIVERED\tLAST DELIVERED\tVERIFIED\tMEMBERS")
	for _, b := range list {
		if b.err != nil {
			continue
		}
		r := b.Receipt
		members := report.Count(b.members)
		if b.members == 0 {
			members = noMembers
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", report.Printable(r.AppCode), report.Printable(r.BatchID.String()),
			report.Count(r.RowCount), utc(r.FirstUpdatedAtMS), utc(r.LastUpdatedAtMS), utc(r.VerifiedAtMS), members)
		n, rows = n+1, rows+r.RowCount
	}
	if err := w.Flush(); err != nil {
		return err
	}
	p.printf("%s, %s\n", report.Plural(n, "receipt"), report.Plural(rows, "row"))
	return nil
}

// printReceipt prints the fields of one receipt, named as in the ledger.
func (p *program) printReceipt(blankFirst bool, b *chosen) {
	if blankFirst {
		p.printf("\n")
	}
	r := b.Receipt
	field := func(name string, value any) { p.printf("%-22s %s\n", name, report.Printable(fmt.Sprint(value))) }
	ms := func(name string, value int64) { p.printf("%-22s %d (%s)\n", name, value, utc(value)) }
	field("app_code", r.AppCode)
	field("batch_id", r.BatchID)
	field("state", r.State)
	field("data_object_key", r.DataObjectKey)
	field("manifest_object_key", r.ManifestObjectKey)
	field("success_object_key", r.SuccessObjectKey)
	field("schema_version", r.SchemaVersion)
	field("row_count", r.RowCount)
	ms("first_updated_at_ms", r.FirstUpdatedAtMS)
	field("first_event_id", r.FirstEventID)
	ms("last_updated_at_ms", r.LastUpdatedAtMS)
	field("last_event_id", r.LastEventID)
	ms("min_created_at_ms", r.MinCreatedAtMS)
	ms("max_created_at_ms", r.MaxCreatedAtMS)
	field("available_delta_total", r.AvailableDeltaTotal)
	field("frozen_delta_total", r.FrozenDeltaTotal)
	field("ndjson_sha256", r.NDJSONSHA256)
	field("gzip_sha256", r.GzipSHA256)
	field("data_crc64", r.DataCRC64)
	field("manifest_crc64", r.ManifestCRC64)
	field("success_crc64", r.SuccessCRC64)
	field("manifest_sha256", r.ManifestSHA256)
	field("uncompressed_bytes", r.UncompressedBytes)
	field("compressed_bytes", r.CompressedBytes)
	ms("verified_at_ms", r.VerifiedAtMS)
	ms("created_at_ms", r.CreatedAtMS)
	ms("updated_at_ms", r.UpdatedAtMS)
	if b.members == 0 {
		field("members", noMembers)
		return
	}
	field("members", b.members)
}

// utc returns a time in Unix milliseconds as people read it.
func utc(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func writeReceipts(ctx context.Context, w io.Writer, list []chosen) error {
	for _, b := range list {
		r := *b.Receipt
		if b.members == 0 {
			if err := manifest.WriteReceipt(w, &r, 0, nil); err != nil {
				return err
			}
			continue
		}
		if err := manifest.WriteReceipt(w, &r, b.members, b.Members(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// createFile writes a new file that appears whole or not at all, and never
// replaces another.
func createFile(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	// Unlike Rename, Link fails when path exists.
	return os.Link(tmp.Name(), path)
}
