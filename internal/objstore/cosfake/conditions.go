package cosfake

import (
	"net/http"
	"strconv"
	"strings"
)

// checkConditions answers the If-… headers of GET and HEAD as RFC 9110 section
// 13.2.2 orders them.
func checkConditions(h http.Header, v *version) error {
	if want := h.Get("If-Match"); want != "" {
		if !etagIn(want, v.etag) {
			return fail(http.StatusPreconditionFailed, "PreconditionFailed", "the object has another ETag")
		}
	} else if t, err := http.ParseTime(h.Get("If-Unmodified-Since")); err == nil && v.modified.After(t) {
		return fail(http.StatusPreconditionFailed, "PreconditionFailed", "the object is newer")
	}
	if want := h.Get("If-None-Match"); want != "" {
		if etagIn(want, v.etag) {
			return fail(http.StatusNotModified, "NotModified", "the object has that ETag")
		}
	} else if t, err := http.ParseTime(h.Get("If-Modified-Since")); err == nil && !v.modified.After(t) {
		return fail(http.StatusNotModified, "NotModified", "the object is not newer")
	}
	return nil
}

// etagIn tells whether etag is one of those in a header, quoted or not.
func etagIn(list, etag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.Trim(one, `"`) == etag {
			return true
		}
	}
	return false
}

// parseRange reads one range of bytes in a body of size bytes as [from, to).
// ok is false when it is none, or not in the body.
func parseRange(spec string, size int64) (from, to int64, ok bool) {
	spec, found := strings.CutPrefix(spec, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !found || !dash {
		return 0, 0, false
	}
	if first == "" { // the last n bytes
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil || n == 0 || size == 0 {
			return 0, 0, false
		}
		return max(0, size-int64(n)), size, true
	}
	start, err := strconv.ParseUint(first, 10, 63)
	if err != nil || int64(start) >= size {
		return 0, 0, false
	}
	from, to = int64(start), size
	if last != "" {
		end, err := strconv.ParseUint(last, 10, 63)
		if err != nil || int64(end) < from {
			return 0, 0, false
		}
		to = min(size, int64(end)+1)
	}
	return from, to, true
}
