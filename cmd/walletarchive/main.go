// Command walletarchive moves delivered wallet events out of MySQL into an
// archive of checked batches, and proves that they can come back.
//
// docs/CLI.md lists the commands, exit codes, JSON documents and environment.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // from here on a second signal kills
	}()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}
