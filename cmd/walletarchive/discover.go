package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

const discoverFlag = "discover"

// listingNote says what a listing is worth, wherever batches come from one.
const listingNote = "a listing is eventually consistent: it may lack batches that are there, and is never a proof of completeness"

// discovery is which batches of a listing are taken: those of an app, or of
// every app, whose date is in [since, until).
type discovery struct {
	app          string // "" for every app
	since, until string // dates; "" leaves an end open
}

// discovery reads what --discover and the flags that go with it ask for. Nothing
// is contacted.
func (p *program) discovery(c *cli.Context) (d discovery, err error) {
	for _, flag := range []string{receiptFlag, ledgerDSNFlag, ledgerDSNFlag + "-file", allFlag, latestFlag} {
		if c.IsSet(flag) {
			return d, usagef("--%s lists the store itself: --%s does not go with it", discoverFlag, flag)
		}
	}
	if c.Args().Present() {
		return d, usagef("--%s finds the batches by itself, %q does not go with it", discoverFlag, c.Args().First())
	}
	if d.app, err = app(c); err != nil {
		return d, err
	}
	for flag, to := range map[string]*string{sinceFlag: &d.since, untilFlag: &d.until} {
		if *to = c.String(flag); *to == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, *to); err != nil {
			return d, usagef("--%s %q is no date like 2026-01-31: --%s goes by the date in the key, that of the first event", flag, *to, discoverFlag)
		}
	}
	if d.until != "" && d.since >= d.until {
		return d, usagef("--%s is not before --%s", sinceFlag, untilFlag)
	}
	return d, nil
}

// prefix is what all keys of d begin with below the prefix of the archive: as
// much of the date as the first and the last day have in common.
func (d discovery) prefix() string {
	if d.app == "" {
		return "app_code="
	}
	folder := "app_code=" + d.app + "/date="
	if d.since == "" || d.until == "" {
		return folder
	}
	until, err := time.Parse(time.DateOnly, d.until)
	if err != nil {
		return folder
	}
	last := until.AddDate(0, 0, -1).Format(time.DateOnly)
	n := 0
	for n < len(last) && n < len(d.since) && last[n] == d.since[n] {
		n++
	}
	return folder + d.since[:n]
}

func (d discovery) includes(loc manifest.Location) bool {
	return (d.app == "" || loc.AppCode == d.app) && loc.Date >= d.since && (d.until == "" || loc.Date < d.until)
}

// facts say for people what was listed.
func (d discovery) facts() []report.Fact {
	what := "every batch"
	if d.app != "" {
		what += " of " + d.app
	}
	if d.since != "" {
		what += " from " + d.since
	}
	if d.until != "" {
		what += " to before " + d.until
	}
	return []report.Fact{{Label: "found", Value: what + " that the listing of the store shows"}, {Label: "listing", Value: listingNote}}
}

// discoverDetails are the details of the document of verify --discover.
type discoverDetails struct {
	Discovered bool   `json:"discovered"`
	AppCode    string `json:"app_code,omitempty"`
	Since      string `json:"since,omitempty"`
	Until      string `json:"until,omitempty"`
	Note       string `json:"note"`
}

func (d discovery) details() discoverDetails {
	return discoverDetails{Discovered: true, AppCode: d.app, Since: d.since, Until: d.until, Note: listingNote}
}

// find lists the store and returns the batches that have a marker, in the order
// of their keys. What else looks like a batch draws a warning.
func (d discovery) find(ctx context.Context, p *program, a archive) ([]chosen, error) {
	var (
		list                []chosen
		folder              string // of the key before
		whole               = true // folder has a marker
		unfinished, foreign int
	)
	under := manifest.JoinPrefix(a.prefix, d.prefix())
	for info, err := range a.List(ctx, under) {
		if err != nil {
			return nil, fmt.Errorf("look for batches: %w", err)
		}
		marker := strings.HasSuffix(info.Key, "/"+manifest.SuccessName)
		loc, err := manifest.ParseLocation(info.Key)
		if err != nil || loc.Prefix != a.prefix {
			if marker {
				foreign++
			}
			continue
		}
		if !d.includes(loc) {
			continue
		}
		if loc.Dir() != folder {
			if !whole {
				unfinished++
			}
			folder, whole = loc.Dir(), false
		}
		if marker {
			list = append(list, chosen{Target: verify.Target{Location: loc}})
			whole = true
		}
	}
	if !whole {
		unfinished++
	}
	if unfinished > 0 {
		p.log.Warn("folders without _SUCCESS are no batches: an export was stopped there, is at work there, or the listing lags", "folders", unfinished)
	}
	if foreign > 0 {
		p.log.Warn("some _SUCCESS are not in the folder of a batch and were left out", "objects", foreign)
	}
	if len(list) == 0 {
		p.log.Warn("the listing shows no batch", "prefix", under)
	}
	return list, nil
}
