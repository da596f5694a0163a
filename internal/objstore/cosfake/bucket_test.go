package cosfake

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tencentyun/cos-go-sdk-v5"
)

func TestForbidOverwriteByVersioning(t *testing.T) {
	for _, test := range []struct {
		versioning string
		status     int
		code       string
		want       string
	}{
		{"", 409, "FileAlreadyExists", "one"},
		{"Enabled", 0, "", "two"},   // the header counts for nothing
		{"Suspended", 0, "", "two"}, // neither here
	} {
		t.Run("versioning "+test.versioning, func(t *testing.T) {
			s := start(t, Options{Versioning: test.versioning})
			c := client(t, s)
			mustPut(t, c, "a", []byte("one"), hdrForbid, "true")
			_, err := put(t, c, "a", []byte("two"), hdrForbid, "true")
			wantRefusal(t, err, test.status, test.code)
			if o, _ := s.Object("a"); string(o.Data) != test.want {
				t.Errorf("object = %q, want %q", o.Data, test.want)
			}
			mustPut(t, c, "a", []byte("three")) // unprotected without the header
			if o, _ := s.Object("a"); string(o.Data) != "three" {
				t.Errorf("object = %q, want three", o.Data)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	if h := mustPut(t, c, "a", []byte("null 1")); h.Get(hdrVersion) != "" {
		t.Errorf("version id %q without versioning", h.Get(hdrVersion))
	}
	if _, err := c.Bucket.PutVersioning(t.Context(), &cos.BucketPutVersionOptions{Status: "Enabled"}); err != nil {
		t.Fatal(err)
	}
	if v, _, err := c.Bucket.GetVersioning(t.Context()); err != nil || v.Status != "Enabled" {
		t.Fatalf("versioning = %+v, %v", v, err)
	}
	one := mustPut(t, c, "a", []byte("one")).Get(hdrVersion)
	two := mustPut(t, c, "a", []byte("two")).Get(hdrVersion)
	if one == "" || one == two || one == "null" {
		t.Fatalf("version ids %q and %q", one, two)
	}
	wantVersion := func(id, want string) {
		t.Helper()
		var ids []string
		if id != "" {
			ids = []string{id}
		}
		data, h, err := get(t, c, "a", nil, ids...)
		if err != nil || string(data) != want || id != "" && h.Get(hdrVersion) != id {
			t.Errorf("version %q = %q of %q, %v, want %q", id, data, h.Get(hdrVersion), err, want)
		}
	}
	wantVersion("", "two")
	wantVersion(one, "one")
	wantVersion("null", "null 1")
	_, _, err := get(t, c, "a", nil, "none")
	wantRefusal(t, err, 404, "NoSuchVersion")
	_, _, err = get(t, c, "none", nil, "none")
	wantRefusal(t, err, 404, "NoSuchKey")

	resp, err := c.Object.Delete(t.Context(), "a")
	if err != nil || resp.Header.Get(hdrMarker) != "true" || resp.Header.Get(hdrVersion) == "" {
		t.Fatalf("delete: %v, %v", resp.Header, err)
	}
	marker := resp.Header.Get(hdrVersion)
	headResp, err := c.Object.Head(t.Context(), "a", nil)
	wantRefusal(t, err, 404, "")
	if headResp.Header.Get(hdrMarker) != "true" {
		t.Error("HEAD does not tell of the delete marker")
	}
	_, _, err = get(t, c, "a", nil, marker)
	wantRefusal(t, err, 405, "MethodNotAllowed")
	wantVersion(two, "two")
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("keys = %v under a delete marker", keys)
	}
	if _, err := c.Object.Delete(t.Context(), "a", &cos.ObjectDeleteOptions{VersionId: marker}); err != nil {
		t.Fatal(err)
	}
	wantVersion("", "two")
	if _, err := c.Object.Delete(t.Context(), "a", &cos.ObjectDeleteOptions{VersionId: two}); err != nil {
		t.Fatal(err)
	}
	wantVersion("", "one")

	s.SetVersioning("Suspended")
	if id := mustPut(t, c, "a", []byte("null 2")).Get(hdrVersion); id != "null" {
		t.Errorf("version id %q while suspended, want null", id)
	}
	wantVersion("", "null 2")
	wantVersion(one, "one")
	var ids []string
	for _, v := range s.Versions("a") {
		ids = append(ids, v.VersionID)
	}
	if diff := cmp.Diff([]string{one, "null"}, ids); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	_, err = c.Bucket.PutVersioning(t.Context(), &cos.BucketPutVersionOptions{Status: "Off"})
	wantRefusal(t, err, 400, "MalformedXML")
}

func TestRangesAndConditions(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	h := mustPut(t, c, "a", []byte("0123456789"))
	etag := h.Get("Etag")
	mustPut(t, c, "empty", nil)
	for _, test := range []struct {
		name   string
		key    string
		opt    cos.ObjectGetOptions
		want   string
		rng    string
		status int
		code   string
	}{
		{name: "first", opt: cos.ObjectGetOptions{Range: "bytes=0-0"}, want: "0", rng: "bytes 0-0/10"},
		{name: "middle", opt: cos.ObjectGetOptions{Range: "bytes=3-5"}, want: "345", rng: "bytes 3-5/10"},
		{name: "open", opt: cos.ObjectGetOptions{Range: "bytes=8-"}, want: "89", rng: "bytes 8-9/10"},
		{name: "last", opt: cos.ObjectGetOptions{Range: "bytes=-2"}, want: "89", rng: "bytes 8-9/10"},
		{name: "last of more than there is", opt: cos.ObjectGetOptions{Range: "bytes=-99"}, want: "0123456789", rng: "bytes 0-9/10"},
		{name: "more than there is", opt: cos.ObjectGetOptions{Range: "bytes=8-99"}, want: "89", rng: "bytes 8-9/10"},
		{name: "behind the end", opt: cos.ObjectGetOptions{Range: "bytes=10-"}, status: 416, code: "InvalidRange"},
		{name: "backwards", opt: cos.ObjectGetOptions{Range: "bytes=5-3"}, status: 416, code: "InvalidRange"},
		{name: "none", opt: cos.ObjectGetOptions{Range: "bytes=x"}, status: 416, code: "InvalidRange"},
		{name: "of nothing", key: "empty", opt: cos.ObjectGetOptions{Range: "bytes=0-0"}, status: 416, code: "InvalidRange"},
		{name: "same etag", opt: cos.ObjectGetOptions{XOptionHeader: &http.Header{"If-Match": {etag}}}, want: "0123456789"},
		{name: "other etag", opt: cos.ObjectGetOptions{XOptionHeader: &http.Header{"If-Match": {`"x"`}}}, status: 412, code: "PreconditionFailed"},
		{name: "not modified", opt: cos.ObjectGetOptions{XOptionHeader: &http.Header{"If-None-Match": {etag}}}, status: 304},
		{name: "not since", opt: cos.ObjectGetOptions{IfModifiedSince: "Fri, 01 Jan 2999 00:00:00 GMT"}, status: 304},
		{name: "since", opt: cos.ObjectGetOptions{XOptionHeader: &http.Header{"If-Unmodified-Since": {"Sat, 01 Jan 2000 00:00:00 GMT"}}}, status: 412, code: "PreconditionFailed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := test.key
			if key == "" {
				key = "a"
			}
			data, h, err := get(t, c, key, &test.opt)
			wantRefusal(t, err, test.status, test.code)
			if test.status == 0 && (string(data) != test.want || h.Get("Content-Range") != test.rng) {
				t.Errorf("get = %q, %q, want %q, %q", data, h.Get("Content-Range"), test.want, test.rng)
			}
		})
	}
}

func TestColdStorage(t *testing.T) {
	for _, test := range []struct {
		class, tier string
		takes       time.Duration
		code        string
	}{
		{"ARCHIVE", "Expedited", 5 * time.Minute, ""},
		{"ARCHIVE", "Standard", 5 * time.Hour, ""},
		{"ARCHIVE", "Bulk", 12 * time.Hour, ""},
		{"ARCHIVE", "Fast", 0, "InvalidArgument"},
		{"DEEP_ARCHIVE", "Expedited", 0, "InvalidArgument"},
		{"DEEP_ARCHIVE", "Standard", 24 * time.Hour, ""},
		{"DEEP_ARCHIVE", "Bulk", 48 * time.Hour, ""},
		{"STANDARD", "Standard", 0, "RestoreNonArchiveObject"},
		{"STANDARD_IA", "Standard", 0, "RestoreNonArchiveObject"},
	} {
		t.Run(test.class+" "+test.tier, func(t *testing.T) {
			s := start(t, Options{})
			c := client(t, s)
			mustPut(t, c, "a", body, hdrClass, test.class)
			restore := func() (int, error) {
				resp, err := c.Object.PostRestore(t.Context(), "a", &cos.ObjectRestoreOptions{Days: 3, Tier: &cos.CASJobParameters{Tier: test.tier}})
				return resp.StatusCode, err
			}
			header := func(want string) {
				t.Helper()
				resp, err := c.Object.Head(t.Context(), "a", nil) // works on a frozen object
				if err != nil {
					t.Fatal(err)
				}
				if got := resp.Header.Get(hdrRestore); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
					t.Errorf("x-cos-restore = %q, want %q", got, want)
				}
			}
			if test.code != "" {
				_, err := restore()
				if _, code := refusal(err); code != test.code {
					t.Errorf("restore: %s, want %s", code, test.code)
				}
				return
			}
			_, _, err := get(t, c, "a", nil)
			wantRefusal(t, err, 403, "InvalidObjectState")
			header("")
			if status, err := restore(); err != nil || status != 202 {
				t.Fatalf("restore: %d, %v", status, err)
			}
			_, err = restore()
			wantRefusal(t, err, 409, "RestoreAlreadyInProgress")
			s.Advance(test.takes - time.Second)
			header(`ongoing-request="true"`)
			_, _, err = get(t, c, "a", nil)
			wantRefusal(t, err, 403, "InvalidObjectState")
			s.Advance(time.Second)
			header(`ongoing-request="false", expiry-date="`)
			if data, _, err := get(t, c, "a", nil); err != nil || !bytes.Equal(data, body) {
				t.Errorf("get: other data or %v", err)
			}
			s.Advance(48 * time.Hour)
			if status, err := restore(); err != nil || status != 200 {
				t.Errorf("restore of what is restored: %d, %v", status, err)
			}
			s.Advance(48 * time.Hour) // beyond the first three days
			header(`ongoing-request="false"`)
			s.Advance(24 * time.Hour)
			header("")
			_, _, err = get(t, c, "a", nil)
			wantRefusal(t, err, 403, "InvalidObjectState")
		})
	}
}

func TestDaysOfARestore(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", body, hdrClass, "ARCHIVE")
	for _, days := range []int{-1, 366} {
		_, err := c.Object.PostRestore(t.Context(), "a", &cos.ObjectRestoreOptions{Days: days, Tier: &cos.CASJobParameters{Tier: "Bulk"}})
		wantRefusal(t, err, 400, "InvalidArgument")
	}
}

func TestObjectLock(t *testing.T) {
	s := start(t, Options{ObjectLock: true})
	c := client(t, s)
	at := func(days int) string { return s.Now().UTC().Add(time.Duration(days) * day).Format(lockLayout) }
	mustPut(t, c, "a", []byte("one"), hdrLockMode, "COMPLIANCE", hdrLockUntil, at(10))
	for _, bad := range [][]string{
		{hdrLockMode, "GOVERNANCE", hdrLockUntil, at(10)}, {hdrLockMode, "COMPLIANCE"}, {hdrLockUntil, at(10)},
		{hdrLockMode, "COMPLIANCE", hdrLockUntil, at(-1)}, {hdrLockMode, "COMPLIANCE", hdrLockUntil, at(36501)},
		{hdrLockMode, "COMPLIANCE", hdrLockUntil, "tomorrow"},
	} {
		_, err := put(t, c, "bad", nil, bad...)
		wantRefusal(t, err, 400, "InvalidArgument")
	}
	resp, err := c.Object.Head(t.Context(), "a", nil)
	if err != nil || resp.Header.Get(hdrLockMode) != "COMPLIANCE" || resp.Header.Get(hdrLockUntil) == "" {
		t.Errorf("head: %v, %v", resp.Header, err)
	}
	wantLocked := func() {
		t.Helper()
		_, err := put(t, c, "a", []byte("two"))
		wantRefusal(t, err, 403, "AccessDenied")
		_, err = c.Object.Delete(t.Context(), "a")
		wantRefusal(t, err, 403, "AccessDenied")
	}
	wantLocked()
	retain := func(until string) error {
		_, err := c.Object.PutRetention(t.Context(), "a", &cos.ObjectPutRetentionOptions{Mode: "COMPLIANCE", RetainUntilDate: until})
		return err
	}
	wantRefusal(t, retain(at(9)), 403, "AccessDenied")
	wantRefusal(t, retain(at(20)), 0, "")
	got, _, err := c.Object.GetRetention(t.Context(), "a", nil)
	if err != nil || got.Mode != "COMPLIANCE" || got.RetainUntilDate != at(20)[:19]+got.RetainUntilDate[19:] {
		t.Errorf("retention = %+v, %v", got, err)
	}
	s.Advance(15 * day)
	wantLocked()
	s.Advance(5*day + time.Second)
	mustPut(t, c, "a", []byte("two"))
	_, _, err = c.Object.GetRetention(t.Context(), "a", nil)
	wantRefusal(t, err, 404, "NoSuchObjectLockConfiguration")
	if _, err := c.Object.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestObjectLockOfTheBucket(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	_, _, err := c.Bucket.GetObjectLockConfiguration(t.Context())
	wantRefusal(t, err, 404, "ObjectLockConfigurationNotFoundError")
	_, err = c.Bucket.PutObjectLockConfiguration(t.Context(), &cos.BucketPutObjectLockOptions{ObjectLockEnabled: "Enabled", Rule: &cos.ObjectLockRule{Days: 7}})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := c.Bucket.GetObjectLockConfiguration(t.Context())
	if err != nil || got.ObjectLockEnabled != "Enabled" || got.Rule == nil || got.Rule.Days != 7 {
		t.Errorf("configuration = %+v, %v", got, err)
	}
	mustPut(t, c, "a", nil)
	if o, _ := s.Object("a"); o.RetainUntil.Sub(s.Now()).Round(time.Hour) != 7*day {
		t.Errorf("retained until %v, want 7 days", o.RetainUntil)
	}
	_, err = c.Bucket.PutObjectLockConfiguration(t.Context(), &cos.BucketPutObjectLockOptions{ObjectLockEnabled: "Disabled"})
	wantRefusal(t, err, 400, "InvalidArgument")
	_, err = c.Bucket.PutVersioning(t.Context(), &cos.BucketPutVersionOptions{Status: "Suspended"})
	wantRefusal(t, err, 409, "InvalidBucketState")
}

func TestObjectLockWithVersions(t *testing.T) {
	s := start(t, Options{ObjectLock: true, Versioning: "Enabled"})
	c := client(t, s)
	until := s.Now().UTC().Add(day).Format(lockLayout)
	id := mustPut(t, c, "a", []byte("one"), hdrLockMode, "COMPLIANCE", hdrLockUntil, until).Get(hdrVersion)
	mustPut(t, c, "a", []byte("two")) // on top, which takes nothing away
	if _, err := c.Object.Delete(t.Context(), "a"); err != nil {
		t.Errorf("delete marker: %v", err)
	}
	_, err := c.Object.Delete(t.Context(), "a", &cos.ObjectDeleteOptions{VersionId: id})
	wantRefusal(t, err, 403, "AccessDenied")
	if data, _, err := get(t, c, "a", nil, id); err != nil || string(data) != "one" {
		t.Errorf("locked version = %q, %v", data, err)
	}
}

// What was locked before versioning was enabled is the version "null", which
// only a write or a delete while versioning is suspended would take away.
func TestObjectLockOfTheNullVersion(t *testing.T) {
	s := start(t, Options{ObjectLock: true})
	c := client(t, s)
	mustPut(t, c, "a", []byte("one"), hdrLockMode, "COMPLIANCE", hdrLockUntil, s.Now().UTC().Add(day).Format(lockLayout))
	s.SetVersioning("Enabled")
	mustPut(t, c, "a", []byte("two"))
	s.SetVersioning("Suspended")
	_, err := put(t, c, "a", []byte("three"))
	wantRefusal(t, err, 403, "AccessDenied")
	_, err = c.Object.Delete(t.Context(), "a")
	wantRefusal(t, err, 403, "AccessDenied")
	if all := s.Versions("a"); len(all) != 2 || string(all[0].Data) != "one" {
		t.Errorf("versions = %d, want the locked one and the one on top", len(all))
	}
}

func TestCopyOntoItself(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	const key = "dir/ä b"
	mustPut(t, c, key, body, "x-cos-meta-a", "1", "x-cos-tagging", "k=v")
	source := strings.TrimPrefix(s.URL, "http://") + "/" + key
	copyTo := func(name, directive, class string) error {
		_, _, err := c.Object.Copy(t.Context(), name, source, &cos.ObjectCopyOptions{ObjectCopyHeaderOptions: &cos.ObjectCopyHeaderOptions{
			XCosMetadataDirective: directive, XCosStorageClass: class, XCosMetaXXX: &http.Header{"x-cos-meta-a": {"2"}},
		}})
		return err
	}
	wantRefusal(t, copyTo(key, "", "ARCHIVE"), 400, "InvalidRequest")
	wantRefusal(t, copyTo("b", "Copy", ""), 0, "")
	if o, _ := s.Object("b"); o.Meta["a"] != "1" || !bytes.Equal(o.Data, body) || o.Tags["k"] != "v" {
		t.Errorf("copy = %v, %v", o.Meta, o.Tags)
	}
	wantRefusal(t, copyTo(key, "Replaced", "ARCHIVE"), 0, "")
	if o, _ := s.Object(key); o.Meta["a"] != "2" || o.StorageClass != "ARCHIVE" || o.CRC64 != CRC64(body) {
		t.Errorf("copy onto itself = %v, %s", o.Meta, o.StorageClass)
	}
	wantRefusal(t, copyTo("c", "", ""), 403, "InvalidObjectState")
	source = strings.TrimPrefix(s.URL, "http://") + "/none"
	wantRefusal(t, copyTo("c", "", ""), 404, "NoSuchKey")
}

func TestTagging(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	mustPut(t, c, "a", nil)
	_, err := c.Object.PutTagging(t.Context(), "a", &cos.ObjectPutTaggingOptions{TagSet: []cos.ObjectTaggingTag{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := c.Object.GetTagging(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cos.ObjectTaggingTag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, got.TagSet); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	_, err = c.Object.PutTagging(t.Context(), "a", &cos.ObjectPutTaggingOptions{TagSet: []cos.ObjectTaggingTag{{Key: "a"}, {Key: "a"}}})
	wantRefusal(t, err, 400, "InvalidTag")
	if _, err := c.Object.DeleteTagging(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if o, _ := s.Object("a"); len(o.Tags) != 0 {
		t.Errorf("tags = %v after deleting them", o.Tags)
	}
}

func TestEncryption(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	h := mustPut(t, c, "kms", body, hdrSSE, "cos/kms", hdrSSEKey, "key-1")
	plain := mustPut(t, c, "plain", body)
	if h.Get(hdrSSE) != "cos/kms" || h.Get(hdrSSEKey) != "key-1" || h.Get("Etag") == plain.Get("Etag") {
		t.Errorf("answer = %v, want the encryption and an ETag that is no MD5", h)
	}
	if h.Get(hdrCRC) != plain.Get(hdrCRC) {
		t.Error("the checksum is not that of the plain bytes")
	}
}

func TestStateForTests(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	put := s.Store(Object{
		Key: "a", Data: body, ContentType: "application/gzip", Meta: map[string]string{"sha256": "x"}, Tags: map[string]string{"k": "v"},
		StorageClass: "STANDARD",
	})
	got, ok := s.Object("a")
	if diff := cmp.Diff(put, got); !ok || diff != "" {
		t.Errorf("object (-stored +got):\n%s", diff)
	}
	crc := func() (data []byte, header string) {
		t.Helper()
		data, h, err := get(t, c, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		return data, h.Get(hdrCRC)
	}
	s.Damage("a", 7)
	if data, header := crc(); bytes.Equal(data, body) || header != fmt.Sprint(CRC64(body)) || len(data) != len(body) {
		t.Error("Damage: the byte is not damaged under its old checksum")
	}
	s.Replace("a", []byte("other"))
	if data, header := crc(); string(data) != "other" || header != fmt.Sprint(CRC64([]byte("other"))) {
		t.Error("Replace: not other bytes with their own checksum")
	}
	s.SetCRC64("a", 1)
	if _, header := crc(); header != "1" {
		t.Error("SetCRC64: the checksum is another")
	}
	s.SetStorageClass("a", "ARCHIVE")
	_, _, err := get(t, c, "a", nil)
	wantRefusal(t, err, 403, "InvalidObjectState")
	s.SetStorageClass("a", "STANDARD")
	if o, _ := s.Object("a"); o.StorageClass != "" || o.Meta["sha256"] != "x" {
		t.Errorf("object = %+v", o)
	}
	s.Remove("a")
	if _, ok := s.Object("a"); ok || len(s.Versions("a")) != 0 {
		t.Error("Remove leaves something")
	}
}

func TestOptions(t *testing.T) {
	for name, opts := range map[string]Options{
		"half a pair": {SecretID: "x"}, "other half": {SecretKey: "x"}, "versioning": {Versioning: "on"},
	} {
		if s, err := Start(opts); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
	for _, addr := range []string{"0.0.0.0:0", ":0", "example.com:80", "127.0.0.1", "[::]:0"} {
		if s, err := StartAt(addr, Options{}); err == nil {
			s.Close()
			t.Errorf("StartAt(%q): no error", addr)
		}
	}
}
