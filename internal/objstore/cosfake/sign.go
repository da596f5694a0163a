package cosfake

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The signature of COS requests, document 436/7778, written from that text and
// not from any client, so that a client's mistake is not repeated here.

// signature is what a request says of its own signature.
type signature struct {
	algorithm string
	secretID  string
	signTime  string // start;end in Unix seconds
	keyTime   string
	headers   []string
	params    []string
	sum       string
	presigned bool
}

// parseSignature reads the Authorization header, or the same names in the query
// of a presigned URL. ok is false when there is neither.
func parseSignature(h http.Header, query url.Values) (sig signature, ok bool) {
	fields := map[string]string{}
	switch auth := h.Get("Authorization"); {
	case auth != "":
		// The value holds semicolons as they are, which url.ParseQuery refuses.
		for field := range strings.SplitSeq(auth, "&") {
			name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
			fields[name] = value
		}
	case query.Has("q-signature"):
		sig.presigned = true
		for name, values := range query {
			fields[name] = values[0]
		}
	default:
		return sig, false
	}
	sig.algorithm = fields["q-sign-algorithm"]
	sig.secretID = fields["q-ak"]
	sig.signTime = fields["q-sign-time"]
	sig.keyTime = fields["q-key-time"]
	sig.headers = splitList(fields["q-header-list"])
	sig.params = splitList(fields["q-url-param-list"])
	sig.sum = fields["q-signature"]
	return sig, true
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.ToLower(s), ";")
}

// timeRange reads start;end; ok is false when it is not one.
func timeRange(s string) (start, end int64, ok bool) {
	from, to, found := strings.Cut(s, ";")
	start, err := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	return start, end, found && err == nil && err2 == nil && start <= end
}

// pair is a header or a parameter as it is signed: the name lower case and
// escaped, the value as it came.
type pair struct{ name, value string }

// pairs returns the signed form of values. A value may be missing, not the name.
func pairs(values map[string][]string) []pair {
	var all []pair
	for name, vs := range values {
		for _, v := range vs {
			all = append(all, pair{strings.ToLower(escape(name)), v})
		}
	}
	slices.SortFunc(all, func(a, b pair) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	return all
}

func names(all []pair) []string {
	list := make([]string, len(all))
	for i, p := range all {
		list[i] = p.name
	}
	return list
}

func joinPairs(all []pair) string {
	parts := make([]string, len(all))
	for i, p := range all {
		parts[i] = p.name + "=" + escape(p.value)
	}
	return strings.Join(parts, "&")
}

// escape percent-encodes everything but letters, digits and -_.~ .
func escape(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// sign returns the signature over method, the decoded path, and the signed
// parameters and headers.
func sign(secretKey, keyTime, method, path string, params, headers []pair) string {
	text := strings.ToLower(method) + "\n" + path + "\n" + joinPairs(params) + "\n" + joinPairs(headers) + "\n"
	digest := sha1.Sum([]byte(text))
	toSign := "sha1\n" + keyTime + "\n" + hex.EncodeToString(digest[:]) + "\n"
	return hmacHex(hmacHex(secretKey, keyTime), toSign)
}

func hmacHex(key, text string) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}
