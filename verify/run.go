package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/spill"
	"github.com/hyapp/walletarchive/manifest"
)

// run is one verification.
type run struct {
	src     Source
	target  Target
	opts    Options
	started time.Time
	report  Report
	faults  faults

	manifestBytes, successBytes []byte
	// spool, when not nil, receives the data object as it was read last.
	spool *os.File
	// keepIDs keeps the event_ids of the last read in ids, for the caller to close.
	keepIDs bool
	ids     *spill.Set
}

func newRun(src Source, t Target, opts Options) *run {
	against := "manifest"
	switch {
	case t.Receipt != nil && t.Members != nil:
		against = "receipt and members"
	case t.Receipt != nil:
		against = "receipt without members"
	}
	return &run{
		src: src, target: t, opts: opts, started: opts.Now(), ids: spill.New("", spill.Options{}),
		report: Report{
			AppCode: t.Location.AppCode, BatchID: t.Location.BatchID, Level: opts.Level, Against: against,
			Unchecked: []Note{}, Notes: []Note{}, Objects: []Object{},
		},
	}
}

func (r *run) note(object, format string, args ...any) {
	r.report.Notes = append(r.report.Notes, Note{Object: object, Text: fmt.Sprintf(format, args...)})
}

func (r *run) unchecked(object, format string, args ...any) {
	r.report.Unchecked = append(r.report.Unchecked, Note{Object: object, Text: fmt.Sprintf(format, args...)})
}

func (r *run) finish() Report {
	r.report.Faults = r.faults.list
	if r.report.Faults == nil {
		r.report.Faults = []Fault{}
	}
	r.report.MoreFaults = r.faults.more
	r.report.Duration = r.opts.Now().Sub(r.started)
	return r.report
}

func (r *run) verify(ctx context.Context) error {
	if r.target.Receipt != nil {
		if err := r.target.Receipt.Validate(); err != nil {
			return fmt.Errorf("receipt of batch %s: %w", r.target.Location.BatchID, err)
		}
		if r.target.Members == nil {
			r.note("", "the receipt has no members: its rows are never eligible for a clean-up")
		}
	}
	if r.opts.Level == LevelHead && r.target.Receipt != nil {
		return r.heads(ctx)
	}
	m, err := r.description(ctx)
	if err != nil || m == nil {
		return err
	}
	if r.opts.Level == LevelHead {
		return r.headData(ctx, m.CompressedBytes, m.DataCRC64)
	}
	return r.data(ctx, m)
}

// heads holds what the store says of the three objects against the receipt.
func (r *run) heads(ctx context.Context) error {
	rc, loc := r.target.Receipt, r.target.Location
	if err := r.head(ctx, loc.SuccessKey(), r.target.Versions.Success, -1, rc.SuccessCRC64); err != nil {
		return err
	}
	if err := r.head(ctx, loc.ManifestKey(), r.target.Versions.Manifest, -1, rc.ManifestCRC64); err != nil {
		return err
	}
	return r.headData(ctx, rc.CompressedBytes, rc.DataCRC64)
}

func (r *run) headData(ctx context.Context, size int64, crc manifest.CRC64) error {
	return r.head(ctx, r.target.Location.DataKey(), r.target.Versions.Data, size, crc)
}

// head checks one object without reading it. size is -1 when no record says it.
func (r *run) head(ctx context.Context, key, version string, size int64, crc manifest.CRC64) error {
	info, err := r.src.Head(ctx, key, version)
	if errors.Is(err, objstore.ErrNotExist) {
		r.missing(key, err)
		return nil
	}
	if err != nil {
		return err // a store names operation and key
	}
	r.object(info)
	if size >= 0 {
		differ(&r.faults, CheckObjectSize, key, info.Size, size)
	}
	if info.CRC64 == nil {
		r.unchecked(key, "the store names no CRC64 for this object, so its bytes were not checked; use --level content")
		return nil
	}
	differ(&r.faults, CheckObjectCRC64, key, *info.CRC64, crc)
	return nil
}

// missing is a fault of an object for which the store gave err.
func (r *run) missing(key string, err error) {
	f := Fault{Check: CheckObjectMissing, Object: key, Got: "no object", Want: "an object"}
	if errors.Is(err, objstore.ErrHidden) {
		f.Detail = "its latest version is a delete marker: older versions may still be there"
	}
	r.faults.add(f)
}

// object records what the store says and checks its retention.
func (r *run) object(info objstore.Info) {
	o := Object{
		Key: info.Key, Bytes: info.Size, CRC64: info.CRC64, VersionID: info.VersionID,
		StorageClass: info.StorageClass, Thaw: info.Thaw.State.String(),
	}
	if !info.RetainUntil.IsZero() {
		o.RetainUntil = &info.RetainUntil
	}
	r.report.Objects = append(r.report.Objects, o)
	if r.opts.RequireRetention <= 0 {
		return
	}
	if least := r.opts.Now().Add(r.opts.RequireRetention); info.RetainUntil.Before(least) {
		got := "no retention"
		if o.RetainUntil != nil {
			got = "until " + info.RetainUntil.UTC().Format(time.RFC3339)
		}
		r.faults.add(Fault{Check: CheckRetention, Object: info.Key, Got: got, Want: "at least until " + least.UTC().Format(time.RFC3339)})
	}
}

// description reads and judges _SUCCESS and manifest.json. m is nil when the
// data object cannot be judged, since no manifest says what it should be.
func (r *run) description(ctx context.Context) (m *manifest.Manifest, err error) {
	loc := r.target.Location
	r.successBytes, err = r.small(ctx, loc.SuccessKey(), r.target.Versions.Success)
	if err != nil {
		return nil, err
	}
	if r.target.Receipt == nil && r.faults.has(CheckObjectMissing) {
		return nil, fmt.Errorf("batch %s: %w", loc.BatchID, ErrNoBatch)
	}
	r.manifestBytes, err = r.small(ctx, loc.ManifestKey(), r.target.Versions.Manifest)
	if err != nil {
		return nil, err
	}
	if r.successBytes != nil {
		r.checkMarker()
	}
	if r.manifestBytes != nil {
		m = r.checkManifest()
		r.report.Manifest = m
	}
	if m == nil {
		r.unchecked(loc.DataKey(), "not read: without a readable manifest nothing says what it should hold")
	}
	return m, nil
}

// small reads a whole small object. It returns nil without an error when the
// object is missing or damaged, which is then a fault already.
func (r *run) small(ctx context.Context, key, version string) ([]byte, error) {
	var first error
	for attempt := 1; ; attempt++ {
		b, info, err := r.readAll(ctx, key, version)
		var corrupt *objstore.CorruptError
		switch {
		case errors.Is(err, objstore.ErrNotExist):
			r.missing(key, err)
			return nil, nil
		case errors.As(err, &corrupt) && corrupt.Kind == objstore.CRCMissing:
			r.note(key, "the store names no CRC64 for this object; its SHA-256 was checked instead")
		case errors.As(err, &corrupt) && attempt == 1:
			first = err
			continue
		case errors.As(err, &corrupt):
			r.faults.add(corruptFault(corrupt, first))
			return nil, nil
		case err != nil:
			return nil, err
		case first != nil:
			r.note(key, "a first read came back damaged (%v), a second one whole", first)
		}
		if len(b) > manifest.MaxManifestBytes {
			r.faults.add(Fault{Check: CheckObjectSize, Object: key, Got: fmt.Sprint(info.Size), Want: fmt.Sprintf("at most %d", manifest.MaxManifestBytes)})
			return nil, nil
		}
		r.object(info)
		r.report.Bytes += int64(len(b))
		if rc := r.target.Receipt; rc != nil {
			want := rc.ManifestCRC64
			if key == r.target.Location.SuccessKey() {
				want = rc.SuccessCRC64
			}
			differ(&r.faults, CheckObjectCRC64, key, manifest.SumCRC64(b), want)
		}
		return b, nil
	}
}

// readAll reads one object, at most a byte more than a manifest may have. With
// a *objstore.CorruptError the bytes are what came.
func (r *run) readAll(ctx context.Context, key, version string) ([]byte, objstore.Info, error) {
	body, info, err := r.src.Get(ctx, key, version)
	if err != nil {
		return nil, info, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, manifest.MaxManifestBytes+1))
	return b, info, err
}

// corruptFault turns a transfer that came back wrong twice into a fault.
func corruptFault(c *objstore.CorruptError, first error) Fault {
	f := Fault{Check: CheckObjectCRC64, Object: c.Key, Got: c.Got, Want: c.Want, Detail: "second read; the first gave: " + first.Error()}
	if c.Kind == objstore.ShortBody {
		f.Check = CheckShortBody
	}
	return f
}
