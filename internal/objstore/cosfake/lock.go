package cosfake

import (
	"encoding/xml"
	"net/http"
	"time"
)

// Object lock, documents 436/55294 and 436/40136. COS knows one mode only.
const (
	compliance  = "COMPLIANCE"
	lockLayout  = "2006-01-02T15:04:05.000Z"
	maxLockDays = 36500
)

const day = 24 * time.Hour

// lockFrom reads until when the headers of a PUT lock the object; zero is not
// at all. The bucket's default holds where the headers say nothing.
func (f *Fake) lockFrom(h http.Header) (time.Time, error) {
	mode, until := h.Get(hdrLockMode), h.Get(hdrLockUntil)
	if mode == "" && until == "" {
		if f.locked && f.lockDays > 0 {
			return f.now().UTC().Add(time.Duration(f.lockDays) * day), nil
		}
		return time.Time{}, nil
	}
	return f.lockUntil(mode, until)
}

// lockUntil judges a mode and a date.
func (f *Fake) lockUntil(mode, until string) (time.Time, error) {
	if !f.locked {
		return time.Time{}, fail(http.StatusBadRequest, "InvalidRequest", "the bucket has no object lock")
	}
	t, err := time.Parse(time.RFC3339, until)
	now := f.now()
	if mode != compliance || err != nil || !t.After(now) || t.After(now.Add(maxLockDays*day)) {
		return time.Time{}, fail(http.StatusBadRequest, "InvalidArgument", "object lock takes COMPLIANCE and a date to come")
	}
	return t, nil
}

// retention is the body of ?retention.
type retention struct {
	XMLName         xml.Name `xml:"Retention"`
	RetainUntilDate string
	Mode            string
}

// putRetention locks an object, or locks it for longer; never for less.
func (f *Fake) putRetention(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	var doc retention
	if err := decodeXML(r, &doc); err != nil {
		return nil, err
	}
	until, err := f.lockUntil(doc.Mode, doc.RetainUntilDate)
	if err != nil {
		return nil, err
	}
	if until.Before(v.lockedTo) {
		return nil, denied("retention cannot be shortened")
	}
	v.lockedTo = until
	return &answer{status: http.StatusOK}, nil
}

// getRetention tells until when an object is locked.
func (f *Fake) getRetention(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	if v.lockedTo.IsZero() {
		return nil, fail(http.StatusNotFound, "NoSuchObjectLockConfiguration", "the object is not locked")
	}
	return xmlAnswer(http.StatusOK, nil, retention{Mode: compliance, RetainUntilDate: v.lockedTo.UTC().Format(lockLayout)}), nil
}

// lockConfig is the body of ?object-lock.
type lockConfig struct {
	XMLName           xml.Name  `xml:"ObjectLockConfiguration"`
	ObjectLockEnabled string    `xml:",omitempty"`
	Rule              *lockRule `xml:",omitempty"`
}

type lockRule struct {
	Days int `xml:"DefaultRetention>Days"`
}

// getObjectLock tells the configuration of the bucket.
func (f *Fake) getObjectLock() (*answer, error) {
	if !f.locked {
		return nil, fail(http.StatusNotFound, "ObjectLockConfigurationNotFoundError", "the bucket has no object lock")
	}
	doc := lockConfig{ObjectLockEnabled: enabled}
	if f.lockDays > 0 {
		doc.Rule = &lockRule{Days: f.lockDays}
	}
	return xmlAnswer(http.StatusOK, nil, doc), nil
}

// putObjectLock gives the bucket object lock, which is never taken away again.
func (f *Fake) putObjectLock(r *request) (*answer, error) {
	var doc lockConfig
	if err := decodeXML(r, &doc); err != nil {
		return nil, err
	}
	days := 0
	if doc.Rule != nil {
		days = doc.Rule.Days
		if days < 1 || days > maxLockDays {
			return nil, fail(http.StatusBadRequest, "InvalidArgument", "the days are not 1 to 36500")
		}
	}
	if doc.ObjectLockEnabled != enabled {
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "object lock can only be enabled")
	}
	f.locked, f.lockDays = true, days
	return &answer{status: http.StatusOK}, nil
}
