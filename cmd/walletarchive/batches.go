package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// errNothing says that a selection is empty.
var errNothing = errors.New("no receipt fits")

// chosen is a batch that a command is to work on.
type chosen struct {
	verify.Target
	// members is how many Target.Members yields: 0 when it is nil.
	members int64
	// faults are what the ledger shows to be wrong with it; see audit.
	faults []report.Fault
	// err says why there is nothing to work on: ledger.ErrNoReceipt,
	// verify.ErrNoBatch or manifest.ErrBadReceipt. nil when there is.
	err error
}

// notFound is a batch that was asked for and has no receipt.
func notFound(app string, id manifest.BatchID) chosen {
	return unusable(app, id, fmt.Errorf("batch %s: %w", id, ledger.ErrNoReceipt))
}

// unusable is a batch on which no work is possible.
func unusable(app string, id manifest.BatchID, err error) chosen {
	return chosen{Target: verify.Target{Location: manifest.Location{AppCode: app, BatchID: id}}, err: err}
}

// vouched returns the batch that a receipt describes, without members.
func vouched(r manifest.Receipt) chosen {
	loc, err := manifest.ParseLocation(r.DataObjectKey)
	if err != nil {
		return unusable(r.AppCode, r.BatchID, fmt.Errorf("receipt of batch %s: %w: %w", r.BatchID, manifest.ErrBadReceipt, err))
	}
	return chosen{Target: verify.Target{Location: loc, Receipt: &r}}
}

// withReceipts finds the batches of s in its receipt file or ledger and calls
// work with them.
func (p *program) withReceipts(ctx context.Context, s selection, work func([]chosen) error) error {
	if s.receiptFile != "" {
		list, err := s.fromFile(ctx)
		if err != nil {
			return err
		}
		return work(list)
	}
	return p.withLedger(ctx, s.ledgerDSN, func(l *ledger.Ledger) error {
		list, err := s.fromLedger(ctx, l)
		if err != nil {
			return err
		}
		return work(list)
	})
}

// ledgerConns is enough for a stream of members, a lock and a query at once.
const ledgerConns = 4

// withLedger calls work with an open ledger.
func (p *program) withLedger(ctx context.Context, dsn string, work func(*ledger.Ledger) error) error {
	db, err := mysqldb.Open(ctx, dsn, mysqldb.Options{MaxConns: ledgerConns, Logger: p.log})
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer db.Close()
	return work(ledger.New(db))
}

// fromLedger returns the chosen receipts of the ledger: in the order in which
// they were asked for by id, else the oldest first.
func (s *selection) fromLedger(ctx context.Context, l *ledger.Ledger) ([]chosen, error) {
	var list []chosen
	add := func(r manifest.Receipt) error {
		b := vouched(r)
		n, err := l.MemberCount(ctx, r.AppCode, r.BatchID)
		if n > 0 {
			b.members = n
			b.Members = func(ctx context.Context) iter.Seq2[manifest.Member, error] {
				return l.Members(ctx, r.AppCode, r.BatchID)
			}
		}
		list = append(list, b)
		return err
	}
	if len(s.ids) == 0 {
		filter := ledger.Filter{AppCode: s.app, Since: s.since, Until: s.until, Latest: s.latest}
		if s.created {
			filter.Since, filter.Until = time.Time{}, time.Time{} // the ledger knows them by delivery
		}
		receipts, err := l.Receipts(ctx, filter)
		for _, r := range receipts {
			if r.Err != nil {
				list = append(list, unusable(r.AppCode, r.BatchID, r.Err))
				continue
			}
			if s.created && !s.includes(&r.Receipt) {
				continue
			}
			err = errors.Join(err, add(r.Receipt))
		}
		if err == nil && s.audit {
			list, err = audit(ctx, l, s.app, list)
		}
		return list, err
	}
	for _, id := range s.ids {
		r, err := l.Receipt(ctx, s.app, id)
		switch {
		case errors.Is(err, ledger.ErrNoReceipt):
			list = append(list, notFound(s.app, id))
		case errors.Is(err, manifest.ErrBadReceipt):
			list = append(list, unusable(s.app, id, err))
		case err != nil:
			return nil, err
		default:
			if err := add(r); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}
