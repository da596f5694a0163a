package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names are the environment variables of one pair.
type Names struct {
	ID, Key string
	// Tokens are the names a token may have, the first that is set counts:
	// Tencent's own tools do not agree on one.
	Tokens []string
}

// EnvironmentNames returns the pairs that are looked for, in their order. First
// those of the Tencent Cloud SDKs, then the aliases of the COS SDK's README and
// of thanos.
func EnvironmentNames() []Names {
	return []Names{
		{"TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY", []string{
			"TENCENTCLOUD_SECURITY_TOKEN", "TENCENTCLOUD_SESSION_TOKEN", "TENCENTCLOUD_TOKEN",
		}},
		{"COS_SECRETID", "COS_SECRETKEY", []string{"COS_SESSION_TOKEN"}},
		{"COS_SECRET_ID", "COS_SECRET_KEY", []string{"COS_SESSION_TOKEN"}},
	}
}

// environment is a pair in environment variables.
type environment struct {
	names  Names
	getenv func(string) string
}

// NewEnvironment returns the provider of one pair of variables; getenv reads
// them. An empty variable counts as not set.
func NewEnvironment(names Names, getenv func(string) string) Provider {
	return &environment{names: names, getenv: getenv}
}

// Retrieve implements Provider.
func (e *environment) Retrieve(context.Context) (Credentials, error) {
	id, key := e.getenv(e.names.ID), e.getenv(e.names.Key)
	switch {
	case id == "" && key == "":
		return Credentials{}, ErrNone
	case key == "":
		return Credentials{}, fmt.Errorf("%s is set and %s is not: %w", e.names.ID, e.names.Key, ErrIncomplete)
	case id == "":
		return Credentials{}, fmt.Errorf("%s is set and %s is not: %w", e.names.Key, e.names.ID, ErrIncomplete)
	}
	tokenName, token := e.token()
	for _, v := range [][2]string{{e.names.ID, id}, {e.names.Key, key}, {tokenName, token}} {
		if err := checkValue(v[0], v[1]); err != nil {
			return Credentials{}, err
		}
	}
	return New(id, key, token, time.Time{})
}

// token returns the first token that is set, and its name.
func (e *environment) token() (name, value string) {
	for _, name := range e.names.Tokens {
		if value := e.getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// Source names the variables, with that of the token when one is set.
func (e *environment) Source() string {
	names := []string{e.names.ID, e.names.Key}
	if name, _ := e.token(); name != "" {
		names = slices.Insert(names, 2, name)
	}
	return "environment " + strings.Join(names, ", ")
}
