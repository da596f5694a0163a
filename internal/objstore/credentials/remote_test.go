package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noEnd time.Time

// now is the time of these tests.
var now = time.Date(2026, 10, 30, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// tke is the environment of a pod with an OIDC role.
func tke(t *testing.T, token string) map[string]string {
	t.Helper()
	return map[string]string{
		"TKE_REGION": "ap-guangzhou", "TKE_PROVIDER_ID": "provider", "TKE_ROLE_ARN": "qcs::cam::uin/1:roleName/r",
		"TKE_WEB_IDENTITY_TOKEN_FILE": writeFile(t, filepath.Join(t.TempDir(), "token"), token),
	}
}

func oidcChain(vars map[string]string, endpoint string) *Chain {
	return Default(Options{Getenv: func(name string) string { return vars[name] }, STSEndpoint: endpoint, Now: clock})
}

func TestOIDC(t *testing.T) {
	expires := now.Add(2 * time.Hour).Unix()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var got map[string]any
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		want := map[string]any{
			"ProviderId": "provider", "RoleArn": "qcs::cam::uin/1:roleName/r", "WebIdentityToken": "web-token",
			"RoleSessionName": fmt.Sprintf("walletarchive-%d", now.Unix()), "DurationSeconds": 7200.0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		for name, want := range map[string]string{
			"X-TC-Action": "AssumeRoleWithWebIdentity", "X-TC-Version": "2018-08-13", "X-TC-Region": "ap-guangzhou",
			"Authorization": "SKIP", "Content-Type": "application/json", "X-TC-Timestamp": fmt.Sprint(now.Unix()),
		} {
			if r.Header.Get(name) != want {
				t.Errorf("%s = %q, want %q", name, r.Header.Get(name), want)
			}
		}
		fmt.Fprintf(w, `{"Response":{"Credentials":{"Token":"t","TmpSecretId":"i","TmpSecretKey":"k"},"ExpiredTime":%d,"RequestId":"r"}}`, expires)
	})
	chain := oidcChain(tke(t, "web-token\n"), url)
	c, err := chain.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.SecretID() != "i" || c.SecretKey() != "k" || c.Token() != "t" || c.Expires().Unix() != expires {
		t.Errorf("got another pair than was handed out, until %v", c.Expires())
	}
	if !strings.Contains(chain.Source(), "TKE OIDC") {
		t.Errorf("source = %q", chain.Source())
	}
}

func TestOIDCSetUpInParts(t *testing.T) {
	for _, test := range []struct {
		name    string
		missing []string
		want    error
	}{
		{"region only", []string{"TKE_PROVIDER_ID", "TKE_ROLE_ARN", "TKE_WEB_IDENTITY_TOKEN_FILE"}, ErrNone},
		{"no region", []string{"TKE_REGION"}, ErrIncomplete},
		{"no role", []string{"TKE_ROLE_ARN"}, ErrIncomplete},
		{"no provider", []string{"TKE_PROVIDER_ID"}, ErrIncomplete},
		{"no token file", []string{"TKE_WEB_IDENTITY_TOKEN_FILE"}, ErrIncomplete},
	} {
		t.Run(test.name, func(t *testing.T) {
			vars := tke(t, "web-token")
			for _, name := range test.missing {
				delete(vars, name)
			}
			url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("STS was asked") })
			_, err := oidcChain(vars, url).Retrieve(t.Context())
			if !errors.Is(err, test.want) {
				t.Errorf("Retrieve: %v, want %v", err, test.want)
			}
			if errors.Is(test.want, ErrIncomplete) && !strings.Contains(err.Error(), test.missing[0]) {
				t.Errorf("%s is not named in: %v", test.missing[0], err)
			}
		})
	}
}

func TestOIDCAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		token  string
		status int
		body   string
		want   error
		text   string
	}{
		{"refused", "shown-never", 200, `{"Response":{"Error":{"Code":"InvalidParameter.WebIdentityTokenError","Message":"bad shown-never"},"RequestId":"req"}}`, ErrRefused, "InvalidParameter.WebIdentityTokenError, request req"},
		{"status", "shown-never", 500, `shown-never`, ErrRefused, "500"},
		{"redirect", "shown-never", 307, ``, ErrRefused, "307"},
		{"no JSON", "shown-never", 200, `shown-never`, ErrMalformed, ""},
		{"other JSON", "shown-never", 200, `{"Response":{"ExpiredTime":"shown-never"}}`, ErrMalformed, ""},
		{"empty", "shown-never", 200, `{}`, ErrIncomplete, ""},
		{"no token", "shown-never", 200, `{"Response":{"Credentials":{"TmpSecretId":"i","TmpSecretKey":"k"},"ExpiredTime":9999999999}}`, ErrIncomplete, "token"},
		{"no key", "shown-never", 200, `{"Response":{"Credentials":{"TmpSecretId":"i","Token":"t"},"ExpiredTime":9999999999}}`, ErrIncomplete, ""},
		{"no expiry", "shown-never", 200, `{"Response":{"Credentials":{"TmpSecretId":"i","TmpSecretKey":"k","Token":"t"}}}`, ErrIncomplete, "expiry"},
		{"expired", "shown-never", 200, `{"Response":{"Credentials":{"TmpSecretId":"i","TmpSecretKey":"k","Token":"t"},"ExpiredTime":1}}`, ErrExpired, "1970"},
		{"blank in the key", "shown-never", 200, `{"Response":{"Credentials":{"TmpSecretId":"i","TmpSecretKey":"shown-never ","Token":"t"},"ExpiredTime":9999999999}}`, ErrMalformed, ""},
		{"too large", "shown-never", 200, strings.Repeat(" ", maxAnswerBytes+1), ErrMalformed, "larger"},
		{"empty token file", " \n", 200, `{}`, ErrIncomplete, "is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			c, err := oidcChain(tke(t, test.token), url).Retrieve(t.Context())
			if !errors.Is(err, test.want) || !c.IsZero() {
				t.Fatalf("Retrieve: %v, want %v", err, test.want)
			}
			if !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "shown-never") {
				t.Errorf("error = %q, want %q in it and no value", err, test.text)
			}
		})
	}
}

const metadata = "/latest/meta-data/cam/security-credentials/"

func cvmChain(endpoint, role string) *Chain {
	return Default(Options{Getenv: env(), CVM: true, CVMRole: role, MetadataEndpoint: endpoint, Now: clock})
}

func TestCVM(t *testing.T) {
	for _, role := range []string{"", "role-a"} {
		t.Run("role "+role, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case metadata:
					fmt.Fprint(w, "role-a\nrole-b\n")
				case metadata + "role-a":
					fmt.Fprintf(w, `{"TmpSecretId":"i","TmpSecretKey":"k","ExpiredTime":%d,"Expiration":"x","Token":"t","Code":"Success"}`, now.Unix()+60)
				default:
					http.NotFound(w, r)
				}
			})
			chain := cvmChain(url, role)
			c, err := chain.Retrieve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.SecretID() != "i" || c.SecretKey() != "k" || c.Token() != "t" || c.Expires().Unix() != now.Unix()+60 {
				t.Errorf("got another pair than was handed out, until %v", c.Expires())
			}
			if !strings.Contains(chain.Source(), "CVM role") || !strings.Contains(chain.Source(), role) {
				t.Errorf("source = %q", chain.Source())
			}
		})
	}
}

func TestCVMAnswers(t *testing.T) {
	for _, test := range []struct {
		name, role, body string
		status           int
		want             error
	}{
		{"no such role", "r", "", 404, ErrRefused},
		{"code", "r", `{"Code":"Failed"}`, 200, ErrRefused},
		{"no role at all", "", "\n", 200, ErrRefused},
		{"no JSON", "r", `shown-never`, 200, ErrMalformed},
		{"expired", "r", `{"TmpSecretId":"shown-never","TmpSecretKey":"k","ExpiredTime":1,"Token":"t","Code":"Success"}`, 200, ErrExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			c, err := cvmChain(url, test.role).Retrieve(t.Context())
			if !errors.Is(err, test.want) || !c.IsZero() || strings.Contains(err.Error(), "shown-never") {
				t.Errorf("Retrieve: %v, want %v", err, test.want)
			}
		})
	}
}

func TestCVMIsAskedOnlyWhenToldTo(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the metadata service was asked") })
	if _, err := Default(Options{Getenv: env(), MetadataEndpoint: url}).Retrieve(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("Retrieve: %v, want ErrNone", err)
	}
	// What comes before it in the order is not disturbed by it either.
	chain := Default(Options{Getenv: env("COS_SECRETID", "i", "COS_SECRETKEY", "k"), CVM: true, MetadataEndpoint: url})
	if c, err := chain.Retrieve(t.Context()); err != nil || c.SecretID() != "i" {
		t.Errorf("id %q, %v, want that of the environment", c.SecretID(), err)
	}
}

func TestNoAnswerIsNotTheCallersDeadline(t *testing.T) {
	gone := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	})
	defer close(gone)
	_, err := within(t.Context(), 10*time.Millisecond, url, cvmOf(cvmChain(url, "r")).retrieve)
	if !errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("own timeout: %v, want ErrNoAnswer only", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := cvmChain(url, "r").Retrieve(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoAnswer) {
		t.Errorf("caller's deadline: %v, want DeadlineExceeded only", err)
	}
	if _, err := oidcChain(tke(t, "x"), url).Retrieve(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("caller's deadline at STS: %v, want DeadlineExceeded", err)
	}
}

// TestMetadataTimeout waits for the real timeout, which is the promise.
func TestMetadataTimeout(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	})
	defer close(gone)
	started := time.Now()
	_, err := cvmChain(url, "").Retrieve(t.Context())
	if took := time.Since(started); !errors.Is(err, ErrNoAnswer) || took < MetadataTimeout || took > 3*MetadataTimeout {
		t.Errorf("Retrieve after %v: %v, want ErrNoAnswer after %v", took, err, MetadataTimeout)
	}
}

func cvmOf(c *Chain) *cvm { return c.providers[len(c.providers)-1].(*cvm) }
