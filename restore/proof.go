package restore

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// notNeeded is Report.NoRehearsal of a target that was proven.
const notNeeded = "not needed: by the definition of the target the server changes none of these rows"

// prove returns what a rehearsal could still find out: why it is not certain, by
// the definition of the target and what the archive says of its rows, that each
// comes back as it was written and that no relay takes it. Nil spares the
// rehearsal; what was written is read back in any case.
func (r *restorer) prove(t *outbox.Table, settings mysqldb.Settings) []string {
	doubts := t.Doubts(r.needs, settings, r.payloadsCarry(t))
	if r.opts.OnConflict == Overwrite {
		doubts = append(doubts, "rows may be overwritten")
	}
	if r.opts.RelayQuery != DefaultRelayQuery {
		// Of the default is known that it selects no delivered row, and verify has
		// seen that all are.
		doubts = append(doubts, "the relay has a condition of its own")
	}
	return doubts
}

// payloadsCarry reports whether the source, a server of the very version of the
// target, has found that it spells every payload as it is in the archive.
func (r *restorer) payloadsCarry(t *outbox.Table) bool {
	f := r.manifest.PayloadFidelity
	return f != nil && f.Checked && f.TextUnstableRows == 0 && r.manifest.Source.ServerVersion == t.Server.Version
}

// proven reports whether there is to be no rehearsal. A dry run is there to find
// out, and makes one always.
func (r *restorer) proven() bool { return len(r.doubts) == 0 && !r.opts.DryRun }

// errTableChanged is returned when what was proven is not what is there any more.
var errTableChanged = errors.New("the definition of the target was changed since the preflight")

// spareRehearsal notes that a target which was proven needs no rehearsal. By now
// the transaction has read the table, so that its definition stays; it is read
// once more, since it may have been changed before that.
func (a *attempt) spareRehearsal(ctx context.Context) error {
	if a.opts.Scratch || a.opts.Rehearsed || a.rehearsed || !a.proven() {
		return nil // something else spares it
	}
	now, err := outbox.Describe(ctx, a.conn, a.table.Name)
	if err != nil {
		return err
	}
	settings, err := mysqldb.ReadSettings(ctx, a.conn)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, a.table) || len(a.prove(&now, settings)) > 0 {
		return fmt.Errorf("table %s: %w", a.table.Name, errTableChanged)
	}
	a.report.NoRehearsal = notNeeded
	return nil
}
