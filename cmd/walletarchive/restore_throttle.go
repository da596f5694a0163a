package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/throttle"
	"github.com/hyapp/walletarchive/restore"
)

const (
	maxRowsFlag     = "max-rows-per-second"
	maxThreadsFlag  = "max-threads-running"
	maxLagFlag      = "max-replica-lag"
	replicaDSNsFlag = "replica-dsn-file"
	replicaDSNEnv   = "WALLETARCHIVE_REPLICA_DSN"
)

// throttleFlags slow down what writes into a server that others use, too.
func throttleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Int64Flag{Name: maxRowsFlag, Usage: "write at most `N` rows a second", DefaultText: "no bound"},
		&cli.Int64Flag{Name: maxThreadsFlag, Usage: "wait while more than `N` threads run on the target", DefaultText: "no bound"},
		&cli.DurationFlag{Name: maxLagFlag, Usage: "wait between transactions while a replica is further behind than `TIME`", DefaultText: "no bound"},
		&cli.StringFlag{Name: replicaDSNsFlag, Usage: "`FILE` of the DSNs of the replicas, one a line; or $" + replicaDSNEnv + "_FILE, or $" + replicaDSNEnv + " for one"},
	}
}

// throttleOptions are what throttleFlags ask for.
type throttleOptions struct {
	rows, threads int64
	lag           time.Duration
	replicas      []string // DSNs
}

// throttleOptions reads the flags. Nothing is contacted.
func (p *program) throttleOptions(c *cli.Context) (o throttleOptions, err error) {
	o = throttleOptions{rows: c.Int64(maxRowsFlag), threads: c.Int64(maxThreadsFlag), lag: c.Duration(maxLagFlag)}
	for flag, n := range map[string]int64{maxRowsFlag: o.rows, maxThreadsFlag: o.threads} {
		if c.IsSet(flag) && n < 1 {
			return o, usagef("--%s is %d, want at least 1", flag, n)
		}
	}
	// The servers say how far they are behind in seconds.
	if c.IsSet(maxLagFlag) && o.lag < time.Second {
		return o, usagef("--%s is %s, want at least 1s", maxLagFlag, o.lag)
	}
	if o.lag == 0 {
		if c.IsSet(replicaDSNsFlag) {
			return o, usagef("--%s is given without --%s", replicaDSNsFlag, maxLagFlag)
		}
		return o, nil
	}
	path := c.String(replicaDSNsFlag)
	if path == "" {
		path = os.Getenv(replicaDSNEnv + "_FILE")
	}
	if path != "" {
		o.replicas, err = p.dsnLines(path)
	} else if dsn := os.Getenv(replicaDSNEnv); dsn != "" {
		o.replicas, err = []string{dsn}, p.checkDSN(dsn, replicaDSNEnv, "")
	}
	if err == nil && len(o.replicas) == 0 {
		err = usagef("--%s needs replicas to ask: give --%s or %s", maxLagFlag, replicaDSNsFlag, replicaDSNEnv)
	}
	return o, err
}

// dsnLines reads a file of DSNs, one a line. Empty lines are left out.
func (p *program) dsnLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("secret file: %v", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		p.log.Warn("a secret file is readable by every user of this machine", "path", path, "mode", info.Mode().Perm().String())
	}
	var all []string
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		text := strings.TrimSpace(in.Text())
		if text == "" {
			continue
		}
		if err := p.checkDSN(text, fmt.Sprintf("line %d of the file of --%s", n, replicaDSNsFlag), ""); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	if err := in.Err(); err != nil {
		return nil, usagef("secret file: %v", err)
	}
	return all, nil
}

// openThrottle opens the replicas and asks every server once. db is the pool of
// the target. The caller calls the function.
func (p *program) openThrottle(ctx context.Context, db *sql.DB, o throttleOptions) (t *throttle.Throttle, done func(), err error) {
	var pools []*sql.DB
	done = func() {
		for _, pool := range pools {
			_ = pool.Close() // it was only read through
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	opts := throttle.Options{MaxRowsPerSecond: o.rows, MaxThreadsRunning: o.threads, Server: db, MaxReplicaLag: o.lag, Logger: p.log}
	for _, dsn := range o.replicas {
		pool, err := mysqldb.Open(ctx, dsn, mysqldb.Options{MaxConns: 1, Logger: p.log})
		if err != nil {
			return nil, done, fmt.Errorf("open a replica: %w", err)
		}
		pools = append(pools, pool)
		opts.Replicas = append(opts.Replicas, throttle.Replica{Name: mysqldb.Redact(dsn), DB: pool})
	}
	if t, err = throttle.New(opts); err != nil {
		return nil, done, err
	}
	return t, done, t.Check(ctx)
}

// throttled returns opts with the brakes of t, and windows small enough for the
// rate to be one: about half a second each.
func (o throttleOptions) throttled(t *throttle.Throttle, opts restore.Options) restore.Options {
	opts.Hooks = append(opts.Hooks[:len(opts.Hooks):len(opts.Hooks)], restore.Hooks{Begin: t.Before, Pause: t.Within})
	if o.rows > 0 {
		const least, perRow = 64 << 10, 1 << 10
		window := int64(restore.DefaultWindowBytes)
		if o.rows < window/perRow {
			window = max(least, o.rows*perRow/2)
		}
		opts.WindowBytes = int(window)
	}
	return opts
}

// undoRows is how many rows an undo takes back in one transaction: at most as
// many as it may in a second.
func (o throttleOptions) undoRows() int {
	if o.rows > 0 && o.rows < restore.DefaultUndoRows {
		return int(o.rows)
	}
	return restore.DefaultUndoRows
}
