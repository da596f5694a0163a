package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/manifest"
)

const idA, idB = manifest.BatchID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
	manifest.BatchID("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")

var whole = Examined{Objects: 3, Bytes: 225_000, Rows: 500, Members: 500}

func passed(id manifest.BatchID) Batch {
	return Batch{AppCode: "wallet", BatchID: id, Outcome: Passed, Examined: whole, Duration: 400 * time.Millisecond}
}

func broken(id manifest.BatchID) Batch {
	b := passed(id)
	b.Outcome = ArchiveWrong
	b.Faults = []Fault{{Check: "row_hash", Object: "x/data.ndjson.gz", Line: 17, Row: "e<1>", Got: "a", Want: "b"}}
	b.Notes = []string{"the receipt has no members"}
	b.Facts = []Fact{{"level", "rows"}}
	return b
}

// print runs a Printer over the batches in fake time: each takes 400 ms.
func printAll(t *testing.T, opts PrinterOptions, runErr error, batches ...Batch) (string, Summary) {
	t.Helper()
	var out bytes.Buffer
	var sum Summary
	synctest.Test(t, func(t *testing.T) {
		p := NewPrinter(&out, opts)
		for _, b := range batches {
			time.Sleep(b.Duration)
			if err := p.Batch(b); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if sum, err = p.Close(runErr); err != nil {
			t.Fatal(err)
		}
	})
	return out.String(), sum
}

func TestPrinterText(t *testing.T) {
	got, sum := printAll(t, PrinterOptions{
		Command: "verify", Store: "file:///archive", Against: "receipts", Facts: []Fact{{"level", "rows"}},
	}, nil, passed(idA), broken(idB))
	want := `store       file:///archive
against     receipts
level       rows

proven      wallet  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  500 rows  225.0 kB  0.4 s
failed      wallet  bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb  500 rows  225.0 kB  0.4 s
    level       rows
    fault       x/data.ndjson.gz, line 17, row "e<1>": row_hash: expected b, found a
    note        the receipt has no members

verify: failed: 2 batches, 1 proven, 1 failed; 1,000 rows and 450.0 kB read in 0.8 s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if sum.Verdict != Failed || sum.Outcome != ArchiveWrong {
		t.Errorf("summary = %v, %v", sum.Verdict, sum.Outcome)
	}
}

func TestPrinterTextOutcomes(t *testing.T) {
	many := broken(idA)
	for range 2 * MaxTextFaults {
		many.Faults = append(many.Faults, many.Faults[0])
	}
	many.FaultsOmitted = 1000
	tests := []struct {
		name    string
		batches []Batch
		runErr  error
		outcome Outcome
		want    []string
	}{
		{"nothing selected", nil, nil, NoBatch, []string{"verify: not proven: nothing was selected, so nothing to verify\n"}},
		{"stopped before the first", nil, errors.New("no server"), Unfinished, []string{"verify: not proven: could not be finished: no server\n"}},
		{"stopped after a pass", []Batch{passed(idA)}, errors.New("no server"), Unfinished,
			[]string{"verify: not proven: 1 batch, 1 proven;", "could not be finished: no server\n"}},
		{"stopped after a fault", []Batch{broken(idA)}, errors.New("no server"), ArchiveWrong, []string{"verify: failed: "}},
		{"no such batch", []Batch{{BatchID: idA, Outcome: NoBatch}}, nil, NoBatch, []string{"there is no such batch in the store"}},
		{"no such batch, said otherwise", []Batch{{BatchID: idA, Outcome: NoBatch, Err: errors.New("no receipt")}}, nil, NoBatch,
			[]string{"    missing     no receipt\n"}},
		{"unchecked", []Batch{{BatchID: idA, Unchecked: []string{"not read"}}}, nil, Unfinished, []string{"    unchecked   not read\n", "verify: not proven"}},
		{"unfinished batch", []Batch{{BatchID: idA, Err: errors.New("read\x1b[2J x")}}, nil, Unfinished,
			[]string{`    unfinished  read\x1b[2J x`}},
		{"many faults", []Batch{many}, nil, ArchiveWrong, []string{"    fault       and 1,021 more\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, sum := printAll(t, PrinterOptions{Command: "verify"}, tt.runErr, tt.batches...)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("text lacks %q:\n%s", want, got)
				}
			}
			if sum.Outcome != tt.outcome || sum.Verdict != tt.outcome.Verdict() {
				t.Errorf("outcome %v, verdict %v, want %v", sum.Outcome, sum.Verdict, tt.outcome)
			}
		})
	}
}

func TestPassNeedsEvidence(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Batch)
		want  Outcome
	}{
		{"untouched", func(*Batch) {}, Passed},
		{"nothing examined", func(b *Batch) { b.Examined = Examined{} }, Unfinished},
		{"a fault", func(b *Batch) { b.Faults = []Fault{{Check: "x"}} }, ArchiveWrong},
		{"an omitted fault", func(b *Batch) { b.FaultsOmitted = 1 }, ArchiveWrong},
		{"an unchecked check", func(b *Batch) { b.Unchecked = []string{"x"} }, Unfinished},
		{"an error", func(b *Batch) { b.Err = errors.New("x") }, Unfinished},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := passed(idA)
			tt.spoil(&b)
			if _, sum := printAll(t, PrinterOptions{Command: "verify"}, nil, b); sum.Outcome != tt.want {
				t.Errorf("outcome = %v, want %v", sum.Outcome, tt.want)
			}
		})
	}
}

func TestPrinterJSON(t *testing.T) {
	b := broken(idB)
	b.Details = map[string]string{"sum": "9223372036854775808"}
	got, _ := printAll(t, PrinterOptions{
		Format: JSON, Command: "verify", Tool: manifest.Program{Name: "walletarchive", Version: "v1"}, Store: "file:///a",
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)),
	}, nil, passed(idA), b)
	var doc struct {
		Schema    string
		StartedAt string `json:"started_at"`
		Store     string
		Batches   []map[string]any
		Summary   map[string]any
	}
	if err := json.Unmarshal([]byte(got), &doc); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, got)
	}
	if doc.Schema != "walletarchive.verify/v1" || doc.StartedAt != "2026-01-02T02:04:05Z" || doc.Store != "file:///a" {
		t.Errorf("head = %q %q %q", doc.Schema, doc.StartedAt, doc.Store)
	}
	want := map[string]any{
		"app_code": "wallet", "batch_id": string(idB), "verdict": "failed", "outcome": "archive_wrong",
		"examined":    map[string]any{"objects": 3.0, "bytes": 225000.0, "rows": 500.0, "members": 500.0},
		"duration_ms": 400.0,
		"faults":      []any{map[string]any{"check": "row_hash", "object": "x/data.ndjson.gz", "line": 17.0, "row": "e<1>", "got": "a", "want": "b"}},
		"unchecked":   []any{},
		"notes":       []any{"the receipt has no members"},
		"details":     map[string]any{"sum": "9223372036854775808"},
	}
	if diff := cmp.Diff(want, doc.Batches[1]); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
	if faults, ok := doc.Batches[0]["faults"].([]any); !ok || len(faults) != 0 {
		t.Errorf("faults of a whole batch = %v, want an empty list", doc.Batches[0]["faults"])
	}
	if doc.Summary["verdict"] != "failed" || doc.Summary["batches"] != 2.0 || doc.Summary["failed"] != 1.0 {
		t.Errorf("summary = %v", doc.Summary)
	}
	if strings.Contains(got, `\u003c`) {
		t.Errorf("JSON escapes for HTML:\n%s", got)
	}
}

func TestPrinterJSONOfNothing(t *testing.T) {
	for _, runErr := range []error{nil, errors.New("no server")} {
		got, _ := printAll(t, PrinterOptions{Format: JSON, Command: "drill"}, runErr)
		var doc struct {
			Batches []any
			Summary struct{ Verdict, Outcome, Error string }
		}
		if err := json.Unmarshal([]byte(got), &doc); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, got)
		}
		if doc.Batches == nil || doc.Summary.Verdict != "not proven" || (runErr != nil) != (doc.Summary.Error != "") {
			t.Errorf("document = %s", got)
		}
	}
}

// fullDisk takes n bytes and fails from then on.
type fullDisk struct{ n int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.n {
		return 0, errFull
	}
	d.n -= len(p)
	return len(p), nil
}

func TestWriteErrorsSurface(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		var whole bytes.Buffer
		p := NewPrinter(&whole, PrinterOptions{Command: "verify", Format: format})
		p.Batch(passed(idA))
		p.Close(nil)
		// The last bytes may differ in the duration, so stop short of the end.
		for n := range whole.Len() - 20 {
			p := NewPrinter(&fullDisk{n}, PrinterOptions{Command: "verify", Format: format})
			p.Batch(passed(idA))
			if _, err := p.Close(nil); !errors.Is(err, errFull) {
				t.Fatalf("format %d, disk of %d bytes: Close = %v, want %v", format, n, err, errFull)
			}
		}
	}
	p := NewPrinter(&fullDisk{1 << 20}, PrinterOptions{Command: "verify", Format: JSON})
	b := passed(idA)
	b.Details = math.NaN()
	if err := p.Batch(b); err == nil {
		t.Error("Batch with details that are no JSON gave no error")
	}
	if _, err := p.Close(nil); err == nil {
		t.Error("Close after a batch that is no JSON gave no error")
	}
}

func TestCloseTwice(t *testing.T) {
	p := NewPrinter(&bytes.Buffer{}, PrinterOptions{Command: "verify"})
	if _, err := p.Close(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Close(nil); err == nil {
		t.Error("second Close gave no error")
	}
}

func TestColor(t *testing.T) {
	got, _ := printAll(t, PrinterOptions{Command: "verify", Color: true}, nil, passed(idA), broken(idB), Batch{BatchID: idA})
	for _, want := range []string{"\x1b[32mproven    \x1b[0m", "\x1b[31mfailed    \x1b[0m", "\x1b[33mnot proven\x1b[0m"} {
		if !strings.Contains(got, want) {
			t.Errorf("text lacks %q", want)
		}
	}
	if ColorAllowed(&bytes.Buffer{}) {
		t.Error("colours allowed on what is no terminal")
	}
}
