package scratch

import (
	"context"
	"testing"
	"time"
)

var PublishAddr = publishAddr

// StartNamed is Start with a database name that is not random.
func StartNamed(ctx context.Context, opts Options, database string) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return start(ctx, opts, database)
}

// SetStopTimeout shortens the time from SIGTERM to SIGKILL for one test.
func SetStopTimeout(t *testing.T, d time.Duration) {
	was := stopTimeout
	stopTimeout = d
	t.Cleanup(func() { stopTimeout = was })
}
