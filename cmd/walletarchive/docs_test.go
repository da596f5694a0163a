package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/verify"
)

// cliDoc returns docs/CLI.md.
func cliDoc(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash("../../docs/CLI.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestExitCodesAreDocumented holds the table of docs/CLI.md against exit.go.
func TestExitCodesAreDocumented(t *testing.T) {
	doc := cliDoc(t)
	for _, code := range exitCodes() {
		if row := fmt.Sprintf("| %d | %s |\n", code, exitMeanings[code]); !strings.Contains(doc, row) {
			t.Errorf("docs/CLI.md has no row %q", row)
		}
	}
}

// TestCommandsAreDocumented wants every command in the table of docs/CLI.md.
func TestCommandsAreDocumented(t *testing.T) {
	doc := cliDoc(t)
	for _, c := range newApp(&program{redact: &redactor{}}).Commands {
		if !strings.Contains(doc, "| `"+c.Name) {
			t.Errorf("docs/CLI.md has no row for %s", c.Name)
		}
	}
}

// TestChecksAreDocumented wants the name of every check in docs/CLI.md.
func TestChecksAreDocumented(t *testing.T) {
	src, err := os.ReadFile(filepath.FromSlash("../../verify/fault.go"))
	if err != nil {
		t.Fatal(err)
	}
	doc := cliDoc(t)
	names := regexp.MustCompile(`Check\s+= "([a-z0-9_]+)"`).FindAllStringSubmatch(string(src), -1)
	if len(names) < 40 {
		t.Fatalf("only %d checks were found in fault.go", len(names))
	}
	for _, n := range names {
		if !strings.Contains(doc, "`"+n[1]+"`") {
			t.Errorf("docs/CLI.md does not name the check %s", n[1])
		}
	}
	if !strings.Contains(doc, "`"+verify.CheckReceipt+"<column>`") {
		t.Errorf("docs/CLI.md does not explain %s<column>", verify.CheckReceipt)
	}
}
