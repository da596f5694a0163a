package cosstore

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Headers of COS (Tencent's documents 436/7745 and 436/7749).
const (
	headerCRC64     = "X-Cos-Hash-Crc64ecma"
	headerSHA256    = "X-Cos-Meta-Sha256"
	headerVersion   = "X-Cos-Version-Id"
	headerClass     = "X-Cos-Storage-Class" // absent for STANDARD
	headerTier      = "X-Cos-Storage-Tier"  // of INTELLIGENT_TIERING
	headerRestore   = "X-Cos-Restore"
	headerLockMode  = "X-Cos-Object-Lock-Mode"
	headerLockUntil = "X-Cos-Object-Lock-Retain-Until-Date"
)

// parseInfo reads the answer to a HEAD or to a GET of a whole object.
func parseInfo(key string, h http.Header, size int64) (objstore.Info, error) {
	if size < 0 {
		return objstore.Info{}, fmt.Errorf("the answer has no Content-Length")
	}
	info := objstore.Info{
		Key: key, Size: size, VersionID: h.Get(headerVersion), StorageClass: h.Get(headerClass),
		Thaw: parseThaw(h),
	}
	crc, err := parseCRC64(h)
	if err != nil {
		return objstore.Info{}, err
	}
	info.CRC64 = crc
	// Another writer's spelling is no digest.
	if sum, err := manifest.ParseHash(h.Get(headerSHA256)); err == nil {
		info.SHA256 = &sum
	}
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		info.ModTime = t
	}
	if v := h.Get(headerLockUntil); v != "" && lockHolds(h.Get(headerLockMode)) {
		if info.RetainUntil, err = time.Parse(time.RFC3339, v); err != nil {
			return objstore.Info{}, fmt.Errorf("header %s: %w", headerLockUntil, err)
		}
	}
	return info, nil
}

func lockHolds(mode string) bool { return mode == "" || strings.EqualFold(mode, "COMPLIANCE") }

// parseCRC64 returns nil when the answer names none.
func parseCRC64(h http.Header) (*manifest.CRC64, error) {
	v := h.Get(headerCRC64)
	if v == "" {
		return nil, nil
	}
	crc, err := manifest.ParseCRC64(v)
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", headerCRC64, err)
	}
	return &crc, nil
}

var restoreExpiry = regexp.MustCompile(`expiry-date="([^"]*)"`)

// parseThaw tells whether the object can be read. ARCHIVE and DEEP_ARCHIVE are
// cold as a class (or its MAZ_ twin) and as a tier of INTELLIGENT_TIERING.
func parseThaw(h http.Header) objstore.Thaw {
	if !strings.HasSuffix(h.Get(headerClass), "ARCHIVE") && !strings.HasSuffix(h.Get(headerTier), "ARCHIVE") {
		return objstore.Thaw{}
	}
	restore := h.Get(headerRestore)
	switch {
	case strings.Contains(restore, `ongoing-request="true"`):
		return objstore.Thaw{State: objstore.Thawing}
	case strings.Contains(restore, `ongoing-request="false"`):
		thaw := objstore.Thaw{State: objstore.Thawed}
		if m := restoreExpiry.FindStringSubmatch(restore); m != nil {
			if t, err := http.ParseTime(m[1]); err == nil {
				thaw.Expiry = t
			}
		}
		return thaw
	}
	return objstore.Thaw{State: objstore.Frozen}
}
