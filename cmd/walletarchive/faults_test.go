package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/manifest"
)

// trouble is one way in which a bucket fails its users.
type trouble struct {
	fault cosfake.Fault
	// names are words of which an error or a finding has to have one.
	names []string
}

var troubles = []trouble{
	{cosfake.Fault{Kind: cosfake.WrongCRC}, []string{"crc64"}},
	{cosfake.Fault{Kind: cosfake.WrongCRC, Op: cosfake.PutObject}, []string{"crc64"}},
	{cosfake.Fault{Kind: cosfake.MissingCRC}, []string{"CRC64", "crc64"}},
	{cosfake.Fault{Kind: cosfake.FlipByte, At: 7}, []string{"crc64"}},
	{cosfake.Fault{Kind: cosfake.FlipByteIn, Op: cosfake.PutObject, At: 7}, []string{"BadDigest"}},
	{cosfake.Fault{Kind: cosfake.CutBody, At: 7}, []string{"EOF", "short_body", "reset"}},
	{cosfake.Fault{Kind: cosfake.ShortAnswer, At: 7}, []string{"short_body", "crc64", "size"}},
	{cosfake.Fault{Kind: cosfake.LoseAnswer}, []string{"EOF", "reset", "closed"}},
	{cosfake.Fault{Kind: cosfake.LoseAnswer, Op: cosfake.PutObject}, []string{"EOF", "reset", "closed"}},
	{cosfake.Fault{Kind: cosfake.FileAlreadyExists, Op: cosfake.PutObject}, []string{"FileAlreadyExists"}},
	{cosfake.Fault{Kind: cosfake.PathConflict, Op: cosfake.PutObject}, []string{"PathConflict"}},
	{cosfake.Fault{Kind: cosfake.Unavailable}, []string{"ServiceUnavailable", "503"}},
	{cosfake.Fault{Kind: cosfake.SlowDown}, []string{"SlowDown", "503"}},
	{cosfake.Fault{Kind: cosfake.SlowDown, Op: cosfake.PutObject}, []string{"SlowDown"}},
	{cosfake.Fault{Kind: cosfake.AccessDenied}, []string{"AccessDenied", "grant cos:"}},
	{cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PutObject, Match: endsWith(manifest.SuccessName)}, []string{"grant cos:PutObject"}},
	{cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.GetObject}, []string{"grant cos:GetObject"}},
	{cosfake.Fault{Kind: cosfake.Fail, Status: http.StatusInternalServerError, Code: "InternalError"}, []string{"InternalError", "500"}},
	{cosfake.Fault{Kind: cosfake.Fail, Op: cosfake.PutObject, Status: http.StatusBadRequest, Code: "RequestTimeOut"}, []string{"RequestTimeOut"}},
	{cosfake.Fault{Kind: cosfake.Fail, Status: http.StatusForbidden, Code: "SignatureDoesNotMatch"}, []string{"SignatureDoesNotMatch", "secret key does not belong"}},
	{cosfake.Fault{Kind: cosfake.Fail, Op: cosfake.GetObject, Status: http.StatusUnavailableForLegalReasons, Code: "Blocked"}, []string{"451"}},
	{cosfake.Fault{Kind: cosfake.SlowHeaders, Delay: time.Hour}, []string{"timeout"}},
	{cosfake.Fault{Kind: cosfake.SlowBody, Delay: time.Millisecond}, nil},
	{cosfake.Fault{Kind: cosfake.StallBody, At: 50, Delay: time.Hour}, []string{"timeout"}},
	{cosfake.Fault{Kind: cosfake.ResetConnection}, []string{"reset"}},
}

// TestEveryFault switches on every fault of the bucket in turn, once, for a
// while and for good. An export and a verify under it end proven or with an
// error that names the cause. What has a receipt verifies once the fault is
// gone, and the same export run again archives every row.
func TestEveryFault(t *testing.T) {
	const rows = 12
	var cases []trouble
	var apps []string
	for _, tr := range troubles {
		for _, times := range []int{1, 3, 0} {
			tr.fault.Times = times
			cases = append(cases, tr)
			apps = append(apps, fmt.Sprintf("app%d", len(apps)))
		}
	}
	fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), rows, apps...)
	t.Run("faults", func(t *testing.T) {
		for i, tr := range cases {
			t.Run(fmt.Sprintf("%s %s times %d", tr.fault.Kind, tr.fault.Op, tr.fault.Times), func(t *testing.T) {
				b := newBucket(t, cosfake.Options{Versioning: []string{"", "Enabled", "Suspended"}[i/3%3]})
				injected := b.Inject(tr.fault)
				b.endure(t, apps[i], rows, tr, b.ClearFaults)
				if injected.Hits() == 0 {
					t.Error("the fault harmed nothing")
				}
			})
		}
	})
}

// endure exports and verifies an app under a trouble, and again when it is over.
func (b *bucket) endure(t *testing.T, app string, rows int, tr trouble, over func()) {
	t.Helper()
	export := []string{"export", "--app", app, "--store", b.url, "--older-than", "24h", "--batch-rows", "5", "--log-level", "error"}
	verify := []string{"verify", "--json", "--app", app, "--store", b.url, "--all", "--log-level", "error"}
	finished := true
	for _, args := range [][]string{export, verify} {
		code, out, errs := b.try(t, args...)
		finished = finished && (args[0] != "export" || code == exitOK)
		switch {
		case code == exitOK:
		case args[0] == "verify" && code == exitNoBatch: // nothing was recorded
		case code == exitUsage, code == exitLocked, code >= exitCleanup:
			t.Errorf("%s ended with exit code %d:\n%s%s", args[0], code, out, errs)
		case !containsAny(out+errs, tr.names):
			t.Errorf("%s ended with exit code %d and names none of %q:\n%s%s", args[0], code, tr.names, out, errs)
		}
	}
	over()
	if !finished {
		// Whatever was recorded is there, and the same run again does the rest.
		if code, out, errs := b.try(t, verify...); code != exitOK && code != exitNoBatch {
			t.Errorf("receipts of objects that do not verify, exit code %d:\n%s%s", code, out, errs)
		}
		b.runs(t, exitOK, export...)
	}
	out, _ := b.runs(t, exitOK, verify...)
	d := documentOf(t, out)
	got := 0
	for _, batch := range d.Batches {
		got += batch.Examined.Rows
	}
	if got != rows || d.Summary.Verdict != "proven" {
		t.Errorf("%d rows of %d are archived: %+v", got, rows, d.Summary)
	}
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// TestEveryState does the same with what is no fault of single requests.
func TestEveryState(t *testing.T) {
	const rows = 12
	for i, test := range []struct {
		name    string
		trouble func(*bucket)
		over    func(*bucket)
		names   []string
	}{
		{"behind", func(b *bucket) { b.SetClockSkew(-time.Hour) }, func(b *bucket) { b.SetClockSkew(0) }, []string{"ahead of COS"}},
		{"ahead", func(b *bucket) { b.SetClockSkew(2 * time.Hour) }, func(b *bucket) { b.SetClockSkew(0) }, []string{"behind COS"}},
		{"expired", func(b *bucket) { b.Expire(b.SecretID) }, func(b *bucket) { b.Accept(b.SecretID, b.SecretKey, "") }, []string{"ExpiredToken"}},
		{"list", func(b *bucket) { b.SetListLag(time.Hour) }, func(b *bucket) { b.SetListLag(0) }, nil},
		{"key", func(b *bucket) { b.env["TENCENTCLOUD_SECRET_KEY"] = "another-secret-key" }, func(b *bucket) { b.env["TENCENTCLOUD_SECRET_KEY"] = b.SecretKey }, []string{"secret key does not belong"}},
		{"locked", func(b *bucket) { b.SetVersioning("Suspended") }, func(b *bucket) { b.SetVersioning("Enabled") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			app := fmt.Sprintf("app%d", i)
			fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), rows, app)
			b := newBucket(t, cosfake.Options{})
			test.trouble(b)
			b.endure(t, app, rows, trouble{names: test.names}, func() { test.over(b) })
		})
	}
}

// TestTokenIsRenewed changes the credentials file in the middle of an export.
func TestTokenIsRenewed(t *testing.T) {
	fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), 12, "wallet")
	b := newBucket(t, cosfake.Options{SecretID: "AKIDfirst", SecretKey: "first-secret-key", Token: "first-token"})
	clear(b.env)
	file := filepath.Join(b.home, ".tencentcloud", "credentials")
	write := func(id, key, token string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("[default]\nsecret_id = %s\nsecret_key = %s\ntoken = %s\n", id, key, token)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("AKIDfirst", "first-secret-key", "first-token")
	changed := make(chan struct{})
	held := b.Inject(cosfake.Fault{Kind: cosfake.SlowHeaders, Op: cosfake.PutObject, Skip: 3, Times: 1, Until: changed})
	go func() {
		defer close(changed)
		<-held.Hit()
		write("AKIDsecond", "second-secret-key", "second-token")
		b.Accept("AKIDsecond", "second-secret-key", "second-token")
		b.Expire("AKIDfirst")
	}()
	out, errs := b.runs(t, exitOK, "export", "--app", "wallet", "--store", b.url, "--older-than", "24h", "--batch-rows", "5")
	if !strings.Contains(errs, "credential expired and was fetched again") || !strings.Contains(out, "12 rows in 3 batches recorded") {
		t.Errorf("a token that is renewed:\n%s%s", out, errs)
	}
	b.runs(t, exitOK, "verify", "--app", "wallet", "--store", b.url, "--all")
	if held.Hits() != 1 {
		t.Error("nothing was held while the token changed")
	}
}

// TestExportCountsWhatItRecorded stops at the second of three batches, which may be
// written before the first one.
func TestExportCountsWhatItRecorded(t *testing.T) {
	fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), 12, "wallet")
	b := newBucket(t, cosfake.Options{})
	export := []string{"export", "--app", "wallet", "--store", b.url, "--older-than", "24h", "--batch-rows", "5"}
	var planned struct {
		Batches []struct {
			BatchID string `json:"batch_id"`
		}
	}
	out, _ := b.runs(t, exitOK, append(export, "--dry-run", "--json")...)
	if err := json.Unmarshal([]byte(out), &planned); err != nil || len(planned.Batches) != 3 {
		t.Fatalf("%v:\n%s", err, out)
	}
	b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.PutObject, Match: endsWith("batch=" + planned.Batches[1].BatchID + "/" + manifest.SuccessName)})
	out, errs := b.runs(t, exitUnfinished, export...)
	if !strings.Contains(out, "NOT RECORDED") || !strings.Contains(out, "\n5 rows in 1 batch recorded, ") || strings.Count(errs, "_SUCCESS: status 403") != 1 {
		t.Errorf("text:\n%s%s", out, errs)
	}
}

// TestListThatLags stops an export before its receipt and runs it again while the
// listing does not show what is there: with the same batches, whose objects are
// adopted, and with others.
func TestListThatLags(t *testing.T) {
	for _, again := range []string{"5", "4"} {
		t.Run("batches of "+again, func(t *testing.T) {
			fillSource(t, mysqltest.Get(t, mysqltest.MariaDB), 12, "wallet")
			b := newBucket(t, cosfake.Options{})
			b.SetListLag(time.Hour)
			stopped := b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.GetObject})
			export := []string{"export", "--app", "wallet", "--store", b.url, "--older-than", "24h", "--batch-rows"}
			b.runs(t, exitUnfinished, append(export, "5")...)
			stopped.Remove()
			out, _ := b.runs(t, exitOK, append(export, again)...)
			if adopted := strings.Contains(out, "with the objects of an earlier run"); adopted != (again == "5") || !strings.Contains(out, "12 rows in 3 batches recorded") {
				t.Errorf("text:\n%s", out)
			}
			out, _ = b.runs(t, exitOK, "verify", "--json", "--app", "wallet", "--store", b.url, "--all")
			rows := 0
			for _, batch := range documentOf(t, out).Batches {
				rows += batch.Examined.Rows
			}
			if rows != 12 {
				t.Errorf("%d rows of 12 are archived", rows)
			}
		})
	}
}
