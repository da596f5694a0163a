package restore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// DefaultUndoRows is how many rows an undo takes back in one transaction.
const DefaultUndoRows = 1000

// ErrOtherTarget is returned by [Undo] for a receipt of another server, database
// or table. Nothing was done.
var ErrOtherTarget = errors.New("the receipt is of another target")

// UndoOptions are the settings of [Undo]. The zero value takes everything back.
type UndoOptions struct {
	// DryRun looks at every row and changes nothing. It locks none but those of a
	// transaction that was never confirmed, since that may still run.
	DryRun bool
	// AnyServer takes a server that says it is another one, such as a replica that
	// was promoted. Rows are told by their hashes all the same.
	AnyServer bool
	// AllowTriggers undoes although triggers of the table run, and AllowCascades
	// although foreign keys change rows of other tables. What they do is not undone.
	AllowTriggers      bool
	AllowCascades      bool
	RowsPerTransaction int // 0 means DefaultUndoRows
	MaxAttempts        int // of each transaction; 0 means DefaultMaxAttempts
	// Pause, when not nil, is called after each transaction with the number of
	// rows that it changed, and may wait.
	Pause func(ctx context.Context, rows int) error
	// Progress, when not nil, is told how many more rows were dealt with.
	Progress func(rows int64)
	// Tool and Operator are noted in the receipt.
	Tool     manifest.Program
	Operator string
	Now      func() time.Time // nil means time.Now
	Logger   *slog.Logger     // nil discards
}

// UndoReport says what an undo did, or in a dry run would do. Every row that the
// restore has inserted or overwritten is counted once in UndoneBefore, Removed,
// PutBack, Gone, AlreadyBack or LeftCount, or was not reached because of an error.
type UndoReport struct {
	RunID  string         `json:"run_id"`
	Ticket string         `json:"ticket"` // of the restore
	Target TargetIdentity `json:"target"` // of the receipt
	DryRun bool           `json:"dry_run"`
	Rows   int64          `json:"rows"` // inserted or overwritten by the restore
	// ReceiptEnded is false for the receipt of a run that was killed and never gone on
	// with, and for a copy that was cut off: what it does not name is not undone.
	ReceiptEnded bool `json:"receipt_ended"`
	// SideEffects are what the target does beside the undo, allowed or not.
	SideEffects []SideEffect `json:"side_effects"`
	// OtherColumns of the table are in no archive, and rows that are put back keep
	// what is in them now; nil when no row is to be put back.
	OtherColumns []string `json:"other_columns"`
	// Unconfirmed transactions were sent to be committed and nobody has heard the
	// answer. Those that turned out to be rolled back are not in Rows.
	Unconfirmed int64 `json:"unconfirmed_transactions"`
	// UndoneBefore rows were taken back by an earlier undo, as the receipt says. They
	// are not looked at again: what is there now is another restore's.
	UndoneBefore int64 `json:"undone_before"`
	Removed      int64 `json:"removed"`
	PutBack      int64 `json:"put_back"`
	// Gone rows were inserted and are not there any more.
	Gone int64 `json:"gone"`
	// AlreadyBack rows were overwritten and are again as they were before.
	AlreadyBack int64 `json:"already_back"`
	// Respelled of the rows put back have a payload that the server spells
	// otherwise now, with the same value.
	Respelled int64     `json:"respelled"`
	LeftCount int64     `json:"left_count"`
	Left      []LeftRow `json:"left"` // the first MaxConflicts
	// Duration is of the whole undo.
	Duration time.Duration `json:"-"`
}

// LeftRow is a row that was changed since the restore, or that the target would
// not take back.
type LeftRow struct {
	AppCode string  `json:"app_code"`
	EventID string  `json:"event_id"`
	Outcome Outcome `json:"outcome"` // of the restore
	Why     string  `json:"why"`
}

// Complete reports whether the target is, as far as the receipt goes, as it was
// before the restore. It is false after a dry run, and when the receipt has no end.
func (r *UndoReport) Complete() bool {
	return !r.DryRun && r.ReceiptEnded && r.LeftCount == 0 && r.NotReached() == 0
}

// NotReached counts the rows that an error came before.
func (r *UndoReport) NotReached() int64 {
	return r.Rows - r.UndoneBefore - r.Removed - r.PutBack - r.Gone - r.AlreadyBack - r.LeftCount
}

// Undo takes a restore back: it removes the rows that the receipt says were
// inserted and that have the same hash still, and puts back the ones that were
// overwritten, in short transactions, the last of the restore first. Each row is
// looked at under a lock before it is touched. A row that was changed since, or
// that the target would not take back, is left and reported, and is no error.
// What is taken back is noted in the receipt, after each commit, so that Undo may
// be run again at any time: it is about the rest then. The caller has called
// [HoldReceipt], but for a dry run.
//
// A transaction of the receipt that was never confirmed is looked up first, in
// the journal table where there is one. Without a line there its rows decide: those
// that are in the target as it left them are taken to be its own, and are left
// where the journal table should have had a line.
//
// The error is [ErrReceipt], [ErrOtherTarget], [ErrSideEffects] (of a dry run when
// it has looked at everything), ctx.Err(), or of the server. The report then says
// what was done before it, each transaction whole.
func Undo(ctx context.Context, db *sql.DB, r *Receipt, opts UndoOptions) (UndoReport, error) {
	began := time.Now()
	opts.RowsPerTransaction = cmp.Or(opts.RowsPerTransaction, DefaultUndoRows)
	opts.MaxAttempts = cmp.Or(opts.MaxAttempts, DefaultMaxAttempts)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	u := &undoing{db: db, receipt: r, opts: opts, report: UndoReport{
		RunID: r.Header.RunID, Ticket: r.Header.Ticket, Target: r.Header.Target, DryRun: opts.DryRun, ReceiptEnded: r.Ended, Left: []LeftRow{}, SideEffects: []SideEffect{},
	}}
	if opts.Now == nil {
		u.opts.Now = time.Now
	}
	err := u.run(ctx)
	u.report.Duration = time.Since(began)
	if err != nil {
		return u.report, fmt.Errorf("undo run %.8s: %w", r.Header.RunID, err)
	}
	return u.report, nil
}

// undoing is the work on one receipt.
type undoing struct {
	db      *sql.DB
	receipt *Receipt
	opts    UndoOptions
	table   outbox.Table
	log     *undoLog // nil in a dry run
	// disputed says of the transaction at hand that rows of it are there and its line
	// in the journal table is not. Then nothing of it is touched or noted.
	disputed bool
	// elsewhere says that this is not the server of the restore: what is not there may
	// never have been.
	elsewhere bool
	// refused says of rows of the chunk at hand, by event_id, why the target would not
	// take them back.
	refused map[string]string
	report  UndoReport
}

func (u *undoing) run(ctx context.Context) (err error) {
	for _, t := range u.receipt.Transactions {
		if t.State == Committed || t.State == Unknown {
			u.report.Rows += t.Rows.changed()
			u.report.UndoneBefore += t.Undone.changed()
		}
	}
	want := u.receipt.Header.Target
	if opts := &u.opts; opts.RowsPerTransaction < 0 || opts.MaxAttempts < 0 {
		return errors.New("undo options: a negative bound")
	}
	here, err := IdentifyTarget(ctx, u.db, want.Table)
	if err != nil {
		return err
	}
	same := want
	if u.opts.AnyServer {
		u.elsewhere = here.Server != want.Server
		same.Server = here.Server
	}
	if !here.Same(same) {
		return fmt.Errorf("%w: it is about %s, this is %s", ErrOtherTarget, want, here)
	}
	if u.table, err = outbox.Describe(ctx, u.db, want.Table); err != nil {
		return err
	}
	standing := u.receipt.Standing()
	if u.report.SideEffects, err = sideEffects(ctx, u.db, &u.table, standing.Inserted > 0, standing.Overwritten > 0); err != nil {
		return err
	}
	if standing.Overwritten > 0 {
		u.report.OtherColumns = otherColumns(&u.table)
	}
	refused := u.opts.refusal(u.report.SideEffects)
	if !u.opts.DryRun {
		if refused != nil {
			return refused
		}
		if u.log, err = openUndoLog(u.receipt, u.opts.Tool, u.opts.Operator, u.opts.Now); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, u.log.close()) }()
	}
	for i := range slices.Backward(u.receipt.Transactions) {
		if err := u.transaction(ctx, &u.receipt.Transactions[i]); err != nil {
			return err
		}
	}
	return refused
}

// transaction undoes one transaction of the restore.
func (u *undoing) transaction(ctx context.Context, t *ReceiptTransaction) error {
	if t.State != Committed && t.State != Unknown || t.Rows.changed() == t.Undone.changed() {
		return nil
	}
	u.disputed = false
	if t.State == Unknown && t.Undone.changed() == 0 {
		state, how, err := u.settle(ctx, t)
		if err != nil || state == RolledBack {
			return err
		}
		u.disputed = state == Unknown && how == byJournalTable
	}
	return receiptChunks(u.receipt, t, u.opts.RowsPerTransaction, func(rows []*receiptRow) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := u.chunk(ctx, t.AppCode, rows)
		if err != nil {
			return err
		}
		u.report.add(done.UndoReport)
		if err := u.note(t, &done); err != nil {
			return err
		}
		if u.opts.Progress != nil {
			u.opts.Progress(int64(len(rows)))
		}
		if u.opts.Pause != nil {
			return u.opts.Pause(ctx, int(done.Removed+done.PutBack))
		}
		return nil
	})
}

// settle finds out what became of a transaction that was never confirmed, and
// notes it: rows that a later restore inserts must not be taken for its own.
func (u *undoing) settle(ctx context.Context, t *ReceiptTransaction) (state State, how string, err error) {
	u.report.Unconfirmed++
	state, how, err = settleTransaction(ctx, u.db, u.opts.Logger, u.receipt, t)
	if err != nil {
		return Unknown, how, fmt.Errorf("find out what became of transaction %d: %w", t.Seq, err)
	}
	u.opts.Logger.WarnContext(ctx, "the commit of a transaction was never confirmed, and was looked up",
		"transaction", t.Seq, "batch_id", t.BatchID, "state", state.String(), "how", how)
	if state == RolledBack {
		u.report.Rows -= t.Rows.changed()
	}
	if state == Unknown || u.log == nil {
		return state, how, nil
	}
	if err := u.log.start(); err != nil {
		return state, how, err
	}
	return state, how, u.log.write(receiptLine{Outcome: &receiptOutcome{Seq: t.Seq, State: state, Settled: how, At: u.log.stamp()}})
}

// note writes down what was taken back.
func (u *undoing) note(t *ReceiptTransaction, done *undoneChunk) error {
	if u.log == nil || len(done.rows) == 0 || u.disputed {
		return nil
	}
	return u.log.write(receiptLine{Undone: &receiptUndone{
		Seq: t.Seq, Rows: done.rows, Inserted: done.Removed + done.Gone, Overwritten: done.PutBack + done.AlreadyBack, At: u.log.stamp(),
	}})
}

// undoneChunk is what one transaction of an undo has done.
type undoneChunk struct {
	UndoReport
	rows LineRanges // all but the ones that were left
}

// add counts what one transaction has done.
func (r *UndoReport) add(d UndoReport) {
	r.Removed += d.Removed
	r.PutBack += d.PutBack
	r.Gone += d.Gone
	r.AlreadyBack += d.AlreadyBack
	r.Respelled += d.Respelled
	r.LeftCount += d.LeftCount
	r.Left = append(r.Left, d.Left[:min(len(d.Left), MaxConflicts-len(r.Left))]...)
}

// chunk undoes rows in one transaction, which is begun again after a deadlock or
// when its connection was lost: what it finds then tells what became of it.
func (u *undoing) chunk(ctx context.Context, app string, rows []*receiptRow) (done undoneChunk, err error) {
	if u.log != nil {
		if err := u.log.start(); err != nil {
			return done, err
		}
	}
	u.refused = map[string]string{}
	for n := 1; ; n++ {
		err := inTransaction(ctx, u.db, u.opts.Logger, !u.opts.DryRun, func(conn *sql.Conn) error {
			done = undoneChunk{}
			return u.undo(ctx, conn, app, rows, &done)
		})
		if errors.Is(err, errRefusedRows) {
			n-- // it comes to an end, since it is about fewer rows each time
			continue
		}
		if mysqldb.IsError(err, mysqldb.ErLockWaitTimeout) {
			err = fmt.Errorf("another transaction holds one of the rows from event_id %q to %q of app_code %q: find it in information_schema.INNODB_TRX, let it end, and run the undo again, which goes on from here: %w",
				clip(rows[0].EventID), clip(rows[len(rows)-1].EventID), app, err)
		}
		if err == nil || n >= u.opts.MaxAttempts || ctx.Err() != nil || !mysqldb.IsConnLost(err) {
			return done, err
		}
		u.opts.Logger.WarnContext(ctx, "undone by the server or the network, trying again", "attempt", n, "error", err)
	}
}

// notHere is said of rows that look as if they had been taken back, on a server that
// is not the one of the restore.
const notHere = "this is not the server of the restore, and the row is not here as restored"

func (u *undoing) undo(ctx context.Context, conn *sql.Conn, app string, rows []*receiptRow, done *undoneChunk) error {
	found, err := keyedRows(ctx, conn, &u.table, app, rows, !u.opts.DryRun)
	if err != nil {
		return err
	}
	var remove []string
	var back []manifest.Record
	for _, row := range rows {
		got, there := found[row.EventID]
		before := done.LeftCount
		left := func(why string) {
			done.LeftCount++
			done.Left = append(done.Left, LeftRow{AppCode: app, EventID: row.EventID, Outcome: row.Outcome, Why: why})
		}
		switch {
		case !there && u.elsewhere:
			left(notHere)
		case !there && row.Outcome == Inserted:
			done.Gone++
		case !there:
			left("it was deleted since the restore")
		case row.Outcome == Inserted && got != nil && got.RowHash() == row.RowHash:
			if why := u.whyLeft(row); why != "" {
				left(why)
			} else {
				remove = append(remove, row.EventID)
			}
		case row.Outcome == Inserted:
			left("it was changed since the restore")
		default:
			old, err := row.old()
			if err != nil {
				return err
			}
			switch why := u.whyLeft(row); {
			case got != nil && got.RowHash() == row.RowHash && why != "":
				left(why)
			case got != nil && got.RowHash() == row.RowHash:
				back = append(back, old)
			case got != nil && got.RowHash() == old.RowHash() && u.elsewhere:
				left(notHere)
			case got != nil && got.RowHash() == old.RowHash():
				done.AlreadyBack++
			default:
				left("it was changed since the restore")
			}
		}
		if done.LeftCount == before {
			done.rows.add(row.Number)
		}
	}
	done.Removed, done.PutBack = int64(len(remove)), int64(len(back))
	if u.opts.DryRun {
		return nil
	}
	refused := len(u.refused)
	if err := u.remove(ctx, conn, app, remove); err != nil {
		return err
	}
	if err := u.putBack(ctx, conn, app, back, done); err != nil {
		return err
	}
	if len(u.refused) > refused {
		return errRefusedRows
	}
	return nil
}

// inTransaction calls f inside a READ COMMITTED transaction on a connection of
// its own, which ends with COMMIT when commit says so and f returned nil, else
// with ROLLBACK. A deadlock or a lock wait begins it again, some times, and is
// logged: a wait is as long as innodb_lock_wait_timeout. After a commit without an
// answer the error is one of a lost connection.
func inTransaction(ctx context.Context, db *sql.DB, log *slog.Logger, commit bool, f func(*sql.Conn) error) error {
	for n := 1; ; n++ {
		err := tryTransaction(ctx, db, commit, f)
		if err == nil || n >= DefaultMaxAttempts || ctx.Err() != nil || !mysqldb.IsRetryable(err) {
			return err
		}
		log.WarnContext(ctx, "rows are locked by another transaction, trying again", "attempt", n, "of", DefaultMaxAttempts, "error", err)
	}
}

func tryTransaction(ctx context.Context, db *sql.DB, commit bool, f func(*sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	ended := false
	defer func() {
		if ended {
			err = errors.Join(err, conn.Close())
			return
		}
		drop(conn) // which rolls back
	}()
	for _, s := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("begin the transaction: %w", err)
		}
	}
	err = f(conn)
	end := "ROLLBACK"
	if err == nil && commit {
		end = "COMMIT"
	}
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	_, eerr := conn.ExecContext(endCtx, end)
	ended = eerr == nil
	if err != nil {
		return err
	}
	if eerr != nil {
		return fmt.Errorf("%s: %w", end, eerr)
	}
	return nil
}
