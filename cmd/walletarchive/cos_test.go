package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
	creds "github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/internal/objstore/open"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/manifest"
)

// bucket is a fake bucket and a machine that uses it: nothing of the environment
// of the tests is seen, and nobody really waits, which moves the bucket's clock.
type bucket struct {
	*cosfake.Server
	url  string
	env  map[string]string // of credentials
	home string
	// metadata is the metadata service of the machine; "" is the real one, which
	// no test asks.
	metadata string
	// began is when everything is said to happen, but for what was waited.
	began time.Time
}

const bucketPrefix = "pre/fix"

func newBucket(t *testing.T, opts cosfake.Options) *bucket {
	t.Helper()
	began := time.Now().Truncate(time.Second)
	opts.Now = func() time.Time { return began }
	f, err := cosfake.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return &bucket{
		Server: f, url: "cos://" + f.Bucket + "/" + bucketPrefix + "?region=" + f.Region + "&endpoint=" + f.URL, home: t.TempDir(), began: began,
		env: map[string]string{"TENCENTCLOUD_SECRET_ID": f.SecretID, "TENCENTCLOUD_SECRET_KEY": f.SecretKey},
	}
}

func (b *bucket) wait(ctx context.Context, d time.Duration) error {
	b.Advance(d)
	return ctx.Err()
}

// program is one run of the binary on this machine.
func (b *bucket) program(stdout, stderr *bytes.Buffer) *program {
	p := newProgram(stdout, stderr)
	p.now, p.sleep = b.Now, b.wait
	p.open = open.Options{
		Retry: cosstore.Retry{Attempts: 4}, StallTimeout: 300 * time.Millisecond,
		Sleep:             func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		CredentialOptions: creds.Options{Getenv: func(k string) string { return b.env[k] }, Home: b.home, MetadataEndpoint: b.metadata},
	}
	return p
}

// try runs the binary and returns its exit code. No secret may be in what it
// prints.
func (b *bucket) try(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := b.program(&out, &errs)
	code = p.run(t.Context(), newApp(p), append([]string{programName}, args...))
	for name, secret := range b.env {
		if strings.HasSuffix(name, "KEY") && strings.Contains(out.String()+errs.String(), secret) {
			t.Errorf("%q printed a secret:\n%s%s", args, out.String(), errs.String())
		}
	}
	return code, out.String(), errs.String()
}

// runs is try with the exit code that is wanted.
func (b *bucket) runs(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := b.try(t, args...)
	if code != want {
		t.Errorf("%q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, code, want, stdout, stderr)
	}
	return stdout, stderr
}

// upload puts the objects of a directory of batches into the bucket, below its
// prefix, as kept says.
func (b *bucket) upload(t *testing.T, a *testArchive, kept func(key string) cosfake.Object) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(a.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		o := kept(name)
		o.Key = bucketPrefix + "/" + name
		if o.Data, err = os.ReadFile(a.path(name)); err == nil {
			b.Store(o)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plain is how upload keeps objects in no special way.
func plain(string) cosfake.Object { return cosfake.Object{} }

// dataIn keeps data objects in a storage class.
func dataIn(class string) func(string) cosfake.Object {
	return func(key string) cosfake.Object {
		if strings.HasSuffix(key, manifest.DataName) {
			return cosfake.Object{StorageClass: class}
		}
		return cosfake.Object{}
	}
}

// fillSource makes a ledger and a wallet_outbox with rows of each app, two days
// old, and lets every command use them.
func fillSource(t *testing.T, s mysqltest.Server, rows int, apps ...string) *sql.DB {
	t.Helper()
	db, dsn := s.NewDB(t)
	if _, err := db.ExecContext(t.Context(), strings.TrimRight(outbox.Schema(outbox.DefaultTable, ""), "; \n")); err != nil {
		t.Fatal(err)
	}
	if err := ledger.New(db).CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := sample.Fill(t.Context(), db, outbox.DefaultTable, sample.Options{
		Apps: apps, Rows: rows * len(apps), Seed: 5, Start: time.Now().Add(-48 * time.Hour), Span: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WALLETARCHIVE_SOURCE_DSN", dsn)
	t.Setenv("WALLETARCHIVE_LEDGER_DSN", dsn)
	return db
}

// outcomes are those of the batches of a document.
func outcomes(d document) string {
	var all []string
	for _, b := range d.Batches {
		all = append(all, b.Outcome)
	}
	return strings.Join(all, " ")
}

func TestExportKeepsObjectsAsAsked(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	for _, versioning := range []string{"", "Enabled"} {
		t.Run("versioning "+versioning, func(t *testing.T) {
			fillSource(t, s, 50, "wallet")
			b := newBucket(t, cosfake.Options{ObjectLock: true, Versioning: versioning})
			export := []string{"export", "--app", "wallet", "--store", b.url, "--older-than", "24h", "--batch-rows", "20", "--max-batches", "1",
				"--retain-days", "30", "--sse", "kms:key-1", "--tag", "team=wallet, ledger", "--tag", "for=audit "}
			until := b.began.AddDate(0, 0, 30).UTC()
			check := func(class string) {
				t.Helper()
				keys := b.Keys()
				if len(keys) != 3 {
					t.Fatalf("the bucket holds %q", keys)
				}
				for _, key := range keys {
					o, _ := b.Object(key)
					want := cosfake.Object{SSE: "cos/kms", SSEKeyID: "key-1", RetainUntil: until, Tags: map[string]string{"team": "wallet, ledger", "for": "audit "}}
					if strings.HasSuffix(key, manifest.DataName) {
						want.StorageClass = class
					}
					got := cosfake.Object{SSE: o.SSE, SSEKeyID: o.SSEKeyID, RetainUntil: o.RetainUntil, Tags: o.Tags, StorageClass: o.StorageClass}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", key, diff)
					}
				}
			}
			out, _ := b.runs(t, exitOK, append(export, "--storage-class", "STANDARD_IA")...)
			check("STANDARD_IA")
			if !strings.Contains(out, "objects are locked until "+until.Format(time.RFC3339)+", data in STANDARD_IA, encrypted by kms:key-1, with 2 tags\n") {
				t.Errorf("text:\n%s", out)
			}
			// Every level sees the locks, and days that are not left are a fault.
			for _, level := range []string{"head", "content", "rows"} {
				verify := []string{"verify", "--json", "--app", "wallet", "--store", b.url, "--all", "--level", level}
				out, _ := b.runs(t, exitOK, append(verify, "--require-retention", "30")...)
				if n := strings.Count(out, `"retain_until":"`+until.Format(time.RFC3339)+`"`); n != 3 {
					t.Errorf("level %s reports the lock of %d objects:\n%s", level, n, out)
				}
				out, _ = b.runs(t, exitArchive, append(verify, "--require-retention", "31")...)
				if n := strings.Count(out, `"check":"retention"`); n != 3 {
					t.Errorf("level %s finds %d locks too short:\n%s", level, n, out)
				}
			}
			for _, key := range b.Keys() {
				b.Remove(key)
			}
			// A class that has to be thawed is set after the receipt, with the lock.
			fillSource(t, s, 50, "wallet")
			out, _ = b.runs(t, exitOK, append(export, "--storage-class", "ARCHIVE", "--json")...)
			check("ARCHIVE")
			if !strings.Contains(out, `"storage_class": "ARCHIVE"`) || !strings.Contains(out, `"recorded": true`) {
				t.Errorf("document:\n%s", out)
			}
		})
	}
}

// What an interrupted run left is locked, and moved, by the next.
func TestExportFinishesWhatItKeeps(t *testing.T) {
	fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), 30, "wallet")
	b := newBucket(t, cosfake.Options{ObjectLock: true})
	export := []string{"export", "--app", "wallet", "--store", b.url, "--older-than", "24h"}
	stopped := b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PutObject, Match: endsWith(manifest.SuccessName)})
	b.runs(t, exitUnfinished, export...) // without a lock
	stopped.Remove()
	stopped = b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PutObjectCopy})
	export = append(export, "--retain-until", b.began.AddDate(1, 0, 0).UTC().Format(time.RFC3339), "--storage-class", "DEEP_ARCHIVE")
	out, errs := b.runs(t, exitUnfinished, export...)
	if !strings.Contains(out, "recorded, with the objects of an earlier run") || !strings.Contains(errs, "is recorded, but its data object was not moved to DEEP_ARCHIVE (the same export run again does that)") {
		t.Errorf("a move that was refused:\n%s%s", out, errs)
	}
	stopped.Remove()
	out, _ = b.runs(t, exitOK, export...)
	if !strings.Contains(out, "data moved to DEEP_ARCHIVE, which an earlier run had left undone") {
		t.Errorf("text:\n%s", out)
	}
	for _, key := range b.Keys() {
		if o, _ := b.Object(key); !o.RetainUntil.Equal(b.began.AddDate(1, 0, 0)) || (o.StorageClass == "DEEP_ARCHIVE") != strings.HasSuffix(key, manifest.DataName) {
			t.Errorf("%s is in %q, locked until %v", key, o.StorageClass, o.RetainUntil)
		}
	}
	b.runs(t, exitOK, "verify", "--app", "wallet", "--store", b.url, "--all", "--level", "head", "--require-retention", "364")
}

// endsWith matches the keys of one object of a batch.
func endsWith(name string) func(cosfake.Op, string, *http.Request) bool {
	return func(_ cosfake.Op, key string, _ *http.Request) bool { return strings.HasSuffix(key, "/"+name) }
}

func TestExportRefusesWhatTheStoreCannotKeep(t *testing.T) {
	b := newBucket(t, cosfake.Options{})
	dir := "file://" + t.TempDir()
	for _, test := range []struct {
		store string
		args  []string
		says  string
	}{
		{b.url, []string{"--storage-class", "archive"}, "storage class"},
		{b.url, []string{"--storage-class", "ARCHVE"}, "none of STANDARD"},
		{b.url, []string{"--sse", "aes"}, "encryption"},
		{b.url, []string{"--sse", "kms:"}, "encryption"},
		{b.url, []string{"--tag", "novalue"}, "KEY=VALUE"},
		{b.url, []string{"--tag", "=v"}, "KEY=VALUE"},
		{b.url, []string{"--tag", "k=1", "--tag", "k=2"}, "twice"},
		{b.url, []string{"--retain-days", "0"}, "want 1 to 36500"},
		{b.url, []string{"--retain-days", "36501"}, "want 1 to 36500"},
		{b.url, []string{"--retain-until", "2020-01-01"}, "is past"},
		{b.url, []string{"--retain-until", "9999-01-01"}, "ahead"},
		{b.url, []string{"--retain-until", "tomorrow"}, "neither a UTC date"},
		{b.url, []string{"--retain-until", "2099-01-01", "--retain-days", "3"}, "give one"},
		{dir, []string{"--storage-class", "ARCHIVE"}, "a directory has no storage class"},
		{dir, []string{"--sse", "cos"}, "a directory has no server-side encryption"},
		{dir, []string{"--tag", "k=v"}, "a directory has no tags"},
		{dir, []string{"--retain-days", "3"}, "a directory has no object lock"},
		{dir, []string{"--cvm-role", "auto"}, "needs no credentials"},
	} {
		args := append([]string{"export", "--app", "wallet", "--source-dsn", "u@unix(/nowhere)/d", "--older-than", "24h", "--store", test.store}, test.args...)
		out, errs := b.runs(t, exitUsage, args...)
		if out != "" || !strings.Contains(errs, test.says) {
			t.Errorf("%q wrote %q and said %q, want %q", test.args, out, errs, test.says)
		}
	}
	if n := b.Count("", ""); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestVerifyReportsRetention(t *testing.T) {
	a := newArchive(t, 2, 5)
	b := newBucket(t, cosfake.Options{ObjectLock: true})
	long, short := b.began.AddDate(0, 0, 100).UTC(), b.began.AddDate(0, 0, 5).UTC()
	b.upload(t, a, func(key string) cosfake.Object {
		o := cosfake.Object{RetainUntil: long}
		switch {
		case strings.Contains(key, a.id(1)) && strings.HasSuffix(key, manifest.ManifestName):
			o.RetainUntil = short
		case strings.Contains(key, a.id(1)) && strings.HasSuffix(key, manifest.SuccessName):
			o.RetainUntil = time.Time{}
		}
		return o
	})
	for _, level := range []string{"head", "content", "rows"} {
		args := []string{"verify", "--store", b.url, "--receipt", a.receipts, "--level", level}
		out, _ := b.runs(t, exitOK, args...)
		for _, want := range []string{
			fmt.Sprintf("retention   3 objects locked until %s\n", long.Format(time.RFC3339)),
			fmt.Sprintf("retention   _SUCCESS not locked, manifest.json locked until %s, data.ndjson.gz locked until %s\n", short.Format(time.RFC3339), long.Format(time.RFC3339)),
		} {
			if !strings.Contains(out, want) {
				t.Errorf("level %s lacks %q:\n%s", level, want, out)
			}
		}
		asked := b.Count(cosfake.GetObjectRetention, "")
		if asked != 0 {
			t.Errorf("level %s asked for %d locks that nobody wants to know", level, asked)
		}
		out, _ = b.runs(t, exitArchive, append(args, "--require-retention", "50", "--json")...)
		d := documentOf(t, out)
		if outcomes(d) != "passed archive_wrong" || len(d.Batches[1].Faults) != 2 || !strings.Contains(out, `"got":"no retention"`) || !strings.Contains(out, `"got":"until `+short.Format(time.RFC3339)+`"`) {
			t.Errorf("level %s with 50 days required:\n%s", level, out)
		}
		b.ClearLog()
	}
}

func TestColdBatches(t *testing.T) {
	a := newArchive(t, 3, 5)
	b := newBucket(t, cosfake.Options{})
	b.upload(t, a, func(key string) cosfake.Object {
		if strings.Contains(key, a.id(1)) {
			return cosfake.Object{} // is warm
		}
		return dataIn("ARCHIVE")(key)
	})
	verify := []string{"verify", "--store", b.url, "--receipt", a.receipts}

	// Level head needs no thawing, and says what is cold.
	out, _ := b.runs(t, exitOK, append(verify, "--level", "head", "--json")...)
	if n := strings.Count(out, `"storage_class":"ARCHIVE","thaw":"frozen"`); n != 2 {
		t.Errorf("level head names %d cold objects:\n%s", n, out)
	}
	// Without --thaw nothing is asked for, and what can be read is verified.
	for _, level := range []string{"content", "rows"} {
		out, errs := b.runs(t, exitUnfinished, append(verify, "--level", level)...)
		for _, want := range []string{
			"unfinished  data.ndjson.gz is in ARCHIVE, frozen: not read; ask for a copy that can be read with --thaw TIER: expedited takes 1 to 5 minutes, standard takes 3 to 5 hours",
			"verify: not proven: 3 batches, 1 proven, 2 not proven; ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("level %s lacks %q:\n%s%s", level, want, out, errs)
			}
		}
	}
	if n := b.Count(cosfake.PostObjectRestore, ""); n != 0 {
		t.Errorf("%d objects were thawed that nobody asked for", n)
	}
	// With it all are asked for, and the run ends with when to come back.
	out, errs := b.runs(t, exitUnfinished, append(verify, "--thaw", "standard", "--thaw-days", "2", "--json")...)
	d := documentOf(t, out)
	if outcomes(d) != "unfinished passed unfinished" || b.Count(cosfake.PostObjectRestore, "") != 2 {
		t.Errorf("%s after %d orders:\n%s%s", outcomes(d), b.Count(cosfake.PostObjectRestore, ""), out, errs)
	}
	var cold struct {
		Cold []struct {
			Key, Thaw    string
			StorageClass string `json:"storage_class"`
			Asked        bool
		}
		Tier string
		Days int
		From time.Time `json:"ready_from"`
		By   time.Time `json:"ready_by"`
	}
	if err := json.Unmarshal(d.Batches[0].Details, &cold); err != nil {
		t.Fatal(err)
	}
	if len(cold.Cold) != 1 || !cold.Cold[0].Asked || cold.Cold[0].Thaw != "thawing" || cold.Tier != "standard" || cold.Days != 2 ||
		cold.From.Sub(b.began) != 3*time.Hour || cold.By.Sub(b.began) != 5*time.Hour || !strings.Contains(d.Batches[0].Error, "come back then with the same command") {
		t.Errorf("details of a cold batch: %+v, %q", cold, d.Batches[0].Error)
	}
	// Then it is waited for.
	out, errs = b.runs(t, exitOK, append(verify, "--thaw", "standard", "--thaw-wait", "6h")...)
	if !strings.Contains(out, "verify: proven: 3 batches, 3 proven") || !strings.Contains(errs, "waiting for objects to thaw") || b.Count(cosfake.PostObjectRestore, "") != 2 {
		t.Errorf("after %d orders:\n%s%s", b.Count(cosfake.PostObjectRestore, ""), out, errs)
	}
	// The copies are gone again.
	b.Advance(72 * time.Hour)
	b.runs(t, exitUnfinished, verify...)
	b.runs(t, exitOK, append(verify, "--thaw", "expedited", "--thaw-wait", "10m")...)
}

// Nothing is restored, and nothing read, while one batch is cold.
func TestRestoreOfColdBatches(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MariaDB)
	db, dsn := s.NewDB(t)
	if _, err := db.ExecContext(t.Context(), strings.TrimRight(outbox.Schema(outbox.DefaultTable, ""), "; \n")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WALLETARCHIVE_TARGET_DSN", dsn)
	t.Setenv("WALLETARCHIVE_SCRATCH", "dsn:"+s.DSN(""))
	a := newArchive(t, 2, 5)
	b := newBucket(t, cosfake.Options{})
	b.upload(t, a, func(key string) cosfake.Object {
		if strings.Contains(key, a.id(0)) {
			return cosfake.Object{}
		}
		return dataIn("DEEP_ARCHIVE")(key)
	})
	for command, want := range map[string]string{"restore": "unfinished unfinished", "drill": "passed unfinished"} {
		args := []string{command, "--json", "--store", b.url, "--receipt", a.receipts}
		b.ClearLog()
		out, _ := b.runs(t, exitUnfinished, args...)
		if d := documentOf(t, out); outcomes(d) != want || !strings.Contains(d.Batches[1].Error, "--thaw TIER: standard takes 12 to 24 hours, bulk takes 24 to 48 hours") {
			t.Errorf("%s: %s, want %s:\n%s", command, outcomes(d), want, out)
		}
		if n := b.Count(cosfake.GetObject, ""); command == "restore" && n != 0 {
			t.Errorf("%d objects were read for nothing", n)
		}
	}
	if n := count(t, db, "SELECT COUNT(*) FROM "+outbox.DefaultTable); n != 0 {
		t.Errorf("%d rows were restored", n)
	}
	out, _ := b.runs(t, exitUnfinished, "restore", "--store", b.url, "--receipt", a.receipts, "--thaw", "expedited", "--thaw-wait", "1h")
	if !strings.Contains(out, "DEEP_ARCHIVE has no expedited thaw, standard takes 12 to 24 hours") {
		t.Errorf("text:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "plan")
	plan := []string{"restore", "plan", "--store", b.url, "--receipt", a.receipts, "--out", file}
	b.runs(t, exitUnfinished, plan...)
	if _, err := readPlan(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan of batches that nobody has read: %v", err)
	}
	out, _ = b.runs(t, exitOK, append(plan, "--thaw", "bulk", "--thaw-wait", "50h")...)
	if p, err := readPlan(file); err != nil || p.Totals.ColdObjects != 1 || p.Batches[0].ColdObjects != 0 || p.Batches[1].ColdObjects != 1 || p.Store != b.url {
		t.Errorf("error %v, plan\n%s", err, out)
	}
	b.runs(t, exitOK, "restore", "run", "--plan", file, "--yes", "--store", b.url, "--receipt", a.receipts)
	b.runs(t, exitOK, "restore", "--store", b.url, "--receipt", a.receipts, "--thaw", "bulk", "--thaw-wait", "50h")
	if n := count(t, db, "SELECT COUNT(*) FROM "+outbox.DefaultTable); n != 10 {
		t.Errorf("%d rows were restored, want 10", n)
	}
	b.runs(t, exitOK, "drill", "--store", b.url, "--receipt", a.receipts, "--thaw", "standard")
}

func TestThawUsage(t *testing.T) {
	a := newArchive(t, 1, 1)
	b := newBucket(t, cosfake.Options{})
	for _, test := range []struct {
		store string
		args  []string
		says  string
	}{
		{b.url, []string{"--thaw", "soon"}, "none of expedited, standard, bulk"},
		{b.url, []string{"--thaw-days", "3"}, "with --thaw only"},
		{b.url, []string{"--thaw-wait", "3h"}, "with --thaw only"},
		{b.url, []string{"--thaw", "bulk", "--thaw-days", "0"}, "want 1 to 365"},
		{b.url, []string{"--thaw", "bulk", "--thaw-wait=-1h"}, "negative"},
		{b.url, []string{"--thaw", "bulk", "--level", "head"}, "nothing to thaw"},
		{a.url, []string{"--thaw", "bulk"}, "a directory has no cold storage"},
	} {
		args := append([]string{"verify", "--receipt", a.receipts, "--store", test.store}, test.args...)
		if out, errs := b.runs(t, exitUsage, args...); out != "" || !strings.Contains(errs, test.says) {
			t.Errorf("%q wrote %q and said %q, want %q", test.args, out, errs, test.says)
		}
	}
	if n := b.Count("", ""); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestDiscover(t *testing.T) {
	a := newArchive(t, 4, 5) // of the first four days of 1970
	b := newBucket(t, cosfake.Options{})
	b.upload(t, a, plain)
	discover := func(code int, want string, args ...string) (document, string, string) {
		t.Helper()
		out, errs := b.runs(t, code, append([]string{"verify", "--json", "--discover", "--store", b.url}, args...)...)
		d := documentOf(t, out)
		var got []string
		for _, batch := range d.Batches {
			i := slices.IndexFunc(a.list, func(r manifest.Receipt) bool { return string(r.BatchID) == batch.BatchID })
			got = append(got, fmt.Sprint(i, " ", batch.Outcome))
		}
		if strings.Join(got, ", ") != want || !strings.Contains(out, `"details":{"discovered":true`) || !strings.Contains(out, "never a proof of completeness") {
			t.Errorf("%q: found %q, want %q:\n%s%s", args, got, want, out, errs)
		}
		return d, out, errs
	}
	all := "0 passed, 1 passed, 2 passed, 3 passed"
	d, _, _ := discover(exitOK, all)
	if d.Against != "their own manifests only" || d.Batches[0].Examined.Rows != 5 {
		t.Errorf("document: %+v", d)
	}
	discover(exitOK, all, "--app", "wallet")
	discover(exitOK, all, "--level", "head")
	discover(exitOK, "1 passed, 2 passed", "--app", "wallet", "--since", "1970-01-02", "--until", "1970-01-04")
	discover(exitOK, "0 passed", "--until", "1970-01-02")
	discover(exitOK, "3 passed", "--app", "wallet", "--since", "1970-01-04")
	// Nothing found is no pass and no fault.
	for _, args := range [][]string{{"--app", "other"}, {"--app", "wallet", "--since", "1970-01-05"}} {
		d, _, errs := discover(exitNoBatch, "", args...)
		if d.Summary.Outcome != "no_batch" || d.Summary.Verdict != "not proven" || !strings.Contains(errs, "the listing shows no batch") {
			t.Errorf("nothing found: %+v\n%s", d.Summary, errs)
		}
	}
	// People read it too.
	out, _ := b.runs(t, exitOK, "verify", "--discover", "--store", b.url, "--app", "wallet", "--since", "1970-01-02")
	for _, want := range []string{"against     their own manifests only\n", "found       every batch of wallet from 1970-01-02 that the listing", "listing     a listing is eventually consistent"} {
		if !strings.Contains(out, want) {
			t.Errorf("text lacks %q:\n%s", want, out)
		}
	}
	// A batch without a marker does not exist; a damaged one is found.
	b.Remove(bucketPrefix + "/" + a.list[2].SuccessObjectKey)
	b.Damage(bucketPrefix+"/"+a.list[1].DataObjectKey, 20)
	b.Store(cosfake.Object{Key: bucketPrefix + "/app_code=wallet/date=1970-01-01/batch=copy/_SUCCESS", Data: []byte("{}")})
	_, _, errs := discover(exitArchive, "0 passed, 1 archive_wrong, 3 passed", "--app", "wallet")
	if !strings.Contains(errs, "folders=1") || !strings.Contains(errs, "objects=1") {
		t.Errorf("stderr:\n%s", errs)
	}
	// A directory can be listed as well.
	b.runs(t, exitOK, "verify", "--discover", "--store", a.url, "--app", "wallet")
}

// A listing of more than 1,000 keys comes in pages.
func TestDiscoverPages(t *testing.T) {
	a := newArchive(t, 2, 1)
	b := newBucket(t, cosfake.Options{})
	b.upload(t, a, plain)
	for i := range 2100 {
		b.Store(cosfake.Object{Key: fmt.Sprintf("%s/app_code=wallet/date=1970-01-01/other=%04d/data", bucketPrefix, i)})
	}
	out, _ := b.runs(t, exitOK, "verify", "--discover", "--json", "--store", b.url, "--app", "wallet")
	if d := documentOf(t, out); outcomes(d) != "passed passed" || b.Count(cosfake.GetBucket, "") != 3 {
		t.Errorf("%s after %d lists", outcomes(d), b.Count(cosfake.GetBucket, ""))
	}
	// A range of days makes the listing shorter.
	b.ClearLog()
	b.runs(t, exitOK, "verify", "--discover", "--store", b.url, "--app", "wallet", "--since", "1970-01-02", "--until", "1970-01-03")
	if n := b.Count(cosfake.GetBucket, ""); n != 1 {
		t.Errorf("%d lists for one day", n)
	}
	// A list that lags lacks batches, which is why nobody may take it for all.
	b.SetListLag(time.Hour)
	out, errs := b.runs(t, exitNoBatch, "verify", "--discover", "--store", b.url, "--app", "wallet")
	if !strings.Contains(out, "never a proof of completeness") {
		t.Errorf("text:\n%s%s", out, errs)
	}
}

func TestDiscoverUsage(t *testing.T) {
	a := newArchive(t, 1, 1)
	for _, args := range [][]string{
		{"--receipt", a.receipts}, {"--ledger-dsn", "u@unix(/s)/d"}, {"--all"}, {"--latest", "1"}, {a.id(0), "--app", "wallet"},
		{"--since", "1970-01-01T12:00:00Z"}, {"--until", "soon"}, {"--since", "1970-01-02", "--until", "1970-01-02"}, {"--app", "no/app"},
	} {
		if out, _ := runs(t, exitUsage, append([]string{"verify", "--discover", "--store", a.url}, args...)...); out != "" {
			t.Errorf("%q wrote to stdout: %s", args, out)
		}
	}
	// A ledger in the environment is not asked.
	t.Setenv("WALLETARCHIVE_LEDGER_DSN", "u@unix(/nowhere)/d")
	runs(t, exitOK, "verify", "--discover", "--store", a.url)
}

func TestStoreCheck(t *testing.T) {
	b := newBucket(t, cosfake.Options{ObjectLock: true})
	out, errs := b.runs(t, exitOK, "store", "check", "--store", b.url)
	for _, want := range []string{
		"store  " + b.url + "\n\n",
		"pass       credentials  from environment TENCENTCLOUD_SECRET_ID, TENCENTCLOUD_SECRET_KEY, without a known end\n",
		"pass       versioning   never enabled: COS itself refuses to overwrite an object\n",
		"pass       object lock  enabled: objects are locked when an export asks for it\n",
		"pass       delete       the probe object is gone\n",
		"\nstore check: this store can be used: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the page lacks %q:\n%s", want, out)
		}
	}
	if errs != "" || strings.Contains(out, b.SecretID) {
		t.Errorf("stderr %q, page:\n%s", errs, out)
	}
	out, _ = b.runs(t, exitOK, "store", "check", "--json", "--store", b.url)
	var doc struct {
		Schema, Store string
		OK            bool
		Lines         []struct{ Name, Status, Detail, Remedy string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != "walletarchive.store-check/v1" || !doc.OK || len(doc.Lines) != 13 || doc.Store != b.url {
		t.Errorf("document %+v, %v:\n%s", doc, err, out)
	}
	// A line that failed says what to do.
	b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PutObject})
	out, errs = b.runs(t, exitUnfinished, "store", "check", "--store", b.url)
	for _, want := range []string{"\nFAIL       put          ", "status 403 AccessDenied", "\n                        what to do: the credentials may not do this: grant cos:PutObject on bucket", "\nnot tried  get          ", "not everything works: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the page lacks %q:\n%s%s", want, out, errs)
		}
	}
	if out, _ = b.runs(t, exitUnfinished, "store", "check", "--json", "--store", b.url); !strings.Contains(out, `"ok": false`) {
		t.Errorf("document:\n%s", out)
	}
	// What is set up wrongly here is configuration.
	delete(b.env, "TENCENTCLOUD_SECRET_KEY")
	b.ClearLog()
	out, _ = b.runs(t, exitUsage, "store", "check", "--store", b.url)
	if !strings.Contains(out, "FAIL       credentials  ") || !strings.Contains(out, "TENCENTCLOUD_SECRET_ID is set and TENCENTCLOUD_SECRET_KEY is not") || b.Count("", "") != 0 {
		t.Errorf("half a pair, %d requests:\n%s", b.Count("", ""), out)
	}
	dir := t.TempDir()
	runs(t, exitOK, "store", "check", "--store", "file://"+dir)
	runs(t, exitUsage, "store", "check", "--store", "file://"+filepath.Join(dir, "absent"))
	runs(t, exitUsage, "store", "check", "--store", "ftp://x")
	runs(t, exitUsage, "store", "check")
	runs(t, exitUsage, "store")
}

// The metadata service of a CVM is asked when that is asked for, and only then.
func TestCVMRole(t *testing.T) {
	a := newArchive(t, 1, 1)
	b := newBucket(t, cosfake.Options{SecretID: "AKIDtemporary", SecretKey: "temporary-key", Token: "temporary-token"})
	b.upload(t, a, plain)
	clear(b.env)
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, path.Base(r.URL.Path))
		if path.Base(r.URL.Path) == "security-credentials" {
			fmt.Fprint(w, "role-a\n")
			return
		}
		fmt.Fprintf(w, `{"TmpSecretId":"AKIDtemporary","TmpSecretKey":"temporary-key","ExpiredTime":%d,"Token":"temporary-token","Code":"Success"}`, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(srv.Close)
	b.metadata = srv.URL
	verify := []string{"verify", "--store", b.url, "--receipt", a.receipts}
	b.runs(t, exitUsage, verify...)
	if len(asked) != 0 {
		t.Errorf("the metadata service was asked for %q by nobody", asked)
	}
	out, _ := b.runs(t, exitOK, "store", "check", "--store", b.url, "--cvm-role", "auto")
	if !strings.Contains(out, "from CVM role of ") || !strings.Contains(out, "good until ") || strings.Contains(out, "temporary-") {
		t.Errorf("page:\n%s", out)
	}
	b.runs(t, exitOK, append(verify, "--cvm-role", "role-b")...)
	t.Setenv("WALLETARCHIVE_CVM_ROLE", "role-c")
	b.runs(t, exitOK, verify...)
	runs(t, exitOK, "verify", "--store", a.url, "--receipt", a.receipts) // a directory does not mind
	if diff := cmp.Diff([]string{"security-credentials", "role-a", "role-b", "role-c"}, asked); diff != "" {
		t.Errorf("the metadata service was asked for (-want +got):\n%s", diff)
	}
}

// Who deletes an object in a bucket with versions only hides it, which is worth
// knowing.
func TestVerifyNamesADeleteMarker(t *testing.T) {
	a := newArchive(t, 1, 5)
	b := newBucket(t, cosfake.Options{Versioning: "Enabled"})
	b.upload(t, a, plain)
	s, _, err := open.Open(t.Context(), b.url, b.program(&bytes.Buffer{}, &bytes.Buffer{}).open)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), bucketPrefix+"/"+a.list[0].DataObjectKey, ""); err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"head", "content", "rows"} {
		out, _ := b.runs(t, exitArchive, "verify", "--store", b.url, "--receipt", a.receipts, "--level", level)
		if !strings.Contains(out, "data.ndjson.gz: object_missing: expected an object, found no object (its latest version is a delete marker: older versions may still be there)") {
			t.Errorf("level %s:\n%s", level, out)
		}
	}
}

// Credentials that are not there are known before a server is asked for anything.
func TestMissingCredentials(t *testing.T) {
	a := newArchive(t, 1, 1)
	b := newBucket(t, cosfake.Options{})
	clear(b.env)
	out, errs := b.runs(t, exitUsage, "verify", "--store", b.url, "--receipt", a.receipts)
	if out != "" || !strings.Contains(errs, "TENCENTCLOUD_SECRET_ID") || !strings.Contains(errs, "there are no usable credentials") {
		t.Errorf("verify without credentials:\n%s%s", out, errs)
	}
	out, errs = b.runs(t, exitUsage, "export", "--app", "wallet", "--store", b.url, "--source-dsn", "u@unix(/nowhere)/d", "--older-than", "24h")
	if out != "" || !strings.Contains(errs, "there are no usable credentials") {
		t.Errorf("export without credentials:\n%s%s", out, errs)
	}
}
