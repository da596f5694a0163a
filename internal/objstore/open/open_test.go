package open

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
	"github.com/hyapp/walletarchive/internal/objstore/credentials"
	"github.com/hyapp/walletarchive/internal/objstore/storetest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ url, want string }{
		{"", "neither file"},
		{"/just/a/path", "neither file"},
		{"s3://bucket-1", "neither file"},
		{"http://127.0.0.1:9000", "neither file"},
		{"file:relative", "file:// and not file:"},
		{"file://relative/path", "three slashes"},
		{"file:///dir?create=1", "takes no parameters"},
		{"file:///dir#x", "%23"},
		{"file:///dir#", "%23"},
		{"file://", "absolute"},
		{"file:///a%00b", "NUL"},
		{"file:///%zz", "cannot be read"},
		{"file://user:hidden@/dir", "never part of a URL"},
		{"file://" + dir + "/absent", "does not exist"},
		{"cos:archive-1250000000", "cos:// and not cos:"},
		{"cos://archive-1250000000", "region is missing"},
		{"cos://archive?region=ap-guangzhou", "appid"},
		{"cos://?region=ap-guangzhou", "appid"},
		{"cos://archive-1250000000:443?region=ap-guangzhou", "appid"},
		{"cos://id:hidden@archive-1250000000?region=ap-guangzhou", "never part of a URL"},
		{"cos://id:hidden@archive-1250000000%zz?region=ap-guangzhou", "cannot be read"},
		{"cos://archive-1250000000?region=ap-guangzhou&secret_key=x", `unknown parameter "secret_key"`},
		{"cos://archive-1250000000?Region=ap-guangzhou", `unknown parameter "Region"`},
		{"cos://archive-1250000000?region=a&region=b", "one value"},
		{"cos://archive-1250000000?region=", "one value"},
		{"cos://archive-1250000000?region=ap-guangzhou;x", "cannot be read"},
		{"cos://archive-1250000000/a//b?region=ap-guangzhou", "prefix"},
		{"cos://archive-1250000000/a/../b?region=ap-guangzhou", "prefix"},
		{"cos://archive-1250000000?endpoint=http://192.0.2.1", "in the clear"},
		{"cos://archive-1250000000?endpoint=http://localhost:9000", "in the clear"},
		{"cos://archive-1250000000?endpoint=http://id:hidden@127.0.0.1", "never part of a URL"},
	} {
		t.Run(test.url, func(t *testing.T) {
			s, _, err := Open(t.Context(), test.url, Options{})
			if !errors.Is(err, objstore.ErrConfig) || s != nil || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("Open = %v, %v, want ErrConfig with %q", s, err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), "hidden") {
				t.Errorf("Open shows a secret: %v", err)
			}
			if err := Check(test.url); test.want != "does not exist" && !errors.Is(err, objstore.ErrConfig) {
				t.Errorf("Check = %v, want ErrConfig", err)
			}
		})
	}
}

func TestCheckPut(t *testing.T) {
	const bucket, dir = "cos://archive-1250000000?region=ap-guangzhou", "file:///dir"
	for _, test := range []struct {
		url  string
		opts objstore.PutOptions
		want string // "" for none
	}{
		{bucket, objstore.PutOptions{StorageClass: "MAZ_STANDARD", SSE: "kms:key", Tags: map[string]string{"a": "b"}, RetainUntil: time.Unix(1, 0)}, ""},
		{bucket, objstore.PutOptions{StorageClass: "GLACIER"}, "storage class"},
		{bucket, objstore.PutOptions{SSE: "kms:"}, "encryption"},
		{dir, objstore.PutOptions{ContentType: "text/plain", StorageClass: "STANDARD"}, ""},
		{dir, objstore.PutOptions{RetainUntil: time.Unix(1, 0)}, "no object lock"},
		{dir, objstore.PutOptions{Tags: map[string]string{"a": "b"}}, "no tags"},
		{"s3://x", objstore.PutOptions{}, "neither file"},
	} {
		if got, want := IsBucket(test.url), test.url == bucket; got != want {
			t.Errorf("IsBucket(%s) = %v", test.url, got)
		}
		err := CheckPut(test.url, test.opts)
		if test.want == "" && err == nil {
			continue
		}
		if test.want == "" || !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("CheckPut(%s, %+v) = %v, want %q", test.url, test.opts, err, test.want)
		}
	}
}

func TestOpenFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space", "new")
	raw := "file://" + strings.ReplaceAll(dir, " ", "%20")
	if err := Check(raw); err != nil {
		t.Error(err)
	}
	s, prefix, err := Open(t.Context(), raw+"/", Options{Create: true})
	if err != nil || prefix != "" {
		t.Fatalf("Open = %q, %v", prefix, err)
	}
	body := "x"
	if _, _, err := s.Put(t.Context(), "key", strings.NewReader(body), 1, manifest.SumHash([]byte(body)), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "key")); err != nil || string(b) != body {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if s.URL() != raw {
		t.Errorf("URL() = %q, want %q", s.URL(), raw)
	}
	if again, _, err := Open(t.Context(), s.URL(), Options{}); err != nil || again.URL() != raw {
		t.Errorf("Open(URL()) = %v", err)
	}
}

func TestOpenCOS(t *testing.T) {
	for _, test := range []struct{ url, prefix string }{
		{"cos://archive-1250000000?region=ap-guangzhou", ""},
		{"cos://archive-1250000000/?region=ap-guangzhou", ""},
		{"cos://archive-1250000000/wallet/outbox/?region=ap-guangzhou", "wallet/outbox"},
		{"cos://archive-1250000000/a%20b?region=ap-beijing-1", "a b"},
		{"cos://archive-1250000000/p?endpoint=http://127.0.0.1:9000", "p"},
		{"cos://archive-1250000000?endpoint=https%3A%2F%2Farchive.example.com&region=ap-guangzhou", ""},
	} {
		s, prefix, err := Open(t.Context(), test.url, Options{})
		if err != nil || prefix != test.prefix {
			t.Errorf("Open(%s) = %q, %v, want %q", test.url, prefix, err, test.prefix)
			continue
		}
		if _, again, err := Open(t.Context(), s.URL(), Options{}); err != nil || again != "" {
			t.Errorf("Open(%s) = %q, %v", s.URL(), again, err)
		}
		if err := Check(test.url); err != nil {
			t.Errorf("Check(%s) = %v", test.url, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Open(ctx, "cos://archive-1250000000?region=ap-guangzhou", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want context.Canceled", err)
	}
}

// The chain finds the pair in the environment, and only when it is needed.
func TestOpenUsesTheChain(t *testing.T) {
	f, err := cosfake.Start(cosfake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	env := map[string]string{}
	opts := Options{CredentialOptions: credentials.Options{Getenv: func(k string) string { return env[k] }, Home: t.TempDir()}}
	raw := "cos://" + f.Bucket + "?region=" + f.Region + "&endpoint=" + f.URL
	s, _, err := Open(t.Context(), raw, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context(), "key", ""); !errors.Is(err, objstore.ErrConfig) || !strings.Contains(err.Error(), "TENCENTCLOUD_SECRET_ID") {
		t.Errorf("Head without credentials = %v, want ErrConfig that says where they belong", err)
	}
	env["TENCENTCLOUD_SECRET_ID"], env["TENCENTCLOUD_SECRET_KEY"] = f.SecretID, f.SecretKey
	if _, err := s.Head(t.Context(), "key", ""); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Head = %v, want ErrNotExist", err)
	}
}

// A store below a prefix is a store: what the next test relies on.
func TestContractBelowAPrefix(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store {
		s, _, err := Open(t.Context(), "file://"+t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Put(t.Context(), "other", strings.NewReader(""), 0, manifest.SumHash(nil), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		return storetest.Below(s, "deep/er")
	}, storetest.Features{Folders: true, NoCRCOnGet: true, Objects: 20})
}

// TestContractOnCOS runs the suite on a real bucket. What it writes stays there,
// below a prefix of its own: use a bucket with a lifecycle rule.
func TestContractOnCOS(t *testing.T) {
	raw := os.Getenv("WALLETARCHIVE_TEST_COS_URL")
	if raw == "" {
		if strings.Contains(","+os.Getenv("WALLETARCHIVE_TEST_REQUIRE")+",", ",cos,") {
			t.Fatal("WALLETARCHIVE_TEST_REQUIRE asks for cos, and WALLETARCHIVE_TEST_COS_URL is not set")
		}
		t.Skip("WALLETARCHIVE_TEST_COS_URL is not set")
	}
	s, prefix, err := Open(t.Context(), raw, Options{})
	if err != nil {
		t.Fatal(err)
	}
	features := storetest.Features{SHA256: true}
	bucket, ok := s.(*cosstore.Store)
	if !ok {
		t.Fatalf("%s is no bucket", raw)
	}
	versioning, err := bucket.Versioning(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	features.Versions, features.NullVersion = versioning == cosstore.Enabled, versioning == cosstore.Suspended
	run := manifest.JoinPrefix(prefix, "storetest-"+time.Now().UTC().Format("20060102T150405.000"))
	n := 0
	storetest.Run(t, func(*testing.T) objstore.Store {
		n++
		return storetest.Below(s, fmt.Sprintf("%s/%02d", run, n))
	}, features)
}
