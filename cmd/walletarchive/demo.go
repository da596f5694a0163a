package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/internal/scratch"
	"github.com/hyapp/walletarchive/manifest"
)

// The demo's figures. The seed fixes every row.
const (
	demoSeed      = 20_261_201
	demoRows      = 5_000
	demoBatchRows = 1_500
	demoTarget    = "wallet_outbox_restored"
)

// demoApps are the app_codes of the demo's events, which take turns.
var demoApps = []string{"game", "live"}

func demoCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "export, verify, restore and drill sample events on a private server and a directory, then damage a copy",
		Flags: flags([]cli.Flag{
			&cli.StringFlag{Name: "server", Value: scratch.ModeAuto, Usage: "private source server: `WHERE` is auto, local or docker"},
			&cli.StringFlag{Name: "image", Value: scratch.DefaultImage, Usage: "Docker `IMAGE` where a container is used"},
			&cli.IntFlag{Name: "rows", Value: demoRows, Usage: "events to make: `N`"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the archive directory", DisableDefaultText: true},
		}, logFlags()),
		CustomHelpTemplate: codes(exitCleanup),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			d := &demo{p: p, rows: c.Int("rows"), image: c.String("image"), keep: c.Bool("keep")}
			if d.mode = c.String("server"); d.mode != scratch.ModeAuto && d.mode != scratch.ModeLocal && d.mode != scratch.ModeDocker {
				return usagef("--server %q is none of auto, local and docker", d.mode)
			}
			if d.rows < len(demoApps) {
				return usagef("--rows is %d, want at least %d", d.rows, len(demoApps))
			}
			err := d.run(ctx)
			return cleanedUp(err, d.close(ctx))
		}),
	}
}

// demo is one run of the demo command. It uses the commands as a user would,
// through run.
type demo struct {
	p       *program
	mode    string
	image   string
	rows    int
	keep    bool
	dir     string // holds everything
	server  *scratch.Server
	db      *sql.DB
	dsnFile string
	began   time.Time
	summary []string
}

// step is one command of the demo and the exit code that it must end with.
type step struct {
	title string
	args  []string
	want  int
}

func (d *demo) run(ctx context.Context) (err error) {
	d.began = time.Now()
	if d.dir, err = os.MkdirTemp("", "walletarchive-demo-*"); err != nil {
		return err
	}
	if err := d.source(ctx); err != nil {
		return err
	}
	store := "file://" + filepath.Join(d.dir, "archive")
	if err := os.Mkdir(filepath.Join(d.dir, "archive"), 0o700); err != nil {
		return err
	}
	for _, app := range demoApps {
		if err := d.do(ctx, step{
			title: "Export what was delivered over 30 days ago for " + app + ": pack, write, read back, record",
			args: []string{"export", "--app", app, "--store", store, "--source-dsn-file", d.dsnFile, "--older-than", "720h",
				"--batch-rows", fmt.Sprint(demoBatchRows)},
		}); err != nil {
			return err
		}
	}
	with := func(command, app string, more ...string) []string {
		return append([]string{command, "--app", app, "--store", store, "--ledger-dsn-file", d.dsnFile}, more...)
	}
	for _, app := range demoApps {
		if err := d.do(ctx, step{title: "Verify every batch of " + app + " against its receipt and members", args: with("verify", app, "--all")}); err != nil {
			return err
		}
	}
	if _, err := d.db.ExecContext(ctx, "CREATE TABLE "+demoTarget+" LIKE "+outbox.DefaultTable); err != nil {
		return fmt.Errorf("make the target table: %w", err)
	}
	for _, app := range demoApps {
		if err := d.do(ctx, step{title: "Restore them into a second table", args: with("restore", app, "--all", "--target-dsn-file", d.dsnFile, "--target-table", demoTarget,
			"--journal", filepath.Join(d.dir, "restore-"+app+".ndjson"))}); err != nil {
			return err
		}
	}
	if err := d.compareTables(ctx); err != nil {
		return err
	}
	for _, app := range demoApps {
		if err := d.do(ctx, step{title: "Drill: restore the batches of " + app + " into a scratch server of their own and compare", args: with("drill", app, "--all", "--scratch", d.drillMode(), "--image", d.image)}); err != nil {
			return err
		}
	}
	return d.damage(ctx, with)
}

// drillMode is the mode of the scratch server: that of the source, which is
// known to work here.
func (d *demo) drillMode() string { return d.mode }

// source starts the private server and fills it.
func (d *demo) source(ctx context.Context) (err error) {
	d.p.printf("== Start a private source server and make %s of %s\n", report.Plural(int64(d.rows), "event"), strings.Join(demoApps, " and "))
	d.server, err = scratch.Start(ctx, scratch.Options{
		Mode: d.mode, Image: d.image, TempDir: d.dir, Logger: d.p.log, ServerArgs: []string{"--local-infile=1"},
	})
	if err != nil {
		return fmt.Errorf("start the source server: %w", err)
	}
	d.p.printf("   %s; %s\n", d.server.Describe(), d.server.Why)
	dsn := d.server.DSN(d.server.Database)
	d.p.redact.hide(dsn)
	d.dsnFile = filepath.Join(d.dir, "source.dsn")
	if err := os.WriteFile(d.dsnFile, []byte(dsn+"\n"), 0o600); err != nil {
		return err
	}
	if d.db, err = mysqldb.Open(ctx, dsn, mysqldb.Options{Logger: d.p.log}); err != nil {
		return err
	}
	if err := ledger.New(d.db).CreateTables(ctx); err != nil {
		return err
	}
	if _, err := d.db.ExecContext(ctx, outbox.Schema(outbox.DefaultTable, "")); err != nil {
		return fmt.Errorf("make the source table: %w", err)
	}
	const days = 24 * time.Hour
	_, err = sample.Fill(ctx, d.db, outbox.DefaultTable, sample.Options{
		Apps: demoApps, Rows: d.rows, Seed: demoSeed, Start: time.Now().Add(-40 * days).Truncate(time.Hour), Span: 9 * days, Awkward: true,
	})
	if err != nil {
		return err
	}
	decimals, err := sample.AddDecimals(ctx, d.db, outbox.DefaultTable, demoApps[0])
	if err != nil {
		return err
	}
	d.p.printf("   payloads hold 64-bit integers, escapes, emoji, NUL, nested values; %s hold a DECIMAL\n\n", report.Count(decimals))
	d.did("%s of %d apps and %d asset types on %s", report.Plural(int64(d.rows), "event"), len(demoApps), len(sample.Assets), d.server.Identity)
	return nil
}

func (d *demo) did(format string, args ...any) {
	d.summary = append(d.summary, fmt.Sprintf(format, args...))
}

// do runs one command as a user would and shows what it prints.
func (d *demo) do(ctx context.Context, s step) error {
	d.p.printf("== %s\n   $ %s %s\n", s.title, programName, strings.Join(d.shown(s.args), " "))
	var out, errs bytes.Buffer
	args := append([]string{programName}, s.args...)
	args = append(args, "--"+logLevelFlag, "warn")
	code := run(ctx, args, &out, &errs)
	for line := range strings.Lines(out.String()) {
		d.p.printf("   %s", line)
	}
	d.p.printf("   exit code %d: %s\n\n", code, exitMeanings[code])
	if code != s.want {
		return fmt.Errorf("%s %s ended with exit code %d, want %d: %s", programName, s.args[0], code, s.want, strings.TrimSpace(errs.String()))
	}
	return nil
}

// shown shortens the paths of an argument list.
func (d *demo) shown(args []string) []string {
	short := make([]string, len(args))
	for i, a := range args {
		short[i] = strings.ReplaceAll(a, d.dir, "$DEMO")
	}
	return short
}

// compareTables shows with the server's own means that both tables are equal.
func (d *demo) compareTables(ctx context.Context) error {
	d.p.printf("== Ask the server itself whether the restored table equals the source\n")
	columns := strings.Join(manifest.Columns[:], ", ")
	var source, restored, both int64
	for query, into := range map[string]*int64{
		"SELECT COUNT(*) FROM " + outbox.DefaultTable: &source,
		"SELECT COUNT(*) FROM " + demoTarget:          &restored,
		"SELECT COUNT(*) FROM (SELECT " + columns + " FROM " + outbox.DefaultTable + " UNION SELECT " + columns + " FROM " + demoTarget + ") u": &both,
	} {
		if err := d.db.QueryRowContext(ctx, query).Scan(into); err != nil {
			return fmt.Errorf("compare the tables: %w", err)
		}
	}
	d.p.printf("   %s rows in the source, %s restored, %s different rows in both together\n\n", report.Count(source), report.Count(restored), report.Count(both))
	// A DECIMAL inside JSON comes back as a number of the same value, which
	// MySQL's UNION takes for the same JSON.
	if source != restored || source != both {
		return errors.New("the restored table is not equal to the source")
	}
	d.did("all %s rows left, were verified, came back into %s, and are equal by the server's own comparison", report.Count(source), demoTarget)
	d.did("a drill into a scratch server of its own proved each batch")
	return nil
}

// damage flips one byte in a copy of the archive and shows that verify finds it.
func (d *demo) damage(ctx context.Context, with func(string, string, ...string) []string) error {
	good, bad := filepath.Join(d.dir, "archive"), filepath.Join(d.dir, "damaged")
	if err := os.CopyFS(bad, os.DirFS(good)); err != nil {
		return fmt.Errorf("copy the archive: %w", err)
	}
	var victim string
	err := filepath.WalkDir(filepath.Join(bad, "app_code="+demoApps[0]), func(path string, e fs.DirEntry, err error) error {
		if err == nil && victim == "" && e.Name() == manifest.DataName {
			victim = path
		}
		return err
	})
	if err != nil || victim == "" {
		return errors.Join(err, errors.New("no data object to damage"))
	}
	b, err := os.ReadFile(victim)
	if err != nil {
		return err
	}
	b[len(b)/2] ^= 0x01
	if err := os.Chmod(victim, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(victim, b, 0o600); err != nil {
		return err
	}
	args := with("verify", demoApps[0], "--all")
	for i, a := range args {
		args[i] = strings.Replace(a, "file://"+good, "file://"+bad, 1)
	}
	if err := d.do(ctx, step{
		title: fmt.Sprintf("Flip one bit of byte %d of %d in a copy of one data object, and verify the copy", len(b)/2, len(b)),
		args:  args, want: exitArchive,
	}); err != nil {
		return err
	}
	d.did("one flipped bit in a copy was found: exit code %d", exitArchive)
	d.p.printf("== Summary, after %s\n", report.Duration(time.Since(d.began)))
	for _, line := range d.summary {
		d.p.printf("   - %s\n", line)
	}
	if d.keep {
		d.p.printf("   the archive is in %s\n", good)
	}
	return nil
}

func (d *demo) close(ctx context.Context) error {
	var err error
	if d.db != nil {
		err = d.db.Close()
	}
	if d.server != nil {
		err = errors.Join(err, d.server.Close(ctx))
	}
	if d.dir != "" && !d.keep {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}
