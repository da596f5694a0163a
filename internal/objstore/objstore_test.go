package objstore

import (
	"errors"
	"testing"

	"github.com/hyapp/walletarchive/manifest"
)

func TestCheckPrefix(t *testing.T) {
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/.", "app_code=x/date=2024-"} {
		if err := CheckPrefix(prefix); err != nil {
			t.Errorf("CheckPrefix(%q) = %v", prefix, err)
		}
	}
	for _, prefix := range []string{"/", "/a", "a//", "a/../", "../", "a\\", "a\x00"} {
		if err := CheckPrefix(prefix); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("CheckPrefix(%q) = %v, want ErrBadKey", prefix, err)
		}
	}
}

func TestThawStateString(t *testing.T) {
	for s, want := range map[ThawState]string{NotCold: "not_cold", Frozen: "frozen", Thawing: "thawing", Thawed: "thawed", 9: "ThawState(9)"} {
		if got := s.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
