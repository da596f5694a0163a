package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/manifest"
)

// Names of the flags that choose rows of the chosen batches.
const (
	timeOfFlag      = "time-of"
	eventFlag       = "event-id"
	transactionFlag = "transaction-id"
	commandFlag     = "command-id"
	userFlag        = "user-id"
	missingFlag     = "missing"
)

// rowFlags choose rows.
func rowFlags() []cli.Flag {
	list := func(name, what string) cli.Flag {
		// Without KeepSpace "a " would choose the rows of "a".
		return &cli.StringSliceFlag{Name: name, KeepSpace: true, Usage: "only rows with this " + what + ": `ID`, or @FILE with one a line; may be repeated"}
	}
	return []cli.Flag{
		list(eventFlag, "event_id; their batches are found in the ledger or receipt file"),
		list(transactionFlag, "transaction_id"),
		list(commandFlag, "command_id"),
		list(userFlag, "user_id"),
		&cli.StringFlag{
			Name: timeOfFlag, DefaultText: "whole batches",
			Usage: "only rows whose `TIME`, created or delivered, is from --" + sinceFlag + " up to and not including --" + untilFlag,
		},
		&cli.BoolFlag{Name: missingFlag, Usage: "only rows that the target lacks: those that it holds otherwise are left and reported", DisableDefaultText: true},
	}
}

// rowChoice says which rows of a batch are to be restored. Rows fit when they fit
// every part that is given. It is also how a plan keeps it.
type rowChoice struct {
	EventIDs       []string `json:"event_ids,omitempty"` // sorted, as the next two
	TransactionIDs []string `json:"transaction_ids,omitempty"`
	CommandIDs     []string `json:"command_ids,omitempty"`
	UserIDs        []int64  `json:"user_ids,omitempty"` // sorted
	// TimeOf is created or delivered, "" when rows are not chosen by time. The
	// range is [SinceMS, UntilMS) in Unix milliseconds; nil leaves an end open.
	TimeOf  string `json:"time_of,omitempty"`
	SinceMS *int64 `json:"since_ms,omitempty"`
	UntilMS *int64 `json:"until_ms,omitempty"`
}

// rowChoice reads rowFlags, but for --missing, which is about conflicts.
func (p *program) rowChoice(c *cli.Context, sel selection) (r rowChoice, err error) {
	for flag, to := range map[string]*[]string{eventFlag: &r.EventIDs, transactionFlag: &r.TransactionIDs, commandFlag: &r.CommandIDs} {
		if *to, err = idsOf(c, flag); err != nil {
			return r, err
		}
	}
	users, err := idsOf(c, userFlag)
	if err != nil {
		return r, err
	}
	for _, text := range users {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return r, usagef("--%s %q is no 64-bit number", userFlag, text)
		}
		r.UserIDs = append(r.UserIDs, id)
	}
	slices.Sort(r.UserIDs)
	switch r.TimeOf = c.String(timeOfFlag); {
	case r.TimeOf == "":
		return r, nil
	case r.TimeOf != timeCreated && r.TimeOf != timeDelivered:
		return r, usagef("--%s %q is neither %s nor %s", timeOfFlag, r.TimeOf, timeCreated, timeDelivered)
	case !sel.byTime():
		return r, usagef("--%s without --%s or --%s", timeOfFlag, sinceFlag, untilFlag)
	}
	if !sel.since.IsZero() {
		ms := ceilMS(sel.since)
		r.SinceMS = &ms
	}
	if !sel.until.IsZero() {
		ms := ceilMS(sel.until)
		r.UntilMS = &ms
	}
	return r, nil
}

// The words of --time-of.
const (
	timeCreated   = "created"
	timeDelivered = "delivered"
)

// idsOf reads a flag that holds ids and names of files of ids, sorted, each once.
func idsOf(c *cli.Context, flag string) ([]string, error) {
	all := map[string]bool{}
	for _, value := range c.StringSlice(flag) {
		name, isFile := strings.CutPrefix(value, "@")
		if !isFile {
			all[value] = true
			continue
		}
		found, err := idsIn(name)
		if err != nil {
			return nil, usagef("--%s: %v", flag, err)
		}
		if len(found) == 0 {
			return nil, usagef("--%s: %s holds no id", flag, name)
		}
		for _, id := range found {
			all[id] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// idsIn reads a file with an id a line. A carriage return at the end of a line is
// not part of the id, and empty lines are none.
func idsIn(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id := strings.TrimSuffix(lines.Text(), "\r"); id != "" {
			all = append(all, id)
		}
	}
	return all, lines.Err()
}

// all reports whether r chooses every row.
func (r *rowChoice) all() bool {
	return len(r.EventIDs)+len(r.TransactionIDs)+len(r.CommandIDs)+len(r.UserIDs) == 0 && r.TimeOf == ""
}

// text names the choice for a plan; "" for every row.
func (r *rowChoice) text() string {
	if r.all() {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(b)
}

// facts tells people what was chosen.
func (r *rowChoice) facts() (all []string) {
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(r.EventIDs), "event_id"}, {len(r.TransactionIDs), "transaction_id"}, {len(r.CommandIDs), "command_id"}, {len(r.UserIDs), "user_id"},
	} {
		if part.n > 0 {
			all = append(all, fmt.Sprintf("%d by %s", part.n, part.what))
		}
	}
	if r.TimeOf != "" {
		all = append(all, "by "+r.TimeOf+" time")
	}
	return all
}

// rowFilter is a rowChoice that rows can be held against. It remembers which
// values some row has had. It is for one goroutine.
type rowFilter struct {
	choice                         *rowChoice
	events, transactions, commands map[string]bool // to whether a row has had it
	users                          map[int64]bool
}

func (r *rowChoice) filter() *rowFilter {
	f := &rowFilter{choice: r, events: setOf(r.EventIDs), transactions: setOf(r.TransactionIDs), commands: setOf(r.CommandIDs), users: setOf(r.UserIDs)}
	return f
}

func setOf[T comparable](list []T) map[T]bool {
	if len(list) == 0 {
		return nil
	}
	m := make(map[T]bool, len(list))
	for _, v := range list {
		m[v] = false
	}
	return m
}

// keep reports whether the row is chosen.
func (f *rowFilter) keep(r *manifest.Record) bool {
	if !wanted(f.events, r.EventID) || !wanted(f.transactions, r.TransactionID) || !wanted(f.commands, r.CommandID) || !wanted(f.users, r.UserID) {
		return false
	}
	ms := r.UpdatedAtMS
	if f.choice.TimeOf == timeCreated {
		ms = r.CreatedAtMS
	}
	if f.choice.SinceMS != nil && ms < *f.choice.SinceMS || f.choice.UntilMS != nil && ms >= *f.choice.UntilMS {
		return false
	}
	met(f.events, r.EventID)
	met(f.transactions, r.TransactionID)
	met(f.commands, r.CommandID)
	met(f.users, r.UserID)
	return true
}

func wanted[T comparable](set map[T]bool, v T) bool {
	if set == nil {
		return true
	}
	_, ok := set[v]
	return ok
}

func met[T comparable](set map[T]bool, v T) {
	if set != nil {
		set[v] = true
	}
}

// unmet names the values that no chosen row has had, at most ten of a kind.
func (f *rowFilter) unmet() (all []string) {
	all = append(all, unmetOf(eventIDName, f.choice.EventIDs, f.events)...)
	all = append(all, unmetOf("transaction_id", f.choice.TransactionIDs, f.transactions)...)
	all = append(all, unmetOf("command_id", f.choice.CommandIDs, f.commands)...)
	return append(all, unmetOf("user_id", f.choice.UserIDs, f.users)...)
}

const eventIDName = "event_id"

func unmetOf[T comparable](what string, values []T, set map[T]bool) []string {
	var missing []T
	for _, v := range values {
		if !set[v] {
			missing = append(missing, v)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	const most = 10
	return []string{what + " " + listed(missing, most)}
}

// listed puts values into a line, at most so many of them.
func listed[T any](values []T, most int) string {
	var texts []string
	for _, v := range values[:min(len(values), most)] {
		texts = append(texts, fmt.Sprintf("%#v", v))
	}
	if more := len(values) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// withRows finds the batches of s, those of the chosen events when nothing else
// chooses, and calls work with them.
func (p *program) withRows(ctx context.Context, s selection, r *rowChoice, a archive, work func([]chosen) error) error {
	if !s.byEvents {
		return p.withBatches(ctx, s, a, work)
	}
	if s.receiptFile != "" {
		list, err := s.fromFile(ctx)
		if err != nil {
			return err
		}
		list, err = holding(ctx, s.app, list, r.EventIDs)
		if err != nil {
			return err
		}
		a.place(list)
		return work(list)
	}
	return p.withLedger(ctx, s.ledgerDSN, func(l *ledger.Ledger) error {
		of, err := l.BatchesOf(ctx, s.app, r.EventIDs)
		if err != nil {
			return err
		}
		var none []string
		for _, id := range r.EventIDs {
			if _, ok := of[id]; !ok {
				none = append(none, id)
			}
		}
		if len(none) > 0 {
			return work([]chosen{unusable(s.app, "", noBatchHolds(none))})
		}
		s.ids = slices.Compact(slices.Sorted(maps.Values(of)))
		list, err := s.fromLedger(ctx, l)
		if err != nil {
			return err
		}
		a.place(list)
		return work(list)
	})
}

func noBatchHolds(eventIDs []string) error {
	return fmt.Errorf("no batch has event_id %s among its members (older batches have no members: choose those by id): %w", listed(eventIDs, 10), errNothing)
}

// holding returns the batches of list that have one of the events among their
// members, and one that is unusable when an event is in none.
func holding(ctx context.Context, app string, list []chosen, eventIDs []string) (some []chosen, err error) {
	events := setOf(eventIDs)
	for _, b := range list {
		if b.err != nil { // a receipt that cannot be read, which may hold them
			some = append(some, b)
			continue
		}
		if b.Members == nil {
			continue
		}
		holds := false
		for m, err := range b.Members(ctx) {
			if err != nil {
				return nil, err
			}
			if _, ok := events[m.EventID]; ok {
				events[m.EventID], holds = true, true
			}
		}
		if holds {
			some = append(some, b)
		}
	}
	var none []string
	for _, id := range eventIDs {
		if !events[id] {
			none = append(none, id)
		}
	}
	if len(none) > 0 {
		some = append(some, unusable(app, "", noBatchHolds(none)))
	}
	return some, nil
}

// errNoRows says that no row was selected, or none with a value that was asked
// for.
var errNoRows = errors.New("no row of the chosen batches")

// countRows reads the rows of the verified batches and returns how many of each
// are chosen. The error is an errNoRows when a value that was asked for is in
// none of them, or nothing is chosen at all.
func countRows(ctx context.Context, whole []verified, r *rowChoice) ([]int64, error) {
	f := r.filter()
	counts, total := make([]int64, len(whole)), int64(0)
	for i, v := range whole {
		for row, err := range v.rows.Rows(ctx) {
			if err != nil {
				return nil, fmt.Errorf("read the archived rows: %w", err)
			}
			if f.keep(&row.Record) {
				counts[i]++
				total++
			}
		}
	}
	if none := f.unmet(); len(none) > 0 {
		return nil, fmt.Errorf("%w has %s", errNoRows, strings.Join(none, "; "))
	}
	if total == 0 {
		return nil, fmt.Errorf("%w fits", errNoRows)
	}
	return counts, nil
}
