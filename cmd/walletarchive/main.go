// Command walletarchive moves delivered wallet events out of MySQL into an
// archive of checked batches, and proves that they can come back.
//
// docs/CLI.md lists the commands, exit codes, JSON documents and environment.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Work is a stream of short-lived rows over a small live heap, so the collector
// may run seldom; the limit keeps what it leaves below the 128 MiB that the
// program promises (docs/BENCHMARKS.md "Memory").
const (
	gcPercent   = 400
	memoryLimit = 80 << 20 // bytes; soft, as debug.SetMemoryLimit has it
)

func main() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(memoryLimit)
	}
	cancelling := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		cancelling = append(cancelling, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), cancelling...)
	go func() {
		<-ctx.Done()
		stop() // from here on a second signal kills
	}()
	// Whoever reads stdout may go away ("| head -1"). The write fails then, and
	// the run cleans up; by default the signal would kill it and leave a scratch
	// server behind. Nobody receives: being asked for is enough.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}
