// Command cosfaked serves one fake bucket of COS on a loopback address, in memory,
// until it is stopped: for trying walletarchive without an account.
//
//	go run ./internal/objstore/cosfake/cosfaked -object-lock -speed 3600
//
// It prints what to set and which --store to give. With -speed the clock of the
// bucket runs faster, so that a thaw of hours takes seconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "cosfaked:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("cosfaked", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:0", "loopback `address` and port; port 0 takes a free one")
	versioning := flags.String("versioning", "", "`state` of versioning: Enabled or Suspended; empty is never enabled")
	lock := flags.Bool("object-lock", false, "let objects be locked")
	lag := flags.Duration("list-lag", 0, "how far lists lag behind, on the bucket's clock")
	speed := flags.Int("speed", 1, "how many times `faster` the bucket's clock runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *speed < 1 {
		return fmt.Errorf("no arguments, and a speed of at least 1")
	}
	s, err := cosfake.StartAt(*addr, cosfake.Options{Versioning: *versioning, ObjectLock: *lock})
	if err != nil {
		return err
	}
	defer s.Close()
	s.SetListLag(*lag)
	_, err = fmt.Fprintf(stdout, "export COS_SECRET_ID=%s COS_SECRET_KEY=%s\n# --store 'cos://%s/archive?region=%s&endpoint=%s'\n",
		s.SecretID, s.SecretKey, s.Bucket, s.Region, s.URL)
	if err != nil {
		return err
	}
	const tick = 100 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.Advance(time.Duration(*speed-1) * tick)
		case <-ctx.Done():
			return nil
		}
	}
}
