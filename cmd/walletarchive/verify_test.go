package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/manifest"
)

// testArchive is a folder of batches and a file of their receipts.
type testArchive struct {
	dir      string
	url      string
	receipts string
	list     []manifest.Receipt
	records  [][]manifest.Record // of each batch
}

func (a *testArchive) id(i int) string { return string(a.list[i].BatchID) }

func (a *testArchive) path(key string) string { return filepath.Join(a.dir, key) }

// newArchive writes n batches of rows rows each, the first of the first day of
// 1970 and each a day later, with a receipt file.
func newArchive(t *testing.T, n, rows int) *testArchive {
	t.Helper()
	batches := make([][]manifest.Record, n)
	for i := range batches {
		for j := range rows {
			ms := int64(i)*day + int64(j)
			batches[i] = append(batches[i], manifest.Record{
				AppCode: "wallet", EventID: fmt.Sprintf("e%d-%03d", i, j), EventType: "t", TransactionID: "x", CommandID: "c",
				UserID: int64(j), AssetType: "COIN", AvailableDelta: int64(j), FrozenDelta: -1,
				PayloadJSON: fmt.Sprintf(`{"n": %d}`, j), Status: manifest.StatusDelivered, CreatedAtMS: ms, UpdatedAtMS: ms,
			})
		}
	}
	return newArchiveOf(t, batches)
}

// newArchiveOf writes these batches, whose rows are in the order of their cursors.
func newArchiveOf(t *testing.T, batches [][]manifest.Record) *testArchive {
	t.Helper()
	dir := t.TempDir()
	a := &testArchive{dir: filepath.Join(dir, "archive"), receipts: filepath.Join(dir, "receipts.ndjson")}
	a.url = "file://" + a.dir
	f, err := os.Create(a.receipts)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, records := range batches {
		r := a.write(t, records)
		if err := manifest.WriteReceipt(f, &r, r.RowCount, func(yield func(manifest.Member, error) bool) {
			for _, rec := range records {
				if !yield(r.Member(rec.EventID, rec.UpdatedAtMS), nil) {
					return
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		a.list, a.records = append(a.list, r), append(a.records, records)
	}
	return a
}

// write writes the three objects of a batch.
func (a *testArchive) write(t *testing.T, records []manifest.Record) manifest.Receipt {
	t.Helper()
	var data bytes.Buffer
	w := manifest.NewWriter(&data, "wallet")
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	figures, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.New("", "wallet", figures, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	manifestBytes, err := manifest.EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := m.Location()
	if err != nil {
		t.Fatal(err)
	}
	successBytes, err := manifest.EncodeSuccess(&manifest.Success{
		BatchID: m.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(manifestBytes), RowCount: m.RowCount,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(a.path(loc.Dir()), 0o755); err != nil {
		t.Fatal(err)
	}
	for key, body := range map[string][]byte{loc.DataKey(): data.Bytes(), loc.ManifestKey(): manifestBytes, loc.SuccessKey(): successBytes} {
		if err := os.WriteFile(a.path(key), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := manifest.NewReceipt(&m, manifestBytes, successBytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// flip changes one bit in the middle of an object.
func (a *testArchive) flip(t *testing.T, key string) {
	t.Helper()
	body, err := os.ReadFile(a.path(key))
	if err != nil {
		t.Fatal(err)
	}
	body[len(body)/2] ^= 1
	if err := os.WriteFile(a.path(key), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (a *testArchive) remove(t *testing.T, key string) {
	t.Helper()
	if err := os.Remove(a.path(key)); err != nil {
		t.Fatal(err)
	}
}

// document is what --json prints of a verdict.
type document struct {
	Schema  string
	Against string
	Batches []struct {
		BatchID  string `json:"batch_id"`
		Outcome  string
		Verdict  string
		Error    string
		Examined struct{ Objects, Rows, Members int }
		Faults   []struct{ Check string }
		Details  json.RawMessage
	}
	Summary struct {
		Verdict, Outcome string
		Batches          int
	}
}

func documentOf(t *testing.T, stdout string) document {
	t.Helper()
	var d document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("not a JSON document: %v\n%s", err, stdout)
	}
	return d
}

func TestVerifyCommand(t *testing.T) {
	broken := func(t *testing.T, a *testArchive) { a.flip(t, a.list[1].DataObjectKey) }
	gone := func(t *testing.T, a *testArchive) { a.remove(t, a.list[1].SuccessObjectKey) }
	tests := []struct {
		name  string
		spoil func(*testing.T, *testArchive)
		args  func(*testArchive) []string
		code  int
		want  string // outcome of each batch
	}{
		{"by receipt", nil, func(a *testArchive) []string { return []string{"--receipt", a.receipts} }, exitOK, "passed passed passed"},
		{"content", nil, func(a *testArchive) []string { return []string{"--receipt", a.receipts, "--level", "content"} }, exitOK, "passed passed passed"},
		{"head", nil, func(a *testArchive) []string { return []string{"--receipt", a.receipts, "--level", "head"} }, exitOK, "passed passed passed"},
		{"one by receipt, flags last", nil, func(a *testArchive) []string { return []string{a.id(1), "--receipt", a.receipts} }, exitOK, "passed"},
		{"by manifest", nil, func(a *testArchive) []string { return []string{a.id(2), a.id(0), "--app", "wallet"} }, exitOK, "passed passed"},
		{"nothing selected", nil, func(a *testArchive) []string { return []string{"--receipt", a.receipts, "--since", "2020-01-01"} }, exitNoBatch, ""},
		{"no receipt of it", nil, func(a *testArchive) []string { return []string{a.id(0), string(id("e")), "--receipt", a.receipts} }, exitNoBatch, "passed no_batch"},
		{"not in the store", nil, func(a *testArchive) []string { return []string{a.id(0), string(id("e")), "--app", "wallet"} }, exitNoBatch, "passed no_batch"},
		{"of another app", nil, func(a *testArchive) []string { return []string{a.id(0), "--app", "other"} }, exitNoBatch, "no_batch"},
		{"a flipped bit", broken, func(a *testArchive) []string { return []string{"--receipt", a.receipts} }, exitArchive, "passed archive_wrong passed"},
		{"a flipped bit, by manifest", broken, func(a *testArchive) []string { return []string{a.id(1), "--app", "wallet"} }, exitArchive, "archive_wrong"},
		{"a flipped bit, by head", broken, func(a *testArchive) []string { return []string{"--receipt", a.receipts, "--level", "head"} }, exitArchive, "passed archive_wrong passed"},
		{"a flipped bit and a missing batch", broken, func(a *testArchive) []string { return []string{a.id(1), string(id("e")), "--receipt", a.receipts} }, exitArchive, "archive_wrong no_batch"},
		{"a lost marker", gone, func(a *testArchive) []string { return []string{"--receipt", a.receipts, "--latest", "2"} }, exitArchive, "archive_wrong passed"},
		{"no marker, by manifest", gone, func(a *testArchive) []string { return []string{a.id(1), "--app", "wallet"} }, exitNoBatch, "no_batch"},
		{"no retention", nil, func(a *testArchive) []string {
			return []string{a.id(0), "--receipt", a.receipts, "--require-retention", "30"}
		}, exitArchive, "archive_wrong"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newArchive(t, 3, 20)
			if tt.spoil != nil {
				tt.spoil(t, a)
			}
			out, _ := runs(t, tt.code, append([]string{"verify", "--json", "--store", a.url}, tt.args(a)...)...)
			d := documentOf(t, out)
			var got []string
			for _, b := range d.Batches {
				got = append(got, b.Outcome)
				if b.Outcome == "passed" && b.Examined.Objects != 3 || b.Outcome == "archive_wrong" && len(b.Faults) == 0 {
					t.Errorf("batch %s: %+v", b.BatchID, b)
				}
			}
			if strings.Join(got, " ") != tt.want || d.Schema != "walletarchive.verify/v1" {
				t.Errorf("outcomes %q, want %q:\n%s", got, tt.want, out)
			}
			if (d.Summary.Verdict == "proven") != (tt.code == exitOK) || d.Summary.Batches != len(got) {
				t.Errorf("summary: %+v", d.Summary)
			}
		})
	}
}

func TestVerifyCommandText(t *testing.T) {
	a := newArchive(t, 2, 20)
	out, errs := runs(t, exitOK, "verify", "--store", a.url, "--receipt", a.receipts)
	for _, want := range []string{
		"against     the receipts and members of " + a.receipts, "level       rows",
		"proven      wallet  " + a.id(0) + "  20 rows", "\nverify: proven: 2 batches, 2 proven; 40 rows and ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("text lacks %q:\n%s", want, out)
		}
	}
	if errs != "" {
		t.Errorf("stderr: %s", errs)
	}
	out, _ = runs(t, exitOK, "verify", "--store", a.url, "--app", "wallet", a.id(0))
	if !strings.Contains(out, "against     their own manifests only\n") {
		t.Errorf("text:\n%s", out)
	}
}

func TestVerifyCommandUsage(t *testing.T) {
	a := newArchive(t, 1, 1)
	for _, args := range [][]string{
		{"--receipt", a.receipts},
		{"--receipt", a.receipts, "--store", "file:///nonexistent"},
		{"--receipt", a.receipts, "--store", "ftp://host/x"},
		{"--receipt", a.receipts, "--store", a.dir},
		{"--receipt", a.receipts, "--store", a.url + "?x=1"},
		{"--receipt", a.receipts, "--store", "cos://archive-1250000000/p"},
		{"--receipt", a.receipts, "--store", "cos://archive/p?region=ap-guangzhou"},
		{"--receipt", a.receipts, "--store", "cos://id:s3cret-pa55@archive-1250000000/p?region=ap-guangzhou"},
		{"--receipt", a.receipts, "--store", a.url, "--level", "deep"},
		{"--receipt", a.receipts, "--store", a.url, "--require-retention", "0"},
		{"--receipt", a.receipts, "--store", a.url, "--progress", "loud"},
		{"--store", a.url, "--app", "wallet"},
	} {
		out, errs := runs(t, exitUsage, append([]string{"verify"}, args...)...)
		if out != "" || strings.Contains(errs, "s3cret-pa55") {
			t.Errorf("verify %q wrote %s to stdout, %s to stderr", args, out, errs)
		}
	}
}

func TestVerifyCancelled(t *testing.T) {
	a := newArchive(t, 2, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{programName, "verify", "--json", "--store", a.url, "--receipt", a.receipts}, &out, &errs)
	if d := documentOf(t, out.String()); code != exitCancelled || d.Summary.Verdict != "not proven" {
		t.Errorf("exit code %d, want %d; %s%s", code, exitCancelled, out.String(), errs.String())
	}
}
