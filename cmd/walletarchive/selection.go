package main

import (
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/manifest"
)

// Names of the flags that choose batches.
const (
	allFlag    = "all"
	latestFlag = "latest"
	sinceFlag  = "since"
	untilFlag  = "until"
)

// selection is which batches a command is about and who says that they exist:
// the ledger, a receipt file, or nobody but the store.
type selection struct {
	app         string
	ledgerDSN   string // "" when there is no ledger
	receiptFile string // "" when there is none
	// One of these four chooses. All of them empty means the whole receipt file.
	ids    []manifest.BatchID
	all    bool
	latest int // 0 when not given
	since  time.Time
	until  time.Time // exclusive; zero when open
	// expect, when not nil, has the last word on what was found.
	expect func([]chosen) []chosen
	// created says that since and until are about created_at_ms, else updated_at_ms.
	created bool
	// byEvents says that only events choose: the batches are those that hold them.
	byEvents bool
	// audit asks for the rules that hold between all batches of a ledger; only
	// with all.
	audit bool
}

// need is how much a command needs to know of its batches.
type need int

const (
	receiptOptional need = iota // a batch may be taken at its own word
	receiptNeeded
	receiptOrAll    // as receiptNeeded, and no choice means every receipt
	receiptOrEvents // as receiptNeeded, and --event-id is a choice
)

// selectionFlags are the flags that choose batches and say who vouches for them.
func selectionFlags() []cli.Flag {
	return flags(appFlags(), dsnFlags(ledgerDSNFlag, "the ledger"), receiptFlags(), []cli.Flag{
		&cli.BoolFlag{Name: allFlag, Usage: "every batch that has a receipt", DisableDefaultText: true},
		&cli.IntFlag{Name: latestFlag, Usage: "the last `N` batches that have a receipt", DefaultText: "none"},
		&cli.StringFlag{Name: sinceFlag, Usage: "batches with an event delivered at `TIME` or later: 2026-01-31 or 2026-01-31T08:00:00Z"},
		&cli.StringFlag{Name: untilFlag, Usage: "batches with an event delivered before `TIME`"},
	})
}

func receiptFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: receiptFlag, Usage: "`FILE` of receipts export, for who has no ledger"}}
}

// vouching reads who vouches for batches: a ledger or a receipt file, if either.
func (p *program) vouching(c *cli.Context) (s selection, err error) {
	s.receiptFile = c.String(receiptFlag)
	switch {
	case s.receiptFile == "":
		s.ledgerDSN, err = p.dsn(c, ledgerDSNFlag)
	case c.IsSet(ledgerDSNFlag) || c.IsSet(ledgerDSNFlag+"-file"):
		err = usagef("--%s and --%s: give one", receiptFlag, ledgerDSNFlag)
	default:
		switch file, serr := os.Stat(s.receiptFile); {
		case serr != nil:
			err = usagef("--%s: %v", receiptFlag, serr)
		case !file.Mode().IsRegular():
			err = usagef("--%s: %s is no regular file, and it is read more than once", receiptFlag, s.receiptFile)
		}
	}
	return s, err
}

// selection reads what selectionFlags and the arguments ask for. Nothing is
// contacted.
func (p *program) selection(c *cli.Context, need need) (s selection, err error) {
	if s, err = p.vouching(c); err != nil {
		return s, err
	}
	if s.app, err = app(c); err != nil {
		return s, err
	}
	for _, arg := range c.Args().Slice() {
		id, err := manifest.ParseBatchID(arg)
		if err != nil {
			return s, usagef("%v", err)
		}
		if slices.Contains(s.ids, id) {
			return s, usagef("batch %s is given twice", id)
		}
		s.ids = append(s.ids, id)
	}
	s.all = c.Bool(allFlag)
	if s.latest = c.Int(latestFlag); c.IsSet(latestFlag) && s.latest < 1 {
		return s, usagef("--%s is %d, want at least 1", latestFlag, s.latest)
	}
	if s.since, err = timeOf(c, sinceFlag); err != nil {
		return s, err
	}
	if s.until, err = timeOf(c, untilFlag); err != nil {
		return s, err
	}
	if !s.until.IsZero() && !s.since.Before(s.until) {
		return s, usagef("--%s is not before --%s", sinceFlag, untilFlag)
	}
	s.created = c.String(timeOfFlag) == timeCreated
	s.byEvents = need == receiptOrEvents && len(c.StringSlice(eventFlag)) > 0 && len(s.ids) == 0 && !s.all && s.latest == 0 && !s.byTime()
	return s, s.check(need)
}

// check refuses combinations that leave open which batches are meant.
func (s *selection) check(need need) error {
	chosen := 0
	for _, by := range []bool{len(s.ids) > 0, s.all, s.latest > 0, s.byTime()} {
		if by {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return usagef("BATCH_ID, --%s, --%s and --%s or --%s: choose one way", allFlag, latestFlag, sinceFlag, untilFlag)
	case s.receiptFile != "":
	case s.app == "":
		return usagef("--%s is missing", appFlag)
	case s.ledgerDSN == "" && need != receiptOptional:
		return usagef("without a receipt nothing says what a batch must hold: give --%s or --%s", ledgerDSNFlag, receiptFlag)
	case s.ledgerDSN == "" && len(s.ids) == 0:
		return usagef("without --%s or --%s, give each BATCH_ID", ledgerDSNFlag, receiptFlag)
	case chosen == 0 && need != receiptOrAll && !s.byEvents:
		return usagef("which batches? Give BATCH_ID, --%s, --%s or --%s", allFlag, latestFlag, sinceFlag)
	}
	return nil
}

func (s *selection) byTime() bool { return !s.since.IsZero() || !s.until.IsZero() }

// includes reports whether s chooses a receipt, when it does not choose the
// latest.
func (s *selection) includes(r *manifest.Receipt) bool {
	switch {
	case s.app != "" && r.AppCode != s.app:
		return false
	case s.created:
		return (s.since.IsZero() || r.MaxCreatedAtMS >= ceilMS(s.since)) && (s.until.IsZero() || r.MinCreatedAtMS < ceilMS(s.until))
	case len(s.ids) > 0:
		return slices.Contains(s.ids, r.BatchID)
	case !s.since.IsZero() && r.LastUpdatedAtMS < ceilMS(s.since):
		return false
	case !s.until.IsZero() && r.FirstUpdatedAtMS >= ceilMS(s.until):
		return false
	}
	return true
}

// ceilMS returns the first millisecond that is not before t.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// timeOf reads a flag that holds a time: a UTC date, which is its first
// instant, or an RFC 3339 time. The zero time means that it is not given.
func timeOf(c *cli.Context, flag string) (time.Time, error) {
	text := c.String(flag)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--%s %q is neither a UTC date like 2026-01-31 nor a time like 2026-01-31T08:00:00Z", flag, text)
}
