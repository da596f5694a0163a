package cosfake

import (
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"
)

// TestSignVectors checks the two examples of document 436/7778.
func TestSignVectors(t *testing.T) {
	const (
		secretKey = "BQYIM75p8x0iWVFSIgqEKwFprpRSVHlz" // published there
		path      = "/exampleobject(腾讯云)"
		host      = "examplebucket-1250000000.cos.ap-beijing.myqcloud.com"
	)
	for _, test := range []struct {
		name, method, keyTime string
		params, headers       map[string][]string
		signKey, want         string
	}{
		{
			"PUT", http.MethodPut, "1557989151;1557996351", nil,
			map[string][]string{
				"Date": {"Thu, 16 May 2019 06:45:51 GMT"}, "Host": {host}, "Content-Type": {"text/plain"}, "Content-Length": {"13"},
				"Content-MD5": {"mQ/fVh815F3k6TAUm8m0eg=="}, "x-cos-acl": {"private"}, "x-cos-grant-read": {`uin="100000000011"`},
			},
			"eb2519b498b02ac213cb1f3d1a3d27a3b3c9bc5f", "3b8851a11a569213c17ba8fa7dcf2abec6935172",
		},
		{
			"GET", http.MethodGet, "1557989753;1557996953",
			map[string][]string{"response-content-type": {"application/octet-stream"}, "response-cache-control": {"max-age=600"}},
			map[string][]string{"Date": {"Thu, 16 May 2019 06:55:53 GMT"}, "Host": {host}},
			"937914bf490e9e8c189836aad2052e4feeb35eaf", "01681b8c9d798a678e43b685a9f1bba0f6c0e012",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hmacHex(secretKey, test.keyTime); got != test.signKey {
				t.Errorf("sign key = %s, want %s", got, test.signKey)
			}
			got := sign(secretKey, test.keyTime, test.method, path, pairs(test.params), pairs(test.headers))
			if got != test.want {
				t.Errorf("signature = %s, want %s", got, test.want)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "aZ09-_.~": "aZ09-_.~", " ": "%20", "!'()*": "%21%27%28%29%2A", "a/b+c=d&e": "a%2Fb%2Bc%3Dd%26e", "é": "%C3%A9",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

// signedRequest is a request that the SDK signed for s, valid from start to end.
func signedRequest(t *testing.T, s *Server, method, pathAndQuery, body string, start, end time.Time, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+pathAndQuery, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	cos.AddAuthorizationHeader(s.SecretID, s.SecretKey, s.Token, r, &cos.AuthTime{
		SignStartTime: start, SignEndTime: end, KeyStartTime: start, KeyEndTime: end,
	})
	return r
}

// code sends r and returns status and code of the answer.
func code(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Cos-Request-Id") == "" {
		t.Error("answer without a request id")
	}
	if resp.StatusCode < 300 {
		return resp.StatusCode, ""
	}
	var doc cos.ErrorResponse
	if err := xml.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatalf("answer %d: %v", resp.StatusCode, err)
	}
	if doc.RequestID == "" || doc.TraceID == "" || doc.Message == "" || doc.Resource == "" {
		t.Errorf("refusal is not complete: %+v", doc)
	}
	return resp.StatusCode, doc.Code
}

func TestSignatures(t *testing.T) {
	s := start(t, Options{})
	s.Store(Object{Key: "dir/a", Data: []byte("x")})
	now := time.Now()
	for _, test := range []struct {
		name   string
		start  time.Time
		end    time.Time
		change func(*http.Request)
		status int
		code   string
	}{
		{"good", now, now.Add(time.Hour), nil, 200, ""},
		{"client a little ahead", now.Add(14 * time.Minute), now.Add(time.Hour), nil, 200, ""},
		{"client too far ahead", now.Add(16 * time.Minute), now.Add(time.Hour), nil, 403, "RequestTimeTooSkewed"},
		{"over", now.Add(-2 * time.Hour), now.Add(-time.Hour), nil, 403, "AccessDenied"},
		{"unsigned", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Del("Authorization") }, 403, "AccessDenied"},
		{"empty", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("Authorization", "q-sign-algorithm=sha1") }, 403, "AccessDenied"},
		{"other algorithm", now, now.Add(time.Hour), replaceAuth("=sha1&", "=sha256&"), 403, "AccessDenied"},
		{"times that are none", now, now.Add(time.Hour), replaceAuth("q-sign-time=", "q-sign-time=x"), 403, "AccessDenied"},
		{
			"longer than signed", now.Add(-2 * time.Hour), now.Add(-time.Hour),
			replaceAuth(";"+unix(now.Add(-time.Hour)), ";"+unix(now.Add(time.Hour))), 403, "SignatureDoesNotMatch",
		},
		{"other id", now, now.Add(time.Hour), replaceAuth("q-ak=", "q-ak=x"), 403, "InvalidAccessKeyId"},
		{"other signature", now, now.Add(time.Hour), replaceAuth("q-signature=", "q-signature=0"), 403, "SignatureDoesNotMatch"},
		{"other method", now, now.Add(time.Hour), func(r *http.Request) { r.Method = http.MethodDelete }, 403, "SignatureDoesNotMatch"},
		{"other path", now, now.Add(time.Hour), func(r *http.Request) { r.URL.Path = "/dir/b" }, 403, "SignatureDoesNotMatch"},
		{"other host", now, now.Add(time.Hour), func(r *http.Request) { r.Host = s.BucketHost() }, 403, "SignatureDoesNotMatch"},
		{"header not signed", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("x-cos-storage-class", "ARCHIVE") }, 403, "SignatureDoesNotMatch"},
		{"token not signed", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("x-cos-security-token", "x") }, 403, "SignatureDoesNotMatch"},
		{"content md5 not signed", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==") }, 403, "SignatureDoesNotMatch"},
		{"signed header changed", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("x-cos-meta-a", "2") }, 403, "SignatureDoesNotMatch"},
		{"signed header twice", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Add("x-cos-meta-a", "1") }, 403, "SignatureDoesNotMatch"},
		{"signed header gone", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Del("x-cos-meta-a") }, 403, "SignatureDoesNotMatch"},
		{"other header not signed", now, now.Add(time.Hour), func(r *http.Request) { r.Header.Set("X-Other", "x") }, 200, ""},
		{"host not signed", now, now.Add(time.Hour), replaceAuth("host;", ""), 403, "SignatureDoesNotMatch"},
		{"parameter added", now, now.Add(time.Hour), func(r *http.Request) { r.URL.RawQuery += "&versionId=null" }, 403, "SignatureDoesNotMatch"},
		{"parameter changed", now, now.Add(time.Hour), func(r *http.Request) { r.URL.RawQuery = "x=2" }, 403, "SignatureDoesNotMatch"},
		{"parameter gone", now, now.Add(time.Hour), func(r *http.Request) { r.URL.RawQuery = "" }, 403, "SignatureDoesNotMatch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := signedRequest(t, s, http.MethodGet, "/dir%2Fa?x=1", "", test.start, test.end, "x-cos-meta-a", "1")
			if test.change != nil {
				test.change(r)
			}
			if status, code := code(t, r); status != test.status || code != test.code {
				t.Errorf("answer = %d %s, want %d %s", status, code, test.status, test.code)
			}
		})
	}
	if _, ok := s.Object("dir/a"); !ok {
		t.Error("a request with a bad signature deleted the object")
	}
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func replaceAuth(old, new string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.ReplaceAll(r.Header.Get("Authorization"), old, new))
	}
}

func TestUnsignedLengthIsRefused(t *testing.T) {
	s := start(t, Options{})
	now := time.Now()
	// The SDK signs Content-Length when it is among the headers; here it is not.
	r := signedRequest(t, s, http.MethodPut, "/a", "body", now, now.Add(time.Hour))
	if status, code := code(t, r); status != 403 || code != "SignatureDoesNotMatch" {
		t.Errorf("answer = %d %s, want 403 SignatureDoesNotMatch", status, code)
	}
	r = signedRequest(t, s, http.MethodPut, "/a", "body", now, now.Add(time.Hour), "Content-Length", "4")
	if status, code := code(t, r); status != 200 {
		t.Errorf("answer = %d %s, want 200", status, code)
	}
}

func TestChunkedBodyIsRefused(t *testing.T) {
	s := start(t, Options{})
	now := time.Now()
	r := signedRequest(t, s, http.MethodPut, "/a", "body", now, now.Add(time.Hour))
	r.ContentLength = -1
	if status, code := code(t, r); status != 411 || code != "MissingContentLength" {
		t.Errorf("answer = %d %s, want 411 MissingContentLength", status, code)
	}
}

// plainGet sends a request that nobody signed, and returns the headers.
func plainGet(t *testing.T, url string) http.Header {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header
}

// TestSDKSignsAllOperations sends every operation by the SDK: a signature that
// the fake would compute otherwise is a refusal.
func TestSDKSignsAllOperations(t *testing.T) {
	s := start(t, Options{Token: "token", ObjectLock: true})
	c := client(t, s)
	ctx := t.Context()
	const key = "dir/ä b+c&d=e;f%g!'()*~"
	mustPut(t, c, key, []byte("data"))
	s.Store(Object{Key: "cold", Data: []byte("x"), StorageClass: "ARCHIVE"})
	until := time.Now().Add(48 * time.Hour).UTC().Format(lockLayout)
	for name, do := range map[string]func() (*cos.Response, error){
		"get": func() (*cos.Response, error) { return c.Object.Get(ctx, key, nil) },
		"get range": func() (*cos.Response, error) {
			return c.Object.Get(ctx, key, &cos.ObjectGetOptions{Range: "bytes=0-1"})
		},
		"get by id":  func() (*cos.Response, error) { return c.Object.Get(ctx, key, nil, "null") },
		"head":       func() (*cos.Response, error) { return c.Object.Head(ctx, key, nil) },
		"head by id": func() (*cos.Response, error) { return c.Object.Head(ctx, key, nil, "null") },
		"list": func() (*cos.Response, error) {
			_, resp, err := c.Bucket.Get(ctx, &cos.BucketGetOptions{Prefix: "dir/ä b+", Marker: "a&b=c;", Delimiter: "/", EncodingType: "url", MaxKeys: 3})
			return resp, err
		},
		"restore": func() (*cos.Response, error) {
			return c.Object.PostRestore(ctx, "cold", &cos.ObjectRestoreOptions{Days: 1, Tier: &cos.CASJobParameters{Tier: "Bulk"}})
		},
		"put retention": func() (*cos.Response, error) {
			return c.Object.PutRetention(ctx, "cold", &cos.ObjectPutRetentionOptions{Mode: "COMPLIANCE", RetainUntilDate: until})
		},
		"put tagging": func() (*cos.Response, error) {
			return c.Object.PutTagging(ctx, key, &cos.ObjectPutTaggingOptions{TagSet: []cos.ObjectTaggingTag{{Key: "k", Value: "v"}}})
		},
		"get tagging": func() (*cos.Response, error) {
			_, resp, err := c.Object.GetTagging(ctx, key)
			return resp, err
		},
		"delete tagging": func() (*cos.Response, error) { return c.Object.DeleteTagging(ctx, "cold") },
		"get versioning": func() (*cos.Response, error) {
			_, resp, err := c.Bucket.GetVersioning(ctx)
			return resp, err
		},
		"get object lock": func() (*cos.Response, error) {
			_, resp, err := c.Bucket.GetObjectLockConfiguration(ctx)
			return resp, err
		},
		"put object lock": func() (*cos.Response, error) {
			return c.Bucket.PutObjectLockConfiguration(ctx, &cos.BucketPutObjectLockOptions{ObjectLockEnabled: "Enabled"})
		},
		"head bucket": func() (*cos.Response, error) { return c.Bucket.Head(ctx) },
		"delete": func() (*cos.Response, error) {
			return c.Object.Delete(ctx, "none", &cos.ObjectDeleteOptions{VersionId: "null"})
		},
		"copy": func() (*cos.Response, error) {
			_, resp, err := c.Object.Copy(ctx, "copy", strings.TrimPrefix(s.URL, "http://")+"/cold2", nil)
			return resp, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Store(Object{Key: "cold2", Data: []byte("x")})
			resp, err := do()
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		})
	}
}

func TestPresignedURL(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "dir/a", []byte("data"))
	u, err := c.Object.GetPresignedURL(t.Context(), http.MethodGet, "dir/a", s.SecretID, s.SecretKey, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, u.String(), nil)
	for query, want := range map[string]int{u.RawQuery: 200, u.RawQuery + "&versionId=null": 403, u.RawQuery + "0": 403} {
		r := r.Clone(t.Context())
		r.URL = &url.URL{Path: "/dir/a", RawQuery: query}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", query, w.Code, want, w.Body)
		}
	}
}

func TestTokens(t *testing.T) {
	s := start(t, Options{Token: "token"})
	s.Store(Object{Key: "a", Data: []byte("x")})
	s.Accept("permanent", "key", "")
	for _, test := range []struct {
		name, id, key, token string
		status               int
		code                 string
	}{
		{"good", s.SecretID, s.SecretKey, "token", 0, ""},
		{"permanent", "permanent", "key", "", 0, ""},
		{"missing", s.SecretID, s.SecretKey, "", 403, "InvalidAccessKeyId"},
		{"other", s.SecretID, s.SecretKey, "other", 403, "InvalidToken"},
		{"with a permanent pair", "permanent", "key", "token", 403, "InvalidToken"},
		{"key of another", s.SecretID, "key", "token", 403, "SignatureDoesNotMatch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := get(t, clientAs(t, s, test.id, test.key, test.token), "a", nil)
			wantRefusal(t, err, test.status, test.code)
		})
	}
}

func TestExpiredTokenUntilRotated(t *testing.T) {
	for _, status := range []int{403, 400} {
		s := start(t, Options{Token: "token", ExpiredTokenStatus: status})
		s.Store(Object{Key: "a", Data: []byte("x")})
		s.Expire(s.SecretID)
		_, _, err := get(t, client(t, s), "a", nil)
		wantRefusal(t, err, status, "ExpiredToken")
		s.Accept("id2", "key2", "token2")
		_, _, err = get(t, clientAs(t, s, "id2", "key2", "token2"), "a", nil)
		wantRefusal(t, err, 0, "")
		_, _, err = get(t, client(t, s), "a", nil)
		wantRefusal(t, err, status, "ExpiredToken")
		s.Accept(s.SecretID, s.SecretKey, "token") // the same once more
		_, _, err = get(t, client(t, s), "a", nil)
		wantRefusal(t, err, 0, "")
		s.Revoke("id2")
		_, _, err = get(t, clientAs(t, s, "id2", "key2", "token2"), "a", nil)
		wantRefusal(t, err, 403, "InvalidAccessKeyId")
	}
}

func TestClockSkew(t *testing.T) {
	s := start(t, Options{})
	s.Store(Object{Key: "a", Data: []byte("x")})
	for _, test := range []struct {
		skew time.Duration
		code string
	}{
		{0, ""}, {-14 * time.Minute, ""}, {-16 * time.Minute, "RequestTimeTooSkewed"}, {59 * time.Minute, ""}, {61 * time.Minute, "AccessDenied"},
	} {
		s.SetClockSkew(test.skew)
		_, _, err := get(t, client(t, s), "a", nil)
		if _, code := refusal(err); code != test.code {
			t.Errorf("skew %v: %s, want %s", test.skew, code, test.code)
		}
		date, err := http.ParseTime(plainGet(t, s.URL).Get("Date"))
		if d := date.Sub(time.Now().Add(test.skew)).Abs(); err != nil || d > 5*time.Second {
			t.Errorf("skew %v: Date is %v off, %v", test.skew, d, err)
		}
	}
	s.SetClockSkew(0)
	s.Advance(1000 * time.Hour) // the bucket's clock is not the one that judges
	_, _, err := get(t, client(t, s), "a", nil)
	wantRefusal(t, err, 0, "")
}

func TestHosts(t *testing.T) {
	s := start(t, Options{})
	s.Store(Object{Key: "a", Data: []byte("x")})
	for _, test := range []struct {
		name, host, key string
		status          int
		code            string
	}{
		{"loopback", "", "a", 0, ""},
		{"virtual host", s.BucketHost(), "a", 0, ""},
		{"second domain", s.Bucket + ".cos." + s.Region + ".tencentcos.cn", "a", 0, ""},
		{"another bucket", "other-1250000000.cos." + s.Region + ".myqcloud.com", "a", 404, "NoSuchBucket"},
		{"another region", s.Bucket + ".cos.ap-beijing.myqcloud.com", "a", 404, "NoSuchBucket"},
		{"another domain", "cdn.example.com", "a", 404, "NoSuchBucket"},
		{"path style", "cos." + s.Region + ".myqcloud.com", s.Bucket + "/a", 403, "PathStyleDomainForbidden"},
		{"path style on loopback", "", s.Bucket + "/a", 403, "PathStyleDomainForbidden"},
		{"path style list on loopback", "", s.Bucket, 403, "PathStyleDomainForbidden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := client(t, s)
			c.Host = test.host
			_, _, err := get(t, c, test.key, nil)
			wantRefusal(t, err, test.status, test.code)
		})
	}
}

func TestUnknownOperations(t *testing.T) {
	s := start(t, Options{})
	now := time.Now()
	for _, target := range []string{"/?acl", "/a?acl", "/?versions", "/a?versioning"} {
		if status, code := code(t, signedRequest(t, s, http.MethodGet, target, "", now, now.Add(time.Hour))); status != 501 || code != "NotImplemented" {
			t.Errorf("%s: %d %s, want 501 NotImplemented", target, status, code)
		}
	}
}
