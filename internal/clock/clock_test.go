package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSleep(t *testing.T) {
	for _, d := range []time.Duration{-time.Hour, 0, time.Nanosecond} {
		if err := Sleep(t.Context(), d); err != nil {
			t.Errorf("Sleep(%s) = %v", d, err)
		}
	}
	cause := errors.New("enough")
	for _, d := range []time.Duration{0, time.Hour} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if d == 0 {
			cancel(cause)
		}
		if err := Sleep(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("Sleep(%s) = %v after the context ended", d, err)
		}
	}
}
