package credentials

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultMetadataEndpoint is the metadata service that a CVM sees; Tencent
// document 213/4934.
const DefaultMetadataEndpoint = "http://metadata.tencentyun.com"

// MetadataTimeout bounds one Retrieve of the role of the machine, because
// elsewhere than on a CVM nobody answers.
const MetadataTimeout = 2 * time.Second

const metadataPath = "/latest/meta-data/cam/security-credentials/"

// cvm is the role of the machine, from its metadata service.
type cvm struct {
	role     string // "" for the one that the machine has
	endpoint string
	client   *http.Client
	now      func() time.Time
}

func newCVM(opts Options) *cvm {
	transport := opts.Transport
	if transport == nil {
		// No proxy: the address is a local one, and the answer a secret.
		transport = &http.Transport{DisableKeepAlives: true}
	}
	return &cvm{role: opts.CVMRole, endpoint: opts.MetadataEndpoint, client: noRedirect(transport), now: opts.Now}
}

// Source names the service and the role.
func (c *cvm) Source() string {
	if c.role == "" {
		return "CVM role of " + c.endpoint
	}
	return "CVM role " + c.role + " of " + c.endpoint
}

// Retrieve implements Provider. It was asked for, so it is never ErrNone.
func (c *cvm) Retrieve(ctx context.Context) (Credentials, error) {
	return within(ctx, MetadataTimeout, c.endpoint, c.retrieve)
}

func (c *cvm) retrieve(ctx context.Context) (Credentials, error) {
	role := c.role
	if role == "" {
		list, err := c.get(ctx, "")
		if err != nil {
			return Credentials{}, err
		}
		role, _, _ = strings.Cut(strings.TrimSpace(string(list)), "\n")
		if role = strings.TrimSpace(role); role == "" {
			return Credentials{}, fmt.Errorf("the machine has no role: %w", ErrRefused)
		}
	}
	body, err := c.get(ctx, role)
	if err != nil {
		return Credentials{}, err
	}
	var doc struct {
		Code         string
		TmpSecretID  string `json:"TmpSecretId"`
		TmpSecretKey string
		Token        string
		ExpiredTime  int64
	}
	if err := decode(body, &doc); err != nil {
		return Credentials{}, err
	}
	if doc.Code != "Success" {
		return Credentials{}, fmt.Errorf("%w: code %q", ErrRefused, plain(doc.Code))
	}
	return temporary(doc.TmpSecretID, doc.TmpSecretKey, doc.Token, doc.ExpiredTime, c.now())
}

// get asks for what is under the role; "" is the list of roles.
func (c *cvm) get(ctx context.Context, role string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint+metadataPath+url.PathEscape(role), nil)
	if err != nil {
		return nil, err
	}
	return ask(c.client, req)
}
