package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

// fromFile returns the chosen receipts of the receipt file: in the order in
// which they were asked for by id, else by cursor. The whole file is read and
// checked, whatever is chosen: where it breaks off or contradicts itself comes
// last, as a batch that cannot be used.
func (s *selection) fromFile(ctx context.Context) ([]chosen, error) {
	f, err := os.Open(s.receiptFile)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	defer f.Close()
	var list, broken []chosen
	seen := map[[2]string]bool{} // app_code and batch_id
	rr := manifest.NewReceiptReader(f)
	for n := 1; ; n++ {
		offset := rr.Offset()
		receipt, members, err := rr.Next()
		if err == io.EOF {
			break
		}
		for _, merr := range rr.Members() {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			err = cmp.Or(err, merr)
		}
		key := [2]string{receipt.AppCode, string(receipt.BatchID)}
		if err == nil && seen[key] {
			err = fmt.Errorf("batch %s has another receipt before it: %w", receipt.BatchID, manifest.ErrBadReceipt)
		}
		seen[key] = true
		if err != nil {
			err = fmt.Errorf("read receipts %s: receipt %d: %w", s.receiptFile, n, err)
			if outcomeOf(err) != report.ArchiveWrong {
				return nil, err
			}
			broken = append(broken, unusable(receipt.AppCode, receipt.BatchID, err))
			if errors.Is(err, manifest.ErrBadReceipt) {
				continue // about this receipt only
			}
			break
		}
		if !s.includes(&receipt) {
			continue
		}
		b := vouched(receipt) // Next has validated its keys
		if b.members = members; members > 0 {
			b.Members = membersAt(s.receiptFile, offset, receipt)
		}
		list = append(list, b)
	}
	return append(s.arrange(list), broken...), nil
}

// arrange orders what was found, keeps the latest, and adds a chosen without a
// receipt for each id that was not found.
func (s *selection) arrange(list []chosen) []chosen {
	slices.SortStableFunc(list, func(a, b chosen) int {
		return cmp.Or(cmp.Compare(a.Receipt.LastUpdatedAtMS, b.Receipt.LastUpdatedAtMS), cmp.Compare(a.Receipt.LastEventID, b.Receipt.LastEventID))
	})
	if s.latest > 0 && len(list) > s.latest {
		list = list[len(list)-s.latest:]
	}
	if len(s.ids) == 0 {
		return list
	}
	ordered := make([]chosen, 0, len(s.ids))
	for _, id := range s.ids {
		before := len(ordered)
		for _, c := range list {
			if c.Location.BatchID == id {
				ordered = append(ordered, c)
			}
		}
		if len(ordered) == before {
			ordered = append(ordered, notFound(s.app, id))
		}
	}
	return ordered
}

// membersAt returns the members of the receipt that stands at offset in the
// file, read anew each time.
func membersAt(path string, offset int64, want manifest.Receipt) func(context.Context) iter.Seq2[manifest.Member, error] {
	return func(ctx context.Context) iter.Seq2[manifest.Member, error] {
		return func(yield func(manifest.Member, error) bool) {
			fail := func(err error) { yield(manifest.Member{}, fmt.Errorf("read members in %s: %w", path, err)) }
			f, err := os.Open(path)
			if err != nil {
				fail(err)
				return
			}
			defer f.Close()
			if _, err := f.Seek(offset, io.SeekStart); err != nil {
				fail(err)
				return
			}
			rr := manifest.NewReceiptReader(f)
			receipt, _, err := rr.Next()
			if err == nil && receipt != want {
				err = errors.New("the file changed while it was read")
			}
			if err != nil {
				fail(err)
				return
			}
			for m, err := range rr.Members() {
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					fail(err)
					return
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}
