package cosfake

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tencentyun/cos-go-sdk-v5"
)

// listAll pages through a list as a client has to, and returns keys and common
// prefixes in the order of the pages.
func listAll(t *testing.T, c *cos.Client, opt cos.BucketGetOptions) (keys, prefixes []string, pages int) {
	t.Helper()
	opt.EncodingType = "url"
	decode := func(s string) string {
		t.Helper()
		d, err := cos.DecodeURIComponent(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for {
		res, _, err := c.Bucket.Get(t.Context(), &opt)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, o := range res.Contents {
			keys = append(keys, decode(o.Key))
		}
		for _, p := range res.CommonPrefixes {
			prefixes = append(prefixes, decode(p))
		}
		if !res.IsTruncated {
			return keys, prefixes, pages
		}
		opt.Marker = decode(res.NextMarker)
	}
}

func TestList(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	for _, key := range []string{"a", "b/1", "b/2", "b/c/3", "b0", "c/4", "d"} {
		s.Store(Object{Key: key, Data: []byte(key)})
	}
	for _, test := range []struct {
		name     string
		opt      cos.BucketGetOptions
		keys     []string
		prefixes []string
		pages    int
	}{
		{"all", cos.BucketGetOptions{}, []string{"a", "b/1", "b/2", "b/c/3", "b0", "c/4", "d"}, nil, 1},
		{"prefix", cos.BucketGetOptions{Prefix: "b/"}, []string{"b/1", "b/2", "b/c/3"}, nil, 1},
		{"prefix of no folder", cos.BucketGetOptions{Prefix: "b"}, []string{"b/1", "b/2", "b/c/3", "b0"}, nil, 1},
		{"nothing", cos.BucketGetOptions{Prefix: "x"}, nil, nil, 1},
		{"marker", cos.BucketGetOptions{Marker: "b/2"}, []string{"b/c/3", "b0", "c/4", "d"}, nil, 1},
		{"delimiter", cos.BucketGetOptions{Delimiter: "/"}, []string{"a", "b0", "d"}, []string{"b/", "c/"}, 1},
		{"delimiter below a prefix", cos.BucketGetOptions{Delimiter: "/", Prefix: "b/"}, []string{"b/1", "b/2"}, []string{"b/c/"}, 1},
		{"pages", cos.BucketGetOptions{MaxKeys: 2}, []string{"a", "b/1", "b/2", "b/c/3", "b0", "c/4", "d"}, nil, 4},
		{"pages of one", cos.BucketGetOptions{MaxKeys: 1, Delimiter: "/"}, []string{"a", "b0", "d"}, []string{"b/", "c/"}, 5},
		{"a last page that is full", cos.BucketGetOptions{MaxKeys: 7}, []string{"a", "b/1", "b/2", "b/c/3", "b0", "c/4", "d"}, nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			keys, prefixes, pages := listAll(t, c, test.opt)
			if diff := cmp.Diff(test.keys, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.prefixes, prefixes); diff != "" {
				t.Errorf("prefixes (-want +got):\n%s", diff)
			}
			if pages != test.pages {
				t.Errorf("pages = %d, want %d", pages, test.pages)
			}
		})
	}
}

func TestListEntry(t *testing.T) {
	s := start(t, Options{})
	s.Store(Object{Key: "a", Data: []byte("[Object Content]"), StorageClass: "ARCHIVE"})
	res, _, err := client(t, s).Bucket.Get(t.Context(), &cos.BucketGetOptions{})
	if err != nil || len(res.Contents) != 1 {
		t.Fatalf("list = %+v, %v", res, err)
	}
	o := res.Contents[0]
	if _, err := time.Parse(time.RFC3339, o.LastModified); err != nil {
		t.Error(err)
	}
	got := []any{o.Key, o.Size, o.ETag, o.StorageClass, res.Name, res.MaxKeys}
	want := []any{"a", int64(16), `"ee8de918d05640145b18f70f4c3aa602"`, "ARCHIVE", s.Bucket, 1000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

func TestListOfMoreThanAThousand(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	var want []string
	for i := range 2005 {
		key := fmt.Sprintf("k/%05d", i)
		want = append(want, key)
		s.Store(Object{Key: key})
	}
	res, _, err := c.Bucket.Get(t.Context(), &cos.BucketGetOptions{MaxKeys: 5000})
	if err != nil || len(res.Contents) != 1000 || !res.IsTruncated || res.MaxKeys != 1000 {
		t.Errorf("first page: %d keys, truncated %v, max %d, %v", len(res.Contents), res.IsTruncated, res.MaxKeys, err)
	}
	if keys, _, pages := listAll(t, c, cos.BucketGetOptions{Prefix: "k/"}); pages != 3 || !slices.Equal(keys, want) {
		t.Errorf("%d keys on %d pages, want all on 3", len(keys), pages)
	}
}

func TestKeysThatNeedEscaping(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	want := []string{"a b", "a%2Fb", "a&b<c>\"'", "a+b", "a/ü/漢字", "a;b=c?d#e", "a\x01b", "a\nb", "a\tb"}
	slices.Sort(want)
	for _, key := range want {
		mustPut(t, c, key, []byte(key))
		if data, _, err := get(t, c, key, nil); err != nil || string(data) != key {
			t.Errorf("get %q = %q, %v", key, data, err)
		}
	}
	if diff := cmp.Diff(want, s.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	keys, _, _ := listAll(t, c, cos.BucketGetOptions{MaxKeys: 1})
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	// Without encoding-type=url, a key with a control character breaks the list
	// and does not become another key.
	if _, _, err := c.Bucket.Get(t.Context(), &cos.BucketGetOptions{}); err == nil || !strings.Contains(err.Error(), "XML") {
		t.Errorf("plain list: %v, want an XML error", err)
	}
	s.Remove("a\x01b")
	res, _, err := c.Bucket.Get(t.Context(), &cos.BucketGetOptions{})
	if err != nil || len(res.Contents) != len(want)-1 {
		t.Fatalf("plain list: %d keys, %v", len(res.Contents), err)
	}
	for i, key := range slices.DeleteFunc(want, func(k string) bool { return k == "a\x01b" }) {
		if res.Contents[i].Key != key {
			t.Errorf("plain list: %q, want %q", res.Contents[i].Key, key)
		}
	}
}

func TestListRefusals(t *testing.T) {
	s := start(t, Options{})
	now := time.Now()
	for _, query := range []string{"max-keys=-1", "max-keys=x", "encoding-type=base64"} {
		if status, code := code(t, signedRequest(t, s, "GET", "/?"+query, "", now, now.Add(time.Hour))); status != 400 || code != "InvalidArgument" {
			t.Errorf("%s: %d %s, want 400 InvalidArgument", query, status, code)
		}
	}
}

func TestListThatLags(t *testing.T) {
	s := start(t, Options{})
	c := client(t, s)
	want := func(want ...string) {
		t.Helper()
		keys, _, _ := listAll(t, c, cos.BucketGetOptions{})
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
	}
	mustPut(t, c, "old", body)
	s.Advance(time.Minute)
	s.SetListLag(time.Minute)
	mustPut(t, c, "new", body)
	want("old")
	if _, _, err := get(t, c, "new", nil); err != nil {
		t.Errorf("get of what no list shows yet: %v", err)
	}
	if _, err := c.Object.Delete(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	want("old")
	s.Advance(time.Minute)
	want("new")
	s.SetVersioning("Enabled")
	if _, err := c.Object.Delete(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	want("new") // under a delete marker since a moment
	s.SetListLag(0)
	want()
}
