// Package check tries out a store as a newcomer to it would want to: what is
// set up, what may be done, and what to do about each thing that may not. Start
// with [Run].
package check

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
	"github.com/hyapp/walletarchive/internal/objstore/open"
	"github.com/hyapp/walletarchive/manifest"
)

// Status is the outcome of one line.
type Status string

// The three outcomes. What was not tried is no success.
const (
	Pass     Status = "pass"
	Fail     Status = "fail"
	NotTried Status = "not tried"
)

// Line is one thing that was looked at.
type Line struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"` // what was found, or why it failed or was not tried
	Remedy string `json:"remedy"` // what to do; "" for nothing
	// Config is true when the line failed for what is set up on this machine, and
	// nothing was contacted.
	Config bool `json:"-"`
}

// Names of the lines, in their order. A directory has no credentials and no
// clock of its own: those lines are NotTried there.
const (
	URL         = "url"
	Credentials = "credentials"
	Bucket      = "bucket"
	Region      = "region"
	Clock       = "clock"
	Versioning  = "versioning"
	ObjectLock  = "object lock"
	Put         = "put"
	WriteOnce   = "write once"
	Head        = "head"
	Get         = "get"
	List        = "list"
	Delete      = "delete"
)

var names = []string{URL, Credentials, Bucket, Region, Clock, Versioning, ObjectLock, Put, WriteOnce, Head, Get, List, Delete}

// ProbeFolder is the folder below the store's prefix that probe objects are
// written to.
const ProbeFolder = "walletarchive-store-check"

// cleanUpTime is what deleting the probe may take after a cancel.
const cleanUpTime = 30 * time.Second

// OK tells whether no line failed.
func OK(lines []Line) bool {
	for _, l := range lines {
		if l.Status == Fail {
			return false
		}
	}
	return true
}

// Run looks at the store that rawURL names and returns one line for each of the
// names above. It writes one small object of its own below [ProbeFolder] and
// deletes it, also when ctx ends; no other object is touched. In a bucket that
// locks every new object nothing is written.
func Run(ctx context.Context, rawURL string, opts open.Options) []Line {
	r := &run{opts: opts, found: map[string]Line{}, why: "an earlier step failed"}
	r.all(ctx, rawURL)
	lines := make([]Line, 0, len(names))
	for _, name := range names {
		l, ok := r.found[name]
		if !ok {
			l = Line{Name: name, Status: NotTried, Detail: r.why}
		}
		lines = append(lines, l)
	}
	return lines
}

// run is one Run.
type run struct {
	opts  open.Options
	store objstore.Store
	found map[string]Line
	why   string // there is no line for the rest

	key    string
	body   []byte
	info   objstore.Info
	locked int // days that the bucket locks every new object
}

func (r *run) add(name string, status Status, detail, remedy string) {
	r.found[name] = Line{Name: name, Status: status, Detail: detail, Remedy: remedy}
}

func (r *run) pass(name, format string, args ...any) {
	r.add(name, Pass, fmt.Sprintf(format, args...), "")
}

// Remedies for what the store has no better one for.
const (
	tryAgain = "run the check again; when it stays so, ask Tencent with the request id"
	altered  = "something between here and the store, or the store itself, changes objects: take away proxies and run the check again"
)

// fail takes the remedy of the store for its own; otherwise is what to do when
// it has none, "" for tryAgain.
func (r *run) fail(name string, err error, otherwise string) {
	detail, remedy := describe(err)
	var corrupt *objstore.CorruptError
	if errors.As(err, &corrupt) {
		remedy = cmp.Or(remedy, altered)
	}
	r.add(name, Fail, detail, cmp.Or(remedy, otherwise, tryAgain))
}

// misconfigured marks the line of name when what it failed for is set up here.
func (r *run) misconfigured(name string, err error) {
	l := r.found[name]
	l.Config = errors.Is(err, objstore.ErrConfig)
	r.found[name] = l
}

// describe parts an error from its remedy.
func describe(err error) (detail, remedy string) {
	var e *cosstore.Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	plain := *e
	plain.Remedy = ""
	return plain.Error(), e.Remedy
}

func (r *run) all(ctx context.Context, rawURL string) {
	if err := open.Check(rawURL); err != nil {
		r.fail(URL, err, "write file:///dir, or cos://bucket-appid/prefix?region=…")
		r.misconfigured(URL, err)
		return
	}
	store, prefix, err := r.open(ctx, rawURL)
	if err != nil {
		return
	}
	if c, ok := store.(io.Closer); ok {
		defer c.Close()
	}
	r.store = store
	if bucket, ok := store.(*cosstore.Store); ok && !r.bucket(ctx, bucket) {
		return
	}
	r.probe(ctx, prefix)
}

// open adds the lines of the URL and of the place it leads to.
func (r *run) open(ctx context.Context, rawURL string) (objstore.Store, string, error) {
	store, prefix, err := open.Open(ctx, rawURL, r.opts)
	if err != nil {
		// The text was right, so it is the directory.
		r.pass(URL, "well formed")
		r.fail(Bucket, err, "make the directory, or correct the path")
		r.misconfigured(Bucket, err)
		return nil, "", err
	}
	detail := store.URL()
	if prefix != "" {
		detail += ", prefix " + prefix
	}
	r.pass(URL, "%s", detail)
	if _, ok := store.(*cosstore.Store); !ok {
		r.pass(Bucket, "a directory, and it is there")
		for _, name := range []string{Credentials, Region, Clock, Versioning, ObjectLock} {
			r.add(name, NotTried, "a directory has none", "")
		}
	}
	return store, prefix, nil
}

// bucket adds the lines of what is set up. It returns false when trying more is
// of no use.
func (r *run) bucket(ctx context.Context, s *cosstore.Store) bool {
	expires, err := s.Credentials(ctx)
	if err != nil {
		r.fail(Credentials, err, "set TENCENTCLOUD_SECRET_ID and TENCENTCLOUD_SECRET_KEY, or one of the other sources in docs/COS.md")
		r.misconfigured(Credentials, err)
		r.why = "there are no credentials"
		return false
	}
	life := "without a known end"
	if !expires.IsZero() {
		life = "good until " + expires.UTC().Format(time.RFC3339)
	}
	r.pass(Credentials, "from %s, %s", s.CredentialSource(), life)
	b, err := s.Bucket(ctx)
	if err != nil {
		return r.noBucket(ctx, err)
	}
	r.pass(Bucket, "%s is there and may be asked", s.Name())
	r.region(s, b)
	r.clock(b)
	r.versioning(ctx, s)
	r.objectLock(ctx, s)
	return true
}

// noBucket says what keeps the bucket from being asked.
func (r *run) noBucket(ctx context.Context, err error) bool {
	var e *cosstore.Error
	if !errors.As(err, &e) {
		e = &cosstore.Error{}
	}
	r.why = "the bucket cannot be asked"
	switch {
	case e.Code == "RequestTimeTooSkewed":
		r.fail(Clock, err, "")
		return false
	case e.Code == "InvalidAccessKeyId", e.Code == "SignatureDoesNotMatch", e.Code == "ExpiredToken":
		source := r.found[Credentials].Detail
		r.fail(Credentials, err, "")
		l := r.found[Credentials]
		l.Detail = source + ": " + l.Detail
		r.found[Credentials] = l
		return false
	}
	r.fail(Bucket, err, "")
	// One that may not be asked for itself may still be used.
	if e.Status != http.StatusForbidden {
		return false
	}
	s := r.store.(*cosstore.Store)
	for _, name := range []string{Region, Clock} {
		r.add(name, NotTried, r.why, "")
	}
	r.versioning(ctx, s)
	r.objectLock(ctx, s)
	return true
}

func (r *run) region(s *cosstore.Store, b cosstore.Bucket) {
	switch want := s.Region(); {
	case b.Region == "":
		r.add(Region, NotTried, "the bucket does not say where it is", "")
	case want == "":
		r.pass(Region, "%s, as the bucket says", b.Region)
	case want != b.Region:
		r.add(Region, Fail, fmt.Sprintf("the bucket is in %s, the URL says %s", b.Region, want), "write region="+b.Region)
	default:
		r.pass(Region, "%s, and the bucket says so too", want)
	}
}

// clockLimit is a third of what COS lets pass.
const clockLimit = 5 * time.Minute

func (r *run) clock(b cosstore.Bucket) {
	if b.Date.IsZero() {
		r.add(Clock, NotTried, "the answer has no date", "")
		return
	}
	off := b.Asked.Sub(b.Date).Round(time.Second)
	detail := fmt.Sprintf("%v ahead of COS", off)
	if off < 0 {
		detail = fmt.Sprintf("%v behind COS", -off)
	}
	if off.Abs() <= 2*time.Second {
		detail = "as that of COS"
	}
	if off.Abs() > clockLimit {
		r.add(Clock, Fail, "this machine's clock is "+detail, "set it (NTP): from 15 minutes on COS refuses every request")
		return
	}
	r.pass(Clock, "this machine's clock is %s", detail)
}

func (r *run) versioning(ctx context.Context, s *cosstore.Store) {
	v, err := s.Versioning(ctx)
	switch {
	case err != nil:
		r.fail(Versioning, err, "")
	case v == cosstore.Unversioned:
		r.pass(Versioning, "never enabled: COS itself refuses to overwrite an object")
	case v == cosstore.Enabled:
		r.pass(Versioning, "enabled: every write is a version of its own, and its id is recorded")
	case v == cosstore.Suspended:
		r.add(Versioning, Pass, "suspended: an overwrite is kept out by looking before and after each write, which is the weakest of the three ways",
			"enable versioning again, or use a bucket that never had it")
	}
}

func (r *run) objectLock(ctx context.Context, s *cosstore.Store) {
	lock, err := s.ObjectLock(ctx)
	switch {
	case errors.Is(err, objstore.ErrDenied):
		detail, remedy := describe(err)
		r.add(ObjectLock, NotTried, detail, remedy+"; only this line needs it")
	case err != nil:
		r.fail(ObjectLock, err, "")
	case !lock.Enabled:
		r.pass(ObjectLock, "not enabled: objects cannot be locked (export --retain-until and --retain-days)")
	case lock.Days == 0:
		r.pass(ObjectLock, "enabled: objects are locked when an export asks for it")
	default:
		r.locked = lock.Days
		r.pass(ObjectLock, "enabled: every new object is locked for %d days", lock.Days)
	}
}

// newProbe makes bytes that nobody else has.
func newProbe() []byte {
	return fmt.Appendf(nil, "written by walletarchive store check; may be deleted; %s\n", rand.Text())
}

func digestReader(b []byte) (*bytes.Reader, int64, manifest.Hash) {
	return bytes.NewReader(b), int64(len(b)), manifest.SumHash(b)
}
