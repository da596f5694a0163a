// Command bench measures walletarchive beside the tools that a user would pick
// instead, on the same server and the same rows in one run, and writes
// docs/BENCHMARKS.md. scripts/bench.sh installs what it needs and calls it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	sampledata "github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/internal/scratch"
)

// app is the app_code of all rows.
const app = "wallet"

// What docs/BENCHMARKS.md is measured with unless it says otherwise.
const (
	defaultRows = 200_000
	defaultRuns = 5
)

type bench struct {
	binary  string
	runs    int
	rows    int
	many    int // rows of the case of many small batches
	large   int // rows of the memory case
	only    []string
	left    []string // cases that are still to be run
	out     string   // file of the document; "" writes none
	dir     string
	server  *scratch.Server
	db      *sql.DB // no database selected
	cfg     *mysql.Config
	results []result
}

const allCases = "export,verify,restore,drill,batches,memory"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{}
	out := flag.String("out", "", "write the results to this file, as Markdown")
	flag.StringVar(&b.binary, "binary", "bin/walletarchive", "the program to measure")
	flag.IntVar(&b.runs, "runs", defaultRuns, "runs that count, after one that warms up")
	flag.IntVar(&b.rows, "rows", defaultRows, "rows of the table")
	flag.IntVar(&b.many, "many", 500_000, "rows of the case of many small batches")
	flag.IntVar(&b.large, "large", 2_000_000, "rows of the memory case")
	only := flag.String("run", allCases, "cases to run")
	limit := flag.Duration("timeout", 2*time.Hour, "give up after this long")
	flag.Parse()
	b.only, b.left = strings.Split(*only, ","), strings.Split(allCases, ",")
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if b.out = *out; b.out != "" {
		b.logf("writing %s after each case", b.out)
	}
	if err := b.all(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (b *bench) wants(name string) bool { return slices.Contains(b.only, name) }

func (b *bench) all(ctx context.Context) (err error) {
	if b.binary, err = filepath.Abs(b.binary); err != nil {
		return err
	}
	for _, tool := range []string{"mydumper", "myloader", "mariadb-dump", "mariadb", "pt-archiver", "gzip", "zcat", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is missing: run scripts/install-deps.sh bench", tool)
		}
	}
	if b.dir, err = os.MkdirTemp("", "walletarchive-bench-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	// The same server for all: small enough that the rows do not fit into its
	// buffer pool, LOAD DATA LOCAL allowed, since both myloader and we may use it.
	b.server, err = scratch.Start(ctx, scratch.Options{
		Mode: scratch.ModeLocal, TempDir: b.dir, ServerArgs: []string{"--local-infile=1", "--innodb-buffer-pool-size=64M", "--max-connections=100"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.Close(ctx)) }()
	if b.cfg, err = mysql.ParseDSN(b.server.DSN("")); err != nil {
		return errors.New("the DSN of the server cannot be read")
	}
	if b.db, err = mysqldb.Open(ctx, b.server.DSN(""), mysqldb.Options{}); err != nil {
		return err
	}
	defer b.db.Close()
	b.logf("%s", b.server.Describe())
	for _, c := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"export", b.exportCase}, {"verify", b.verifyCase}, {"restore", b.restoreCase}, {"drill", b.drillCase},
		{"batches", b.batchesCase}, {"memory", b.memoryCase},
	} {
		if !b.wants(c.name) {
			continue
		}
		b.logf("%s", c.name)
		if err := c.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.left = slices.DeleteFunc(b.left, func(name string) bool { return name == c.name })
		if b.out != "" { // what was measured stays when a later case is stopped
			if err := b.write(b.out); err != nil {
				return err
			}
		}
	}
	return nil
}

// exec runs statements one after another.
func (b *bench) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := b.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.60s…: %w", s, err)
		}
	}
	return nil
}

// fill makes a database with a ledger and a wallet_outbox of n rows of about
// 450 bytes with random event_ids. It does nothing when it is there already.
func (b *bench) fill(ctx context.Context, database string, n int) error {
	var there int
	if err := b.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", database).Scan(&there); err != nil || there > 0 {
		return err
	}
	if err := b.exec(ctx, "CREATE DATABASE "+mysqldb.QuoteName(database)); err != nil {
		return err
	}
	db, err := mysqldb.Open(ctx, b.server.DSN(database), mysqldb.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := ledger.New(db).CreateTables(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, outbox.Schema(outbox.DefaultTable, "")); err != nil {
		return err
	}
	_, err = sampledata.Fill(ctx, db, outbox.DefaultTable, sampledata.Options{
		Apps: []string{app}, Rows: n, Seed: 6, Start: time.Now().Add(-72 * time.Hour), Span: 24 * time.Hour, PayloadBytes: 210,
	})
	return err
}

// dsnEnv gives the commands their servers without a flag, and a place for what
// they remember that is not this machine's own.
func (b *bench) dsnEnv(source, target string) []string {
	return []string{
		"WALLETARCHIVE_SOURCE_DSN=" + b.server.DSN(source), "WALLETARCHIVE_LEDGER_DSN=" + b.server.DSN(source),
		"WALLETARCHIVE_STATE_DIR=" + b.path("state"), "WALLETARCHIVE_TARGET_DSN=" + b.server.DSN(target), "WALLETARCHIVE_SCRATCH=dsn:" + b.server.DSN(""),
	}
}

// client returns the connection flags of MySQL's and MariaDB's client tools.
func (b *bench) client() []string {
	return []string{"--user=" + b.cfg.User, "--socket=" + b.cfg.Addr}
}

func (b *bench) clientEnv() []string { return []string{"MYSQL_PWD=" + b.cfg.Passwd} }

// path returns a path below the folder of this run.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) remove(names ...string) error {
	for _, n := range names {
		if err := os.RemoveAll(b.path(n)); err != nil {
			return err
		}
	}
	return nil
}

// walletarchive returns a command of the program, quiet.
func (b *bench) walletarchive(env []string, args ...string) *exec.Cmd {
	return program(env, b.binary, append(args, "--log-level", "error", "--progress", "off")...)
}
