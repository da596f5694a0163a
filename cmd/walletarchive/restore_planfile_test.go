package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

// samplePlan is a plan that can be run.
func samplePlan() *restorePlan {
	hash := manifest.SumHash([]byte("x"))
	found := planFound{Selected: 5, Present: 2, Different: 1, Missing: 2, Insert: 2, Overwrite: 1}
	total := found
	return &restorePlan{
		Schema: planSchema, Store: "file:///archive", Runnable: true, Why: []string{},
		Target:  restore.TargetState{TargetIdentity: restore.TargetIdentity{Server: "s", Table: "wallet_outbox"}, Settings: map[string]string{"sql_mode": ""}},
		Options: planOptions{OnConflict: "overwrite", RelayQuery: restore.DefaultRelayQuery, Rows: rowChoice{UserIDs: []int64{-7, 3}}},
		Totals:  planTotals{Batches: 1, Found: &total},
		Batches: []planBatch{{
			AppCode: "wallet", BatchID: manifest.BatchID(strings.Repeat("a", 64)), Rows: 9, Found: &found, Problems: []restore.Problem{},
			States: &restore.RowStates{
				Missing:   restore.LineRanges{{First: 1, Last: 2}},
				Different: []restore.DifferentRow{{Line: 4, EventID: "e<4>", Columns: []string{"payload"}, FoundHash: &hash}},
			},
		}},
	}
}

func planText(t *testing.T, p *restorePlan) []byte {
	t.Helper()
	f, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.text()
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// A plan reads as it was written, and whoever changes or cuts it is told so.
func TestPlanFile(t *testing.T) {
	text := planText(t, samplePlan())
	p, err := decodePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	if again := planText(t, p); !bytes.Equal(again, text) {
		t.Errorf("read and written again:\n%s, was\n%s", again, text)
	}
	for n := range len(text) - 1 {
		if _, err := decodePlan(text[:n]); !errors.Is(err, errPlan) || n > 0 && !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("the first %d bytes: error %v", n, err)
		}
	}
	for i := range text[:len(text)-1] {
		edited := bytes.Clone(text)
		if edited[i] ^= 1; bytes.Equal(edited, text) {
			t.Fatal("nothing was edited")
		}
		if _, err := decodePlan(edited); !errors.Is(err, errPlan) {
			t.Fatalf("byte %d edited to %q: error %v", i, edited[i], err)
		}
	}
	replace := func(from, to string) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) }
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"edited":             {replace(`"missing_lines":"1-2"`, `"missing_lines":"1-3"`), "it was edited: its own SHA-256 says"},
		"spaced":             {replace(`"runnable":`, `"runnable": `), "it was edited"},
		"two plans":          {append(bytes.Clone(text), text...), "cut off, or was edited"},
		"member twice":       {replace(`{"plan":`, `{"sha256":"","plan":`), "cut off, or was edited"},
		"unknown member":     {replace(`{"plan":`, `{"more":1,"plan":`), "cut off, or was edited"},
		"no plan":            {[]byte("{}"), "missing"},
		"something else":     {[]byte("hello"), "cut off, or was edited"},
		"nothing":            {[]byte(" \n"), "it is empty"},
		"unknown inside":     {rehashed(replace(`"runnable":`, `"more":1,"runnable":`)), `"more"`},
		"twice inside":       {rehashed(replace(`"runnable":`, `"runnable":true,"runnable":`)), "duplicate"},
		"lines out of order": {rehashed(replace(`"1-2"`, `"2-1"`)), "want ranges"},
	} {
		if bytes.Equal(tc.text, text) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := decodePlan(tc.text); !errors.Is(err, errPlan) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// rehashed gives a plan that was edited the hash that it should have.
func rehashed(text []byte) []byte {
	plan, _ := bytes.CutPrefix(text, []byte(`{"plan":`))
	plan, _, _ = bytes.Cut(plan, []byte(`,"sha256":`))
	return []byte(`{"plan":` + string(plan) + `,"sha256":"` + manifest.SumHash(plan).String() + `"}`)
}

// A plan that contradicts itself is none, whatever its hash says.
func TestPlanCheck(t *testing.T) {
	for name, edit := range map[string]func(*restorePlan){
		"schema":         func(p *restorePlan) { p.Schema = "walletarchive.restore_plan_file/v2" },
		"conflict":       func(p *restorePlan) { p.Options.OnConflict = "replace" },
		"relay":          func(p *restorePlan) { p.Options.RelayQuery = "1; DELETE" },
		"no batches":     func(p *restorePlan) { p.Batches = nil },
		"no table":       func(p *restorePlan) { p.Target.Table = "" },
		"no store":       func(p *restorePlan) { p.Store = "" },
		"batch twice":    func(p *restorePlan) { p.Batches = append(p.Batches, p.Batches[0]) },
		"not runnable":   func(p *restorePlan) { p.Runnable = false },
		"why":            func(p *restorePlan) { p.Why = []string{"x"} },
		"not compared":   func(p *restorePlan) { p.Batches[0].States = nil },
		"not counted":    func(p *restorePlan) { p.Batches[0].Found = nil },
		"overwrite less": func(p *restorePlan) { p.Batches[0].Found.Overwrite, p.Totals.Found.Overwrite = 0, 0 },
		"missing less":   func(p *restorePlan) { p.Batches[0].States.Missing = nil },
		"total":          func(p *restorePlan) { p.Totals.Found.Overwrite = 0 },
		"no total":       func(p *restorePlan) { p.Totals.Found = nil },
	} {
		p := samplePlan()
		edit(p)
		if _, err := decodePlan(planText(t, p)); !errors.Is(err, errPlan) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestPlanEstimate(t *testing.T) {
	found := &planFound{Insert: 3000, Overwrite: 1000}
	if e := estimate(restore.Rehearsal{Rows: 2000, DurationMS: 500}, found); *e.RowsPerSecond != 4000 || *e.DurationMS != 1000 || e.MeasuredRows != 2000 {
		t.Errorf("rate %d, duration %d", *e.RowsPerSecond, *e.DurationMS)
	}
	for _, e := range []planEstimate{estimate(restore.Rehearsal{}, found), estimate(restore.Rehearsal{Rows: 1, DurationMS: 1}, nil)} {
		if e.RowsPerSecond != nil || e.DurationMS != nil || !strings.Contains(e.Basis, "nothing was measured") {
			t.Errorf("estimate %+v", e)
		}
	}
}
