package cosfake

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Headers of COS; documents 436/7728 and 436/7729.
const (
	hdrCRC         = "X-Cos-Hash-Crc64ecma"
	hdrClass       = "X-Cos-Storage-Class"
	hdrVersion     = "X-Cos-Version-Id"
	hdrMarker      = "X-Cos-Delete-Marker"
	hdrForbid      = "X-Cos-Forbid-Overwrite"
	hdrTagging     = "X-Cos-Tagging"
	hdrTagCount    = "X-Cos-Tagging-Count"
	hdrLockMode    = "X-Cos-Object-Lock-Mode"
	hdrLockUntil   = "X-Cos-Object-Lock-Retain-Until-Date"
	hdrSSE         = "X-Cos-Server-Side-Encryption"
	hdrSSEKey      = "X-Cos-Server-Side-Encryption-Cos-Kms-Key-Id"
	hdrRestore     = "X-Cos-Restore"
	hdrRestoreStat = "X-Cos-Restore-Status"
	hdrCopySource  = "X-Cos-Copy-Source"
	hdrDirective   = "X-Cos-Metadata-Directive"
	hdrToken       = "X-Cos-Security-Token"
	metaPrefix     = "X-Cos-Meta-"
)

// nullVersion is the id of what is written while versioning is not enabled.
const nullVersion = "null"

// Versioning states; document 436/19888.
const (
	enabled   = "Enabled"
	suspended = "Suspended"
)

func validVersioning(s string) bool { return s == enabled || s == suspended }

var crcTable = crc64.MakeTable(crc64.ECMA)

// keptHeaders come back on GET and HEAD as they came with the PUT.
var keptHeaders = []string{"Content-Type", "Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires"}

// storageClasses are those a PUT may ask for; document 436/33417.
var storageClasses = []string{
	"STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", classArchive, classDeep,
	"MAZ_STANDARD", "MAZ_STANDARD_IA", "MAZ_INTELLIGENT_TIERING",
}

// version is one version of an object, or a delete marker.
type version struct {
	id       string
	marker   bool
	data     []byte // never changed in place
	crc      uint64 // what the store says of data
	etag     string // without quotes
	modified time.Time
	header   http.Header // keptHeaders and X-Cos-Meta-*
	class    string      // "" is STANDARD
	tags     []tag
	lockedTo time.Time // zero when not locked
	sse      string    // as in the header
	sseKey   string
	thaw     thaw
}

// locked tells whether the version may not go away yet.
func (v *version) locked(now time.Time) bool { return v.lockedTo.After(now) }

// setData makes data the content, honestly.
func (v *version) setData(data []byte) {
	v.data = data
	v.crc = crc64.Checksum(data, crcTable)
	digest := md5.Sum(data)
	v.etag = hex.EncodeToString(digest[:])
	if v.sse == "cos/kms" { // whose ETag is no MD5; document 436/7729
		digest = md5.Sum([]byte("kms" + v.etag))
		v.etag = hex.EncodeToString(digest[:])
	}
}

// checkContentMD5 refuses a body with another MD5 than its header says.
func checkContentMD5(r *request) error {
	text := r.Header.Get("Content-Md5")
	if text == "" {
		return nil
	}
	want, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(want) != md5.Size {
		return fail(http.StatusBadRequest, "InvalidDigest", "Content-MD5 is no MD5 in base64")
	}
	if got := md5.Sum(r.body); string(got[:]) != string(want) {
		return fail(http.StatusBadRequest, "BadDigest", "the body has another MD5 than Content-MD5 says")
	}
	return nil
}

// versionFrom makes a version of the headers of a PUT, without data.
func (f *Fake) versionFrom(r *request) (*version, error) {
	v := &version{header: http.Header{}, modified: f.now().UTC().Truncate(time.Second)}
	for _, name := range keptHeaders {
		if value := r.Header.Get(name); value != "" {
			v.header.Set(name, value)
		}
	}
	if err := readMeta(r.Header, v.header); err != nil {
		return nil, err
	}
	class := r.Header.Get(hdrClass)
	if class != "" && !slices.Contains(storageClasses, class) {
		return nil, fail(http.StatusBadRequest, "InvalidStorageClass", "there is no such storage class")
	}
	if class != "STANDARD" {
		v.class = class
	}
	switch v.sse = r.Header.Get(hdrSSE); v.sse {
	case "", "AES256":
	case "cos/kms":
		v.sseKey = r.Header.Get(hdrSSEKey)
	default:
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "there is no such encryption")
	}
	var err error
	if v.tags, err = parseTagHeader(r.Header.Get(hdrTagging)); err != nil {
		return nil, err
	}
	v.lockedTo, err = f.lockFrom(r.Header)
	return v, err
}

// readMeta copies X-Cos-Meta-* from one header to the other. Letters, digits
// and -, 2 KB for one and 4 KB together; document 436/7749.
func readMeta(from, to http.Header) error {
	total := 0
	for name, values := range from {
		rest, ok := strings.CutPrefix(name, metaPrefix)
		if !ok {
			continue
		}
		if strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" || rest == "" {
			return fail(http.StatusBadRequest, "InvalidArgument", "the name of a metadata header has other than letters, digits and -")
		}
		size := len(name) + len(values[0])
		if total += size; size > 2<<10 || total > 4<<10 {
			return fail(http.StatusBadRequest, "MetadataTooLarge", "the metadata is too large")
		}
		to[name] = slices.Clone(values[:1])
	}
	return nil
}

// putObject stores the body under the key.
func (f *Fake) putObject(r *request) (*answer, error) {
	v, err := f.versionFrom(r)
	if err != nil {
		return nil, err
	}
	v.setData(r.body)
	if err := f.mayWrite(r); err != nil {
		return nil, err
	}
	f.store(r.key, v)
	return &answer{status: http.StatusOK, header: f.writtenHeader(v)}, nil
}

// writtenHeader is what the answer to a PUT says of what was stored.
func (f *Fake) writtenHeader(v *version) http.Header {
	h := http.Header{}
	h.Set("Etag", `"`+v.etag+`"`)
	h.Set(hdrCRC, strconv.FormatUint(v.crc, 10))
	f.addVersion(h, v)
	addSSE(h, v)
	return h
}

// mayWrite refuses to write over what is protected. x-cos-forbid-overwrite
// counts only where versioning was never enabled (documents 436/7742, 436/7746);
// that its code is FileAlreadyExists only a real bucket can settle.
func (f *Fake) mayWrite(r *request) error {
	if f.versioning == enabled {
		return nil
	}
	latest := f.latest(r.key)
	if f.versioning == "" && latest != nil && strings.EqualFold(r.Header.Get(hdrForbid), "true") {
		return fail(http.StatusConflict, "FileAlreadyExists", "the object is there and may not be overwritten")
	}
	if old := f.find(r.key, nullVersion); old != nil && old.locked(f.now()) {
		return denied("the object is locked")
	}
	return nil
}

// store puts v on top of the versions of key.
func (f *Fake) store(key string, v *version) {
	if f.versioning == enabled {
		f.lastVersion++
		v.id = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "184451%014d", f.lastVersion))
	} else {
		v.id = nullVersion
		f.drop(key, nullVersion)
	}
	f.objects[key] = append(f.objects[key], v)
	f.noteListing(key)
}

// drop takes one version away.
func (f *Fake) drop(key, id string) {
	left := slices.DeleteFunc(slices.Clone(f.objects[key]), func(v *version) bool { return v.id == id })
	if len(left) == 0 {
		delete(f.objects, key)
	} else {
		f.objects[key] = left
	}
	f.noteListing(key)
}

// latest returns the newest version, nil when it is a delete marker or none.
func (f *Fake) latest(key string) *version {
	all := f.objects[key]
	if len(all) == 0 || all[len(all)-1].marker {
		return nil
	}
	return all[len(all)-1]
}

// find returns the version with this id, nil when there is none.
func (f *Fake) find(key, id string) *version {
	for _, v := range f.objects[key] {
		if v.id == id {
			return v
		}
	}
	return nil
}

// wanted returns the version that r asks for.
func (f *Fake) wanted(r *request) (*version, error) {
	id := versionID(r.query)
	if id == "" {
		if v := f.latest(r.key); v != nil {
			return v, nil
		}
		e := fail(http.StatusNotFound, "NoSuchKey", "the object does not exist")
		if all := f.objects[r.key]; len(all) > 0 { // the newest is a delete marker
			e.header = http.Header{}
			e.header.Set(hdrMarker, "true")
			f.addVersion(e.header, all[len(all)-1])
		}
		return nil, e
	}
	switch v := f.find(r.key, id); {
	case v == nil && len(f.objects[r.key]) == 0:
		return nil, fail(http.StatusNotFound, "NoSuchKey", "the object does not exist")
	case v == nil:
		return nil, fail(http.StatusNotFound, "NoSuchVersion", "the version does not exist")
	case v.marker:
		e := fail(http.StatusMethodNotAllowed, "MethodNotAllowed", "the version is a delete marker")
		e.header = http.Header{}
		e.header.Set(hdrMarker, "true")
		return nil, e
	default:
		return v, nil
	}
}

// versionID reads the id in both spellings that clients send; that COS takes
// the capital one, which the SDK sends on DELETE, only a real bucket can settle.
func versionID(query url.Values) string {
	if id := query.Get("versionId"); id != "" {
		return id
	}
	return query.Get("VersionId")
}

// getObject answers GET and HEAD.
func (f *Fake) getObject(r *request) (*answer, error) {
	v, err := f.wanted(r)
	if err != nil {
		return nil, err
	}
	if err := checkConditions(r.Header, v); err != nil {
		return nil, err
	}
	h := f.describe(v)
	if r.op == HeadObject {
		h.Set("Content-Length", strconv.Itoa(len(v.data)))
		return &answer{status: http.StatusOK, header: h}, nil
	}
	if v.frozen(f.now()) {
		return nil, fail(http.StatusForbidden, "InvalidObjectState", "the object has to be restored first")
	}
	ans := &answer{status: http.StatusOK, header: h, body: v.data}
	if spec := r.Header.Get("Range"); spec != "" {
		from, to, ok := parseRange(spec, int64(len(v.data)))
		if !ok {
			return nil, fail(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "the range is not in the object")
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(v.data)))
		ans.status, ans.body, ans.offset = http.StatusPartialContent, v.data[from:to], from
	}
	return ans, nil
}

// describe is what GET and HEAD say of v. The checksum is that of the whole
// object also when a range is sent, which only a real bucket can settle.
func (f *Fake) describe(v *version) http.Header {
	h := maps.Clone(v.header)
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/octet-stream")
	}
	h.Set("Etag", `"`+v.etag+`"`)
	h.Set("Last-Modified", v.modified.Format(http.TimeFormat))
	h.Set("Accept-Ranges", "bytes")
	h.Set(hdrCRC, strconv.FormatUint(v.crc, 10))
	if v.class != "" {
		h.Set(hdrClass, v.class)
	}
	if len(v.tags) > 0 {
		h.Set(hdrTagCount, strconv.Itoa(len(v.tags)))
	}
	if !v.lockedTo.IsZero() {
		h.Set(hdrLockMode, compliance)
		h.Set(hdrLockUntil, v.lockedTo.UTC().Format(lockLayout))
	}
	f.addVersion(h, v)
	addSSE(h, v)
	v.addRestore(h, f.now())
	return h
}

func (f *Fake) addVersion(h http.Header, v *version) {
	if f.versioning != "" {
		h.Set(hdrVersion, v.id)
	}
}

func addSSE(h http.Header, v *version) {
	if v.sse != "" {
		h.Set(hdrSSE, v.sse)
	}
	if v.sseKey != "" {
		h.Set(hdrSSEKey, v.sseKey)
	}
}

// deleteObject removes the object, puts a delete marker on top of it, or
// removes one version. What is not there is deleted with success.
func (f *Fake) deleteObject(r *request) (*answer, error) {
	h := http.Header{}
	id := versionID(r.query)
	if id == "" && f.versioning != "" {
		if old := f.find(r.key, nullVersion); f.versioning == suspended && old != nil && old.locked(f.now()) {
			return nil, denied("the object is locked")
		}
		marker := &version{marker: true, modified: f.now().UTC().Truncate(time.Second)}
		f.store(r.key, marker)
		h.Set(hdrMarker, "true")
		f.addVersion(h, marker)
		return &answer{status: http.StatusNoContent, header: h}, nil
	}
	if id == "" {
		id = nullVersion
	}
	if v := f.find(r.key, id); v != nil {
		if v.locked(f.now()) {
			return nil, denied("the object is locked")
		}
		f.addVersion(h, v)
		if v.marker {
			h.Set(hdrMarker, "true")
		}
		f.drop(r.key, id)
	}
	return &answer{status: http.StatusNoContent, header: h}, nil
}
