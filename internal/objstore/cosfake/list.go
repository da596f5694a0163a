package cosfake

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxListKeys is the most that one list holds; document 436/7734.
const maxListKeys = 1000

// listState is how a key stood in lists from at on. A nil entry was not there.
type listState struct {
	at    time.Time
	entry *listEntry
}

// listEntry is what a list tells of an object.
type listEntry struct {
	size     int
	etag     string
	modified time.Time
	class    string
}

// noteListing writes down that key changed now.
func (f *Fake) noteListing(key string) {
	state := listState{at: f.now()}
	if v := f.latest(key); v != nil {
		state.entry = &listEntry{len(v.data), v.etag, v.modified, cmp.Or(v.class, "STANDARD")}
	}
	f.listed[key] = append(f.listed[key], state)
}

// shown returns what a list shows of key, nil for nothing.
func (f *Fake) shown(key string) *listEntry {
	limit := f.now().Add(-f.listLag)
	for _, s := range slices.Backward(f.listed[key]) {
		if f.listLag <= 0 || !s.at.After(limit) {
			return s.entry
		}
	}
	return nil
}

// page is one list, still unencoded.
type page struct {
	prefix, marker, delimiter string
	maxKeys                   int
	encode                    bool // as in a URL
	keys                      []string
	prefixes                  []string
	next                      string // "" when the list is whole
}

// list answers GET Bucket. More than 1000 keys are cut to 1000, so that a
// client that does not page is found out.
func (f *Fake) list(r *request) (*answer, error) {
	p := page{
		prefix: r.query.Get("prefix"), marker: r.query.Get("marker"), delimiter: r.query.Get("delimiter"),
		maxKeys: maxListKeys,
	}
	if text := r.query.Get("max-keys"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fail(http.StatusBadRequest, "InvalidArgument", "max-keys is no number")
		}
		p.maxKeys = min(n, maxListKeys)
	}
	switch r.query.Get("encoding-type") {
	case "":
	case "url":
		p.encode = true
	default:
		return nil, fail(http.StatusBadRequest, "InvalidArgument", "there is no such encoding-type")
	}
	f.fill(&p)
	return f.listAnswer(&p), nil
}

// fill finds the keys and common prefixes of p. A common prefix counts as a key
// and is what the next list begins after.
func (f *Fake) fill(p *page) {
	count, last := 0, ""
	for _, key := range slices.Sorted(maps.Keys(f.listed)) {
		rest, ok := strings.CutPrefix(key, p.prefix)
		if !ok || key <= p.marker || f.shown(key) == nil {
			continue
		}
		entry, common := key, false
		if p.delimiter != "" {
			if i := strings.Index(rest, p.delimiter); i >= 0 {
				entry, common = p.prefix+rest[:i+len(p.delimiter)], true
			}
		}
		if common && (entry == last || entry == p.marker) {
			continue // this list or the one before has it
		}
		if count == p.maxKeys {
			p.next = last
			return
		}
		if common {
			p.prefixes = append(p.prefixes, entry)
		} else {
			p.keys = append(p.keys, entry)
		}
		count, last = count+1, entry
	}
}

// listAnswer writes the document by hand, because encoding/xml would put
// another character in place of one that XML does not have, and so invent keys.
func (f *Fake) listAnswer(p *page) *answer {
	var b bytes.Buffer
	text := func(name, value string, encode bool) {
		if encode && p.encode {
			value = escape(value)
		}
		fmt.Fprintf(&b, "<%s>%s</%s>", name, xmlText(value), name)
	}
	b.WriteString("<?xml version='1.0' encoding='utf-8' ?>\n<ListBucketResult>")
	text("Name", f.opts.Bucket, false)
	if p.encode {
		text("EncodingType", "url", false)
	}
	text("Prefix", p.prefix, true)
	text("Marker", p.marker, true)
	text("MaxKeys", strconv.Itoa(p.maxKeys), false)
	if p.delimiter != "" {
		text("Delimiter", p.delimiter, true)
	}
	text("IsTruncated", strconv.FormatBool(p.next != ""), false)
	if p.next != "" {
		text("NextMarker", p.next, true)
	}
	for _, key := range p.keys {
		e := f.shown(key)
		b.WriteString("<Contents>")
		text("Key", key, true)
		text("LastModified", e.modified.Format("2006-01-02T15:04:05.000Z"), false)
		text("ETag", `"`+e.etag+`"`, false)
		text("Size", strconv.Itoa(e.size), false)
		b.WriteString("<Owner><ID>1250000000</ID><DisplayName>1250000000</DisplayName></Owner>")
		text("StorageClass", e.class, false)
		b.WriteString("</Contents>")
	}
	for _, prefix := range p.prefixes {
		b.WriteString("<CommonPrefixes>")
		text("Prefix", prefix, true)
		b.WriteString("</CommonPrefixes>")
	}
	b.WriteString("</ListBucketResult>")
	h := http.Header{}
	h.Set("Content-Type", "application/xml")
	return &answer{status: http.StatusOK, header: h, body: b.Bytes()}
}

// xmlText escapes s; control characters, which XML does not have, become
// references that make a strict reader fail.
func xmlText(s string) string {
	var b bytes.Buffer
	for _, c := range s {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
			fmt.Fprintf(&b, "&#x%X;", c)
			continue
		}
		// A bytes.Buffer does not fail.
		_ = xml.EscapeText(&b, []byte(string(c)))
	}
	return b.String()
}
