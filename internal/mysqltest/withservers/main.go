//go:build unix

// Command withservers runs a command, mostly go test, with one server of each
// kind for all of its test binaries, which then need not start their own.
//
//	go run ./internal/mysqltest/withservers go test ./...
//
// It sets the environment of package mysqltest, prints which servers the tests
// run on, and stops the servers when the command has ended. Exits as the command
// does; 1 when a required server is missing or a server could not be started or
// stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// killDelay is from SIGTERM to SIGKILL: test binaries may have servers of their
// own to stop.
const killDelay = 30 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withservers COMMAND [ARGUMENT ...]")
		os.Exit(3)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	required, err := mysqltest.Required()
	if err != nil {
		return 1, err
	}
	env := os.Environ()
	for _, name := range mysqltest.Names() {
		server, startErr := mysqltest.Start(ctx, name)
		switch {
		case startErr == nil:
		case errors.Is(startErr, mysqltest.ErrMissing) && !slices.Contains(required, name):
			fmt.Printf("withservers: %s checks are skipped: %v\n", name, startErr)
			continue
		default:
			return 1, fmt.Errorf("start %s: %w", name, startErr)
		}
		defer func() {
			if closeErr := server.Close(ctx); closeErr != nil {
				err = errors.Join(err, closeErr)
			}
		}()
		fmt.Printf("withservers: %s checks run on %s\n", name, server.Describe())
		if os.Getenv(mysqltest.EnvDSN(name)) == "" {
			env = append(env, mysqltest.EnvDSN(name)+"="+server.DSN(""))
		}
	}
	return runCommand(ctx, args, env)
}

func runCommand(ctx context.Context, args, env []string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// go test would leave its test binaries running: all of them are told to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
