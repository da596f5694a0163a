// Package ledger keeps the receipts of batches and the members of each receipt
// in a server of the MySQL family, and holds the lock that lets only one export
// of an app run at a time (docs/FORMAT.md "Ledger").
//
// A receipt says that the three objects of a batch were read back whole. A
// member says which receipt holds an event; an event is never a member twice.
// Only [Ledger.Record] writes either, all of a batch or nothing. The package
// judges no archive: that is what package verify does with what it reads here.
//
// Start with [New]. [Schema] is the DDL of both tables.
package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hyapp/walletarchive/manifest"
)

// Names of the two tables.
const (
	ReceiptsTable = "wallet_outbox_archive_receipts"
	MembersTable  = "wallet_outbox_archive_members"
)

var (
	// ErrConflict is wrapped by every [*ConflictError].
	ErrConflict = errors.New("the ledger holds something else")
	// ErrReadBack is returned by [Ledger.Record] when the server gives back another
	// value than was written: a trigger, or a column of another type.
	ErrReadBack = errors.New("the ledger does not give back what was written")
	// ErrOutcomeUnknown is returned by [Ledger.Record] when the connection was lost
	// while the transaction was committed and the ledger could not be read after it.
	// The same call again finds out.
	ErrOutcomeUnknown = errors.New("it is not known whether the receipt was recorded")
)

// ErrNoReceipt is returned by [Ledger.Receipt] when the app has no such batch.
var ErrNoReceipt = errors.New("no such receipt")

// Ledger reads and writes the two tables in the database that its pool is
// connected to. It is safe for concurrent use.
type Ledger struct {
	db       *sql.DB
	checked  atomic.Bool // the tables were found fit for recording
	batchKey atomic.Bool // and the members have the key of that name
	window   int         // members that are sorted at once

	mu    sync.Mutex
	whole *sql.Stmt // see wholeChunk; nil until it is needed
}

// New returns the ledger in the database of db, which must come from mysqldb.Open
// (what is read back is compared by bytes, and only a strict session refuses what
// does not fit) and remains the caller's to close. A lock and a stream of members
// keep one connection each; a pool of fewer than three can wait forever.
func New(db *sql.DB) *Ledger { return &Ledger{db: db, window: windowRows} }

// ConflictError says what of a receipt, or of one of its members, is already in
// the ledger and differs from what was to be recorded. It wraps [ErrConflict].
type ConflictError struct {
	AppCode string
	BatchID manifest.BatchID
	EventID string // of the member, "" when the receipt itself differs
	Column  string
	Got     string // what the ledger holds, "" for nothing
	Want    string // what was to be recorded, "" for nothing
}

// Error names the batch, the member, the column and both values.
func (e *ConflictError) Error() string {
	s := "receipt " + e.BatchID.Short() + " of " + e.AppCode
	if e.EventID != "" {
		s += fmt.Sprintf(", member %q", clip(e.EventID))
	}
	return fmt.Sprintf("%s: %v: %s is %q, want %q", s, ErrConflict, e.Column, clip(e.Got), clip(e.Want))
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// MemberError says how the members that were to be recorded contradict their
// receipt or each other. It wraps [manifest.ErrBadReceipt].
type MemberError struct {
	EventID string // "" when it is not about one member
	Column  string // or "row_count" when there are too few or too many members
	Got     string // of the member
	Want    string // by the receipt
}

// Error names the member, the column and both values.
func (e *MemberError) Error() string {
	s := "members"
	if e.EventID != "" {
		s = fmt.Sprintf("member %q", clip(e.EventID))
	}
	return fmt.Sprintf("%s: %s is %q, want %q: %v", s, e.Column, clip(e.Got), clip(e.Want), manifest.ErrBadReceipt)
}

// Unwrap returns [manifest.ErrBadReceipt].
func (e *MemberError) Unwrap() error { return manifest.ErrBadReceipt }

// clip shortens what came from outside before it goes into an error.
func clip(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
