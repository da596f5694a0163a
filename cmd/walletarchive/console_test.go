package main

import (
	"io"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// TestLineInterval asks every command under its full name.
func TestLineInterval(t *testing.T) {
	got := map[string]time.Duration{}
	app := newApp(newProgram(io.Discard, io.Discard))
	note := func(c *cli.Context) error {
		got[c.Command.HelpName] = lineInterval(c)
		return nil
	}
	for _, c := range app.Commands {
		c.Action = note
		for _, sub := range c.Subcommands {
			sub.Action = note
		}
	}
	for _, args := range [][]string{{"verify"}, {"drill"}, {"restore"}, {"restore", "undo"}} {
		if err := app.RunContext(t.Context(), append([]string{programName}, args...)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]time.Duration{
		"walletarchive verify": 0, "walletarchive drill": 0,
		"walletarchive restore": restoreLineInterval, "walletarchive restore undo": restoreLineInterval,
	} {
		if d, ok := got[name]; !ok || d != want {
			t.Errorf("%s: %s (asked: %v), want %s", name, d, ok, want)
		}
	}
}
