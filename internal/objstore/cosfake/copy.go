package cosfake

import (
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// copyResult is the body of the answer to PUT Object - Copy; document 436/10881.
type copyResult struct {
	XMLName      xml.Name `xml:"CopyObjectResult"`
	ETag         string
	LastModified string
	CRC64        string
	VersionID    string `xml:"VersionId,omitempty"`
}

// copyObject copies within the bucket. A copy onto itself changes the storage
// class or the metadata and needs x-cos-metadata-directive: Replaced.
func (f *Fake) copyObject(r *request) (*answer, error) {
	source, err := f.copySource(r)
	if err != nil {
		return nil, err
	}
	if source.frozen(f.now()) {
		return nil, fail(http.StatusForbidden, "InvalidObjectState", "the source has to be restored first")
	}
	v, err := f.versionFrom(r)
	if err != nil {
		return nil, err
	}
	switch directive := r.Header.Get(hdrDirective); directive {
	case "", "Copy":
		if source == f.latest(r.key) {
			return nil, fail(http.StatusBadRequest, "InvalidRequest", "a copy onto itself has to replace the metadata")
		}
		v.header = maps.Clone(source.header)
	case "Replaced":
	default:
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "there is no such metadata directive")
	}
	if len(v.tags) == 0 {
		v.tags = source.tags
	}
	if err := f.mayWrite(r); err != nil {
		return nil, err
	}
	v.setData(source.data)
	f.store(r.key, v)
	doc := copyResult{
		ETag: `"` + v.etag + `"`, LastModified: v.modified.Format(time.RFC3339), CRC64: strconv.FormatUint(v.crc, 10),
	}
	if f.versioning != "" {
		doc.VersionID = v.id
	}
	return xmlAnswer(http.StatusOK, f.writtenHeader(v), doc), nil
}

// copySource finds the version that x-cos-copy-source names as
// <bucket host>/<escaped key>[?versionId=…].
func (f *Fake) copySource(r *request) (*version, error) {
	text, query, _ := strings.Cut(r.Header.Get(hdrCopySource), "?")
	host, escaped, _ := strings.Cut(text, "/")
	key, err := url.PathUnescape(escaped)
	values, err2 := url.ParseQuery(query)
	if err != nil || err2 != nil || key == "" {
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "x-cos-copy-source cannot be read")
	}
	from := &request{Request: &http.Request{Host: host}, key: key, query: values}
	if err := f.checkHost(from); err != nil {
		return nil, err
	}
	return f.wanted(from)
}
