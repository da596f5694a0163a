// Package clock waits. What waits takes a function of Sleep's form in its options,
// so that a test passes its time without waiting.
package clock

import (
	"context"
	"time"
)

// Sleep returns nil after d, at once when d is not positive, or ctx.Err() when ctx
// ends before that.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
