package cosfake

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

// The classes that have to be restored before they can be read.
const (
	classArchive = "ARCHIVE"
	classDeep    = "DEEP_ARCHIVE"
)

// thawTimes are the longest times of document 436/30933, by class and tier.
var thawTimes = map[string]map[string]time.Duration{
	classArchive: {"Expedited": 5 * time.Minute, "Standard": 5 * time.Hour, "Bulk": 12 * time.Hour},
	classDeep:    {"Standard": 24 * time.Hour, "Bulk": 48 * time.Hour},
}

// thaw is what is known of the readable copy of a cold version. The zero value
// is that none was ever asked for.
type thaw struct {
	tier      string
	requested time.Time
	ready     time.Time
	expiry    time.Time
}

// cold tells whether v has to be restored to be read.
func (v *version) cold() bool { return v.class == classArchive || v.class == classDeep }

// thawing tells whether a copy is being made.
func (v *version) thawing(now time.Time) bool { return v.thaw.tier != "" && now.Before(v.thaw.ready) }

// thawed tells whether there is a copy to read.
func (v *version) thawed(now time.Time) bool {
	return v.thaw.tier != "" && !v.thawing(now) && now.Before(v.thaw.expiry)
}

// frozen tells whether v cannot be read now.
func (v *version) frozen(now time.Time) bool { return v.cold() && !v.thawed(now) }

// addRestore adds what HEAD says of thawing; document 436/7745.
func (v *version) addRestore(h http.Header, now time.Time) {
	switch {
	case !v.cold():
	case v.thawing(now):
		h.Set(hdrRestore, `ongoing-request="true"`)
		h.Set(hdrRestoreStat, fmt.Sprintf("tier=%q; request-date=%q", v.thaw.tier, v.thaw.requested.UTC().Format(http.TimeFormat)))
	case v.thawed(now):
		h.Set(hdrRestore, fmt.Sprintf(`ongoing-request="false", expiry-date=%q`, v.thaw.expiry.UTC().Format(http.TimeFormat)))
	}
}

// restoreRequest is the body of POST ?restore; document 436/12633.
type restoreRequest struct {
	XMLName xml.Name `xml:"RestoreRequest"`
	Days    int
	Tier    string `xml:"CASJobParameters>Tier"`
}

// restoreObject starts making a readable copy. 200 for an object that has one,
// whose life is extended, is what only a real bucket can settle.
func (f *Fake) restoreObject(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	var doc restoreRequest
	if err := decodeXML(r, &doc); err != nil {
		return nil, err
	}
	if doc.Tier == "" {
		doc.Tier = "Standard"
	}
	if !v.cold() {
		return nil, fail(http.StatusMethodNotAllowed, "RestoreNonArchiveObject", "the object is not in cold storage")
	}
	takes, ok := thawTimes[v.class][doc.Tier]
	if !ok || doc.Days < 1 || doc.Days > 365 {
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "the class of the object has no such tier, or the days are not 1 to 365")
	}
	now := f.now()
	life := time.Duration(doc.Days) * 24 * time.Hour
	switch {
	case v.thawing(now):
		return nil, fail(http.StatusConflict, "RestoreAlreadyInProgress", "the object is being restored")
	case v.thawed(now):
		v.thaw.expiry = now.Add(life)
		return &answer{status: http.StatusOK}, nil
	}
	v.thaw = thaw{tier: doc.Tier, requested: now, ready: now.Add(takes), expiry: now.Add(takes + life)}
	return &answer{status: http.StatusAccepted}, nil
}
