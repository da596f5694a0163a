package cosfake

import (
	"crypto/hmac"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxSkew is how far a client's clock may be ahead; document 436/7730.
const maxSkew = 15 * time.Minute

// account is one pair that opens the bucket.
type account struct {
	secretKey string
	token     string // "" for a permanent pair
	expired   bool
}

// Accept adds a pair that opens the bucket, or replaces the one with this
// secretID; it is not expired then. token "" makes it a permanent pair.
func (f *Fake) Accept(secretID, secretKey, token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accounts[secretID] = account{secretKey: secretKey, token: token}
}

// Expire makes every request with this pair fail with ExpiredToken until
// [Fake.Accept] is called for it; other pairs go on.
func (f *Fake) Expire(secretID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	acc := f.accounts[secretID]
	acc.expired = true
	f.accounts[secretID] = acc
}

// Revoke forgets a pair: InvalidAccessKeyId from now on.
func (f *Fake) Revoke(secretID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.accounts, secretID)
}

// authenticate refuses a request that COS would not take for one of an account.
func (f *Fake) authenticate(r *request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fail(http.StatusBadRequest, "InvalidURI", "the query cannot be read")
	}
	sig, ok := parseSignature(r.Header, query)
	if !ok {
		return denied("the request is not signed")
	}
	if sig.algorithm != "sha1" || sig.secretID == "" || sig.sum == "" {
		return denied("the signature is not complete")
	}
	f.mu.Lock()
	acc, known := f.accounts[sig.secretID]
	f.mu.Unlock()
	if !known {
		return fail(http.StatusForbidden, "InvalidAccessKeyId", "there is no such access key")
	}
	if err := f.checkTimes(sig); err != nil {
		return err
	}
	if err := checkSignature(r, query, sig, acc.secretKey); err != nil {
		return err
	}
	return f.checkToken(r, acc)
}

// denied is AccessDenied.
func denied(message string) *apiError { return fail(http.StatusForbidden, "AccessDenied", message) }

// checkTimes refuses a signature that is over, or that begins too far ahead.
func (f *Fake) checkTimes(sig signature) error {
	now := f.authNow().Unix()
	for _, text := range []string{sig.signTime, sig.keyTime} {
		start, end, ok := timeRange(text)
		switch {
		case !ok:
			return denied("the times of the signature cannot be read")
		case now > end:
			return denied("Request has expired")
		case start-now > int64(maxSkew/time.Second):
			return fail(http.StatusForbidden, "RequestTimeTooSkewed",
				"the difference between the time of the request and that of the server is too large")
		}
	}
	return nil
}

// checkSignature computes the signature again over what arrived. What has to be
// in it beyond what the client chose: host, Content-Length, Content-MD5, every
// x-cos-* header and every parameter.
func checkSignature(r *request, query url.Values, sig signature, secretKey string) error {
	arrived := r.Header.Clone()
	arrived.Set("Host", r.Host) // net/http keeps it apart
	signed := map[string][]string{}
	for name, values := range arrived {
		lower := strings.ToLower(escape(name))
		if slices.Contains(sig.headers, lower) {
			signed[name] = values
			continue
		}
		required := lower == "host" || lower == "content-length" || lower == "content-md5" || strings.HasPrefix(lower, "x-cos-")
		if required && !(sig.presigned && lower == "content-length") {
			return fail(http.StatusForbidden, "SignatureDoesNotMatch", "the header "+lower+" is not signed")
		}
	}
	headers := pairs(signed)
	if !slices.Equal(names(headers), sorted(sig.headers)) {
		return fail(http.StatusForbidden, "SignatureDoesNotMatch", "a signed header did not arrive, or arrived more often than signed")
	}
	params := url.Values{}
	for name, values := range query {
		if !sig.presigned || !strings.HasPrefix(name, "q-") {
			params[name] = values
		}
	}
	all := pairs(params)
	if !slices.Equal(names(all), sorted(sig.params)) {
		return fail(http.StatusForbidden, "SignatureDoesNotMatch", "the parameters are not those that were signed")
	}
	want := sign(secretKey, sig.keyTime, r.Method, r.URL.Path, all, headers)
	if !hmac.Equal([]byte(want), []byte(sig.sum)) {
		return fail(http.StatusForbidden, "SignatureDoesNotMatch", "the signature is another one than the request has")
	}
	return nil
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// checkToken refuses a temporary pair without its token, or after its time.
func (f *Fake) checkToken(r *request, acc account) error {
	token := r.Header.Get(hdrToken)
	if token == "" {
		token = r.query.Get(hdrToken)
	}
	switch {
	case acc.expired:
		return fail(f.opts.ExpiredTokenStatus, "ExpiredToken", "the token has expired")
	case token == "" && acc.token != "":
		return fail(http.StatusForbidden, "InvalidAccessKeyId", "a temporary access key needs its token")
	case token != acc.token:
		return fail(http.StatusForbidden, "InvalidToken", "the token is not the one of this access key")
	}
	return nil
}
