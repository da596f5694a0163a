package cosfake

import (
	"fmt"
	"hash/crc64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Object is one version of an object as the bucket holds it.
type Object struct {
	Key          string
	Data         []byte // not to be changed
	CRC64        uint64 // what the bucket says of Data
	ETag         string // without quotes
	VersionID    string // "null" for what was written without versioning
	DeleteMarker bool
	Modified     time.Time
	StorageClass string // "" is STANDARD
	ContentType  string
	Meta         map[string]string // by name in lower case, without x-cos-meta-
	Tags         map[string]string
	RetainUntil  time.Time // zero when not locked
	SSE          string    // "AES256" or "cos/kms"
	SSEKeyID     string
}

// object describes v to a test.
func (v *version) object(key string) Object {
	o := Object{
		Key: key, Data: v.data, CRC64: v.crc, ETag: v.etag, VersionID: v.id, DeleteMarker: v.marker, Modified: v.modified,
		StorageClass: v.class, ContentType: v.header.Get("Content-Type"), RetainUntil: v.lockedTo, SSE: v.sse, SSEKeyID: v.sseKey,
		Meta: map[string]string{}, Tags: map[string]string{},
	}
	for name, values := range v.header {
		if rest, ok := strings.CutPrefix(name, metaPrefix); ok {
			o.Meta[strings.ToLower(rest)] = values[0]
		}
	}
	for _, t := range v.tags {
		o.Tags[t.Key] = t.Value
	}
	return o
}

// Object returns the latest version; ok is false when there is none or it is a
// delete marker.
func (f *Fake) Object(key string) (o Object, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.latest(key)
	if v == nil {
		return Object{}, false
	}
	return v.object(key), true
}

// Versions returns all versions and delete markers of key, oldest first.
func (f *Fake) Versions(key string) []Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Object
	for _, v := range f.objects[key] {
		all = append(all, v.object(key))
	}
	return all
}

// Keys returns the keys of all objects in byte order, whatever lists show.
func (f *Fake) Keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if f.latest(key) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Store puts an object there as if it had been uploaded, and returns it. Of o,
// what the bucket makes itself (CRC64, ETag, VersionID, Modified) is not used.
// Nothing protects what is there already.
func (f *Fake) Store(o Object) Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &version{
		header: http.Header{}, class: o.StorageClass, lockedTo: o.RetainUntil, sse: o.SSE, sseKey: o.SSEKeyID,
		modified: f.now().UTC().Truncate(time.Second),
	}
	if v.class == "STANDARD" {
		v.class = ""
	}
	if o.ContentType != "" {
		v.header.Set("Content-Type", o.ContentType)
	}
	for name, value := range o.Meta {
		v.header.Set(metaPrefix+name, value)
	}
	for key, value := range o.Tags {
		v.tags = append(v.tags, tag{key, value})
	}
	v.setData(slices.Clone(o.Data))
	f.store(o.Key, v)
	return v.object(o.Key)
}

// Damage changes the byte at offset at of the latest version and leaves its
// checksum and ETag as they were: storage that rots. It panics when there is no
// such byte.
func (f *Fake) Damage(key string, at int64) {
	f.change(key, func(v *version) {
		data := slices.Clone(v.data)
		data[at] ^= 1
		v.data = data
	})
}

// Replace gives the latest version other bytes with the checksum and ETag that
// they have: storage that holds something else than was written. Metadata, tags
// and version id stay.
func (f *Fake) Replace(key string, data []byte) {
	f.change(key, func(v *version) { v.setData(slices.Clone(data)) })
}

// SetCRC64 makes the bucket say another checksum of the latest version.
func (f *Fake) SetCRC64(key string, crc uint64) {
	f.change(key, func(v *version) { v.crc = crc })
}

// SetStorageClass moves the latest version to another class, as a lifecycle
// rule does. "" is STANDARD. A copy that was thawed is gone.
func (f *Fake) SetStorageClass(key, class string) {
	if class == "STANDARD" {
		class = ""
	}
	f.change(key, func(v *version) { v.class, v.thaw = class, thaw{} })
}

// Remove takes an object away with all its versions, whatever protects it.
func (f *Fake) Remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
	f.noteListing(key)
}

// change replaces the latest version by a changed copy, because answers that
// are under way hold the old one.
func (f *Fake) change(key string, change func(*version)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.latest(key)
	if old == nil {
		panic(fmt.Sprintf("cosfake: no object %q", key))
	}
	v := *old
	change(&v)
	all := slices.Clone(f.objects[key])
	all[len(all)-1] = &v
	f.objects[key] = all
	f.noteListing(key)
}

// CRC64 is the checksum that COS has of data; document 436/40334.
func CRC64(data []byte) uint64 { return crc64.Checksum(data, crcTable) }
