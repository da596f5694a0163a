package cosfake

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// versioningConfig is the body of ?versioning; Status is left out while
// versioning was never enabled.
type versioningConfig struct {
	XMLName xml.Name `xml:"VersioningConfiguration"`
	Status  string   `xml:",omitempty"`
}

func (f *Fake) getVersioning() *answer {
	return xmlAnswer(http.StatusOK, nil, versioningConfig{Status: f.versioning})
}

// putVersioning enables or suspends versioning. A bucket with object lock
// cannot suspend it (2025 edition of document 436/40136).
func (f *Fake) putVersioning(r *request) (*answer, error) {
	var doc versioningConfig
	if err := decodeXML(r, &doc); err != nil {
		return nil, err
	}
	switch {
	case !validVersioning(doc.Status):
		return nil, fail(http.StatusBadRequest, "MalformedXML", "the status is not Enabled or Suspended")
	case doc.Status == suspended && f.locked:
		return nil, fail(http.StatusConflict, "InvalidBucketState", "the bucket has object lock")
	}
	f.versioning = doc.Status
	return &answer{status: http.StatusOK}, nil
}

// tag is one tag of an object.
type tag struct {
	Key   string
	Value string
}

// tagging is the body of ?tagging.
type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

// parseTagHeader reads x-cos-tagging: k=v&k2=v2, percent-encoded.
func parseTagHeader(text string) ([]tag, error) {
	if text == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "x-cos-tagging cannot be read")
	}
	var tags []tag
	for key, vs := range values {
		for _, v := range vs {
			tags = append(tags, tag{key, v})
		}
	}
	return tags, checkTags(tags)
}

// checkTags sorts tags and holds the limits of document 436/35665.
func checkTags(tags []tag) error {
	slices.SortFunc(tags, func(a, b tag) int { return strings.Compare(a.Key, b.Key) })
	for i, t := range tags {
		if t.Key == "" || len(t.Key) > 127 || len(t.Value) > 255 || i > 0 && tags[i-1].Key == t.Key {
			return fail(http.StatusBadRequest, "InvalidTag", "a tag is empty, too long or there twice")
		}
	}
	if len(tags) > 10 {
		return fail(http.StatusBadRequest, "InvalidTag", "an object has at most 10 tags")
	}
	return nil
}

func (f *Fake) putTagging(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	var doc tagging
	if err := decodeXML(r, &doc); err != nil {
		return nil, err
	}
	if err := checkTags(doc.Tags); err != nil {
		return nil, err
	}
	v.tags = doc.Tags
	return &answer{status: http.StatusNoContent}, nil
}

func (f *Fake) getTagging(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	return xmlAnswer(http.StatusOK, nil, tagging{Tags: v.tags}), nil
}

func (f *Fake) deleteTagging(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	v.tags = nil
	return &answer{status: http.StatusNoContent}, nil
}
