package verify

import (
	"fmt"

	"github.com/hyapp/walletarchive/manifest"
)

// checkMarker holds _SUCCESS against its place and the manifest's bytes.
func (r *run) checkMarker() {
	key := r.target.Location.SuccessKey()
	s, err := manifest.DecodeSuccess(r.successBytes)
	if err != nil {
		r.faults.add(Fault{Check: CheckMarkerSyntax, Object: key, Got: err.Error(), Want: "a _SUCCESS as docs/FORMAT.md has it"})
		return
	}
	differ(&r.faults, CheckMarkerBatchID, key, s.BatchID, r.target.Location.BatchID)
	differ(&r.faults, CheckMarkerManifestKey, key, relative(s.ManifestObjectKey), r.target.Location.Relative()+"/"+manifest.ManifestName)
	if r.manifestBytes == nil {
		return
	}
	differ(&r.faults, CheckMarkerManifestSHA, key, manifest.SumHash(r.manifestBytes), s.ManifestSHA256)
	if m, err := manifest.DecodeManifest(r.manifestBytes); err == nil {
		differ(&r.faults, CheckMarkerRowCount, key, s.RowCount, m.RowCount)
	}
}

// relative strips the prefix of a batch object's key, since a batch may be
// copied to another prefix and stays whole. A key that names no batch object is
// returned as it is.
func relative(key string) string {
	loc, err := manifest.ParseLocation(key)
	if err != nil {
		return key
	}
	return key[len(manifest.JoinPrefix(loc.Prefix, loc.Relative()))-len(loc.Relative()):]
}

// checkManifest judges what the manifest says of itself and against the
// receipt. It returns nil when it cannot be read.
func (r *run) checkManifest() *manifest.Manifest {
	loc := r.target.Location
	key := loc.ManifestKey()
	m, err := manifest.DecodeManifest(r.manifestBytes)
	if err != nil {
		r.faults.add(Fault{Check: CheckManifestSyntax, Object: key, Got: err.Error(), Want: "a manifest as docs/FORMAT.md has it"})
		return nil
	}
	fs := &r.faults
	differ(fs, CheckManifestBatchID, key, m.BatchID, loc.BatchID)
	differ(fs, CheckManifestAppCode, key, m.AppCode, loc.AppCode)
	differ(fs, CheckManifestDataKey, key, relative(m.DataObjectKey), loc.Relative()+"/"+manifest.DataName)
	differ(fs, CheckManifestDate, key, loc.Date, manifest.PartitionDate(m.FirstCursor.UpdatedAtMS))
	switch m.BatchIDScheme {
	case manifest.FingerprintScheme:
		want := manifest.Fingerprint(m.SchemaVersion, m.AppCode, m.RowCount, m.FirstCursor, m.LastCursor, m.NDJSONSHA256)
		differ(fs, CheckFingerprint, key, m.BatchID, want)
	case "":
		r.note(key, "an older writer made the batch_id in a way of its own; it is taken as opaque")
	default:
		r.note(key, "batch_id_scheme %q is not known to this program; batch_id is taken as opaque", m.BatchIDScheme)
	}
	r.checkRanges(&m, key)
	if r.target.Receipt != nil {
		r.checkReceipt(&m, key)
	}
	return &m
}

// checkRanges finds figures that no batch can have.
func (r *run) checkRanges(m *manifest.Manifest, key string) {
	bad := func(got, want string) {
		r.faults.add(Fault{Check: CheckManifestRange, Object: key, Got: got, Want: want})
	}
	if m.RowCount < 1 {
		bad(fmt.Sprintf("row_count %d", m.RowCount), "at least 1")
	}
	if m.FirstCursor.UpdatedAtMS > m.LastCursor.UpdatedAtMS {
		bad(fmt.Sprintf("first_cursor at %d", m.FirstCursor.UpdatedAtMS), fmt.Sprintf("not after last_cursor at %d", m.LastCursor.UpdatedAtMS))
	}
	if m.MinCreatedAtMS > m.MaxCreatedAtMS {
		bad(fmt.Sprintf("min_created_at_ms %d", m.MinCreatedAtMS), fmt.Sprintf("at most max_created_at_ms %d", m.MaxCreatedAtMS))
	}
	if m.CompressedBytes < 1 || m.UncompressedBytes < 1 {
		bad(fmt.Sprintf("%d compressed and %d uncompressed bytes", m.CompressedBytes, m.UncompressedBytes), "both positive")
	}
	if m.TotalsByAsset == nil {
		r.note(key, "an older writer left out totals_by_asset")
	} else if got, want := sumAssets(m.TotalsByAsset), totalsOf(m); got != want {
		r.faults.add(Fault{Check: CheckManifestAssets, Object: key, Got: got, Want: want})
	}
	if m.RowsRoot == nil {
		r.note(key, "an older writer left out rows_root; ndjson_sha256 alone fixes the rows")
	}
	f := m.PayloadFidelity
	if f == nil {
		return
	}
	for _, kind := range []struct {
		name string
		n    int64
		ids  int
	}{{"text_unstable", f.TextUnstableRows, len(f.TextUnstableEventIDs)}, {"value_unstable", f.ValueUnstableRows, len(f.ValueUnstableEventIDs)}} {
		want := min(max(kind.n, 0), manifest.MaxUnstableEventIDs)
		if kind.n < 0 || kind.n > m.RowCount || !f.Checked && kind.n > 0 || int64(kind.ids) != want {
			r.faults.add(Fault{
				Check: CheckFidelity, Object: key,
				Got:  fmt.Sprintf("checked %t, %d %s rows of %d, %d event_ids", f.Checked, kind.n, kind.name, m.RowCount, kind.ids),
				Want: fmt.Sprintf("no rows unless checked, at most row_count, the first %d named", manifest.MaxUnstableEventIDs),
			})
		}
	}
}

// checkReceipt holds every column that the manifest fixes against the receipt.
func (r *run) checkReceipt(m *manifest.Manifest, key string) {
	fs, rc := &r.faults, r.target.Receipt
	column := func(name string) Check { return Check(CheckReceipt + name) }
	differ(fs, column("app_code"), key, m.AppCode, rc.AppCode)
	differ(fs, column("batch_id"), key, m.BatchID, rc.BatchID)
	differ(fs, column("data_object_key"), key, m.DataObjectKey, rc.DataObjectKey)
	differ(fs, column("row_count"), key, m.RowCount, rc.RowCount)
	differ(fs, column("first_cursor"), key, m.FirstCursor, rc.FirstCursor())
	differ(fs, column("last_cursor"), key, m.LastCursor, rc.LastCursor())
	differ(fs, column("min_created_at_ms"), key, m.MinCreatedAtMS, rc.MinCreatedAtMS)
	differ(fs, column("max_created_at_ms"), key, m.MaxCreatedAtMS, rc.MaxCreatedAtMS)
	differ(fs, column("available_delta_total"), key, m.AvailableDeltaTotal, rc.AvailableDeltaTotal)
	differ(fs, column("frozen_delta_total"), key, m.FrozenDeltaTotal, rc.FrozenDeltaTotal)
	differ(fs, column("ndjson_sha256"), key, m.NDJSONSHA256, rc.NDJSONSHA256)
	differ(fs, column("gzip_sha256"), key, m.GzipSHA256, rc.GzipSHA256)
	differ(fs, column("data_crc64"), key, m.DataCRC64, rc.DataCRC64)
	differ(fs, column("manifest_sha256"), key, manifest.SumHash(r.manifestBytes), rc.ManifestSHA256)
	differ(fs, column("uncompressed_bytes"), key, m.UncompressedBytes, rc.UncompressedBytes)
	differ(fs, column("compressed_bytes"), key, m.CompressedBytes, rc.CompressedBytes)
}

func totalsOf(m *manifest.Manifest) string {
	return fmt.Sprintf("%d rows, available %s, frozen %s", m.RowCount, m.AvailableDeltaTotal, m.FrozenDeltaTotal)
}
