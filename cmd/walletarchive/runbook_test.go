package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/internal/sample"
)

// runbookStep is a block of commands of docs/RUNBOOK.md.
type runbookStep struct {
	section, commands string
	code              int // with which the last command ends
}

// runbook returns the steps of docs/RUNBOOK.md, in order.
func runbook(t *testing.T) []runbookStep {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash("../../docs/RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []runbookStep
	section := ""
	for _, m := range regexp.MustCompile("(?ms)^## ([^\n]*)$|^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(b), -1) {
		if m[1] != "" {
			section = m[1]
			continue
		}
		s := runbookStep{section: section, commands: m[3]}
		switch kind, code, _ := strings.Cut(m[2], " exit="); {
		case kind != "sh":
			t.Errorf("%s: a block of %q is run by no test", section, m[2])
		case code != "":
			if s.code, err = strconv.Atoi(code); err != nil {
				t.Errorf("%s: %q: %v", section, m[2], err)
			}
		}
		all = append(all, s)
	}
	return all
}

// incident is a table that lost a day of rows, and the archive of them.
type incident struct {
	db      *sql.DB
	env     []string
	dir     string // where the commands run
	lost    int
	day     string            // SQL condition of the day
	before  map[string]string // hashes of all rows
	damaged map[string]string // and of what was left of them
}

// newIncident exports four days of events and deletes the second.
func newIncident(t *testing.T, s mysqltest.Server) *incident {
	t.Helper()
	source, dsn := s.NewDB(t)
	if err := ledger.New(source).CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	outboxtest.Exec(t, source, outbox.Schema(outbox.DefaultTable, ""))
	const days = 4
	start := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days-1)
	if _, err := sample.Fill(t.Context(), source, outbox.DefaultTable, sample.Options{
		Apps: []string{"wallet", "other"}, Rows: 4_000, Seed: 11, Start: start, Span: days * 24 * time.Hour, Awkward: true,
	}); err != nil {
		t.Fatal(err)
	}
	store := "file://" + t.TempDir()
	t.Setenv("WALLETARCHIVE_SOURCE_DSN", dsn)
	for _, app := range []string{"wallet", "other"} {
		runs(t, exitOK, "export", "--app", app, "--store", store, "--older-than", "1h", "--batch-rows", "300")
	}
	from, until := start.AddDate(0, 0, 1), start.AddDate(0, 0, 2)
	i := &incident{
		db: source, dir: t.TempDir(), before: outboxtest.RowHashes(t, source),
		day: fmt.Sprintf("app_code = 'wallet' AND updated_at_ms >= %d AND updated_at_ms < %d", from.UnixMilli(), until.UnixMilli()),
	}
	// Delivered rows only: what the relay has still to send is not archived.
	i.day += " AND status = 'delivered'"
	i.lost = count(t, source, "SELECT COUNT(*) FROM wallet_outbox WHERE "+i.day)
	if i.lost < 100 {
		t.Fatalf("%d rows are in the day that is deleted", i.lost)
	}
	event := ""
	var user int64
	row := source.QueryRowContext(t.Context(), "SELECT event_id, user_id FROM wallet_outbox WHERE "+i.day+" LIMIT 1")
	if err := row.Scan(&event, &user); err != nil {
		t.Fatal(err)
	}
	outboxtest.Exec(t, source, "DELETE FROM wallet_outbox WHERE "+i.day)
	i.damaged = outboxtest.RowHashes(t, source)

	secret := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(secret, []byte(dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	i.env = append(os.Environ(), "APP=wallet", "STORE="+store, "TICKET=INC-4711", "FROM="+from.Format(time.DateOnly), "UNTIL="+until.Format(time.DateOnly),
		"WALLETARCHIVE_LEDGER_DSN_FILE="+secret, "WALLETARCHIVE_TARGET_DSN_FILE="+secret, "EVENT_ID="+event, fmt.Sprintf("USER_ID=%d", user),
		"DIFFERENT=2", "SQL="+strings.Join(s.ClientArgs(t, dsn), " "))
	return i
}

// run runs a step as an operator's shell would, and returns what it printed.
func (i *incident) run(t *testing.T, s runbookStep) (out string) {
	t.Helper()
	// The first step makes the directory in which the others work.
	c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", s.commands)
	if c.Dir, c.Env = i.dir, i.env; s.section != firstSection {
		c.Dir = i.work()
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != s.code {
		t.Fatalf("%s: exit code %d, want %d:\n%s\n%s", s.section, got, s.code, s.commands, both.String())
	}
	t.Logf("%s\n$ %s%s", s.section, s.commands, both.String())
	return both.String()
}

// work is where the operator works.
func (i *incident) work() string { return filepath.Join(i.dir, "INC-4711") }

// firstSection of the runbook has no step before it.
const firstSection = "0. Set up"

// TestRunbook runs every command of docs/RUNBOOK.md, in order, in an incident: a
// day of rows was deleted, and later two rows are tampered with. After each section
// the table has to be as the page says.
func TestRunbook(t *testing.T) {
	steps := runbook(t)
	var proofs []runbookStep
	for _, s := range steps {
		if strings.HasPrefix(s.section, "6.") {
			proofs = append(proofs, s)
		}
	}
	if len(proofs) != 2 {
		t.Fatalf("%d proofs", len(proofs))
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		i := newIncident(t, s)
		table := func(t *testing.T, want map[string]string) {
			t.Helper()
			if diff := cmp.Diff(want, outboxtest.RowHashes(t, i.db)); diff != "" {
				t.Errorf("row hashes (-want +got):\n%.2000s", diff)
			}
		}
		restored := func(t *testing.T, _ string) { table(t, i.before) }
		lost := func(t *testing.T, _ string) { table(t, i.damaged) }
		sections := map[string]struct {
			begin func(t *testing.T)
			end   func(t *testing.T, out string)
		}{
			firstSection:                     {end: lost},
			"1. Does the archive have them?": {end: lost},
			"2. Is the archive whole?":       {end: lost},
			"3. Plan":                        {end: lost},
			"4. Let a second person read the plan": {end: func(t *testing.T, out string) {
				lost(t, out)
				if !strings.Contains(out, fmt.Sprintf("insert %d rows", i.lost)) {
					t.Errorf("the plan does not have the %d rows that are missing:\n%s", i.lost, out)
				}
				// What proves that all is there has to fail while it is not.
				for n, s := range proofs {
					s.code = [...]int{exitTarget, 1}[n] // of the program, and of diff
					i.run(t, s)
					if err := os.RemoveAll(filepath.Join(i.work(), "day.ndjson")); err != nil {
						t.Fatal(err)
					}
				}
			}},
			"5. Restore":  {end: restored},
			"6. Prove it": {end: restored},
			"7. Afterwards": {end: func(t *testing.T, out string) {
				restored(t, out)
				if !strings.Contains(out, "drill: proven") {
					t.Errorf("the drill says\n%s", out)
				}
			}},
			"Taking it back":  {end: lost},
			"Once more":       {end: restored},
			"Less than a day": {end: restored},
			"Rows that differ": {
				begin: func(t *testing.T) {
					outboxtest.Exec(t, i.db, "UPDATE wallet_outbox SET available_delta = available_delta + 1 WHERE "+i.day+" ORDER BY event_id LIMIT 1")
					outboxtest.Exec(t, i.db, "UPDATE wallet_outbox SET payload = '{}' WHERE "+i.day+" ORDER BY event_id DESC LIMIT 1")
				},
				end: func(t *testing.T, out string) {
					restored(t, out)
					old, err := os.ReadFile(filepath.Join(i.work(), "old.ndjson"))
					if n := bytes.Count(old, []byte("\n")); err != nil || n != 2 {
						t.Errorf("%d old rows were saved (%v)", n, err)
					}
				},
			},
			"When the ledger is gone, too": {end: restored},
			"When there is no server to restore into": {end: func(t *testing.T, out string) {
				restored(t, out)
				same := "SELECT COUNT(*) FROM wallet_outbox_copy c JOIN wallet_outbox o USING (app_code, event_id, available_delta, frozen_delta, payload)"
				if n, all := count(t, i.db, same), count(t, i.db, "SELECT COUNT(*) FROM wallet_outbox_copy"); n != i.lost || all != i.lost {
					t.Errorf("%d of %d rows were loaded as they are, want %d", n, all, i.lost)
				}
			}},
		}
		seen, out := map[string]bool{}, ""
		for n, step := range steps {
			section, ok := sections[step.section]
			if !ok {
				t.Fatalf("section %q has commands and is not known here", step.section)
			}
			if !seen[step.section] {
				seen[step.section], out = true, ""
				if section.begin != nil {
					section.begin(t)
				}
			}
			out += i.run(t, step)
			if n+1 == len(steps) || steps[n+1].section != step.section {
				section.end(t, out)
			}
			if t.Failed() {
				t.Fatalf("after %q", step.section)
			}
		}
		if len(seen) != len(sections) {
			t.Errorf("%d of %d sections were run", len(seen), len(sections))
		}
	})
}

// TestRunbookNamesWhatThereIs holds the table of exit codes to that of docs/CLI.md.
func TestRunbookNamesWhatThereIs(t *testing.T) {
	b, err := os.ReadFile(filepath.FromSlash("../../docs/RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{exitUnfinished, exitUsage, exitArchive, exitNoBatch, exitTarget, exitLocked, exitCancelled} {
		if !bytes.Contains(b, fmt.Appendf(nil, "\n| %d |", code)) {
			t.Errorf("docs/RUNBOOK.md does not say what to do about %d", code)
		}
	}
}
