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

	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// errNoReceipt says that a batch was asked for of which the receipt file has no
// receipt.
var errNoReceipt = errors.New("no receipt")

// chosen is a batch that a command is to work on.
type chosen struct {
	verify.Target
	// err says why there is nothing to work on, errNoReceipt for example; nil
	// when there is.
	err error
}

// fromFile returns the chosen receipts of the receipt file: in the order in
// which they were asked for by id, else by cursor. The whole file is read and
// checked, whatever is chosen.
func (s *selection) fromFile(ctx context.Context) ([]chosen, error) {
	f, err := os.Open(s.receiptFile)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	defer f.Close()
	var list []chosen
	rr := manifest.NewReceiptReader(f)
	for {
		for range rr.Members() {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		offset := rr.Offset()
		receipt, members, err := rr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read receipts %s: %w", s.receiptFile, err)
		}
		if !s.includes(&receipt) {
			continue
		}
		t, err := targetOf(receipt)
		if err != nil {
			return nil, fmt.Errorf("read receipts %s: %w", s.receiptFile, err)
		}
		if members > 0 {
			t.Members = membersAt(s.receiptFile, offset, receipt)
		}
		if slices.ContainsFunc(list, func(c chosen) bool { return c.Location == t.Location }) {
			return nil, fmt.Errorf("read receipts %s: two receipts of batch %s: %w", s.receiptFile, receipt.BatchID, manifest.ErrBadReceipt)
		}
		list = append(list, chosen{Target: t})
	}
	return s.arrange(list), nil
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

// notFound is a batch that was asked for and has no receipt.
func notFound(app string, id manifest.BatchID) chosen {
	return chosen{
		Target: verify.Target{Location: manifest.Location{AppCode: app, BatchID: id}},
		err:    fmt.Errorf("batch %s: %w", id, errNoReceipt),
	}
}

// targetOf returns the batch that a receipt describes, without members.
func targetOf(r manifest.Receipt) (verify.Target, error) {
	loc, err := manifest.ParseLocation(r.DataObjectKey)
	if err != nil {
		return verify.Target{}, fmt.Errorf("receipt of batch %s: %w: %w", r.BatchID, manifest.ErrBadReceipt, err)
	}
	return verify.Target{Location: loc, Receipt: &r}, nil
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
