package cosstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/manifest"
)

// The table of Tencent's document 436/7730 as far as it concerns this client.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		status   int
		code     string
		action   action
		sentinel error
	}{
		{400, "BadDigest", again, nil},
		{400, "InvalidDigest", again, nil},
		{400, "RequestTimeOut", again, nil},
		{400, "EntityTooLarge", giveUp, objstore.ErrTooLarge},
		{400, "EntityTooSmall", giveUp, nil},
		{400, "InvalidArgument", giveUp, nil},
		{400, "KeyTooLong", giveUp, nil},
		{400, "MalformedXML", giveUp, nil},
		{400, "NoSuchVersion", giveUp, objstore.ErrNotExist},
		{403, "AccessDenied", giveUp, objstore.ErrDenied},
		{403, "InvalidAccessKeyId", giveUp, objstore.ErrDenied},
		{403, "SignatureDoesNotMatch", giveUp, objstore.ErrDenied},
		{403, "ExpiredToken", refresh, objstore.ErrDenied},
		{403, "RequestTimeTooSkewed", giveUp, objstore.ErrDenied},
		{403, "InvalidObjectState", giveUp, objstore.ErrCold},
		{403, "PathStyleDomainForbidden", giveUp, objstore.ErrConfig},
		{403, "", giveUp, objstore.ErrDenied},
		{404, "NoSuchKey", giveUp, objstore.ErrNotExist},
		{404, "NoSuchVersion", giveUp, objstore.ErrNotExist},
		{404, "NoSuchBucket", giveUp, objstore.ErrConfig},
		{404, "", giveUp, objstore.ErrNotExist},
		{405, "MethodNotAllowed", giveUp, nil},
		{405, "RestoreNonArchiveObject", giveUp, nil},
		{408, "", again, nil},
		{409, "FileAlreadyExists", giveUp, nil},
		{409, "PathConflict", giveUp, nil},
		{411, "MissingContentLength", giveUp, nil},
		{412, "PreconditionFailed", giveUp, nil},
		{416, "InvalidRange", giveUp, nil},
		{429, "", again, nil},
		{451, "", giveUp, nil},
		{301, "PermanentRedirect", giveUp, objstore.ErrConfig},
		{307, "", giveUp, objstore.ErrConfig},
		{500, "InternalError", again, nil},
		{501, "NotImplemented", giveUp, nil},
		{502, "", again, nil},
		{503, "ServiceUnavailable", again, nil},
		{503, "SlowDown", again, nil},
	} {
		action, sentinel := judge(test.status, test.code)
		if action != test.action || sentinel != test.sentinel {
			t.Errorf("judge(%d, %q) = %v, %v, want %v, %v", test.status, test.code, action, sentinel, test.action, test.sentinel)
		}
	}
}

// What a person has to do is said in words, and what must not be said is not.
func TestRefusalsSayWhatToDo(t *testing.T) {
	clock := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status int
		code   string
		date   time.Time
		want   []string
		is     error
	}{
		{403, "AccessDenied", clock, []string{"cos:GetObject", testBucketName}, objstore.ErrDenied},
		{403, "SignatureDoesNotMatch", clock, []string{"secret key does not belong"}, objstore.ErrDenied},
		{403, "InvalidAccessKeyId", clock, []string{"does not know this secret id"}, objstore.ErrDenied},
		{403, "RequestTimeTooSkewed", clock.Add(20 * time.Minute), []string{"20m0s behind COS", "NTP"}, objstore.ErrDenied},
		{403, "RequestTimeTooSkewed", clock.Add(-time.Hour), []string{"1h0m0s ahead of COS"}, objstore.ErrDenied},
		{403, "PathStyleDomainForbidden", clock, []string{"bucket's own host"}, objstore.ErrConfig},
		{404, "NoSuchBucket", clock, []string{"no bucket " + testBucketName, testRegion}, objstore.ErrConfig},
		{301, "PermanentRedirect", clock, []string{"not in region " + testRegion}, objstore.ErrConfig},
		{403, "InvalidObjectState", clock, []string{"thaw"}, objstore.ErrCold},
	} {
		t.Run(test.code, func(t *testing.T) {
			var log strings.Builder
			srv, s := newServerWith(t, func(c *Config) {
				c.Now = func() time.Time { return clock }
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Date", test.date.Format(http.TimeFormat))
				refuse(w, test.status, test.code)
				return true
			})
			_, _, err := s.Get(t.Context(), "some/key", "")
			if !errors.Is(err, test.is) {
				t.Errorf("Get = %v, want %v", err, test.is)
			}
			if n := srv.count("GET "); n != 1 {
				t.Errorf("asked %d times, want 1", n)
			}
			for _, want := range append(test.want, "get object", "some/key", fmt.Sprint(test.status), test.code, "REQUEST-ID", "in the words of COS") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Get = %q, want %q in it", err, want)
				}
			}
			for _, secret := range []string{testSecretKey, "test-secret-id", "q-signature", "Authorization"} {
				if shown := fmt.Sprintf("%v %+v %#v", err, err, err) + log.String(); strings.Contains(shown, secret) {
					t.Errorf("the error or the log shows %q", secret)
				}
			}
			var e *Error
			if !errors.As(err, &e) || e.Op != "get object" || e.Key != "some/key" || e.Status != test.status || e.Code != test.code || e.RequestID != "REQUEST-ID" || e.Attempts != 1 {
				t.Errorf("Get = %+v", e)
			}
		})
	}
}

// So has what was tried again in vain.
func TestTroubleThatStaysSaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		fault cosfake.Fault
		want  string
	}{
		{cosfake.Fault{Kind: cosfake.FlipByteIn, Op: cosfake.PutObject}, "changes what is sent"},
		{cosfake.Fault{Kind: cosfake.Fail, Op: cosfake.PutObject, Status: 400, Code: "RequestTimeOut"}, "too slowly"},
		{cosfake.Fault{Kind: cosfake.PathConflict, Op: cosfake.PutObject}, "somebody else is at work"},
		{cosfake.Fault{Kind: cosfake.Fail, Op: cosfake.PutObject, Status: 451, Code: "Blocked"}, "COS has blocked"},
		{cosfake.Fault{Kind: cosfake.SlowDown}, "busy or out of order"},
		{cosfake.Fault{Kind: cosfake.Fail, Status: 429, Code: "TooManyRequests"}, "busy or out of order"},
		{cosfake.Fault{Kind: cosfake.ResetConnection}, "no answer from 127.0.0.1:"},
	} {
		f, s := fake(t, cosfake.Options{})
		f.Inject(test.fault)
		_, _, err := s.Put(t.Context(), "some/key", strings.NewReader("x"), 1, manifest.SumHash([]byte("x")), objstore.PutOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "http://") {
			t.Errorf("%s %d: Put = %v, want %q and no URL in it", test.fault.Kind, test.fault.Status, err, test.want)
		}
	}
}

// The answer to HEAD has no code; a GET of one byte tells it.
func TestHeadLearnsTheCode(t *testing.T) {
	for code, want := range map[string]error{
		"AccessDenied": objstore.ErrDenied, "RequestTimeTooSkewed": objstore.ErrDenied, "NoSuchBucket": objstore.ErrConfig, "NoSuchKey": objstore.ErrNotExist,
	} {
		t.Run(code, func(t *testing.T) {
			srv, s := newServer(t)
			status := http.StatusForbidden
			if strings.HasPrefix(code, "NoSuch") {
				status = http.StatusNotFound
			}
			srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && r.Header.Get("Range") != "bytes=0-0" {
					t.Errorf("GET asks for %q", r.Header.Get("Range"))
				}
				refuse(w, status, code)
				return true
			})
			_, err := s.Head(t.Context(), "key", "")
			var e *Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != code || e.Op != "head object" {
				t.Errorf("Head = %v", err)
			}
			if n := srv.count(""); n != 2 {
				t.Errorf("%d requests, want HEAD and GET", n)
			}
		})
	}
}

// Once the bucket is known to be there, a 404 needs no second question.
func TestHeadAsksForTheBucketOnce(t *testing.T) {
	srv, s := newServer(t)
	for range 3 {
		if _, err := s.Head(t.Context(), "key", ""); !errors.Is(err, objstore.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if heads, gets := srv.count("HEAD "), srv.count("GET "); heads != 3 || gets != 1 {
		t.Errorf("%d HEAD and %d GET, want 3 and 1", heads, gets)
	}
}

func TestDeleteMarkerIsNamed(t *testing.T) {
	srv, s := newServer(t)
	srv.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("X-Cos-Delete-Marker", "true")
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return true
	})
	_, err := s.Head(t.Context(), "key", "")
	if !errors.Is(err, objstore.ErrNotExist) || !errors.Is(err, objstore.ErrHidden) || !strings.Contains(err.Error(), "delete marker") {
		t.Errorf("Head = %v, want ErrHidden, which is an ErrNotExist and names the delete marker", err)
	}
}

// The SDK hides the cause of an error that is no answer.
func TestCausesAreNotHidden(t *testing.T) {
	hidden := &cos.RetryError{Errs: []error{errors.New("first"), &cos.RetryError{Errs: []error{context.DeadlineExceeded}}}}
	if err := lastCause(fmt.Errorf("wrapped: %w", hidden)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("lastCause = %v", err)
	}
	_, s := newServer(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := s.Head(ctx, "key", "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Head = %v, want context.DeadlineExceeded", err)
	}
}
