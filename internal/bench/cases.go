package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
)

const (
	source = "bench_source"
	target = "bench_target"
	peer   = "bench_peer"
)

// exporter is an export of all rows of a database into an empty archive, in
// batches of so many rows; 0 is the default of the program.
func (b *bench) exporter(name, database string, batchRows int, more ...string) contender {
	archive := "archive_" + database
	return contender{
		name: name,
		reset: func(ctx context.Context) error {
			if err := b.exec(ctx, "TRUNCATE "+mysqldb.QuoteName(database)+"."+ledger.ReceiptsTable, "TRUNCATE "+mysqldb.QuoteName(database)+"."+ledger.MembersTable); err != nil {
				return err
			}
			return b.remove(archive)
		},
		command: func() *exec.Cmd {
			args := []string{"export", "--app", app, "--store", "file://" + b.path(archive), "--older-than", "24h", "--json",
				"--page-rows", strconv.Itoa(outbox.MaxPageRows)}
			if batchRows > 0 {
				args = append(args, "--batch-rows", strconv.Itoa(batchRows))
			}
			return b.walletarchive(b.dsnEnv(database, target), append(args, more...)...)
		},
		after: func(_ context.Context, out []byte) (time.Duration, error) {
			return 0, wantRows(out, "rows", b.rowsOf(database))
		},
	}
}

func (b *bench) rowsOf(database string) int64 {
	var n int64
	_ = b.db.QueryRow("SELECT COUNT(*) FROM " + mysqldb.QuoteName(database) + "." + outbox.DefaultTable).Scan(&n) // zero fails the check
	return n
}

// wantRows fails unless the JSON document of a command counts n rows.
func wantRows(out []byte, member string, n int64) error {
	var doc struct {
		Rows    int64 `json:"rows"`
		Summary struct {
			Verdict  string `json:"verdict"`
			Examined struct {
				Rows int64 `json:"rows"`
			} `json:"examined"`
		} `json:"summary"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return fmt.Errorf("read its document: %w", err)
	}
	got := doc.Rows
	if member == "summary" {
		if got = doc.Summary.Examined.Rows; doc.Summary.Verdict != "proven" {
			return fmt.Errorf("verdict %q", doc.Summary.Verdict)
		}
	}
	if got != n || n == 0 {
		return fmt.Errorf("%d rows, want %d", got, n)
	}
	return nil
}

func (b *bench) mydumper(name string, more ...string) contender {
	return contender{
		name:  name,
		reset: func(context.Context) error { return b.remove("mydumper") },
		command: func() *exec.Cmd {
			args := append(b.client(), "--database="+source, "--tables-list="+outbox.DefaultTable, "--threads=2", "--outputdir="+b.path("mydumper"))
			return program(b.clientEnv(), "mydumper", append(args, more...)...)
		},
		after: func(context.Context, []byte) (time.Duration, error) { return 0, b.wantBytes("mydumper", b.rows*20) },
	}
}

// wantBytes fails unless a peer wrote at least so many bytes below a path: one
// that dumps nothing is fast.
func (b *bench) wantBytes(name string, least int) error {
	var total int64
	err := filepath.WalkDir(b.path(name), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err == nil && total < int64(least) {
		err = fmt.Errorf("%s holds %d bytes, want at least %d", name, total, least)
	}
	return err
}

func (b *bench) exportCase(ctx context.Context) error {
	if err := b.fill(ctx, source, b.rows); err != nil {
		return err
	}
	client := strings.Join(b.client(), " ")
	all := []contender{
		b.exporter("walletarchive export", source, 0),
		b.exporter("walletarchive export --payload-fidelity skip", source, 0, "--payload-fidelity", "skip"),
		b.mydumper("mydumper, 2 threads"),
		b.mydumper("mydumper --compress, 2 threads", "--compress"),
		{
			name:  "mariadb-dump | gzip",
			reset: func(context.Context) error { return b.remove("dump.sql.gz") },
			command: func() *exec.Cmd {
				return shell(b.clientEnv(), "mariadb-dump "+client+" --single-transaction "+source+" "+outbox.DefaultTable+" | gzip > "+b.path("dump.sql.gz"))
			},
			after: func(context.Context, []byte) (time.Duration, error) { return 0, b.wantBytes("dump.sql.gz", b.rows*20) },
		},
		{
			name:  "pt-archiver --no-delete --file --limit 500",
			reset: func(context.Context) error { return b.remove("pt.txt") },
			command: func() *exec.Cmd {
				dsn := fmt.Sprintf("S=%s,u=%s,D=%s,t=%s,A=utf8mb4", b.cfg.Addr, b.cfg.User, source, outbox.DefaultTable)
				if b.cfg.Passwd != "" {
					dsn += ",p=" + b.cfg.Passwd
				}
				return program(nil, "pt-archiver", "--source", dsn, "--no-delete", "--file", b.path("pt.txt"), "--limit", "500", "--where", "1=1", "--no-check-charset")
			},
			after: func(context.Context, []byte) (time.Duration, error) { return 0, b.wantBytes("pt.txt", b.rows*200) },
		},
	}
	samples, err := b.race(ctx, all...)
	if err != nil {
		return err
	}
	b.add(result{title: "Export", unit: b.rows, contenders: all, samples: samples, claims: []claim{
		{"rows a second against mydumper", 2, 0, 1.3, true, samples},
		{"rows a second against mydumper --compress, which packs as we do", 3, 0, 1.3, true, samples},
	}})
	return b.remove("archive_" + source) // what follows wants one batch
}

// archived makes sure that the source was exported, as one batch.
func (b *bench) archived(ctx context.Context, database string, n int) error {
	if err := b.fill(ctx, database, n); err != nil {
		return err
	}
	if _, err := os.Stat(b.path("archive_" + database)); err == nil {
		return nil
	}
	_, err := b.run(ctx, b.exporter("walletarchive export", database, n))
	return err
}

func (b *bench) data(database string) (string, error) {
	found, err := filepath.Glob(b.path("archive_" + database + "/*/*/*/data.ndjson.gz"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d data objects, want 1", len(found))
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// job is a command over every batch that the ledger of a database knows.
func (b *bench) job(name, database, command string, reset func(context.Context) error, more ...string) contender {
	return contender{
		name: name, reset: reset,
		command: func() *exec.Cmd {
			args := []string{command, "--app", app, "--store", "file://" + b.path("archive_"+database), "--all", "--json"}
			return b.walletarchive(b.dsnEnv(database, target), append(args, more...)...)
		},
		after: func(_ context.Context, out []byte) (time.Duration, error) {
			return 0, wantRows(out, "summary", b.rowsOf(database))
		},
	}
}

func (b *bench) verifyCase(ctx context.Context) error {
	if err := b.archived(ctx, source, b.rows); err != nil {
		return err
	}
	data, err := b.data(source)
	if err != nil {
		return err
	}
	all := []contender{
		{
			name: "walletarchive verify, level rows, own manifest",
			command: func() *exec.Cmd {
				return b.walletarchive(nil, "verify", "--app", app, "--store", "file://"+b.path("archive_"+source), "--json", batchOf(data))
			},
			after: func(_ context.Context, out []byte) (time.Duration, error) {
				return 0, wantRows(out, "summary", b.rowsOf(source))
			},
		},
		b.job("walletarchive verify, level rows, ledger and members", source, "verify", nil),
		{name: "zcat | sha256sum", command: func() *exec.Cmd { return shell(nil, "zcat "+data+" | sha256sum") }},
	}
	samples, err := b.race(ctx, all...)
	if err != nil {
		return err
	}
	b.add(result{title: "Verify", unit: b.rows, contenders: all, samples: samples, claims: []claim{
		{"time against zcat | sha256sum", 0, 2, 0.7, false, samples},
		{"the same with every member of the ledger compared", 1, 2, 0.7, false, samples},
	}})
	return nil
}

func batchOf(data string) string {
	return strings.TrimPrefix(filepath.Base(filepath.Dir(data)), "batch=")
}

// emptyTarget makes a database with nothing but an empty wallet_outbox, of which
// no earlier restore is known.
func (b *bench) emptyTarget(database string) func(context.Context) error {
	return func(ctx context.Context) error {
		q := mysqldb.QuoteName(database)
		if err := b.remove("state"); err != nil {
			return err
		}
		return b.exec(ctx, "DROP DATABASE IF EXISTS "+q, "CREATE DATABASE "+q,
			strings.Replace(outbox.Schema(outbox.DefaultTable, ""), "CREATE TABLE ", "CREATE TABLE "+q+".", 1))
	}
}

// dumped makes sure that mydumper and mariadb-dump have dumped the source.
func (b *bench) dumped(ctx context.Context) error {
	client := strings.Join(b.client(), " ")
	for _, c := range []contender{
		b.mydumper("mydumper"),
		{name: "mariadb-dump", command: func() *exec.Cmd {
			return shell(b.clientEnv(), "mariadb-dump "+client+" --single-transaction "+source+" "+outbox.DefaultTable+" > "+b.path("dump.sql")+"; gzip -kf "+b.path("dump.sql"))
		}},
	} {
		if _, err := b.run(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// sortedRows has the server write its rows in the order of the primary key.
func (b *bench) sortedRows(ctx context.Context) error {
	if err := b.remove("sorted.tsv"); err != nil {
		return err
	}
	return b.exec(ctx, "SELECT * FROM "+mysqldb.QuoteName(source)+"."+outbox.DefaultTable+
		" ORDER BY app_code, event_id INTO OUTFILE '"+b.path("sorted.tsv")+"' CHARACTER SET utf8mb4")
}

func (b *bench) emptyPeer(ctx context.Context) error {
	return b.exec(ctx, "DROP DATABASE IF EXISTS "+peer, "CREATE DATABASE "+peer)
}

// loadedPeer checks that a peer loaded every row.
func (b *bench) loadedPeer(context.Context, []byte) (time.Duration, error) {
	if got, want := b.rowsOf(peer), b.rowsOf(source); got != want || want == 0 {
		return 0, fmt.Errorf("%d rows, want %d", got, want)
	}
	return 0, nil
}

func (b *bench) restoreCase(ctx context.Context) error {
	if err := errors.Join(b.archived(ctx, source, b.rows), b.dumped(ctx)); err != nil {
		return err
	}
	client := strings.Join(b.client(), " ")
	if err := b.sortedRows(ctx); err != nil {
		return err
	}
	all := []contender{
		b.job("walletarchive restore", source, "restore", b.emptyTarget(target)),
		b.job("walletarchive restore on a server without LOAD DATA LOCAL", source, "restore", func(ctx context.Context) error {
			return errors.Join(b.exec(ctx, "SET GLOBAL local_infile = 0"), b.emptyTarget(target)(ctx))
		}),
		{
			name: "myloader, 2 threads", after: b.loadedPeer,
			reset: func(ctx context.Context) error {
				return errors.Join(b.exec(ctx, "SET GLOBAL local_infile = 1"), b.emptyPeer(ctx))
			},
			command: func() *exec.Cmd {
				return program(b.clientEnv(), "myloader", append(b.client(), "--database="+peer, "--directory="+b.path("mydumper"), "--threads=2", "--overwrite-tables")...)
			},
		},
		{
			name: "zcat dump.sql.gz | mariadb", after: b.loadedPeer, reset: b.emptyPeer,
			command: func() *exec.Cmd {
				return shell(b.clientEnv(), "zcat "+b.path("dump.sql.gz")+" | mariadb "+client+" "+peer)
			},
		},
		{
			name: "floor: LOAD DATA of the same rows, sorted, one connection, no checks", after: b.loadedPeer, reset: b.emptyTarget(peer),
			command: func() *exec.Cmd {
				load := "LOAD DATA LOCAL INFILE '" + b.path("sorted.tsv") + "' INTO TABLE " + outbox.DefaultTable + " CHARACTER SET utf8mb4"
				return program(b.clientEnv(), "mariadb", append(b.client(), "--local-infile=1", "--execute="+load, peer)...)
			},
		},
	}
	samples, err := b.race(ctx, all...)
	if err != nil {
		return err
	}
	b.add(result{title: "Restore", unit: b.rows, contenders: all, samples: samples, claims: []claim{
		{"time against myloader", 0, 2, 0.75, false, samples},
		{"the same without LOAD DATA LOCAL", 1, 2, 0.75, false, samples},
	}})
	return nil
}

func (b *bench) drillCase(ctx context.Context) error {
	if err := errors.Join(b.archived(ctx, source, b.rows), b.dumped(ctx), b.exec(ctx, "SET GLOBAL local_infile = 1")); err != nil {
		return err
	}
	client := strings.Join(b.client(), " ")
	all := []contender{
		b.job("walletarchive drill on a server that is up", source, "drill", nil),
		{
			name: "mariadb < dump.sql", after: b.loadedPeer, reset: b.emptyPeer,
			command: func() *exec.Cmd { return shell(b.clientEnv(), "mariadb "+client+" "+peer+" < "+b.path("dump.sql")) },
		},
	}
	samples, err := b.race(ctx, all...)
	if err != nil {
		return err
	}
	b.add(result{title: "Drill", unit: b.rows, contenders: all, samples: samples, claims: []claim{
		{"time against mariadb < dump, which proves nothing", 0, 1, 1, false, samples},
	}})
	return nil
}

func (b *bench) batchesCase(ctx context.Context) error {
	const database = "bench_many"
	if err := b.fill(ctx, database, b.many); err != nil {
		return err
	}
	all := []contender{
		b.exporter("batches of 500 rows", database, 500),
		b.exporter("one batch", database, b.many),
	}
	samples, err := b.race(ctx, all...)
	if err != nil {
		return err
	}
	b.add(result{title: "Many small batches", unit: b.many, contenders: all, samples: samples, claims: []claim{
		{"rows a second in batches of 500 against one batch", 1, 0, 0.7, true, samples},
	}})
	return b.exec(ctx, "DROP DATABASE "+database)
}

func (b *bench) memoryCase(ctx context.Context) error {
	const database = "bench_large"
	if err := errors.Join(b.archived(ctx, source, b.rows), b.fill(ctx, database, b.large)); err != nil {
		return err
	}
	var rows []memoryRow
	for _, command := range []string{"export", "verify", "restore", "drill"} {
		var small, large sample
		for _, x := range []struct {
			database string
			n        int
			into     *sample
		}{{source, b.rows, &small}, {database, b.large, &large}} {
			c := b.exporter("export", x.database, x.n)
			if command != "export" {
				c = b.job(command, x.database, command, b.emptyTarget(target))
			}
			s, err := b.run(ctx, c)
			if err != nil {
				return err
			}
			b.logf("  %-8s %10d rows %8.1f s %7.1f MiB", command, x.n, s.took.Seconds(), mib(s.rss))
			*x.into = s
		}
		rows = append(rows, memoryRow{command, small, large})
	}
	b.add(result{title: "Memory", memory: rows})
	return b.exec(ctx, "DROP DATABASE "+database)
}
