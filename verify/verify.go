// Package verify judges a batch: it reads the three objects, recomputes every
// figure, and holds them against the rules of docs/FORMAT.md, the manifest,
// and, where there is one, the receipt with its members. It is the only door
// through which rows leave an archive: [Open] gives rows of a batch only after
// the whole batch was found good.
//
// It knows no database and no store SDK; callers bring a [Source] and, in a
// [Target], what the ledger says. Start with [Batch].
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// ErrNoBatch is returned when _SUCCESS is absent and no receipt says that it
// was ever there: a batch without it does not exist (docs/FORMAT.md
// "_SUCCESS"). With a receipt the same is a Fault, [CheckObjectMissing].
var ErrNoBatch = errors.New("no such batch: _SUCCESS is absent")

// ErrUnstable is returned when the same object was read twice and gave two
// different wrong answers: that is about the way here, not about the archive.
var ErrUnstable = errors.New("two reads of the object disagree, neither is as declared")

// Source is what verify needs of a store; see objstore.Store for the contract.
type Source interface {
	Head(ctx context.Context, key, versionID string) (objstore.Info, error)
	Get(ctx context.Context, key, versionID string) (io.ReadCloser, objstore.Info, error)
}

// Level is how deep a verification goes. Each level includes the one before.
type Level int

// The levels, from cheap to thorough.
const (
	// LevelHead asks the store for size and CRC64 of the three objects and
	// holds them against the receipt; without one, manifest and marker are
	// read and the data object is held against the manifest.
	LevelHead Level = iota + 1
	// LevelContent downloads everything and recomputes every hash and CRC64.
	LevelContent
	// LevelRows decodes every row and recomputes every figure of the manifest.
	LevelRows
)

// String returns "head", "content" or "rows".
func (l Level) String() string {
	switch l {
	case LevelHead:
		return "head"
	case LevelContent:
		return "content"
	case LevelRows:
		return "rows"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// ParseLevel reads what [Level.String] gives.
func ParseLevel(s string) (Level, error) {
	for l := LevelHead; l <= LevelRows; l++ {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("level %q is none of head, content, rows", s)
}

// MarshalText returns [Level.String].
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Target is a batch and what is known of it from elsewhere.
type Target struct {
	Location manifest.Location
	// Receipt is what the ledger or a receipt file says; nil holds the batch
	// against its own manifest only.
	Receipt *manifest.Receipt
	// Members yields the members that the ledger holds for Receipt; nil when
	// none were recorded (an older receipt) or there is no receipt. It may be
	// called more than once.
	Members func(context.Context) iter.Seq2[manifest.Member, error]
	// Versions asks for certain versions of the objects on a versioned store;
	// "" asks for the latest.
	Versions Versions
}

// Versions are version ids of the three objects, "" where the store keeps none.
type Versions struct {
	Data     string `json:"data"`
	Manifest string `json:"manifest"`
	Success  string `json:"success"`
}

// Options of a verification. The zero value verifies at [LevelRows].
type Options struct {
	Level Level // 0 means LevelRows
	// MaxLineBytes is passed to manifest.ReaderOptions.
	MaxLineBytes int
	// TempDir holds spooled data and sorted runs; "" means os.TempDir.
	TempDir string
	// RequireRetention makes less than this much object lock, from now on, a
	// fault of each object; 0 requires none.
	RequireRetention time.Duration
	Now              func() time.Time // nil means time.Now
	Logger           *slog.Logger     // nil discards
	// Progress, when not nil, is told how many more rows were decoded. It is
	// called from one goroutine.
	Progress func(rows int64)
	// Collect, when not nil, is given the rows at LevelRows.
	Collect Collector
}

// Collector takes the rows of a batch while they are verified, so that they need
// not be read once more. What it holds means nothing before [Open] has returned
// the batch, whose Collected it then is. An error of either method ends the
// verification.
type Collector interface {
	// Reset is called before the data object is read, and drops what was added:
	// it may be read twice.
	Reset() error
	// Add is called for each row that decodes, in file order. The row must not be
	// changed, and its strings stay valid.
	Add(row *manifest.Row) error
}

func (o Options) withDefaults() Options {
	if o.Level == 0 {
		o.Level = LevelRows
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	return o
}

// Object is what was found of one of the three objects.
type Object struct {
	Key          string          `json:"key"`
	Bytes        int64           `json:"bytes"`
	CRC64        *manifest.CRC64 `json:"crc64"` // as the store names it; null when it names none
	VersionID    string          `json:"version_id,omitempty"`
	StorageClass string          `json:"storage_class,omitempty"`
	Thaw         string          `json:"thaw"`
	RetainUntil  *time.Time      `json:"retain_until"` // null when not locked or not known
}

// Note is something a reader of the report should know that is no fault.
type Note struct {
	Object string `json:"object,omitempty"`
	Text   string `json:"text"`
}

// Report is the verdict on one batch: it is proven at its level when all of its
// objects were looked at, and Faults and Unchecked are both empty.
type Report struct {
	AppCode string           `json:"app_code"`
	BatchID manifest.BatchID `json:"batch_id"`
	Level   Level            `json:"level"`
	// Against says what the batch was held against: "receipt and members",
	// "receipt without members", or "manifest".
	Against    string          `json:"against"`
	Faults     []Fault         `json:"faults"`
	MoreFaults map[Check]int64 `json:"more_faults,omitempty"` // beyond MaxFaultsPerCheck
	// Unchecked are checks that could not be made; with one the batch is not
	// proven, and nothing is said against it.
	Unchecked []Note   `json:"unchecked"`
	Notes     []Note   `json:"notes"`
	Objects   []Object `json:"objects"`
	// Rows, Members and Bytes count what was really looked at: rows decoded,
	// members compared, bytes downloaded.
	Rows     int64         `json:"rows"`
	Members  int64         `json:"members"`
	Bytes    int64         `json:"bytes"`
	Duration time.Duration `json:"-"`
	// Manifest is nil when manifest.json was not read or not readable.
	Manifest *manifest.Manifest `json:"manifest"`
}

// Proven reports whether every check of the level was made and passed. A Report of
// which nothing was looked at, such as the zero value, is not proven.
func (r *Report) Proven() bool {
	return len(r.Objects) == objectsOfBatch && len(r.Faults) == 0 && len(r.MoreFaults) == 0 && len(r.Unchecked) == 0
}

// objectsOfBatch are data, manifest and marker, docs/FORMAT.md "Objects of a batch".
const objectsOfBatch = 3

// Failed reports whether a rule was found broken.
func (r *Report) Failed() bool { return len(r.Faults) > 0 || len(r.MoreFaults) > 0 }

// Batch reads the batch that t names and reports every rule of docs/FORMAT.md
// that it breaks.
//
// The data object is read once, front to back, and once more when what came
// back is not what was declared, before that becomes a fault; memory is bounded
// by the longest line, not by the batch. A broken archive is a Report with
// Faults and a nil error. The error is [ErrNoBatch], [ErrUnstable],
// objstore.ErrCold, ctx.Err() when cancelled, else an error of the store, which
// names operation and key, or of the members; the Report then holds what was
// found before.
func Batch(ctx context.Context, src Source, t Target, opts Options) (Report, error) {
	opts = opts.withDefaults()
	r := newRun(src, t, opts)
	err := r.verify(ctx)
	return r.finish(), err
}
