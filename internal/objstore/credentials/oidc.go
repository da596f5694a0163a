package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultSTSEndpoint is the service that hands out pairs for a TKE pod's token.
const DefaultSTSEndpoint = "https://sts.tencentcloudapi.com"

const (
	stsTimeout = 10 * time.Second
	// stsSeconds is how long a pair is asked for; STS allows up to 43200.
	stsSeconds = 7200
)

// The variables that TKE sets in a pod with an OIDC role.
const (
	tkeRegion    = "TKE_REGION"
	tkeProvider  = "TKE_PROVIDER_ID"
	tkeTokenFile = "TKE_WEB_IDENTITY_TOKEN_FILE"
	tkeRole      = "TKE_ROLE_ARN"
)

// oidc exchanges the token of a TKE pod for a pair by the STS call
// AssumeRoleWithWebIdentity, version 2018-08-13, which is not signed.
type oidc struct {
	getenv   func(string) string
	endpoint string
	client   *http.Client
	now      func() time.Time
}

func newOIDC(opts Options) *oidc {
	transport := opts.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &oidc{getenv: opts.Getenv, endpoint: opts.STSEndpoint, client: noRedirect(transport), now: opts.Now}
}

// Source names the variables.
func (*oidc) Source() string {
	return "TKE OIDC role of " + strings.Join([]string{tkeRegion, tkeProvider, tkeTokenFile, tkeRole}, ", ")
}

// Retrieve implements Provider. TKE_REGION alone, which other tools set as well,
// is not yet a role.
func (o *oidc) Retrieve(ctx context.Context) (Credentials, error) {
	var missing []string
	for _, name := range []string{tkeProvider, tkeTokenFile, tkeRole} {
		if o.getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 3 {
		return Credentials{}, ErrNone
	}
	if o.getenv(tkeRegion) == "" {
		missing = append(missing, tkeRegion)
	}
	if len(missing) > 0 {
		return Credentials{}, fmt.Errorf("%s not set: %w", strings.Join(missing, ", "), ErrIncomplete)
	}
	text, err := readSmall(o.getenv(tkeTokenFile))
	if err != nil {
		return Credentials{}, err
	}
	token := strings.TrimSpace(text)
	if token == "" {
		return Credentials{}, fmt.Errorf("%s is empty: %w", o.getenv(tkeTokenFile), ErrIncomplete)
	}
	return within(ctx, stsTimeout, o.endpoint, func(ctx context.Context) (Credentials, error) {
		req, err := o.request(ctx, token)
		if err != nil {
			return Credentials{}, err
		}
		body, err := ask(o.client, req)
		if err != nil {
			return Credentials{}, err
		}
		return o.read(body)
	})
}

// request builds the call.
func (o *oidc) request(ctx context.Context, token string) (*http.Request, error) {
	now := o.now().Unix()
	body, err := json.Marshal(map[string]any{
		"ProviderId": o.getenv(tkeProvider), "RoleArn": o.getenv(tkeRole), "WebIdentityToken": token,
		"RoleSessionName": "walletarchive-" + strconv.FormatInt(now, 10), "DurationSeconds": stsSeconds,
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "SKIP", "X-TC-Action": "AssumeRoleWithWebIdentity",
		"X-TC-Version": "2018-08-13", "X-TC-Region": o.getenv(tkeRegion), "X-TC-Timestamp": strconv.FormatInt(now, 10),
	} {
		req.Header.Set(name, value)
	}
	return req, nil
}

// read takes the pair out of the answer. Of a refusal it keeps code and request
// id; the message may repeat what was sent.
func (o *oidc) read(body []byte) (Credentials, error) {
	var doc struct {
		Response struct {
			Error       *struct{ Code string }
			RequestID   string `json:"RequestId"`
			ExpiredTime int64
			Credentials struct {
				Token        string
				TmpSecretID  string `json:"TmpSecretId"`
				TmpSecretKey string
			}
		}
	}
	if err := decode(body, &doc); err != nil {
		return Credentials{}, err
	}
	r := &doc.Response
	if r.Error != nil {
		return Credentials{}, fmt.Errorf("%w: %s, request %s", ErrRefused, plain(r.Error.Code), plain(r.RequestID))
	}
	return temporary(r.Credentials.TmpSecretID, r.Credentials.TmpSecretKey, r.Credentials.Token, r.ExpiredTime, o.now())
}
