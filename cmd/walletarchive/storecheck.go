package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/objstore/check"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

func storeCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:        "store",
		Usage:       "try out a store",
		Subcommands: []*cli.Command{storeCheckCommand(p)},
	}
}

func storeCheckCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say what is set up for a store, what may be done with it, and what to do about the rest",
		Description: "Writes one small object below " + check.ProbeFolder + "/ under the prefix of the URL and deletes it.\n" +
			"No other object is touched, and nothing secret is printed.",
		Flags:              flags(storeFlags(), jsonFlags(), logFlags()),
		CustomHelpTemplate: codes(),
		Action: p.action(func(ctx context.Context, c *cli.Context) error {
			at, err := needStore(c)
			if err != nil {
				return err
			}
			lines := check.Run(ctx, at.url, p.storeOptions(at))
			if c.Bool(jsonFlag) {
				err = p.printJSON(storeCheckDocument{report.Schema("store-check"), tool(), at.url, check.OK(lines), lines})
			} else {
				p.printStoreCheck(at, lines)
			}
			return errors.Join(err, storeCheckError(ctx, lines))
		}),
	}
}

// storeCheckDocument is the JSON document of store check (docs/CLI.md "JSON documents").
type storeCheckDocument struct {
	Schema string           `json:"schema"`
	Tool   manifest.Program `json:"tool"`
	Store  string           `json:"store"`
	OK     bool             `json:"ok"`
	Lines  []check.Line     `json:"lines"`
}

// printStoreCheck prints a line for each thing that was looked at, with what to
// do below.
func (p *program) printStoreCheck(at place, lines []check.Line) {
	p.printf("store  %s\n\n", report.Printable(at.url))
	counts := map[check.Status]int{}
	for _, l := range lines {
		counts[l.Status]++
		word := string(l.Status)
		if l.Status == check.Fail {
			word = "FAIL"
		}
		p.printf("%-9s  %-11s  %s\n", word, l.Name, report.Printable(l.Detail))
		if l.Remedy != "" {
			p.printf("%-9s  %-11s  what to do: %s\n", "", "", report.Printable(l.Remedy))
		}
	}
	var parts []string
	for _, s := range []check.Status{check.Pass, check.Fail, check.NotTried} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], map[check.Status]string{check.Pass: "passed", check.Fail: "failed", check.NotTried: "not tried"}[s]))
		}
	}
	verdict := "this store can be used"
	if !check.OK(lines) {
		verdict = "not everything works"
	}
	p.printf("\nstore check: %s: %s\n", verdict, strings.Join(parts, ", "))
}

// errStoreCheck says that a line failed; which, is on stdout.
var errStoreCheck = errors.New("the store check failed")

// storeCheckError is what a check ends with: nothing when no line failed, a usage
// error when it is what is set up, before anything was contacted.
func storeCheckError(ctx context.Context, lines []check.Line) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case check.OK(lines):
		return nil
	case slices.ContainsFunc(lines, func(l check.Line) bool { return l.Config }):
		return usagef("%v: nothing was contacted", errStoreCheck)
	}
	return errStoreCheck
}
