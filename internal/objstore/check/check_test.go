package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/internal/objstore/open"
)

// onFake checks a fake bucket with credentials from an environment of its own.
func onFake(t *testing.T, f *cosfake.Server, change func(env map[string]string)) []Line {
	t.Helper()
	env := map[string]string{"TENCENTCLOUD_SECRET_ID": f.SecretID, "TENCENTCLOUD_SECRET_KEY": f.SecretKey}
	if change != nil {
		change(env)
	}
	return Run(t.Context(), "cos://"+f.Bucket+"/some/prefix?region="+f.Region+"&endpoint="+f.URL, open.Options{
		CredentialOptions: credentials.Options{Getenv: func(k string) string { return env[k] }, Home: t.TempDir()},
		Sleep:             func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

func start(t *testing.T, opts cosfake.Options) *cosfake.Server {
	t.Helper()
	f, err := cosfake.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// outcome is the lines with another status than pass, as "name: status", and
// fails the test where a line is not complete.
func outcome(t *testing.T, f *cosfake.Server, lines []Line) []string {
	t.Helper()
	var not []string
	for i, l := range lines {
		if l.Name != names[i] {
			t.Errorf("line %d is %q, want %q", i, l.Name, names[i])
		}
		if l.Detail == "" || l.Status == Fail && l.Remedy == "" {
			t.Errorf("line %+v says too little", l)
		}
		if l.Status != Pass {
			not = append(not, l.Name+": "+string(l.Status))
		}
		if f != nil && strings.Contains(fmt.Sprint(l), f.SecretKey) {
			t.Errorf("line %q shows the secret key", l.Name)
		}
	}
	if OK(lines) != !strings.Contains(strings.Join(not, "\n"), "fail") {
		t.Errorf("OK = %v for %q", OK(lines), not)
	}
	return not
}

func find(lines []Line, name string) Line {
	for _, l := range lines {
		if l.Name == name {
			return l
		}
	}
	return Line{}
}

func TestHealthyBucket(t *testing.T) {
	for versioning, want := range map[string]string{"": "never enabled", "Enabled": "its id is recorded", "Suspended": "weakest"} {
		t.Run("versioning "+versioning, func(t *testing.T) {
			f := start(t, cosfake.Options{Versioning: versioning})
			lines := onFake(t, f, nil)
			for _, not := range outcome(t, f, lines) {
				if not != "region: not tried" { // the fake may not say where it is
					t.Errorf("%s: %+v", not, lines)
				}
			}
			if l := find(lines, Versioning); !strings.Contains(l.Detail, want) {
				t.Errorf("versioning: %+v, want %q", l, want)
			}
			if l := find(lines, Credentials); !strings.Contains(l.Detail, "TENCENTCLOUD_SECRET_ID") || strings.Contains(l.Detail, f.SecretID) {
				t.Errorf("credentials: %+v, want the source and no value", l)
			}
			if l := find(lines, Put); !strings.Contains(l.Detail, "some/prefix/"+ProbeFolder+"/") {
				t.Errorf("put: %+v, want it below a folder of its own", l)
			}
			if keys := f.Keys(); len(keys) != 0 {
				t.Errorf("left behind: %q", keys)
			}
		})
	}
}

var afterBucket = []string{"versioning: not tried", "object lock: not tried", "put: not tried", "write once: not tried", "head: not tried", "get: not tried", "list: not tried", "delete: not tried"}

func TestTroubles(t *testing.T) {
	denied := func(op cosfake.Op) func(*cosfake.Server) {
		return func(f *cosfake.Server) { f.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: op}) }
	}
	for _, test := range []struct {
		name    string
		options cosfake.Options
		trouble func(*cosfake.Server)
		env     func(map[string]string)
		want    []string // but for the region
		line    string   // and what it says, with its remedy
		says    []string
	}{
		{name: "no credentials", env: func(env map[string]string) { clear(env) },
			want: append([]string{"credentials: fail", "bucket: not tried", "clock: not tried"}, afterBucket...),
			line: Credentials, says: []string{"TENCENTCLOUD_SECRET_ID"}},
		{name: "half a pair", env: func(env map[string]string) { delete(env, "TENCENTCLOUD_SECRET_KEY") },
			want: append([]string{"credentials: fail", "bucket: not tried", "clock: not tried"}, afterBucket...),
			line: Credentials, says: []string{"TENCENTCLOUD_SECRET_KEY is not"}},
		{name: "wrong key", env: func(env map[string]string) { env["TENCENTCLOUD_SECRET_KEY"] = "wrong" },
			want: append([]string{"credentials: fail", "bucket: not tried", "clock: not tried"}, afterBucket...),
			line: Credentials, says: []string{"SignatureDoesNotMatch", "secret key does not belong"}},
		{name: "wrong id", env: func(env map[string]string) { env["TENCENTCLOUD_SECRET_ID"] = "unknown" },
			want: append([]string{"credentials: fail", "bucket: not tried", "clock: not tried"}, afterBucket...),
			line: Credentials, says: []string{"InvalidAccessKeyId", "does not know"}},
		{name: "clock", trouble: func(f *cosfake.Server) { f.SetClockSkew(-time.Hour) },
			want: append([]string{"bucket: not tried", "clock: fail"}, afterBucket...),
			line: Clock, says: []string{"ahead of COS", "NTP"}},
		{name: "clock that soon is too far off", trouble: func(f *cosfake.Server) { f.SetClockSkew(-6 * time.Minute) },
			want: []string{"clock: fail"}, line: Clock, says: []string{"ahead of COS", "NTP"}},
		{name: "no such bucket", trouble: func(f *cosfake.Server) { f.Bucket = "other-1250000000" },
			want: append([]string{"bucket: fail", "clock: not tried"}, afterBucket...),
			line: Bucket, says: []string{"no bucket other-1250000000"}},
		{name: "bucket may not be asked", trouble: denied(cosfake.HeadBucket),
			want: []string{"bucket: fail", "clock: not tried"}, line: Bucket, says: []string{"cos:HeadBucket"}},
		{name: "versioning may not be asked", trouble: denied(cosfake.GetBucketVersioning),
			want: []string{"versioning: fail", "put: fail", "write once: not tried", "head: not tried", "get: not tried", "list: not tried", "delete: not tried"},
			line: Versioning, says: []string{"cos:GetBucketVersioning"}},
		{name: "lock may not be asked", trouble: denied(cosfake.GetBucketObjectLockConfiguration),
			want: []string{"object lock: not tried"}, line: ObjectLock, says: []string{"only this line needs it"}},
		{name: "may not write", trouble: denied(cosfake.PutObject),
			want: []string{"put: fail", "write once: not tried", "head: not tried", "get: not tried", "list: not tried", "delete: not tried"},
			line: Put, says: []string{"cos:PutObject"}},
		{name: "may not read", trouble: denied(cosfake.GetObject),
			want: []string{"get: fail"}, line: Get, says: []string{"cos:GetObject"}},
		{name: "may not list", trouble: denied(cosfake.GetBucket),
			want: []string{"list: fail"}, line: List, says: []string{"cos:GetBucket"}},
		{name: "may not delete", trouble: denied(cosfake.DeleteObject),
			want: []string{"delete: fail"}, line: Delete, says: []string{"stays there", "cos:DeleteObject", "never delete"}},
		{name: "list lags", trouble: func(f *cosfake.Server) { f.SetListLag(time.Hour) },
			want: []string{"list: not tried"}, line: List, says: []string{"lag"}},
		{name: "no checksums", trouble: func(f *cosfake.Server) { f.Inject(cosfake.Fault{Kind: cosfake.MissingCRC, Op: cosfake.HeadObject}) },
			want: []string{"head: fail"}, line: Head, says: []string{"x-cos-hash-crc64ecma"}},
		{name: "flipped byte", trouble: func(f *cosfake.Server) { f.Inject(cosfake.Fault{Kind: cosfake.FlipByte}) },
			want: []string{"get: fail"}, line: Get, says: []string{"crc64_mismatch", "changes objects"}},
		{name: "objects can be locked", options: cosfake.Options{ObjectLock: true}, line: ObjectLock, says: []string{"when an export asks"}},
		{name: "passing trouble", trouble: func(f *cosfake.Server) {
			f.Inject(cosfake.Fault{Kind: cosfake.SlowDown, Times: 5})
			f.Inject(cosfake.Fault{Kind: cosfake.LoseAnswer, Op: cosfake.PutObject, Times: 1})
		}, line: Put, says: []string{"bytes as"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, test.options)
			if test.trouble != nil {
				test.trouble(f)
			}
			lines := onFake(t, f, test.env)
			var got []string
			for _, not := range outcome(t, f, lines) {
				if !strings.HasPrefix(not, "region: ") {
					got = append(got, not)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("lines that did not pass (-want +got):\n%s\n%+v", diff, lines)
			}
			l := find(lines, test.line)
			if want := test.name == "no credentials" || test.name == "half a pair"; l.Config != want {
				t.Errorf("Config = %v of %+v, want %v", l.Config, l, want)
			}
			for _, want := range test.says {
				if !strings.Contains(l.Detail+" | "+l.Remedy, want) {
					t.Errorf("%+v, want %q in it", l, want)
				}
			}
			if f.ClearFaults(); test.name != "may not delete" && len(f.Keys()) != 0 {
				t.Errorf("left behind: %q", f.Keys())
			}
		})
	}
}

// A bucket that locks every object would keep the probe for years.
func TestNothingIsWrittenUnderALock(t *testing.T) {
	f := start(t, cosfake.Options{ObjectLock: true})
	lockByDefault(t, f, 30)
	lines := onFake(t, f, nil)
	if n := f.Count(cosfake.PutObject, ""); n != 0 {
		t.Errorf("%d objects were put into a bucket that locks them", n)
	}
	if l := find(lines, Put); l.Status != NotTried || !strings.Contains(l.Detail, "locked for 30 days") {
		t.Errorf("put: %+v", l)
	}
	if !OK(lines) {
		t.Errorf("OK = false for a bucket in which all that was tried passed: %+v", lines)
	}
}

func lockByDefault(t *testing.T, f *cosfake.Server, days int) {
	t.Helper()
	pair, err := credentials.New(f.SecretID, f.SecretKey, f.Token, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := cos.NewClient(&cos.BaseURL{BucketURL: u}, &http.Client{Transport: &cos.CredentialTransport{Credential: pair.SDK()}})
	_, err = c.Bucket.PutObjectLockConfiguration(t.Context(), &cos.BucketPutObjectLockOptions{
		ObjectLockEnabled: "Enabled", Rule: &cos.ObjectLockRule{Days: days},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProbeGoesWhenCancelled(t *testing.T) {
	f := start(t, cosfake.Options{Versioning: "Enabled"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Op: cosfake.GetObject, Match: func(cosfake.Op, string, *http.Request) bool {
		cancel()
		return false
	}})
	env := map[string]string{"COS_SECRET_ID": f.SecretID, "COS_SECRET_KEY": f.SecretKey}
	lines := Run(ctx, "cos://"+f.Bucket+"?region="+f.Region+"&endpoint="+f.URL, open.Options{
		CredentialOptions: credentials.Options{Getenv: func(k string) string { return env[k] }, Home: t.TempDir()},
	})
	if l := find(lines, Get); l.Status != Fail || !strings.Contains(l.Detail, context.Canceled.Error()) {
		t.Errorf("get: %+v", l)
	}
	if l := find(lines, Delete); l.Status != Pass {
		t.Errorf("delete: %+v", l)
	}
	if keys := f.Keys(); len(keys) != 0 {
		t.Errorf("left behind: %q", keys)
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	lines := Run(t.Context(), "file://"+dir, open.Options{})
	want := []string{"credentials: not tried", "region: not tried", "clock: not tried", "versioning: not tried", "object lock: not tried"}
	if diff := cmp.Diff(want, outcome(t, nil, lines)); diff != "" {
		t.Errorf("lines that did not pass (-want +got):\n%s\n%+v", diff, lines)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	absent := Run(t.Context(), "file://"+filepath.Join(dir, "absent"), open.Options{})
	if l := find(absent, Bucket); l.Status != Fail || !l.Config || OK(absent) {
		t.Errorf("of a directory that is not there: %+v", l)
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the check made a directory: %v", err)
	}
}

func TestBadURL(t *testing.T) {
	lines := Run(t.Context(), "cos://id:hidden@archive-1250000000?region=ap-guangzhou", open.Options{})
	if l := find(lines, URL); l.Status != Fail || !l.Config || l.Remedy == "" || strings.Contains(fmt.Sprint(lines), "hidden") {
		t.Errorf("url: %+v", l)
	}
	if n := len(outcome(t, nil, lines)); n != len(names) {
		t.Errorf("%d lines did not pass, want all", n)
	}
}
