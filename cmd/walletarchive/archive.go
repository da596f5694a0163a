package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/hyapp/walletarchive/internal/progress"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// against says for people what the batches of s are held against.
func (s *selection) against() string {
	switch {
	case s.receiptFile != "":
		return "the receipts and members of " + s.receiptFile
	case s.ledgerDSN != "":
		return "the receipts and members of the ledger"
	}
	return "their own manifests only"
}

// withBatches finds the batches of s, in the archive when nobody has receipts of
// them, and calls work with them.
func (p *program) withBatches(ctx context.Context, s selection, a archive, work func([]chosen) error) error {
	if s.receiptFile != "" || s.ledgerDSN != "" {
		return p.withReceipts(ctx, s, func(list []chosen) error {
			a.place(list)
			if s.expect != nil {
				list = s.expect(list)
			}
			return work(list)
		})
	}
	list, err := s.fromStore(ctx, a)
	if err != nil {
		return err
	}
	return work(list)
}

// place says where the batches of list are now. A receipt knows where its batch
// was written; where the URL names a prefix, it is below that.
func (a archive) place(list []chosen) {
	if a.prefix == "" {
		return
	}
	for i := range list {
		list[i].Location.Prefix = a.prefix
	}
}

// fromStore looks for the batches in a listing, since an id alone does not say
// under which date a batch lives. A listing may lag behind the store: a batch
// that is not in it is not found, which proves nothing.
func (s *selection) fromStore(ctx context.Context, a archive) ([]chosen, error) {
	found := map[manifest.BatchID]manifest.Location{}
	folder := manifest.JoinPrefix(a.prefix, "app_code="+s.app) + "/"
	for info, err := range a.List(ctx, folder) {
		if err != nil {
			return nil, fmt.Errorf("look for batches: %w", err)
		}
		if !strings.HasSuffix(info.Key, "/"+manifest.SuccessName) {
			continue
		}
		loc, err := manifest.ParseLocation(info.Key)
		if err != nil || loc.Prefix != a.prefix || loc.AppCode != s.app {
			continue // not the marker of a batch of ours
		}
		found[loc.BatchID] = loc
	}
	list := make([]chosen, 0, len(s.ids))
	for _, id := range s.ids {
		if loc, ok := found[id]; ok {
			list = append(list, chosen{Target: verify.Target{Location: loc}})
			continue
		}
		list = append(list, unusable(s.app, id, fmt.Errorf("batch %s of app_code %s is not in the listing of the store, which may lag: %w", id, s.app, verify.ErrNoBatch)))
	}
	return list, nil
}

// eachBatch calls work with each batch of list that can be worked on, one after
// the other, under a progress task, and prints the others. It ends early when
// ctx does or work returns an error.
func (p *program) eachBatch(ctx context.Context, pr *report.Printer, name string, list []chosen, work func(chosen, *progress.Task) error) error {
	var total progress.Counts
	for _, b := range list {
		total.Batches++
		if b.Receipt != nil {
			total.Rows += b.Receipt.RowCount
		}
	}
	task := p.progress.Task(name, total)
	defer task.Done()
	for _, b := range list {
		err := ctx.Err()
		switch {
		case err != nil:
		case b.err != nil:
			err = pr.Batch(unreadable(b))
		default:
			err = work(b, task)
		}
		if err != nil {
			return err
		}
		task.Add(progress.Counts{Batches: 1})
	}
	return ctx.Err()
}
