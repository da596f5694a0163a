package restore

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// Errors of [OpenJournal]; compare with errors.Is.
var (
	// ErrOtherRun is returned for a journal of another target or another plan.
	ErrOtherRun = errors.New("the journal is of another restore")
	// ErrJournalBusy is returned for a journal that another process writes.
	ErrJournalBusy = errors.New("another run writes this journal")
)

// JournalOptions are the settings of [OpenJournal]. Path, PlanID, Operator and
// Target have no default.
type JournalOptions struct {
	Path     string
	PlanID   string // names what is to be restored, and how
	Tool     manifest.Program
	Operator string
	Ticket   string // "" when there is none
	Target   TargetIdentity
	// Table is a table in the database of the target that takes a line of each
	// transaction, in that transaction; it is made on a further connection when it
	// is not there, once there is something to commit. "" has none.
	Table  string
	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil discards
}

// Journal is the receipt of a restore while it is written: a file to which each
// transaction is added, and which is on disk before the commit is asked for. So
// whatever moment a run is killed at, the file names every row that may have been
// inserted or overwritten.
//
// It is not safe for concurrent use; the hooks of a batch call it one at a time.
type Journal struct {
	opts    JournalOptions
	db      *sql.DB // of the target
	file    *os.File
	out     *bufio.Writer
	header  ReceiptHeader
	resumed bool
	before  ReceiptCounts // standing from earlier runs
	total   ReceiptCounts // committed by this one
	seq     int64
	err     error // of the file; then every call returns it
	buf     []byte
	tabled  bool // the journal table is there

	// Of the transaction at hand.
	sum       hash.Hash
	counts    ReceiptCounts
	respelled []respelledRow
	pending   bool
}

// respelledRow is a row whose hash in the target is to be asked for.
type respelledRow struct {
	eventID string
	outcome Outcome
	old     json.RawMessage
}

// OpenJournal begins the journal at opts.Path, or goes on with the one that is
// there: an earlier run of the same plan was killed then, and what became of its
// last transaction is found out in db, a pool of the target. The caller calls
// Close.
//
// The error is [ErrOtherRun], [ErrJournalBusy], [ErrReceipt], or of the file or
// the server.
func OpenJournal(ctx context.Context, db *sql.DB, opts JournalOptions) (*Journal, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Path == "" || opts.PlanID == "" || opts.Operator == "" || opts.Target.Table == "" {
		return nil, errors.New("journal options: path, plan, operator or target is missing")
	}
	j := &Journal{opts: opts, db: db, sum: sha256.New()}
	f, err := os.OpenFile(opts.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(opts.Path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j.file, j.out = f, bufio.NewWriterSize(f, 256<<10)
	if err := j.open(ctx, db, created); err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal: %w", err), f.Close())
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context, db *sql.DB, created bool) error {
	if err := lockFile(j.file); err != nil {
		return err
	}
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if err := checkRegular(info); err != nil {
		return err
	}
	if err := checkReceiptStart(j.file); err != nil {
		return err
	}
	if err := keepPrivate(j.file, info); err != nil {
		return err
	}
	if created || info.Size() == 0 { // a run that was killed before its first line
		if err := j.begin(); err != nil {
			return err
		}
		return syncDir(filepath.Dir(j.opts.Path))
	}
	err = j.resume(ctx, db)
	if errors.Is(err, ErrNoHeader) {
		if err := j.file.Truncate(0); err != nil {
			return err
		}
		return j.begin()
	}
	return err
}

func (j *Journal) begin() error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	j.header = ReceiptHeader{
		Schema: ReceiptSchema, RunID: hex.EncodeToString(id), PlanID: j.opts.PlanID, Tool: j.opts.Tool,
		Operator: j.opts.Operator, Ticket: j.opts.Ticket, StartedAt: j.now(), Target: j.opts.Target, JournalTable: j.opts.Table,
	}
	return j.write(receiptLine{Header: &j.header}, true)
}

// resume goes on with the journal of an earlier run.
func (j *Journal) resume(ctx context.Context, db *sql.DB) error {
	r, err := ReadReceipt(j.opts.Path)
	if err != nil {
		return err
	}
	switch h := r.Header; {
	case !h.Target.Same(j.opts.Target):
		return fmt.Errorf("%w: it is about %s, this is %s", ErrOtherRun, h.Target, j.opts.Target)
	case h.PlanID != j.opts.PlanID:
		return fmt.Errorf("%w: it is about plan %.12s, this is plan %.12s: other batches, rows or settings", ErrOtherRun, h.PlanID, j.opts.PlanID)
	case j.opts.Table != "" && h.JournalTable != j.opts.Table:
		return fmt.Errorf("%w: its table in the target is %q, not %q", ErrOtherRun, h.JournalTable, j.opts.Table)
	}
	j.header, j.seq, j.resumed = r.Header, r.seq, true
	if err := j.file.Truncate(r.size); err != nil { // what a crash tore off
		return err
	}
	var outcome *receiptOutcome
	if n := len(r.Transactions); n > 0 && r.Transactions[n-1].State == Unknown {
		t := &r.Transactions[n-1]
		state, how, err := settleTransaction(ctx, db, j.opts.Logger, r, t)
		if err != nil {
			return fmt.Errorf("find out what became of transaction %d: %w", t.Seq, err)
		}
		if state != Unknown {
			outcome = &receiptOutcome{Seq: t.Seq, State: state, Settled: how, At: j.now()}
			t.State = state
		}
		j.opts.Logger.WarnContext(ctx, "the last transaction of the earlier run was not confirmed, and was looked up",
			"journal", j.opts.Path, "transaction", t.Seq, "batch_id", t.BatchID, "state", state.String(), "how", how)
	}
	j.before = r.Standing()
	if outcome != nil {
		if err := j.write(receiptLine{Outcome: outcome}, false); err != nil {
			return err
		}
	}
	return j.write(receiptLine{Resumed: &receiptResumed{Tool: j.opts.Tool, Operator: j.opts.Operator, Ticket: j.opts.Ticket, At: j.now()}}, true)
}

// Resumed reports whether the journal goes on with an earlier run, and
// [Receipt.Standing] of that.
func (j *Journal) Resumed() (ReceiptCounts, bool) { return j.before, j.resumed }

// Counts returns the rows of this run's committed transactions.
func (j *Journal) Counts() ReceiptCounts { return j.total }

// Path returns where the journal is.
func (j *Journal) Path() string { return j.opts.Path }

// RunID returns the name of the run.
func (j *Journal) RunID() string { return j.header.RunID }

// Hooks returns what writes one batch into the journal.
func (j *Journal) Hooks(appCode string, id manifest.BatchID) Hooks {
	return Hooks{
		Begin: func(context.Context) error { return j.beginTransaction(appCode, id) },
		Row: func(ctx context.Context, o RowOutcome) error {
			// A row was written, so that nothing stands in the way any more; and nobody
			// should wait for all of them to hear that the table cannot be made.
			if o.Outcome == Inserted || o.Outcome == Overwritten {
				if err := j.needTable(ctx); err != nil {
					return err
				}
			}
			return j.row(o)
		},
		BeforeCommit: func(ctx context.Context, tx mysqldb.Session) error {
			if err := j.hashRespelled(ctx, tx, appCode); err != nil {
				return err
			}
			return j.prepare(ctx, tx, appCode, id)
		},
		AfterCommit: func(context.Context) error { return j.committed() },
	}
}

func (j *Journal) beginTransaction(appCode string, id manifest.BatchID) error {
	if err := j.rolledBack(); err != nil {
		return err
	}
	j.seq++
	j.counts, j.respelled = ReceiptCounts{}, j.respelled[:0]
	err := j.write(receiptLine{Begin: &receiptBegin{Seq: j.seq, AppCode: appCode, BatchID: id, At: j.now()}}, false)
	j.sum.Reset()
	return err
}

func (j *Journal) row(o RowOutcome) error {
	r := receiptRow{EventID: o.Row.EventID, Outcome: o.Outcome, Respelled: o.Respelled}
	if o.Outcome == Overwritten {
		if o.Old == nil {
			return fmt.Errorf("line %d is overwritten and nobody has kept what it was", o.Row.Line)
		}
		r.Old = o.Old.AppendLine(nil)
	}
	if o.Respelled && (o.Outcome == Inserted || o.Outcome == Overwritten) {
		j.respelled = append(j.respelled, respelledRow{r.EventID, r.Outcome, r.Old})
		return nil
	}
	switch {
	case o.Outcome != Skipped:
		j.buf = o.Row.AppendLine(j.buf[:0])
		r.RowHash = manifest.SumHash(j.buf)
	case o.Old != nil:
		r.RowHash = o.Old.RowHash()
	}
	return j.writeRow(r)
}

func (j *Journal) writeRow(r receiptRow) (err error) {
	if j.err != nil {
		return j.err
	}
	if j.buf, err = appendRow(j.buf[:0], &r); err == nil {
		j.sum.Write(j.buf)
		_, err = j.out.Write(j.buf)
	}
	if err != nil {
		j.err = fmt.Errorf("write the journal %s: %w", j.opts.Path, err)
	}
	j.counts.add(r.Outcome)
	return j.err
}

// hashRespelled writes the rows that the target spells in its own way with the
// hash that they have there, since an undo has nothing else to know them by.
func (j *Journal) hashRespelled(ctx context.Context, tx mysqldb.Session, appCode string) error {
	if len(j.respelled) == 0 {
		return nil
	}
	table, err := outbox.Describe(ctx, tx, j.header.Target.Table)
	if err != nil {
		return err
	}
	byID := make(map[string]respelledRow, len(j.respelled))
	ids := make([]string, len(j.respelled))
	for i, r := range j.respelled {
		byID[r.eventID], ids[i] = r, r.eventID
	}
	for got, err := range outbox.ReadByKeys(ctx, tx, &table, appCode, ids) {
		if err != nil {
			return err
		}
		r, ok := byID[got.EventID]
		if !ok {
			continue
		}
		delete(byID, got.EventID)
		if err := j.writeRow(receiptRow{EventID: r.eventID, Outcome: r.outcome, RowHash: got.RowHash(), Respelled: true, Old: r.old}); err != nil {
			return err
		}
	}
	if len(byID) > 0 {
		return fmt.Errorf("%d rows were read back and are not there for the journal", len(byID))
	}
	return nil
}

// needTable makes the journal table when it is not there, on a connection of its
// own: to make one commits.
func (j *Journal) needTable(ctx context.Context) error {
	if j.header.JournalTable == "" || j.tabled {
		return nil
	}
	if err := createJournalTable(ctx, j.db, j.header.JournalTable); err != nil {
		return err
	}
	j.tabled = true
	return nil
}

// prepare makes the transaction pending: durable here before it can be there.
func (j *Journal) prepare(ctx context.Context, tx mysqldb.Session, appCode string, id manifest.BatchID) error {
	p := &receiptPending{Seq: j.seq, Counts: j.counts, SHA256: manifest.Hash(j.sum.Sum(nil))}
	if err := j.needTable(ctx); err != nil {
		return err
	}
	if j.header.JournalTable != "" {
		if err := insertJournalRow(ctx, tx, &j.header, p, appCode, id, j.opts.Now()); err != nil {
			return err
		}
	}
	j.pending = true
	return j.write(receiptLine{Pending: p}, true)
}

func (j *Journal) committed() error {
	state := Unchanged
	if j.counts.changed() > 0 {
		state = Committed
	}
	j.total.plus(j.counts)
	return j.outcome(state)
}

// rolledBack notes that a pending transaction was not committed.
func (j *Journal) rolledBack() error {
	if !j.pending {
		return j.err
	}
	return j.outcome(RolledBack)
}

func (j *Journal) outcome(s State) error {
	j.pending = false
	return j.write(receiptLine{Outcome: &receiptOutcome{Seq: j.seq, State: s, At: j.now()}}, true)
}

// Settle tells the journal in which state [Batch] has left the target, when it
// returned an error.
func (j *Journal) Settle(s State) error {
	if s == RolledBack || s == Untouched {
		return j.rolledBack()
	}
	return j.err // committed was noted by the hook, and unknown stays so
}

// Close ends the journal. complete says that the target holds all that was asked
// for.
func (j *Journal) Close(complete bool) error {
	err := j.write(receiptLine{End: &receiptEnd{Complete: complete && !j.pending, At: j.now()}}, true)
	return errors.Join(err, j.file.Close())
}

func (j *Journal) now() string { return j.opts.Now().UTC().Format(time.RFC3339Nano) }

// write adds a line, which is on disk afterwards when durable says so.
func (j *Journal) write(line receiptLine, durable bool) error {
	if j.err != nil {
		return j.err
	}
	text, err := encodeReceiptLine(line)
	if err == nil {
		_, err = j.out.Write(text)
	}
	if durable && err == nil {
		if err = j.out.Flush(); err == nil {
			err = j.file.Sync()
		}
	}
	if err != nil {
		j.err = fmt.Errorf("write the journal %s: %w", j.opts.Path, err)
	}
	return j.err
}

// syncDir makes a name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
