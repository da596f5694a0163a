package cosfake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tencentyun/cos-go-sdk-v5"
)

// body is what the objects of these tests hold.
var body = []byte(strings.Repeat("0123456789", 500))

func ranged(r string) *cos.ObjectGetOptions { return &cos.ObjectGetOptions{Range: r} }

func TestChecksumFaults(t *testing.T) {
	for _, kind := range []Kind{WrongCRC, MissingCRC} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t, Options{})
			c := client(t, s)
			right := strconv.FormatUint(CRC64(body), 10)
			in := s.Inject(Fault{Kind: kind, Times: 3})
			var got []string
			got = append(got, mustPut(t, c, "a", body).Get(hdrCRC))
			data, h, err := get(t, c, "a", nil)
			if err != nil || !bytes.Equal(data, body) {
				t.Errorf("get: other data or %v", err)
			}
			got = append(got, h.Get(hdrCRC))
			resp, err := c.Object.Head(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, resp.Header.Get(hdrCRC))
			for _, crc := range got {
				if crc == right || (crc == "") != (kind == MissingCRC) {
					t.Errorf("checksum = %q, right is %q", crc, right)
				}
			}
			if _, h, _ := get(t, c, "a", nil); h.Get(hdrCRC) != right {
				t.Errorf("after three: checksum = %q, want %q", h.Get(hdrCRC), right)
			}
			if in.Hits() != 3 {
				t.Errorf("hits = %d, want 3", in.Hits())
			}
			if o, _ := s.Object("a"); o.CRC64 != CRC64(body) {
				t.Error("the fault changed the object")
			}
		})
	}
}

func TestFlipByte(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body)
	in := s.Inject(Fault{Kind: FlipByte, Key: "a", At: 100, Times: 2})
	want := bytes.Clone(body)
	want[100] ^= 1
	data, h, err := get(t, c, "a", nil)
	if err != nil || !bytes.Equal(data, want) || h.Get(hdrCRC) != strconv.FormatUint(CRC64(body), 10) {
		t.Errorf("get: not byte 100 alone is another, or %v", err)
	}
	if data, _, err := get(t, c, "a", ranged("bytes=0-99")); err != nil || !bytes.Equal(data, body[:100]) {
		t.Errorf("range without the byte: other data or %v", err)
	}
	if in.Hits() != 1 {
		t.Errorf("hits = %d, want 1: the range does not have the byte", in.Hits())
	}
	if data, _, err := get(t, c, "a", ranged("bytes=90-109")); err != nil || !bytes.Equal(data, want[90:110]) {
		t.Errorf("range with the byte: other data or %v", err)
	}
	if data, _, err := get(t, c, "a", nil); err != nil || !bytes.Equal(data, body) {
		t.Errorf("after two: other data or %v", err)
	}
}

func TestFlipByteIn(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	s.Inject(Fault{Kind: FlipByteIn, Op: PutObject, At: 3})
	_, err := put(t, c, "a", body)
	wantRefusal(t, err, 400, "BadDigest")
	resp, err := c.Object.Put(t.Context(), "a", bytes.NewReader(body), nil) // without Content-MD5
	if err != nil {
		t.Fatal(err)
	}
	o, _ := s.Object("a")
	if bytes.Equal(o.Data, body) || resp.Header.Get(hdrCRC) != strconv.FormatUint(CRC64(o.Data), 10) {
		t.Error("the damaged body was not stored with its own checksum")
	}
}

func TestCutBody(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body)
	mustPut(t, c, "short", body[:10])
	for _, at := range []int64{0, 1, 1000} {
		s.Inject(Fault{Kind: CutBody, At: at, Times: 1})
		data, h, err := get(t, c, "a", nil)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(data, body[:at]) || h.Get("Content-Length") != "5000" {
			t.Errorf("at %d: %d of %s bytes, %v, want UnexpectedEOF", at, len(data), h.Get("Content-Length"), err)
		}
		if data, _, err := get(t, c, "a", ranged(fmt.Sprintf("bytes=%d-", at))); err != nil || !bytes.Equal(data, body[at:]) {
			t.Errorf("at %d: the rest: other data or %v", at, err)
		}
	}
	in := s.Inject(Fault{Kind: CutBody, At: 10, Key: "short"})
	if data, _, err := get(t, c, "short", nil); err != nil || len(data) != 10 || in.Hits() != 0 {
		t.Errorf("body that is too short to cut: %d bytes, %v, %d hits", len(data), err, in.Hits())
	}
}

func TestShortAnswer(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body)
	s.Inject(Fault{Kind: ShortAnswer, At: 10})
	data, h, err := get(t, c, "a", nil)
	if err != nil || !bytes.Equal(data, body[:10]) || h.Get("Content-Length") != "10" {
		t.Errorf("get: %d of %s bytes, %v, want 10 of 10", len(data), h.Get("Content-Length"), err)
	}
	data, h, err = get(t, c, "a", ranged("bytes=5-99"))
	if err != nil || !bytes.Equal(data, body[5:15]) || h.Get("Content-Range") != "bytes 5-14/15" {
		t.Errorf("range: %q, %s, %v", data, h.Get("Content-Range"), err)
	}
}

func TestLoseAnswer(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	in := s.Inject(Fault{Kind: LoseAnswer, Op: PutObject, Times: 1})
	_, err := put(t, c, "a", body, hdrForbid, "true")
	if err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("put: %v, want a connection that ends", err)
	}
	if o, ok := s.Object("a"); !ok || !bytes.Equal(o.Data, body) {
		t.Error("the object was not stored")
	}
	// The trap: trying again finds one's own object.
	_, err = put(t, c, "a", body, hdrForbid, "true")
	wantRefusal(t, err, 409, "FileAlreadyExists")
	if in.Hits() != 1 {
		t.Errorf("hits = %d, want 1", in.Hits())
	}
	s.Inject(Fault{Kind: LoseAnswer, Op: DeleteObject, Times: 1})
	if _, err := c.Object.Delete(t.Context(), "a"); err == nil {
		t.Error("delete: no error")
	}
	if _, ok := s.Object("a"); ok {
		t.Error("the object was not deleted")
	}
	// A refusal is not what this fault is about.
	refused := s.Inject(Fault{Kind: LoseAnswer, Op: GetObject})
	_, _, err = get(t, c, "a", nil)
	wantRefusal(t, err, 404, "NoSuchKey")
	if refused.Hits() != 0 {
		t.Error("a refusal was lost")
	}
	if last := s.Requests()[1]; last.Op != PutObject || s.Requests()[0].Status != 0 {
		t.Errorf("log: lost answer has status %d, want 0", s.Requests()[0].Status)
	}
}

func TestInjectedRefusals(t *testing.T) {
	for _, test := range []struct {
		fault  Fault
		status int
		code   string
	}{
		{Fault{Kind: FileAlreadyExists}, 409, "FileAlreadyExists"},
		{Fault{Kind: PathConflict}, 409, "PathConflict"},
		{Fault{Kind: Unavailable}, 503, "ServiceUnavailable"},
		{Fault{Kind: SlowDown}, 503, "SlowDown"},
		{Fault{Kind: AccessDenied}, 403, "AccessDenied"},
		{Fault{Kind: Fail, Status: 451, Code: "Blocked", Message: "blocked"}, 451, "Blocked"},
	} {
		t.Run(string(test.fault.Kind), func(t *testing.T) {
			s := start(t, Options{})
			c := client(t, s)
			test.fault.Op, test.fault.Key, test.fault.Skip, test.fault.Times = PutObject, "a", 1, 2
			in := s.Inject(test.fault)
			mustPut(t, c, "a", body) // passes
			mustPut(t, c, "b", body) // another key
			s.Remove("a")
			for range 2 {
				_, err := put(t, c, "a", body)
				wantRefusal(t, err, test.status, test.code)
			}
			if _, ok := s.Object("a"); ok {
				t.Error("the refused body was stored")
			}
			_, err := c.Object.Head(t.Context(), "b", nil) // another operation
			wantRefusal(t, err, 0, "")
			mustPut(t, c, "a", body) // after the burst
			if in.Hits() != 2 {
				t.Errorf("hits = %d, want 2", in.Hits())
			}
		})
	}
}

func TestAccessDeniedForAnOperation(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body)
	in := s.Inject(Fault{Kind: AccessDenied, Op: GetBucketVersioning})
	_, _, err := c.Bucket.GetVersioning(t.Context())
	wantRefusal(t, err, 403, "AccessDenied")
	_, _, err = get(t, c, "a", nil)
	wantRefusal(t, err, 0, "")
	s.Inject(Fault{Kind: AccessDenied, Op: HeadObject})
	_, err = c.Object.Head(t.Context(), "a", nil)
	wantRefusal(t, err, 403, "") // the code is not told
	if all := s.Requests(); all[len(all)-1].Code != "AccessDenied" {
		t.Errorf("log: code = %q, want AccessDenied", all[len(all)-1].Code)
	}
	in.Remove()
	_, _, err = c.Bucket.GetVersioning(t.Context())
	wantRefusal(t, err, 0, "")
	s.ClearFaults()
	_, err = c.Object.Head(t.Context(), "a", nil)
	wantRefusal(t, err, 0, "")
}

func TestMatch(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	s.Inject(Fault{Kind: SlowDown, Match: func(op Op, key string, _ *http.Request) bool {
		return op == PutObject && strings.HasSuffix(key, "/_SUCCESS")
	}})
	mustPut(t, c, "dir/data", body)
	_, err := put(t, c, "dir/_SUCCESS", body)
	wantRefusal(t, err, 503, "SlowDown")
}

func TestSlowHeaders(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	gate := make(chan struct{})
	in := s.Inject(Fault{Kind: SlowHeaders, Op: PutObject, Times: 1, Until: gate})
	done := make(chan error)
	go func() {
		_, err := put(t, c, "a", body)
		done <- err
	}()
	<-in.Hit()
	if _, ok := s.Object("a"); !ok {
		t.Error("not stored while the answer is held")
	}
	if all := s.Requests(); len(all) != 1 || all[0].Status != 0 {
		t.Errorf("log of a held request: %+v", all)
	}
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.Inject(Fault{Kind: SlowHeaders, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := getCtx(ctx, c, "a", nil); err == nil {
		t.Error("get: no error at the deadline")
	}
}

func TestSlowBodies(t *testing.T) {
	for _, kind := range []Kind{SlowBody, StallBody} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t, Options{})
			c := client(t, s)
			mustPut(t, c, "a", body)
			s.Inject(Fault{Kind: kind, At: 10, Delay: 5 * time.Millisecond, Times: 1})
			started := time.Now()
			if data, _, err := get(t, c, "a", nil); err != nil || !bytes.Equal(data, body) || time.Since(started) < 5*time.Millisecond {
				t.Errorf("get after %v: other data or %v", time.Since(started), err)
			}
			gate := make(chan struct{})
			s.Inject(Fault{Kind: kind, At: 10, Until: gate, Times: 1})
			resp, err := c.Object.Get(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			sent := make([]byte, 10)
			if kind == SlowBody {
				sent = nil
			}
			if _, err := io.ReadFull(resp.Body, sent); err != nil || !bytes.Equal(sent, body[:len(sent)]) {
				t.Errorf("before the stall: %q, %v", sent, err)
			}
			close(gate)
			if rest, err := io.ReadAll(resp.Body); err != nil || len(sent)+len(rest) != len(body) {
				t.Errorf("after the stall: %d bytes, %v", len(rest), err)
			}
			s.Inject(Fault{Kind: kind, At: 10, Delay: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, _, err := getCtx(ctx, c, "a", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("get: %v, want DeadlineExceeded", err)
			}
		})
	}
}

func TestResetConnection(t *testing.T) {
	s := start(t, Options{})
	in := s.Inject(Fault{Kind: ResetConnection, Times: 1})
	now := time.Now()
	r := signedRequest(t, s, http.MethodPut, "/a", "x", now, now.Add(time.Hour), "Content-Length", "1")
	resp, err := (&http.Transport{}).RoundTrip(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("put: %v, want a reset", err)
	}
	if in.Hits() != 1 || len(s.Keys()) != 0 {
		t.Errorf("%d hits, stored %v", in.Hits(), s.Keys())
	}
}

func TestCloseLetsGoOfHeldAnswers(t *testing.T) {
	s, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, s)
	s.Store(Object{Key: "a", Data: body})
	in := s.Inject(Fault{Kind: SlowHeaders, Delay: time.Hour})
	done := make(chan error)
	go func() {
		_, _, err := get(t, c, "a", nil)
		done <- err
	}()
	<-in.Hit()
	s.Close()
	s.Close()
	if err := <-done; err == nil {
		t.Error("get: no error after Close")
	}
	if _, _, err := get(t, c, "a", nil); err == nil {
		t.Error("the server answers after Close")
	}
}

// raw sends a PUT by hand: a body that does not fit its Content-Length.
func raw(t *testing.T, s *Server, key string, length int, sent string) string {
	t.Helper()
	now := time.Now()
	r := signedRequest(t, s, http.MethodPut, "/"+key, "", now, now.Add(time.Hour), "Content-Length", strconv.Itoa(length))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "PUT /%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nAuthorization: %s\r\n\r\n%s",
		key, r.Host, length, r.Header.Get("Authorization"), sent)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return resp.Status
}

func TestBodyThatDoesNotFitItsLength(t *testing.T) {
	s := start(t, Options{})
	if got := raw(t, s, "long", 3, "abcdef"); got != "200 OK" {
		t.Errorf("long body: %s", got)
	}
	if o, _ := s.Object("long"); string(o.Data) != "abc" {
		t.Errorf("long body: stored %q, want it cut", o.Data)
	}
	raw(t, s, "short", 6, "abc")
	if _, ok := s.Object("short"); ok {
		t.Error("a body that broke off was stored")
	}
}

func TestLogKeepsNoSecret(t *testing.T) {
	s := start(t, Options{Token: "the-token"})
	c := client(t, s)
	mustPut(t, c, "a", body, "x-cos-meta-a", "1")
	u, err := c.Object.GetPresignedURL(t.Context(), http.MethodGet, "a", s.SecretID, s.SecretKey, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	plainGet(t, u.String()+"&x-cos-security-token=the-token")
	all := s.Requests()
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, "the-token") || strings.Contains(text, "q-signature") {
		t.Errorf("log: %s", text)
	}
	e := all[0]
	got := Request{Method: e.Method, Op: e.Op, Key: e.Key, Host: e.Host, BodyBytes: e.BodyBytes, Status: e.Status, Code: e.Code}
	want := Request{Method: "PUT", Op: PutObject, Key: "a", Host: strings.TrimPrefix(s.URL, "http://"), BodyBytes: 5000, Status: 200}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if e.ID == "" || e.Time.IsZero() || e.RemoteAddr == "" || e.Header.Get("x-cos-meta-a") != "1" || e.Header.Get(hdrToken) != tokenKept {
		t.Errorf("entry = %+v", e)
	}
	if s.Count(PutObject, "a") != 1 || s.Count("", "a") != 2 || s.Count(PutObject, "b") != 0 || s.Count("", "") != 2 {
		t.Error("Count does not count the log")
	}
	s.ClearLog()
	if len(s.Requests()) != 0 {
		t.Error("ClearLog leaves entries")
	}
}

func TestLogLimit(t *testing.T) {
	s := start(t, Options{LogEntries: 2})
	c := client(t, s)
	for _, key := range []string{"a", "b", "c"} {
		mustPut(t, c, key, nil)
	}
	if all := s.Requests(); len(all) != 2 || all[0].Key != "b" || all[1].Key != "c" {
		t.Errorf("log = %+v, want b and c", all)
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body)
	for range 10 {
		if _, _, err := get(t, c, "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("connections = %d, want 1 that is reused", n)
	}
	if n := s.OpenConnections(); n != 1 {
		t.Errorf("open connections = %d, want 1", n)
	}
	mustPut(t, client(t, s), "b", body)
	if n := s.Connections(); n != 2 {
		t.Errorf("connections = %d, want 2", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	const writers = 20
	s.Inject(Fault{Kind: SlowDown, Op: PutObject, Key: "once", Times: 3})
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]int{}
	for i := range writers {
		wg.Go(func() {
			_, err := put(t, c, "once", body, hdrForbid, "true")
			_, code := refusal(err)
			mu.Lock()
			codes[code]++
			mu.Unlock()
			key := fmt.Sprintf("own/%02d", i)
			if _, err := put(t, c, key, body); err != nil {
				t.Error(err)
			}
			if data, _, err := get(t, c, key, nil); err != nil || !bytes.Equal(data, body) {
				t.Errorf("%s: other data or %v", key, err)
			}
			if _, _, err := c.Bucket.Get(t.Context(), &cos.BucketGetOptions{Prefix: "own/"}); err != nil {
				t.Error(err)
			}
			s.Advance(time.Second)
			_ = s.Requests()
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[string]int{"": 1, "SlowDown": 3, "FileAlreadyExists": writers - 4}, codes); diff != "" {
		t.Errorf("writers of one key (-want +got):\n%s", diff)
	}
}
