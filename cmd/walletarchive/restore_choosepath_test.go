package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/restore"
)

// TestChoosePath: a receipt whose first and last line say that its run was
// complete is passed over without reading what is between them; every other one is
// read whole, and gone on with where it may be.
func TestChoosePath(t *testing.T) {
	plan := strings.Repeat("ab", 32)
	target := restore.TargetIdentity{Server: "s", Database: "d", Table: "t"}
	receipt := func(t *testing.T, path string, complete bool) string {
		j, err := restore.OpenJournal(t.Context(), nil, restore.JournalOptions{Path: path, PlanID: plan, Operator: "o", Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(complete); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, tc := range []struct {
		name     string
		complete bool
		edit     func(header, end string) string
		taken    bool // the receipt is gone on with
		warns    bool
	}{
		{"complete", true, func(h, e string) string { return h + e }, false, false},
		{"complete, with a damaged middle", true, func(h, e string) string { return h + "damaged\n" + e }, false, false},
		{"damaged middle and not complete", false, func(h, e string) string { return h + "damaged\n" + e }, false, true},
		{"damaged middle and no end", true, func(h, _ string) string { return h + "damaged\n" }, false, true},
		{"damaged end", true, func(h, e string) string { return h + "x" + e }, false, true},
		{"damaged middle of another plan", true, func(h, e string) string {
			return strings.Replace(h, plan, strings.Repeat("cd", 32), 1) + "damaged\n" + e
		}, false, true},
		{"not complete", false, func(h, e string) string { return h + e }, true, false},
		{"killed before its end", true, func(h, _ string) string { return h }, true, false},
		{"killed while it wrote its end", true, func(h, e string) string { return h + strings.TrimSuffix(e, "\n") }, true, false},
		{"gone on with after its end, and killed", true, func(h, e string) string {
			return h + e + `{"resumed":{"tool":{"name":"n","version":"v"},"operator":"o","at":"x"}}` + "\n"
		}, true, false},
		{"taken back after its end", true, func(h, e string) string {
			return h + e + `{"undo":{"tool":{"name":"n","version":"v"},"at":"x"}}` + "\n"
		}, false, false},
		{"no whole header", true, func(h, _ string) string { return h[:9] }, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			p := &program{log: slog.New(slog.NewTextHandler(&log, nil))}
			dir := t.TempDir()
			first, err := p.choosePath(dir, plan, target)
			if err != nil {
				t.Fatal(err)
			}
			text := receipt(t, first, tc.complete)
			header, end, _ := strings.Cut(text, "\n")
			if err := os.WriteFile(first, []byte(tc.edit(header+"\n", end)), 0o600); err != nil {
				t.Fatal(err)
			}
			want := first
			if !tc.taken {
				want = strings.TrimSuffix(first, "-1.ndjson") + "-2.ndjson"
			}
			got, err := p.choosePath(dir, plan, target)
			if err != nil || got != want {
				t.Errorf("choosePath = %s, %v; want %s", filepath.Base(got), err, filepath.Base(want))
			}
			if warns := strings.Contains(log.String(), "damaged"); warns != tc.warns {
				t.Errorf("warned: %t, want %t: %s", warns, tc.warns, log.String())
			}
		})
	}
	// One that was stopped is found behind those that were not.
	p, dir := &program{log: slog.New(slog.DiscardHandler)}, t.TempDir()
	for n := 1; n <= 3; n++ {
		path, err := p.choosePath(dir, plan, target)
		if err != nil || !strings.HasSuffix(path, fmt.Sprintf("-%d.ndjson", n)) {
			t.Fatalf("choosePath = %s, %v; want number %d", path, err, n)
		}
		receipt(t, path, n < 3)
	}
	if path, err := p.choosePath(dir, plan, target); err != nil || !strings.HasSuffix(path, "-3.ndjson") {
		t.Errorf("choosePath = %s, %v; want the one that was stopped", path, err)
	}
}
