package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswerBytes is far beyond any answer of STS or the metadata service.
const maxAnswerBytes = 64 << 10

// noRedirect is a client that follows no redirect: what it carries is for the
// host that it was given.
func noRedirect(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// within gives f at most timeout. An end of that time is ErrNoAnswer of host, and
// not the error of a context, which would look like the caller's own.
func within(ctx context.Context, timeout time.Duration, host string, f func(context.Context) (Credentials, error)) (Credentials, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	creds, err := f(limited)
	switch {
	case err == nil:
		return creds, nil
	case ctx.Err() != nil:
		return Credentials{}, ctx.Err()
	case limited.Err() != nil:
		return Credentials{}, fmt.Errorf("%s: %w (%v)", host, ErrNoAnswer, timeout)
	}
	return Credentials{}, err
}

// ask sends req and returns the body of a 200. The error holds nothing of the
// body.
func ask(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d: %w", req.URL.Host, resp.StatusCode, ErrRefused)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswerBytes {
		return nil, fmt.Errorf("answer of %s is larger than %d bytes: %w", req.URL.Host, maxAnswerBytes, ErrMalformed)
	}
	return body, nil
}

// decode reads a JSON document; the error says only where it broke, because the
// text may be a secret.
func decode(body []byte, doc any) error {
	err := json.Unmarshal(body, doc)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("answer is no JSON at byte %d: %w", syntax.Offset, ErrMalformed)
	default:
		return fmt.Errorf("answer has another shape than expected: %w", ErrMalformed)
	}
}

// temporary makes a pair of what a service handed out. seconds is the Unix time
// of its end.
func temporary(id, key, token string, seconds int64, now time.Time) (Credentials, error) {
	switch {
	case token == "":
		return Credentials{}, fmt.Errorf("answer has no token: %w", ErrIncomplete)
	case seconds <= 0:
		return Credentials{}, fmt.Errorf("answer has no time of expiry: %w", ErrIncomplete)
	}
	expires := time.Unix(seconds, 0)
	if !expires.After(now) {
		return Credentials{}, fmt.Errorf("pair ended at %s: %w", expires.UTC().Format(time.RFC3339), ErrExpired)
	}
	return New(id, key, token, expires)
}

// plain keeps a code or an id of a service to what can be printed.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f {
			return '_'
		}
		return c
	}, s[:min(len(s), 100)])
}
