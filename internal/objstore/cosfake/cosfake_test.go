package cosfake

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tencentyun/cos-go-sdk-v5"
)

// start starts a bucket that stops with the test.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client is the SDK with everything off that would hide what the fake does.
func client(t *testing.T, s *Server) *cos.Client {
	t.Helper()
	return clientAs(t, s, s.SecretID, s.SecretKey, s.Token)
}

func clientAs(t *testing.T, s *Server, id, key, token string) *cos.Client {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{DisableCompression: true}
	t.Cleanup(base.CloseIdleConnections)
	c := cos.NewClient(&cos.BaseURL{BucketURL: u}, &http.Client{Transport: &cos.AuthorizationTransport{
		SecretID: id, SecretKey: key, SessionToken: token, Transport: base,
	}})
	c.Conf.EnableCRC = false
	c.Conf.RetryOpt.Count = 1
	return c
}

// put uploads data; headers are pairs of name and value.
func put(t *testing.T, c *cos.Client, key string, data []byte, headers ...string) (http.Header, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	digest := md5.Sum(data)
	sum := cmp.Or(h.Get("Content-MD5"), base64.StdEncoding.EncodeToString(digest[:]))
	resp, err := c.Object.Put(t.Context(), key, bytes.NewReader(data), &cos.ObjectPutOptions{ObjectPutHeaderOptions: &cos.ObjectPutHeaderOptions{
		ContentMD5: sum, XOptionHeader: &h,
	}})
	if err != nil {
		return nil, err
	}
	return resp.Header, nil
}

func mustPut(t *testing.T, c *cos.Client, key string, data []byte, headers ...string) http.Header {
	t.Helper()
	h, err := put(t, c, key, data, headers...)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return h
}

// get reads the whole object. The error of reading the body counts as well.
func get(t *testing.T, c *cos.Client, key string, opt *cos.ObjectGetOptions, id ...string) ([]byte, http.Header, error) {
	t.Helper()
	return getCtx(t.Context(), c, key, opt, id...)
}

func getCtx(ctx context.Context, c *cos.Client, key string, opt *cos.ObjectGetOptions, id ...string) ([]byte, http.Header, error) {
	resp, err := c.Object.Get(ctx, key, opt, id...)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return data, resp.Header, err
}

// refusal is the status and code of err, 0 and its text when it is none.
func refusal(err error) (int, string) {
	var e *cos.ErrorResponse
	if errors.As(err, &e) {
		return e.Response.StatusCode, e.Code
	}
	if err == nil {
		return 0, ""
	}
	return 0, err.Error()
}

func wantRefusal(t *testing.T, err error, status int, code string) {
	t.Helper()
	if gotStatus, gotCode := refusal(err); gotStatus != status || gotCode != code {
		t.Errorf("refusal = %d %s, want %d %s", gotStatus, gotCode, status, code)
	}
}

func TestPutGetHeadDelete(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	data := []byte("[Object Content]")
	h := mustPut(t, c, "dir/a", data, "x-cos-meta-sha256", "abc", "Content-Type", "application/gzip",
		"x-cos-tagging", "k=v&k2=v%202", "x-cos-server-side-encryption", "AES256")
	for name, want := range map[string]string{
		// The vector of document 436/7745.
		"X-Cos-Hash-Crc64ecma": "16749565679157681890", "Etag": `"ee8de918d05640145b18f70f4c3aa602"`,
		"X-Cos-Server-Side-Encryption": "AES256", "X-Cos-Version-Id": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("put: %s = %q, want %q", name, got, want)
		}
	}
	if h.Get("X-Cos-Request-Id") == "" {
		t.Error("put: no request id")
	}
	got, gh, err := get(t, c, "dir/a", nil)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("get = %q, %v, want %q", got, err, data)
	}
	resp, err := c.Object.Head(t.Context(), "dir/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(len(data)) {
		t.Errorf("head: length %d, want %d", resp.ContentLength, len(data))
	}
	for name, want := range map[string]string{
		"X-Cos-Hash-Crc64ecma": "16749565679157681890", "X-Cos-Meta-Sha256": "abc", "Content-Type": "application/gzip",
		"X-Cos-Storage-Class": "", "X-Cos-Tagging-Count": "2", "X-Cos-Server-Side-Encryption": "AES256",
	} {
		if g, h := gh.Get(name), resp.Header.Get(name); g != want || h != want {
			t.Errorf("%s = %q in GET, %q in HEAD, want %q", name, g, h, want)
		}
	}
	o, ok := s.Object("dir/a")
	if !ok || o.Tags["k2"] != "v 2" || o.Meta["sha256"] != "abc" || o.CRC64 != 16749565679157681890 || o.VersionID != "null" {
		t.Errorf("object = %+v, %v", o, ok)
	}
	for range 2 { // what is not there is deleted as well
		resp, err := c.Object.Delete(t.Context(), "dir/a")
		if err != nil || resp.StatusCode != http.StatusNoContent {
			t.Fatalf("delete: %v", err)
		}
	}
	_, _, err = get(t, c, "dir/a", nil)
	wantRefusal(t, err, 404, "NoSuchKey")
	_, err = c.Object.Head(t.Context(), "dir/a", nil)
	wantRefusal(t, err, 404, "") // HEAD has no body
}

func TestEmptyObject(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	if h := mustPut(t, c, "empty", nil); h.Get(hdrCRC) != "0" {
		t.Errorf("crc = %q, want 0", h.Get(hdrCRC))
	}
	if data, _, err := get(t, c, "empty", nil); err != nil || len(data) != 0 {
		t.Errorf("get = %q, %v", data, err)
	}
}

func TestRequestsThatCOSRefuses(t *testing.T) {
	s := start(t, Options{MaxObjectBytes: 100})
	c := client(t, s)
	for _, test := range []struct {
		name    string
		key     string
		size    int
		headers []string
		status  int
		code    string
	}{
		{"too large", "a", 101, nil, 400, "EntityTooLarge"},
		{"key too long", strings.Repeat("k", 851), 1, nil, 400, "KeyTooLong"},
		{"key with a leading slash", "/a", 1, nil, 400, "InvalidArgument"},
		{"no key", "", 1, nil, 409, "BucketAlreadyOwnedByYou"},
		{"storage class", "a", 1, []string{"x-cos-storage-class", "GLACIER"}, 400, "InvalidStorageClass"},
		{"encryption", "a", 1, []string{"x-cos-server-side-encryption", "rot13"}, 400, "InvalidArgument"},
		{"metadata name", "a", 1, []string{"x-cos-meta-a_b", "x"}, 400, "InvalidArgument"},
		{"metadata size", "a", 1, []string{"x-cos-meta-a", strings.Repeat("x", 2049)}, 400, "MetadataTooLarge"},
		{"metadata size together", "a", 1, []string{"x-cos-meta-a", strings.Repeat("x", 2000), "x-cos-meta-b", strings.Repeat("x", 2000), "x-cos-meta-c", strings.Repeat("x", 200)}, 400, "MetadataTooLarge"},
		{"eleven tags", "a", 1, []string{"x-cos-tagging", "a=&b=&c=&d=&e=&f=&g=&h=&i=&j=&k="}, 400, "InvalidTag"},
		{"lock without object lock", "a", 1, []string{"x-cos-object-lock-mode", "COMPLIANCE", "x-cos-object-lock-retain-until-date", "2999-01-01T00:00:00.000Z"}, 400, "InvalidRequest"},
		{"content md5 of something else", "a", 1, []string{"Content-MD5", base64.StdEncoding.EncodeToString(make([]byte, 16))}, 400, "BadDigest"},
		{"content md5 that is none", "a", 1, []string{"Content-MD5", "YWJj"}, 400, "InvalidDigest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := put(t, c, test.key, make([]byte, test.size), test.headers...)
			wantRefusal(t, err, test.status, test.code)
			if keys := s.Keys(); len(keys) > 0 {
				t.Errorf("stored %v", keys)
			}
		})
	}
}
