package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/hyapp/walletarchive/manifest"
)

// receiptKind is what is known of a batch beside its objects.
type receiptKind int

const (
	noReceipt receiptKind = iota
	withMembers
	withoutMembers
)

// spec is one golden batch. The edits are applied in the order of the fields;
// whatever is made after an edit is made from what the edit left, so that it
// agrees with it. A nil edit does nothing.
type spec struct {
	name, why string
	level     string   // "" is rows
	checks    []string // that must fire; none for a good batch
	noBatch   bool     // must be told apart from a broken batch
	prefix    string
	older     bool // leaves out what older writers did not write
	collation string
	receipt   receiptKind
	records   []manifest.Record

	// rows changes the rows after their figures were taken.
	rows func([]manifest.Record)
	// text changes the lines, object what they are packed into.
	text   func(string) string
	pack   func(string) []byte // nil packs as manifest.Writer does
	object func([]byte) []byte
	// claims changes the manifest; a batch_id of this program and the keys then
	// follow from it. id and place change the batch_id and the folder.
	claims func(*manifest.Manifest)
	id     manifest.BatchID
	place  func(*manifest.Location)
	// described changes the manifest without anything following from it.
	described     func(*manifest.Manifest)
	manifestBytes func(string) string
	marker        func(*manifest.Success)
	markerBytes   func(string) string
	recorded      func(*manifest.Receipt)
	members       func([]manifest.Member)
	omit          []string // names of objects that are not there
}

const app = "wallet"

// build returns the files of the batch by their path.
func (s *spec) build() (map[string][]byte, error) {
	recs := slices.Clone(s.records)
	f, err := figuresOf(recs)
	if err != nil {
		return nil, err
	}
	if s.rows != nil {
		s.rows(recs)
	}
	text := edit(s.text, linesOf(recs))
	object := pack(text)
	if s.pack != nil {
		object = s.pack(text)
	}
	if s.object != nil {
		object = s.object(object)
	}
	f.NDJSONSHA256, f.UncompressedBytes = manifest.SumHash([]byte(text)), int64(len(text))
	f.GzipSHA256, f.DataCRC64, f.CompressedBytes = manifest.SumHash(object), manifest.SumCRC64(object), int64(len(object))

	m, err := s.manifest(f)
	if err != nil {
		return nil, err
	}
	loc := manifest.NewLocation(s.prefix, app, m.FirstCursor, m.BatchID)
	if s.place != nil {
		s.place(&loc)
	}
	m.DataObjectKey = loc.DataKey()
	if s.described != nil {
		s.described(&m)
	}
	mb, err := manifest.EncodeManifest(&m)
	if err != nil {
		return nil, err
	}
	mb = []byte(edit(s.manifestBytes, string(mb)))
	success := manifest.Success{BatchID: loc.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(mb), RowCount: m.RowCount}
	if s.marker != nil {
		s.marker(&success)
	}
	sb, err := manifest.EncodeSuccess(&success)
	if err != nil {
		return nil, err
	}
	sb = []byte(edit(s.markerBytes, string(sb)))

	files := map[string][]byte{
		loc.DataKey(): object, loc.ManifestKey(): mb, loc.SuccessKey(): sb, "want": []byte(s.want()),
	}
	for _, name := range s.omit {
		delete(files, loc.Dir()+"/"+name)
	}
	if s.receipt != noReceipt {
		b, err := s.receiptFile(&m, loc, recs, mb, sb)
		if err != nil {
			return nil, err
		}
		files["receipts.ndjson"] = b
	}
	return files, nil
}

func edit(f func(string) string, text string) string {
	if f == nil {
		return text
	}
	return f(text)
}

// manifest returns what the batch says of itself, up to its keys.
func (s *spec) manifest(f manifest.Figures) (manifest.Manifest, error) {
	m, err := manifest.New(s.prefix, app, f, time.UnixMilli(1700009999000))
	if err != nil {
		return m, err
	}
	m.PayloadFidelity = &manifest.PayloadFidelity{Checked: true}
	m.EventIDCollation = "utf8mb4_0900_ai_ci"
	if s.collation != "" {
		m.EventIDCollation = s.collation
	}
	m.Source = manifest.Origin{ServerVersion: "9.7.4", Table: "wallet_outbox"}
	m.Writer = manifest.Program{Name: "walletarchive", Version: "golden"}
	if s.older {
		m = manifest.Manifest{
			SchemaVersion: m.SchemaVersion, AppCode: m.AppCode, RowCount: m.RowCount, FirstCursor: m.FirstCursor, LastCursor: m.LastCursor,
			MinCreatedAtMS: m.MinCreatedAtMS, MaxCreatedAtMS: m.MaxCreatedAtMS,
			AvailableDeltaTotal: m.AvailableDeltaTotal, FrozenDeltaTotal: m.FrozenDeltaTotal,
			NDJSONSHA256: m.NDJSONSHA256, GzipSHA256: m.GzipSHA256, DataCRC64: m.DataCRC64,
			UncompressedBytes: m.UncompressedBytes, CompressedBytes: m.CompressedBytes, CreatedAtMS: m.CreatedAtMS,
		}
	}
	if s.claims != nil {
		s.claims(&m)
	}
	switch {
	case s.id != "":
		m.BatchID = s.id
	case m.BatchIDScheme != manifest.FingerprintScheme:
		m.BatchID = manifest.BatchID(manifest.SumHash([]byte("an id of another writer")).String())
	default:
		m.BatchID = manifest.Fingerprint(m.SchemaVersion, m.AppCode, m.RowCount, m.FirstCursor, m.LastCursor, m.NDJSONSHA256)
	}
	return m, nil
}

// receiptFile writes the lines itself, since manifest.WriteReceipt refuses
// some of what is needed here.
func (s *spec) receiptFile(m *manifest.Manifest, loc manifest.Location, recs []manifest.Record, mb, sb []byte) ([]byte, error) {
	placed := *m
	placed.DataObjectKey = loc.DataKey()
	r, err := manifest.NewReceipt(&placed, mb, sb, 1700010000000)
	if err != nil {
		return nil, err
	}
	if s.recorded != nil {
		s.recorded(&r)
	}
	var members []manifest.Member
	if s.receipt == withMembers {
		for i := range recs {
			members = append(members, r.Member(recs[i].EventID, recs[i].UpdatedAtMS))
		}
		// The ledger gives them in the order of their event_id.
		slices.SortFunc(members, func(a, b manifest.Member) int { return strings.Compare(a.EventID, b.EventID) })
	}
	if s.members != nil {
		s.members(members)
	}
	var b bytes.Buffer
	err = manifest.WriteReceipt(&b, &r, int64(len(members)), func(yield func(manifest.Member, error) bool) {
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	})
	return b.Bytes(), err
}

// figuresOf takes the figures of the rows from the writer that exports use.
func figuresOf(recs []manifest.Record) (manifest.Figures, error) {
	var b bytes.Buffer
	w := manifest.NewWriter(&b, app)
	recs = slices.Clone(recs)
	for i := range recs {
		// Rows that no export writes have figures all the same.
		recs[i].AppCode, recs[i].Status = app, manifest.StatusDelivered
		if err := w.Write(&recs[i]); err != nil {
			return manifest.Figures{}, err
		}
	}
	f, err := w.Close()
	if err == nil && !bytes.Equal(b.Bytes(), pack(linesOf(recs))) {
		err = fmt.Errorf("manifest.Writer packs otherwise than the golden batches")
	}
	return f, err
}

func linesOf(recs []manifest.Record) string {
	var b []byte
	for i := range recs {
		b = append(recs[i].AppendLine(b), '\n')
	}
	return string(b)
}

// pack makes one gzip member without name and time, in the bytes that
// manifest.Writer makes.
func pack(text string) []byte { return packAs(text, 2, gzip.Header{OS: 255}) }

func packAs(text string, level int, h gzip.Header) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		panic(err)
	}
	w.Header = h
	for _, err := range []error{write(w, text), w.Close()} {
		if err != nil {
			panic(err) // a bytes.Buffer does not fail
		}
	}
	return b.Bytes()
}

func write(w *gzip.Writer, text string) error {
	_, err := w.Write([]byte(text))
	return err
}
