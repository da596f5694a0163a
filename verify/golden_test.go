package verify_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/objstore/filestore"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

const goldenDir = "../testdata/batches"

// golden is a batch of testdata/batches and what must be found in it.
type golden struct {
	name    string
	level   verify.Level
	outcome string // "proven", "failed" or "no batch"
	checks  []string
}

func goldenBatches(t *testing.T) []golden {
	t.Helper()
	dirs, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for _, d := range dirs {
		g := golden{name: d.Name()}
		b, err := os.ReadFile(filepath.Join(goldenDir, g.name, "want"))
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			key, value, _ := strings.Cut(s.Text(), ": ")
			switch {
			case strings.HasPrefix(key, "#"):
			case key == "level":
				if g.level, err = verify.ParseLevel(value); err != nil {
					t.Fatal(err)
				}
			case key == "outcome":
				g.outcome = value
			case key == "check":
				g.checks = append(g.checks, value)
			default:
				t.Fatalf("%s: line %q of want", g.name, s.Text())
			}
		}
		all = append(all, g)
	}
	if len(all) < 100 {
		t.Fatalf("%d golden batches", len(all))
	}
	return all
}

// target finds the batch and what its receipt file says.
func (g golden) target(t *testing.T) verify.Target {
	t.Helper()
	root := filepath.Join(goldenDir, g.name)
	var target verify.Target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "batch=") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			target.Location, err = manifest.ParseLocation(filepath.ToSlash(rel))
			if err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(root, "receipts.ndjson"))
	if errors.Is(err, fs.ErrNotExist) {
		return target
	}
	if err != nil {
		t.Fatal(err)
	}
	r, n, err := manifest.NewReceiptReader(bytes.NewReader(file)).Next()
	if err != nil {
		t.Fatal(err)
	}
	target.Receipt = &r
	if n > 0 {
		target.Members = func(context.Context) iter.Seq2[manifest.Member, error] {
			rr := manifest.NewReceiptReader(bytes.NewReader(file))
			if _, _, err := rr.Next(); err != nil {
				t.Error(err)
			}
			return rr.Members()
		}
	}
	return target
}

func TestGoldenBatches(t *testing.T) {
	for _, g := range goldenBatches(t) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			store, err := filestore.Open(filepath.Join(goldenDir, g.name), filestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			opts := verify.Options{Level: g.level, TempDir: t.TempDir()}
			target := g.target(t)
			report, err := verify.Batch(t.Context(), store, target, opts)
			if g.outcome == "no batch" {
				if !errors.Is(err, verify.ErrNoBatch) || report.Proven() && report.Rows > 0 {
					t.Errorf("Batch = %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, f := range report.Faults {
				found[string(f.Check)] = true
				if f.Got == "" || f.Want == "" || f.Got == f.Want {
					t.Errorf("fault says nothing: %+v", f)
				}
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(g.checks)), slices.Sorted(maps.Keys(found))); diff != "" {
				t.Errorf("checks that fired (-want +got):\n%s%v", diff, report.Faults)
			}
			if report.Proven() != (g.outcome == "proven") || report.Failed() != (g.outcome == "failed") {
				t.Errorf("proven %t, failed %t, want %s; not checked: %v", report.Proven(), report.Failed(), g.outcome, report.Unchecked)
			}
			if g.outcome == "proven" {
				g.checkProven(t, store, target, report)
			}
			if g.level == verify.LevelRows {
				// Nothing comes out of a broken archive.
				v, _, err := verify.Open(t.Context(), store, target, opts)
				if err != nil || (v != nil) != (g.outcome == "proven") {
					t.Errorf("Open gives %v, %v", v, err)
				}
				if v != nil {
					v.Close()
				}
			}
		})
	}
}

// checkProven makes sure that a pass is no pass over nothing.
func (g golden) checkProven(t *testing.T, store verify.Source, target verify.Target, report verify.Report) {
	t.Helper()
	m := report.Manifest
	if m == nil || report.Rows != m.RowCount || report.Rows == 0 {
		t.Fatalf("%d rows looked at", report.Rows)
	}
	if target.Members != nil && report.Members != m.RowCount {
		t.Errorf("%d members looked at, %d rows", report.Members, m.RowCount)
	}
	if report.Bytes <= m.CompressedBytes {
		t.Errorf("%d bytes downloaded", report.Bytes)
	}
	v, _, err := verify.Open(t.Context(), store, target, verify.Options{TempDir: t.TempDir()})
	if err != nil || v == nil {
		t.Fatalf("Open = %v, %v", v, err)
	}
	defer v.Close()
	var totals manifest.Totals
	for row, err := range v.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if err := totals.Add(&row.Record); err != nil {
			t.Fatal(err)
		}
	}
	if totals.All.RowCount != m.RowCount || totals.All.AvailableDeltaTotal != m.AvailableDeltaTotal || totals.All.FrozenDeltaTotal != m.FrozenDeltaTotal {
		t.Errorf("rows that came out: %+v, manifest %+v", totals.All, m)
	}
}

// Every check has a golden batch that breaks it, or is named here with the
// reason why no files can.
func TestEveryCheckHasAGoldenBatch(t *testing.T) {
	elsewhere := map[string]string{
		"short_body":             "is about a transfer, not about files",
		"retention":              "needs a store with object lock",
		"member_receipt":         "a receipt file takes everything but two members of a member from the receipt",
		"receipt_app_code":       "comes with another check, since the folder is that of the receipt",
		"receipt_batch_id":       "comes with another check, since the folder is that of the receipt",
		"receipt_schema_version": "there is only one version",
	}
	broken := map[string]bool{}
	for _, g := range goldenBatches(t) {
		for _, c := range g.checks {
			broken[c] = true
		}
	}
	for _, c := range declaredChecks(t) {
		switch _, excused := elsewhere[c]; {
		case broken[c] && excused:
			t.Errorf("%s has a golden batch and an excuse", c)
		case !broken[c] && !excused:
			t.Errorf("%s has no golden batch", c)
		}
		delete(broken, c)
	}
	for c := range broken {
		t.Errorf("golden batches want %q, which verify does not declare", c)
	}
}

// declaredChecks reads the names of all checks from the sources.
func declaredChecks(t *testing.T) []string {
	t.Helper()
	var checks []string
	collect := func(file string, visit func(ast.Node) bool) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, visit)
	}
	text := func(e ast.Expr) string {
		lit, ok := e.(*ast.BasicLit)
		if !ok {
			return ""
		}
		s, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	collect("fault.go", func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && fmt.Sprint(v.Type) == "Check" {
			checks = append(checks, text(v.Values[0]))
		}
		return true
	})
	collect("describe.go", func(n ast.Node) bool { // column("…") of checkReceipt
		if c, ok := n.(*ast.CallExpr); ok && fmt.Sprint(c.Fun) == "column" && len(c.Args) == 1 {
			checks = append(checks, verify.CheckReceipt+text(c.Args[0]))
		}
		return true
	})
	if len(checks) < 55 {
		t.Fatalf("only %d checks were found in the sources: %v", len(checks), checks)
	}
	return checks
}
