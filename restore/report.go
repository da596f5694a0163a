package restore

import (
	"fmt"
	"time"

	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// State is what the batch's transaction has done to the target.
type State int

// The states. Only in Committed and Unchanged is known what the target holds.
const (
	// Untouched means that no transaction came to its end: nothing was written,
	// or what was written was undone with the connection.
	Untouched State = iota
	// Unchanged means that every row was there already, so nothing was written.
	Unchanged
	// Committed means that the server confirmed the commit, or that it was asked
	// afterwards and has every row.
	Committed
	// RolledBack means that what was written was undone.
	RolledBack
	// Unknown means that the answer to the commit was lost and the server could
	// not be asked afterwards. The same restore may be run again.
	Unknown
)

// String returns the name that the JSON documents use.
func (s State) String() string {
	switch s {
	case Untouched:
		return "untouched"
	case Unchanged:
		return "unchanged"
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled_back"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// MarshalText returns [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MaxConflicts is how many conflicts a [Report] names; all are counted.
const MaxConflicts = 100

// Report says what a restore of one batch found and did. Once the target was
// looked at, every selected row of the batch is present, missing, or a conflict
// that names its line.
type Report struct {
	AppCode       string           `json:"app_code"`
	BatchID       manifest.BatchID `json:"batch_id"`
	Table         string           `json:"table"`
	ServerVersion string           `json:"server_version"` // as SELECT VERSION() gives it; "" before it was asked
	DryRun        bool             `json:"dry_run"`
	// Loader is how rows were written: "LOAD DATA LOCAL" or "INSERT"; "" when
	// none were.
	Loader string `json:"loader"`
	// Problems are what the preflight found, the fatal ones among them.
	Problems []Problem `json:"problems"`
	Rows     int64     `json:"rows"` // of the batch
	// Selected rows of the batch are what was asked for: all, without
	// Options.Select.
	Selected int64 `json:"selected"`
	// Present rows were there before, with their archived value. Missing ones
	// were not there.
	Present int64 `json:"present"`
	Missing int64 `json:"missing"`
	// Inserted rows were written and read back, and are in the target when State
	// is Committed.
	Inserted int64 `json:"inserted"`
	// Overwritten rows were there otherwise and are as archived now; skipped ones
	// were left as they are. Both are among the conflicts.
	Overwritten int64 `json:"overwritten"`
	Skipped     int64 `json:"skipped"`
	// Respelled of the present, inserted and overwritten rows have a payload that is spelled
	// otherwise and has the same value.
	Respelled     int64      `json:"respelled"`
	ConflictCount int64      `json:"conflict_count"`
	Conflicts     []Conflict `json:"conflicts"` // the first MaxConflicts by event_id
	// ConflictColumns counts the conflicts by column that differs.
	ConflictColumns map[string]int64 `json:"conflict_columns"`
	// Rehearsal is what a temporary table of the target's definition made of the
	// rows to be written; nil when there was none.
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
	// NoRehearsal says why there was none although there were rows to be written:
	// "not needed: …". It is "" for a target of [Options.Scratch], after
	// [Options.Rehearsed], and where a problem of the code not_rehearsed says more.
	NoRehearsal string `json:"no_rehearsal,omitempty"`
	// States are what the target holds of each selected row, after a dry run that
	// came to look at them; else nil.
	States *RowStates `json:"-"`
	State  State      `json:"state"`
	// CommitReadBack says that the answer to the commit was lost, and State is
	// what the server was found to hold afterwards.
	CommitReadBack bool          `json:"commit_read_back"`
	Attempts       int           `json:"attempts"` // transactions that were begun
	Duration       time.Duration `json:"-"`
}

// Complete reports whether the target holds all selected rows as archived: every
// one was compared, and is there for good. It is false after a dry run, and when
// a row was skipped.
func (r *Report) Complete() bool {
	done := r.State == Committed || r.State == Unchanged && r.Inserted+r.Overwritten == 0
	return done && !r.DryRun && r.Rows > 0 && r.ConflictCount == r.Overwritten && r.Inserted == r.Missing &&
		r.Inserted+r.Present+r.Overwritten == r.Selected
}

// Problem is one thing about the target that stands, or may stand, in the way;
// see outbox.Table.CheckTarget.
type Problem struct {
	Column string      `json:"column,omitempty"` // "" when it is not about one column
	Code   outbox.Code `json:"code"`
	Detail string      `json:"detail"`
	// Fatal says that the restore was refused for it. What is not fatal could
	// still end in an error, but not in a silent change.
	Fatal bool `json:"fatal"`
}

// String returns the problem as a line for people.
func (p Problem) String() string { return outbox.Problem(p).String() }

// Conflict is a row that the target holds otherwise than the archive.
type Conflict struct {
	EventID string `json:"event_id"` // of the archive; of the target when Line is 0
	// Line is where the row stands in the data object, counted from 1. It is 0
	// for a row of the target that is none of the batch and would be taken for one,
	// since the target's collation does not tell the two event_ids apart.
	Line    int64          `json:"line"`
	Columns []ColumnChange `json:"columns"`
}

// ColumnChange is one value that differs. Texts that may hold more than
// identifiers (payload, last_error) are shown by hash and length only.
type ColumnChange struct {
	Column   string `json:"column"`
	Archived string `json:"archived"`
	Found    string `json:"found"`
}
