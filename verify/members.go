package verify

import (
	"context"
	"fmt"
	"iter"

	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// members are those of the ledger, read while the rows are decoded.
type members struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the rest is set
	set    *spill.Set
	faults faults
	n      int64
	err    error
}

// readMembers begins to read the members of the receipt; nil when there are none.
// The caller must call close.
func (r *run) readMembers(ctx context.Context) *members {
	rc := r.target.Receipt
	if rc == nil || r.target.Members == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	all := &members{cancel: cancel, done: make(chan struct{}), set: spill.New(r.opts.TempDir, spill.Options{Expect: rc.RowCount})}
	go func() {
		defer close(all.done)
		all.err = all.read(ctx, rc, r.target.Members)
	}()
	return all
}

func (all *members) read(ctx context.Context, rc *manifest.Receipt, members func(context.Context) iter.Seq2[manifest.Member, error]) error {
	for m, err := range members(ctx) {
		if err != nil {
			return fmt.Errorf("read the members of batch %s: %w", rc.BatchID, err)
		}
		all.n++
		if want := rc.Member(m.EventID, m.UpdatedAtMS); m != want {
			all.faults.add(Fault{
				Check:  CheckMemberReceipt,
				Got:    fmt.Sprintf("app_code %q, batch %s, manifest %s, verified at %d", m.AppCode, m.BatchID, m.ManifestSHA256, m.ReceiptVerifiedAtMS),
				Want:   fmt.Sprintf("app_code %q, batch %s, manifest %s, verified at %d", want.AppCode, want.BatchID, want.ManifestSHA256, want.ReceiptVerifiedAtMS),
				Detail: fmt.Sprintf("event_id %q", m.EventID),
			})
		}
		if err := all.set.Add(spill.Entry{EventID: m.EventID, UpdatedAtMS: m.UpdatedAtMS, Line: all.n}); err != nil {
			return fmt.Errorf("remember a member: %w", err)
		}
	}
	return nil
}

// close ends the reading and removes the temporary file.
func (all *members) close() {
	if all == nil {
		return
	}
	all.cancel()
	<-all.done
	_ = all.set.Close() // nothing is wanted of it
}

// checkSets finds event_ids that repeat and, when rowsKnown and the ledger has
// members, holds the rows against them as sets: which row is no member, which
// member is no row, and whose updated_at_ms differs.
func (r *run) checkSets(ctx context.Context, rows *spill.Set, rowsKnown bool, all *members, p *pass) error {
	var members *spill.Set
	if rowsKnown && all != nil {
		<-all.done
		if all.err != nil {
			return all.err
		}
		members, p.members = all.set, all.n
		p.faults.merge(&all.faults)
	}
	diff, err := spill.Compare(ctx, rows, members, MaxFaultsPerCheck)
	if err != nil {
		return fmt.Errorf("compare event_ids: %w", err)
	}
	data := r.target.Location.DataKey()
	list(&p.faults, CheckEventIDUnique, diff.DuplicateRows, func(d spill.Duplicate) Fault {
		return Fault{Object: data, Line: d.SecondLine, Got: fmt.Sprintf("event_id %q %d times", d.EventID, d.Count), Want: "once", Detail: fmt.Sprintf("first at line %d", d.FirstLine)}
	})
	list(&p.faults, CheckMemberExtra, diff.DuplicateMembers, func(d spill.Duplicate) Fault {
		return Fault{Got: fmt.Sprintf("member %q %d times", d.EventID, d.Count), Want: "once"}
	})
	list(&p.faults, CheckMemberExtra, diff.Missing, func(m spill.Entry) Fault {
		return Fault{Got: fmt.Sprintf("member %q at %d, no row", m.EventID, m.UpdatedAtMS), Want: "a row of the batch"}
	})
	list(&p.faults, CheckMemberMissing, diff.Extra, func(row spill.Entry) Fault {
		return Fault{Object: data, Line: row.Line, Got: fmt.Sprintf("row %q at %d, no member", row.EventID, row.UpdatedAtMS), Want: "a member of the receipt"}
	})
	list(&p.faults, CheckMemberTime, diff.Moved, func(m spill.Moved) Fault {
		return Fault{Object: data, Line: m.Row.Line, Got: fmt.Sprintf("row %q at %d", m.Row.EventID, m.Row.UpdatedAtMS), Want: fmt.Sprintf("at %d, as its member", m.Member.UpdatedAtMS)}
	})
	return nil
}

// list adds the findings that were named and counts the others.
func list[T any](fs *faults, check Check, l spill.List[T], fault func(T) Fault) {
	for i, found := range l.First {
		f := fault(found)
		f.Check = check
		n := int64(1)
		if i == len(l.First)-1 {
			n += l.Total - int64(len(l.First))
		}
		fs.addN(f, n)
	}
}
