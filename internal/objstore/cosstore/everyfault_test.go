package cosstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/manifest"
)

// Whatever goes wrong, once or always: Put says that the object is there only
// when it is, a Get that ends well gave the right bytes, and an error names its
// cause. Trouble that passes is overcome.
func TestEveryFault(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for _, test := range []struct {
		fault    cosfake.Fault
		onceFine bool // once is overcome without a word
	}{
		{cosfake.Fault{Kind: cosfake.WrongCRC}, false}, // a wrong answer to GET is a finding
		{cosfake.Fault{Kind: cosfake.WrongCRC, Op: cosfake.PutObject}, true},
		{cosfake.Fault{Kind: cosfake.MissingCRC, Op: cosfake.GetObject}, false},
		{cosfake.Fault{Kind: cosfake.MissingCRC, Op: cosfake.PutObject}, true},
		{cosfake.Fault{Kind: cosfake.FlipByte, At: 7}, false},
		{cosfake.Fault{Kind: cosfake.FlipByteIn, At: 7, Op: cosfake.PutObject}, true},
		{cosfake.Fault{Kind: cosfake.CutBody, At: 7}, true},
		{cosfake.Fault{Kind: cosfake.ShortAnswer, At: 7}, false},
		{cosfake.Fault{Kind: cosfake.LoseAnswer}, true},
		{cosfake.Fault{Kind: cosfake.FileAlreadyExists, Op: cosfake.PutObject}, true},
		{cosfake.Fault{Kind: cosfake.PathConflict, Op: cosfake.PutObject}, true},
		{cosfake.Fault{Kind: cosfake.Unavailable}, true},
		{cosfake.Fault{Kind: cosfake.SlowDown}, true},
		{cosfake.Fault{Kind: cosfake.AccessDenied}, false},
		{cosfake.Fault{Kind: cosfake.Fail, Status: 500, Code: "InternalError"}, true},
		{cosfake.Fault{Kind: cosfake.Fail, Status: 400, Code: "RequestTimeOut"}, true},
		{cosfake.Fault{Kind: cosfake.SlowHeaders, Delay: time.Hour}, true},
		{cosfake.Fault{Kind: cosfake.SlowBody, Delay: time.Microsecond}, true},
		{cosfake.Fault{Kind: cosfake.StallBody, At: 50_000, Delay: time.Hour}, true},
		{cosfake.Fault{Kind: cosfake.ResetConnection}, true},
	} {
		for _, times := range []int{1, 0} {
			for _, versioning := range []string{"", "Enabled", "Suspended"} {
				name := fmt.Sprintf("%s %s %d %s", test.fault.Kind, test.fault.Op, times, versioning)
				t.Run(name, func(t *testing.T) {
					f, s := fakeWith(t, cosfake.Options{Versioning: versioning}, func(c *Config) {
						c.Retry.Attempts = 4
						c.StallTimeout = 300 * time.Millisecond
					})
					fault := test.fault
					fault.Times = times
					injected := f.Inject(fault)
					info, _, err := s.Put(t.Context(), "key", bytes.NewReader(content), int64(len(content)), manifest.SumHash(content), objstore.PutOptions{})
					if err == nil {
						if o, ok := f.Object("key"); !ok || !bytes.Equal(o.Data, content) || *info.CRC64 != manifest.CRC64(o.CRC64) {
							t.Error("Put succeeded and the object is not there as it should be")
						}
					}
					named(t, "Put", err)
					f.Store(cosfake.Object{Key: "there", Data: content})
					got, getErr := func() ([]byte, error) {
						r, _, err := s.Get(t.Context(), "there", "")
						if err != nil {
							return nil, err
						}
						defer r.Close()
						return io.ReadAll(r)
					}()
					if getErr == nil && !bytes.Equal(got, content) {
						t.Errorf("Get succeeded with %d other bytes", len(got))
					}
					named(t, "Get", getErr)
					if injected.Hits() == 0 {
						t.Error("the fault harmed nothing")
					}
					if times == 1 && test.onceFine && (err != nil || getErr != nil) {
						t.Errorf("Put = %v, Get = %v, want success after a fault that passes", err, getErr)
					}
				})
			}
		}
	}
}

func named(t *testing.T, call string, err error) {
	t.Helper()
	var (
		e       *Error
		corrupt *objstore.CorruptError
	)
	if err != nil && !errors.As(err, &e) && !errors.As(err, &corrupt) {
		t.Errorf("%s = %v, which names no cause by type", call, err)
	}
}
