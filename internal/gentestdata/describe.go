package main

import (
	"regexp"
	"strings"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/hyapp/walletarchive/manifest"
)

// rootOfLines is rows_root by the library, apart from manifest.
func rootOfLines(recs []manifest.Record) manifest.Hash {
	h := rfc6962.DefaultHasher
	f := compact.RangeFactory{Hash: h.HashChildren}
	r := f.NewEmptyRange(0)
	for i := range recs {
		if err := r.Append(h.HashLeaf(recs[i].AppendLine(nil)), nil); err != nil {
			panic(err)
		}
	}
	root, err := r.GetRootHash(nil)
	if err != nil {
		panic(err)
	}
	return manifest.Hash(root)
}

const otherID = manifest.BatchID("00000000000000000000000000000000000000000000000000000000000000ff")

// replaced edits a document, whose hash and CRC64 then follow.
func replaced(old, broken string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			panic("the text to edit is not there: " + old)
		}
		return strings.Replace(text, old, broken, 1)
	}
}

// badDescriptions break manifest.json, _SUCCESS or the place of a batch.
func badDescriptions() []spec {
	// pattern is a regular expression, with is what Regexp.ReplaceAllStringFunc takes.
	syntaxFunc := func(name, why, pattern string, with func(string) string) spec {
		return spec{name: "bad-manifest-" + name, why: why, checks: []string{"manifest_syntax"}, records: threeRows(), receipt: withMembers, manifestBytes: func(text string) string {
			out := regexp.MustCompile(pattern).ReplaceAllStringFunc(text, with)
			if out == text {
				panic(name + ": nothing was edited")
			}
			return out
		}}
	}
	syntax := func(name, why, old, broken string) spec {
		return syntaxFunc(name, why, regexp.QuoteMeta(old), func(string) string { return broken })
	}
	mark := func(name, why, check string, f func(*manifest.Success)) spec {
		return spec{name: "bad-marker-" + name, why: why, checks: []string{check}, records: threeRows(), receipt: withMembers, marker: f}
	}
	described := func(name, why, check string, f func(*manifest.Manifest)) spec {
		return spec{name: "bad-manifest-" + name, why: why, checks: []string{check}, records: threeRows(), described: f}
	}
	placed := func(name, why, check string, f func(*manifest.Location)) spec {
		return spec{name: "bad-place-" + name, why: why, checks: []string{check}, records: threeRows(), place: f}
	}
	claimed := func(name, why, check string, f func(*manifest.Manifest)) spec {
		return spec{name: "bad-manifest-" + name, why: why, checks: []string{check}, level: "content", older: true, records: threeRows(), claims: f}
	}
	opaque := described("batch-id", "the manifest names another batch_id than its folder", "manifest_batch_id", func(m *manifest.Manifest) { m.BatchID = otherID })
	opaque.older = true
	return []spec{
		syntax("duplicate-member", "a member of manifest.json comes twice", `"row_count": 3`, `"row_count": 3, "row_count": 3`),
		syntax("unknown-member", "a member that no manifest has", `"row_count": 3`, `"row_count": 3, "rows": 3`),
		syntaxFunc("missing-member", "a member is missing", `  "compressed_bytes": [0-9]+,\n`, func(string) string { return "" }),
		syntaxFunc("missing-in-cursor", "a member of a cursor is missing", `("first_cursor": \{)\s*"updated_at_ms": [0-9]+,`, func(string) string { return `"first_cursor": {` }),
		syntaxFunc("null", "a member is null that may be absent", `"rows_root": "[0-9a-f]+"`, func(string) string { return `"rows_root": null` }),
		syntax("number-for-total", "a total is a number in place of a string", `"frozen_delta_total": "20"`, `"frozen_delta_total": 20`),
		syntaxFunc("upper-case-hash", "a hash has upper-case digits", `"rows_root": "[0-9a-f]+"`, func(m string) string { return `"rows_root"` + strings.ToUpper(strings.TrimPrefix(m, `"rows_root"`)) }),
		syntax("schema-version", "schema_version is 2", `"schema_version": 1`, `"schema_version": 2`),
		syntax("text-after", "text follows the object", "}\n", "}\n{}\n"),
		syntax("cut", "the object is cut short", "\n}\n", "\n"),
		{name: "bad-marker-syntax", why: "_SUCCESS lacks a member", checks: []string{"marker_syntax"}, records: threeRows(), receipt: withMembers, markerBytes: replaced(",\n  \"row_count\": 3", "")},
		{name: "bad-marker-empty", why: "_SUCCESS is empty", checks: []string{"marker_syntax"}, records: threeRows(), markerBytes: func(string) string { return "" }},
		mark("batch-id", "_SUCCESS names another batch", "marker_batch_id", func(s *manifest.Success) { s.BatchID = otherID }),
		mark("manifest-key", "_SUCCESS names another manifest", "marker_manifest_object_key", func(s *manifest.Success) {
			s.ManifestObjectKey = strings.Replace(s.ManifestObjectKey, "date=2023", "date=2024", 1)
		}),
		mark("manifest-sha256", "_SUCCESS has another SHA-256 of the manifest", "marker_manifest_sha256", func(s *manifest.Success) { s.ManifestSHA256[0] ^= 1 }),
		mark("row-count", "_SUCCESS has another row_count", "marker_row_count", func(s *manifest.Success) { s.RowCount++ }),
		{name: "bad-manifest-replaced", why: "manifest.json changed by one byte after _SUCCESS was written", checks: []string{"marker_manifest_sha256"}, records: threeRows(), manifestBytes: replaced(`"version": "golden"`, `"version": "Golden"`), marker: func(s *manifest.Success) {
			s.ManifestSHA256 = manifest.SumHash([]byte("the manifest before"))
		}},
		opaque,
		described("data-key", "the manifest names the data object of another day", "manifest_data_object_key", func(m *manifest.Manifest) {
			m.DataObjectKey = strings.Replace(m.DataObjectKey, "date=2023", "date=2024", 1)
		}),
		placed("app-code", "the folder is that of another app_code", "manifest_app_code", func(l *manifest.Location) { l.AppCode = "other" }),
		placed("date", "the folder has another date than the first cursor", "manifest_date", func(l *manifest.Location) { l.Date = "2023-11-15" }),
		{name: "bad-fingerprint", why: "batch_id is not what its scheme gives", checks: []string{"batch_id_fingerprint"}, records: threeRows(), receipt: withMembers, id: otherID},
		claimed("no-rows", "row_count is 0", "manifest_range", func(m *manifest.Manifest) { m.RowCount = 0 }),
		claimed("cursors", "first_cursor is after last_cursor", "manifest_range", func(m *manifest.Manifest) { m.FirstCursor.UpdatedAtMS = m.LastCursor.UpdatedAtMS + 1 }),
		claimed("created", "min_created_at_ms is after max_created_at_ms", "manifest_range", func(m *manifest.Manifest) { m.MinCreatedAtMS = m.MaxCreatedAtMS + 1 }),
		{name: "bad-manifest-asset-totals", why: "totals_by_asset do not add up to the totals", level: "content", checks: []string{"manifest_asset_totals"}, records: threeRows(), claims: func(m *manifest.Manifest) { m.FrozenDeltaTotal.Add(1) }},
		{name: "bad-fidelity-unnamed", why: "payload_fidelity counts two rows and names one", checks: []string{"payload_fidelity"}, records: threeRows(), claims: func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{Checked: true, TextUnstableRows: 2, TextUnstableEventIDs: []string{"evt_0001"}}
		}},
		{name: "bad-fidelity-unchecked", why: "payload_fidelity counts a row though nothing was checked", checks: []string{"payload_fidelity"}, records: threeRows(), claims: func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{ValueUnstableRows: 1, ValueUnstableEventIDs: []string{"evt_0001"}}
		}},
		{name: "bad-fidelity-rows", why: "payload_fidelity counts more rows than there are", checks: []string{"payload_fidelity"}, records: threeRows(), claims: func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{Checked: true, TextUnstableRows: 4, TextUnstableEventIDs: []string{"a", "b", "c", "d"}}
		}},
	}
}

// badReceipts differ from the batch in one column of the receipt, or in a member.
func badReceipts() []spec {
	column := func(name, why string, f func(*manifest.Receipt)) spec {
		return spec{name: "bad-receipt-" + strings.ReplaceAll(name, "_", "-"), why: why, checks: []string{"receipt_" + name}, records: threeRows(), receipt: withMembers, recorded: f}
	}
	rows := column("row_count", "the receipt has one row more", func(r *manifest.Receipt) { r.RowCount++ })
	rows.receipt = withoutMembers
	head := func(name, why, check string, f func(*manifest.Receipt)) spec {
		return spec{name: "bad-head-" + name, why: why, level: "head", checks: []string{check}, records: threeRows(), receipt: withMembers, recorded: f}
	}
	return []spec{
		rows,
		column("first_cursor", "the receipt has another first_event_id", func(r *manifest.Receipt) { r.FirstEventID = "evt_0000" }),
		column("last_cursor", "the receipt has another last_updated_at_ms", func(r *manifest.Receipt) { r.LastUpdatedAtMS++ }),
		column("min_created_at_ms", "the receipt has another min_created_at_ms", func(r *manifest.Receipt) { r.MinCreatedAtMS-- }),
		column("max_created_at_ms", "the receipt has another max_created_at_ms", func(r *manifest.Receipt) { r.MaxCreatedAtMS++ }),
		column("available_delta_total", "the receipt has another available_delta_total", func(r *manifest.Receipt) { r.AvailableDeltaTotal.Add(1) }),
		column("frozen_delta_total", "the receipt has another frozen_delta_total", func(r *manifest.Receipt) { r.FrozenDeltaTotal.Add(1) }),
		column("ndjson_sha256", "the receipt has another ndjson_sha256", func(r *manifest.Receipt) { r.NDJSONSHA256[0] ^= 1 }),
		column("gzip_sha256", "the receipt has another gzip_sha256", func(r *manifest.Receipt) { r.GzipSHA256[0] ^= 1 }),
		column("data_crc64", "the receipt has another data_crc64", func(r *manifest.Receipt) { r.DataCRC64++ }),
		column("manifest_sha256", "the receipt has another manifest_sha256", func(r *manifest.Receipt) { r.ManifestSHA256[0] ^= 1 }),
		column("uncompressed_bytes", "the receipt has another uncompressed_bytes", func(r *manifest.Receipt) { r.UncompressedBytes++ }),
		column("compressed_bytes", "the receipt has another compressed_bytes", func(r *manifest.Receipt) { r.CompressedBytes++ }),
		{name: "bad-receipt-data-object-key", why: "the manifest names another prefix than the receipt", checks: []string{"receipt_data_object_key"}, records: threeRows(), receipt: withMembers,
			described: func(m *manifest.Manifest) { m.DataObjectKey = "old/" + m.DataObjectKey }},
		{name: "bad-receipt-manifest-crc64", why: "the receipt has another manifest_crc64", checks: []string{"object_crc64"}, records: threeRows(), receipt: withMembers, recorded: func(r *manifest.Receipt) { r.ManifestCRC64++ }},
		{name: "bad-receipt-success-crc64", why: "the receipt has another success_crc64", checks: []string{"object_crc64"}, records: threeRows(), receipt: withMembers, recorded: func(r *manifest.Receipt) { r.SuccessCRC64++ }},
		head("size", "the store has another size than the receipt says", "object_size", func(r *manifest.Receipt) { r.CompressedBytes++ }),
		head("crc64", "the store has another CRC64 of the data object than the receipt says", "object_crc64", func(r *manifest.Receipt) { r.DataCRC64++ }),
		{name: "bad-head-missing", why: "the data object is not there", level: "head", checks: []string{"object_missing"}, records: threeRows(), receipt: withMembers, omit: []string{manifest.DataName}},
		{name: "bad-member-time", why: "a member has another updated_at_ms than its row", checks: []string{"member_updated_at_ms"}, records: threeRows(), receipt: withMembers, members: func(ms []manifest.Member) { ms[1].UpdatedAtMS++ }},
		{name: "bad-member-other", why: "a member is another event_id: one row is no member, one member is no row", checks: []string{"member_extra", "member_missing"}, records: threeRows(), receipt: withMembers, members: func(ms []manifest.Member) { ms[1].EventID = "evt_0009" }},
		{name: "bad-member-twice", why: "one member comes twice and another is missing", checks: []string{"member_extra", "member_missing"}, records: threeRows(), receipt: withMembers, members: func(ms []manifest.Member) { ms[1] = ms[0] }},
	}
}
