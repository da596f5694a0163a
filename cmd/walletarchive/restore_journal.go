package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

const (
	journalFlag      = "journal"
	journalTableFlag = "journal-table"
	ticketFlag       = "ticket"
	operatorFlag     = "operator"

	operatorEnv = "WALLETARCHIVE_OPERATOR"
	stateDirEnv = "WALLETARCHIVE_STATE_DIR"
)

// journalFlags are about the receipt of a restore.
func journalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name:        journalFlag,
			Usage:       "keep the receipt of this restore in `FILE`, and go on with the one that is there when a run of the same plan was stopped",
			DefaultText: "a file in $" + stateDirEnv + " or ~/.local/state/walletarchive, named after the plan",
		},
		&cli.StringFlag{Name: journalTableFlag, Usage: "also leave a line of each transaction in `TABLE` of the target, which is made if need be"},
		&cli.StringFlag{Name: ticketFlag, Usage: "`ID` of the incident, for the receipt"},
		&cli.StringFlag{Name: operatorFlag, Usage: "`WHO` restores, for the receipt; or $" + operatorEnv, DefaultText: "the user of this machine"},
	}
}

// journalOptions are what journalFlags ask for.
type journalOptions struct {
	path, table, ticket, operator string
	dir                           string // where path is chosen when it is ""
}

// journalOptions reads the flags. Nothing is written.
func (p *program) journalOptions(c *cli.Context) (o journalOptions, err error) {
	o = journalOptions{path: c.String(journalFlag), table: c.String(journalTableFlag), ticket: c.String(ticketFlag), operator: operator(c.String(operatorFlag))}
	if err := checkTableName(journalTableFlag, o.table); err != nil {
		return o, err
	}
	if o.table == c.String(targetTableFlag) {
		return o, usagef("--%s names the table that is restored into", journalTableFlag)
	}
	if o.path != "" {
		if dir, err := os.Stat(filepath.Dir(o.path)); err != nil || !dir.IsDir() {
			return o, usagef("--%s: there is no directory %s", journalFlag, filepath.Dir(o.path))
		}
		if err := restore.CheckJournalPath(o.path); err != nil {
			return o, usagef("--%s: %s is there already and is left as it is: %v", journalFlag, o.path, err)
		}
		return o, nil
	}
	if o.dir, err = stateDir(); err != nil {
		return o, usagef("no place for the receipt of this restore (%v): give --%s or set %s", err, journalFlag, stateDirEnv)
	}
	return o, nil
}

// stateDir returns where receipts are kept unless another place is given
// (XDG Base Directory Specification, $XDG_STATE_HOME).
func stateDir() (string, error) {
	if dir := os.Getenv(stateDirEnv); dir != "" {
		return filepath.Join(dir, "restores"), nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, programName, "restores"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", programName, "restores"), nil
}

// operator returns who works here: flag, or what the environment or this machine
// says.
func operator(flag string) string {
	if flag == "" {
		flag = os.Getenv(operatorEnv)
	}
	if flag == "" {
		flag = localOperator()
	}
	return flag
}

// localOperator names the user as this machine does, and behind sudo the one who
// called it.
func localOperator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		name = by + " as " + name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// planID names what a run is to do: the batches in their order, the rows of them
// (as text, "" for all) and what decides about each row.
func planID(whole []verified, rows string, opts restore.Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "walletarchive restore plan 1\nstrict_payload %v\non_conflict %s\nrows %q\n", opts.StrictPayload, opts.OnConflict, rows)
	for _, v := range whole {
		m := v.rows.Manifest()
		fmt.Fprintf(h, "batch %q %q\n", m.AppCode, m.BatchID)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// openJournal opens the journal of a run, or goes on with that of an earlier one.
// The caller closes it.
func (p *program) openJournal(ctx context.Context, db *sql.DB, o journalOptions, plan, table string) (*restore.Journal, error) {
	if table == "" {
		table = outbox.DefaultTable
	}
	target, err := restore.IdentifyTarget(ctx, db, table)
	if err != nil {
		return nil, err
	}
	if o.path == "" {
		if o.path, err = p.choosePath(o.dir, plan, target); err != nil {
			return nil, fmt.Errorf("find a place for the receipt: %w", err)
		}
	}
	j, err := restore.OpenJournal(ctx, db, restore.JournalOptions{
		Path: o.path, PlanID: plan, Tool: tool(), Operator: o.operator, Ticket: o.ticket, Target: target, Table: o.table, Logger: p.log,
	})
	if err != nil {
		return nil, err
	}
	if before, resumed := j.Resumed(); resumed {
		p.log.Info("going on with the receipt of an earlier run", "receipt", j.Path(), "run_id", j.RunID(),
			"inserted_rows", before.Inserted, "overwritten_rows", before.Overwritten)
	} else {
		p.log.Info("the receipt of this restore", "receipt", j.Path(), "run_id", j.RunID(), "operator", o.operator)
	}
	return j, nil
}

// choosePath returns the receipt of the first run of this plan and target that
// has not come to a good end, or a new one.
func (p *program) choosePath(dir, plan string, target restore.TargetIdentity) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	at := sha256.Sum256([]byte(target.Server + "\x00" + target.Database + "\x00" + target.Table))
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%.16s-%x-%d.ndjson", plan, at[:4], n))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		// Most of those that are there are of runs that were whole, and reading them
		// would make each run of a plan slower than the one before.
		if done, err := restore.EndsComplete(path, plan, target); err != nil {
			return "", err
		} else if done {
			continue
		}
		r, err := restore.ReadReceipt(path)
		switch {
		case errors.Is(err, restore.ErrNoHeader):
			return path, nil
		case errors.Is(err, restore.ErrReceipt):
			p.log.Warn("a receipt of the same plan is damaged, and is left as it is; a new one is begun", "receipt", path, "error", err)
			continue
		case err != nil:
			return "", err
		}
		if !r.Complete || !r.Ended {
			return path, nil
		}
	}
}

// receipted adds to b where its receipt is; j is nil in a dry run.
func receipted(b report.Batch, j *restore.Journal) report.Batch {
	if j == nil {
		return b
	}
	b.Facts = append(b.Facts, report.Fact{Label: "receipt", Value: j.Path()})
	if d, ok := b.Details.(restoreDetails); ok {
		d.Receipt, d.RunID = j.Path(), j.RunID()
		b.Details = d
	}
	return b
}

// howToGoOn says what an operator can do after a restore that has stopped.
func (p *program) howToGoOn(j *restore.Journal) {
	if j == nil {
		return
	}
	c := j.Counts()
	p.log.Warn("stopped: the same command goes on from here; the undo takes back what was done",
		"inserted_rows", c.Inserted, "overwritten_rows", c.Overwritten, "receipt", j.Path(),
		"undo", programName+" restore undo "+j.Path())
}

// interruptGrace is how long the transaction at hand may go on after the first
// signal.
const interruptGrace = time.Minute

// lenient returns a context for one transaction, which ends interruptGrace after
// ctx. The caller calls the function.
func (p *program) lenient(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		p.log.Warn("interrupted: the transaction at hand is finished first; a second signal kills", "at_most", interruptGrace)
		timer := time.AfterFunc(interruptGrace, cancel)
		<-work.Done()
		timer.Stop()
	})
	return work, func() { stop(); cancel() }
}
