package cosstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
)

// Error is what a request to COS came to. It unwraps to the sentinels of
// objstore, to the error of the context, and to the error of the network. It
// holds nothing of the request but operation and key, so it is safe to log.
type Error struct {
	Op  string // "put object", "list objects", …
	Key string // or prefix; "" for the bucket itself
	// Status is the HTTP status, 0 when no answer came. Code is COS's name of
	// the error; "" when the answer had none, as those to HEAD.
	Status    int
	Code      string
	Message   string // COS's own words
	RequestID string // for Tencent's support
	Remedy    string // what to do about it, in plain words; "" when unknown
	Attempts  int    // how often it was tried
	Err       error  // the cause; nil when it is only what COS says

	action action
}

// Error says it on one line: operation, key, status, code, request id, remedy.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Key != "" {
		b.WriteString(" " + e.Key)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
		if e.Code != "" {
			b.WriteString(" " + e.Code)
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Remedy != "" {
		b.WriteString(": " + e.Remedy)
	}
	if e.RequestID != "" {
		b.WriteString(" (request id " + e.RequestID + ")")
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (tried %d times)", e.Attempts)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// action is what is done about a failed request.
type action int

const (
	giveUp  action = iota
	again          // after a pause
	refresh        // with a new credential
)

// judge is the table of error codes (Tencent's document 436/7730): what to do,
// and what it means to the caller of a Store.
func judge(status int, code string) (action, error) {
	switch code {
	case "BadDigest", "InvalidDigest", "IncompleteBody", "RequestTimeOut", "RequestTimeout":
		return again, nil // the body is read anew
	case "ExpiredToken":
		return refresh, objstore.ErrDenied
	case "InvalidObjectState":
		return giveUp, objstore.ErrCold
	case "NoSuchBucket", "PathStyleDomainForbidden", "PermanentRedirect", "TemporaryRedirect":
		return giveUp, objstore.ErrConfig
	case "EntityTooLarge":
		return giveUp, objstore.ErrTooLarge
	case "NoSuchVersion":
		return giveUp, objstore.ErrNotExist // 400 in an older page
	}
	switch {
	case status >= 300 && status < 400:
		return giveUp, objstore.ErrConfig
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return giveUp, objstore.ErrDenied
	case status == http.StatusNotFound:
		return giveUp, objstore.ErrNotExist
	case status == http.StatusNotImplemented:
		return giveUp, nil
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return again, nil
	}
	return giveUp, nil
}

// judgeCause does the same for requests that got no answer.
func judgeCause(err error) (action, error) {
	var (
		cert *tls.CertificateVerificationError
		dns  *net.DNSError
		pair *credentialsError
	)
	switch {
	case errors.As(err, &pair) && (errors.Is(err, credentials.ErrNone) ||
		errors.Is(err, credentials.ErrIncomplete) || errors.Is(err, credentials.ErrMalformed)):
		return giveUp, objstore.ErrConfig
	case errors.As(err, &pair) && (errors.Is(err, credentials.ErrRefused) || errors.Is(err, credentials.ErrExpired)):
		return giveUp, objstore.ErrDenied
	case errors.As(err, &cert):
		return giveUp, objstore.ErrConfig
	case errors.As(err, &dns) && dns.IsNotFound && !dns.IsTemporary:
		return giveUp, objstore.ErrConfig
	}
	return again, nil
}

// wrap makes an *Error of what the SDK returned. err is not nil.
func (s *Store) wrap(ctx context.Context, op, key string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Op: op, Key: key}
	if ctxErr := ctx.Err(); ctxErr != nil {
		// The SDK hides it behind an error without Unwrap.
		e.Err = ctxErr
		return e
	}
	if resp := answer(err); resp != nil {
		var sentinel error
		e.Status, e.Code, e.Message, e.RequestID = resp.Response.StatusCode, resp.Code, resp.Message, resp.RequestID
		if e.RequestID == "" {
			e.RequestID = resp.Response.Header.Get("X-Cos-Request-Id")
		}
		e.action, sentinel = judge(e.Status, e.Code)
		e.Err = sentinel
		if sentinel == objstore.ErrNotExist && resp.Response.Header.Get("X-Cos-Delete-Marker") == "true" {
			e.Err, e.Message = objstore.ErrHidden, ""
		}
		e.Remedy = s.remedy(e, resp.Response.Header)
		return e
	}
	cause := lastCause(err)
	action, sentinel := judgeCause(cause)
	e.action, e.Err = action, s.unanswered(cause)
	if sentinel != nil {
		e.Err = fmt.Errorf("%w: %w", sentinel, e.Err)
		e.Remedy = s.networkRemedy(cause)
	}
	return e
}

// unanswered leaves out of a cause the URL of the request, which says again what
// operation and key say, but for its host.
func (s *Store) unanswered(cause error) error {
	var u *url.Error
	if !errors.As(cause, &u) || errors.As(cause, new(*credentialsError)) {
		return cause
	}
	return fmt.Errorf("no answer from %s: %w", s.client.BaseURL.BucketURL.Host, u.Err)
}

// answer finds what COS answered in an error of the SDK.
func answer(err error) *cos.ErrorResponse {
	var resp *cos.ErrorResponse
	if errors.As(lastCause(err), &resp) && resp.Response != nil {
		return resp
	}
	return nil
}

// lastCause looks into the SDK's RetryError, which has no Unwrap.
func lastCause(err error) error {
	var retry *cos.RetryError
	if errors.As(err, &retry) && len(retry.Errs) > 0 {
		return lastCause(retry.Errs[len(retry.Errs)-1])
	}
	return err
}

// actions names the permission that an operation needs.
var actions = map[string]string{
	"put object":        "cos:PutObject",
	"head object":       "cos:HeadObject",
	"get object":        "cos:GetObject",
	"list objects":      "cos:GetBucket",
	"delete object":     "cos:DeleteObject",
	"thaw object":       "cos:PostObjectRestore",
	"get versioning":    "cos:GetBucketVersioning",
	"get object lock":   "cos:GetBucketObjectLockConfiguration",
	"get retention":     "cos:GetObjectRetention",
	"lock object":       "cos:PutObjectRetention",
	"head bucket":       "cos:HeadBucket",
	"move object":       "cos:PutObject and cos:GetObject",
	"look up object":    "cos:HeadObject",
	"read back object":  "cos:GetObject",
	"resume get object": "cos:GetObject",
}

// remedy says in plain words what is wrong and who can change it.
func (s *Store) remedy(e *Error, header http.Header) string {
	switch e.Code {
	case "AccessDenied", "":
		if e.Status != http.StatusForbidden {
			break
		}
		if strings.Contains(strings.ToLower(e.Message), "expired") {
			return s.clockRemedy(header)
		}
		if a := actions[e.Op]; a != "" {
			return fmt.Sprintf("the credentials may not do this: grant %s on bucket %s to them, and look for a deny rule or an object lock", a, s.cfg.Bucket)
		}
	case "InvalidAccessKeyId":
		return "COS does not know this secret id: it was deleted, or belongs to another cloud account"
	case "SignatureDoesNotMatch":
		return "the secret key does not belong to the secret id, or something between here and COS changes requests"
	case "RequestTimeTooSkewed":
		return s.clockRemedy(header)
	case "ExpiredToken":
		return "the temporary credentials have expired and could not be renewed: fetch new ones"
	case "NoSuchBucket":
		return fmt.Sprintf("there is no bucket %s in region %s: check the name, its appid and the region", s.cfg.Bucket, s.cfg.Region)
	case "PathStyleDomainForbidden":
		return "the endpoint has to be the bucket's own host: <bucket>-<appid>.cos.<region>.myqcloud.com"
	case "InvalidObjectState":
		return "it is in cold storage: ask for a readable copy with --thaw"
	case "EntityTooLarge":
		return tooLarge
	}
	switch {
	case e.Code == "BadDigest" || e.Code == "InvalidDigest" || e.Code == "IncompleteBody":
		return "something between here and COS changes what is sent: take away proxies and run the same command again"
	case e.Code == "RequestTimeOut" || e.Code == "RequestTimeout":
		return "the body came too slowly for COS: run the same command again, with smaller objects if it stays so"
	case e.Status == http.StatusConflict:
		return "somebody else is at work on the same key, or was a moment ago: run the same command again"
	case e.Status == http.StatusUnavailableForLegalReasons:
		return "COS has blocked the object for what it holds: only Tencent can say why and release it"
	case e.Status >= 500 && e.Status != http.StatusNotImplemented, e.Status == http.StatusTooManyRequests:
		return "COS is busy or out of order: run the same command again later, and ask Tencent with the request id when it stays so"
	case e.Status >= 300 && e.Status < 400:
		return fmt.Sprintf("COS points elsewhere: bucket %s is probably not in region %s", s.cfg.Bucket, s.cfg.Region)
	}
	return ""
}

const tooLarge = "one PUT takes 5 GB: make smaller batches with --batch-rows"

// clockRemedy tells how far this clock is from that of the answer.
func (s *Store) clockRemedy(header http.Header) string {
	const fix = "COS refuses requests signed more than 15 minutes off: set this machine's clock (NTP)"
	there, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return fix
	}
	off := s.cfg.Now().Sub(there).Round(time.Second)
	switch {
	case off > time.Minute:
		return fmt.Sprintf("this machine's clock is %v ahead of COS; %s", off, fix)
	case off < -time.Minute:
		return fmt.Sprintf("this machine's clock is %v behind COS; %s", -off, fix)
	}
	return fix
}

func (s *Store) networkRemedy(err error) string {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &cert):
		return "the certificate is not that of COS: check the endpoint, proxies in between and this machine's certificates"
	case errors.As(err, &dns):
		return fmt.Sprintf("no such host: check region %q and bucket %q, and this machine's name server", s.cfg.Region, s.cfg.Bucket)
	}
	return "no request was sent: there are no usable credentials"
}
