package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

const yesFlag = "yes"

func yesFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: yesFlag, Usage: "do not ask; needed where nobody can be asked", DisableDefaultText: true}}
}

// mayAsk reports whether somebody sits at a terminal who can be asked.
func mayAsk() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// confirm asks on the terminal and reports whether the answer is yes. The error
// is that of ctx.
func (p *program) confirm(ctx context.Context, question string) (bool, error) {
	// A whole line: while bars are shown nothing less appears.
	fmt.Fprintf(p.redact.writer(p.stderr), "%s Type yes to go on:\n", question)
	answer := make(chan string, 1)
	go func() { // it ends with the process when nobody answers
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.EqualFold(strings.TrimSpace(line), "yes"), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
