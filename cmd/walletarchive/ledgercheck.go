package main

import (
	"context"
	"fmt"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// Checks that no batch shows by itself, made where every batch of a ledger is
// verified (docs/CLI.md "Checks").
const (
	checkReceipt        = "receipt"                // it cannot be read, or contradicts itself
	checkReceiptOverlap = "receipt_overlap"        // it begins before the one it follows ends
	checkOrphans        = "member_without_receipt" // members of a batch that has no receipt
)

// maxOrphans is how many batches without a receipt are named.
const maxOrphans = 20

// ledgerFault is what the ledger itself shows to be wrong about a batch, so that
// there is no receipt to hold it against.
type ledgerFault struct{ report.Fault }

func (e *ledgerFault) Error() string {
	return fmt.Sprintf("%s: found %s, expected %s", e.Check, e.Got, e.Want)
}

// Unwrap makes it the fault of the archive's evidence that it is.
func (e *ledgerFault) Unwrap() error { return manifest.ErrBadReceipt }

// audit checks the rules that hold between all batches of an app: it adds
// faults to list, which has every receipt in the order of the chain, and the
// batches whose receipt is gone.
func audit(ctx context.Context, l *ledger.Ledger, app string, list []chosen) ([]chosen, error) {
	overlaps(list)
	orphans, total, err := l.Orphans(ctx, app, maxOrphans)
	if err != nil {
		return nil, err
	}
	for i, o := range orphans {
		f := report.Fault{
			Check: checkOrphans, Object: ledger.MembersTable, Row: o.EventID,
			Got: report.Plural(o.Members, "member") + " and no receipt", Want: "the receipt that the members name",
		}
		if rest := total - int64(i) - 1; i == len(orphans)-1 && rest > 0 {
			f.Detail = fmt.Sprintf("and %s more without a receipt", report.Plural(rest, "batch"))
		}
		list = append(list, unusable(app, o.BatchID, &ledgerFault{f}))
	}
	return list, nil
}

// overlaps adds a fault to each batch that begins before an earlier one ends
// (docs/FORMAT.md "Ledger"): its rows may be archived twice, or the receipts are
// of two tables, of which the cursor skips rows. Within a millisecond only the
// source's collation knows the order of event_ids; the same cursor twice is
// wrong under any.
func overlaps(list []chosen) {
	var last *manifest.Receipt
	for i := range list {
		r := list[i].Receipt
		if r == nil || r.Validate() != nil {
			continue // a fault already
		}
		if last != nil && (r.FirstUpdatedAtMS < last.LastUpdatedAtMS || r.FirstCursor() == last.LastCursor()) {
			list[i].faults = append(list[i].faults, report.Fault{
				Check: checkReceiptOverlap, Object: ledger.ReceiptsTable, Got: cursorText("begins at", r.FirstCursor()),
				Want: cursorText("after", last.LastCursor()), Detail: "where batch " + last.BatchID.Short() + " ends",
			})
		}
		last = r // the chain is in the order of last cursors
	}
}

func cursorText(where string, c manifest.Cursor) string {
	return fmt.Sprintf("%s (%d, %q)", where, c.UpdatedAtMS, c.EventID)
}

// auditedBatch is verifiedBatch with the faults that the ledger shows.
func auditedBatch(b *chosen, rep *verify.Report, err error) report.Batch {
	out := verifiedBatch(rep, err)
	if len(b.faults) > 0 {
		out.Faults = append(out.Faults, b.faults...)
		out.Outcome = report.ArchiveWrong
	}
	return out
}
