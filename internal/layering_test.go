// The import directions of the whole module, which docs/DESIGN.md draws.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/hyapp/walletarchive"

// pkg is what go list says of a package; its tests may import what they like.
type pkg struct {
	ImportPath string
	Imports    []string // directly
	Deps       []string // directly and indirectly
}

// rule forbids imports. A path stands for the package there and all below it;
// one that begins with "./" is of this module.
type rule struct {
	of     string   // the packages that the rule binds
	except []string // those of them that it does not bind
	direct []string // may not be imported directly
	deps   []string // may not be imported at all
}

const (
	sdk        = "github.com/tencentyun/cos-go-sdk-v5"
	containers = "github.com/testcontainers/testcontainers-go"
	driver     = "github.com/go-sql-driver/mysql"
	cli        = "github.com/urfave/cli"
)

var rules = []rule{
	{of: "./manifest", direct: []string{"os", "net"}, deps: []string{
		"./verify", "./export", "./restore", "./drill", "./cmd", "./internal", "database/sql", "net/http", sdk, driver, containers,
	}},
	{of: "./verify", deps: []string{
		"./export", "./restore", "./drill", "./cmd", "./internal/ledger", "./internal/outbox", "./internal/mysqldb",
		"./internal/scratch", "database/sql", sdk, driver, containers,
	}},
	{of: "./export", deps: []string{"./restore", "./drill", "./cmd", "./internal/scratch", sdk, containers}},
	{of: "./restore", deps: []string{"./export", "./drill", "./cmd", "./internal/scratch", sdk, containers}},
	{of: "./drill", deps: []string{"./export", "./cmd", sdk}},
	{of: "./internal", deps: []string{"./verify", "./export", "./restore", "./drill", "./cmd"}},
	{of: ".", except: []string{"./internal/objstore/cosstore"}, direct: []string{sdk}},
	{of: ".", except: []string{"./internal/scratch"}, direct: []string{containers}},
	{of: ".", except: []string{"./cmd"}, direct: []string{cli}},
	{of: ".", except: []string{"./internal/mysqltest"}, deps: []string{"./internal/mysqltest"}},
}

func TestImportDirections(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	for _, rule := range rules {
		if !slices.ContainsFunc(pkgs, func(p pkg) bool { return within(p.ImportPath, rule.of) }) {
			t.Errorf("the rule for %q binds no package: it checks nothing", rule.of)
		}
	}
	for _, violation := range violations(pkgs) {
		t.Error(violation)
	}
}

func TestViolationsAreFound(t *testing.T) {
	at := func(path string) string { return module + "/" + path }
	for _, test := range []struct {
		name string
		pkg  pkg
		want []string
	}{
		{"nothing", pkg{ImportPath: at("manifest"), Imports: []string{"io"}, Deps: []string{"io", "os"}}, nil},
		{"direct", pkg{ImportPath: at("manifest"), Imports: []string{"os"}, Deps: []string{"os"}}, []string{"manifest imports os"}},
		{
			"indirect",
			pkg{ImportPath: at("verify"), Imports: []string{at("internal/spill")}, Deps: []string{at("internal/spill"), "database/sql"}},
			[]string{"verify imports database/sql"},
		},
		{
			"upwards",
			pkg{ImportPath: at("internal/report"), Imports: []string{at("verify")}, Deps: []string{at("verify")}},
			[]string{"internal/report imports verify"},
		},
		{
			"below a path",
			pkg{ImportPath: at("export"), Imports: []string{sdk + "/debug"}, Deps: []string{sdk + "/debug"}},
			[]string{"export imports " + sdk + "/debug", "export imports " + sdk + "/debug"},
		},
		{"names that only look alike", pkg{ImportPath: at("manifest"), Deps: []string{at("verifyless"), "internal/abi"}}, nil},
		{"excepted", pkg{ImportPath: at("internal/objstore/cosstore"), Imports: []string{sdk}, Deps: []string{sdk}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations([]pkg{test.pkg})); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// violations returns a line for each import that a rule forbids.
func violations(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		for _, rule := range rules {
			if !within(p.ImportPath, rule.of) || slices.ContainsFunc(rule.except, func(e string) bool { return within(p.ImportPath, e) }) {
				continue
			}
			found = append(found, forbidden(p.ImportPath, p.Imports, rule.direct)...)
			found = append(found, forbidden(p.ImportPath, p.Deps, rule.deps)...)
		}
	}
	return found
}

func forbidden(of string, imports, paths []string) []string {
	var found []string
	for _, imported := range imports {
		if slices.ContainsFunc(paths, func(path string) bool { return within(imported, path) }) {
			found = append(found, short(of)+" imports "+short(imported))
		}
	}
	return found
}

// within reports whether a package is at or below a path.
func within(importPath, path string) bool {
	if path == "." || strings.HasPrefix(path, "./") {
		path = module + path[1:]
	}
	return importPath == path || strings.HasPrefix(importPath, path+"/")
}

func short(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }
