package main

import (
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/hyapp/walletarchive/manifest"
)

// badObjects break the data object below its lines.
func badObjects() []spec {
	member := func(name, why, check string, object func([]byte) []byte) spec {
		return spec{name: name, why: why, checks: []string{check}, records: threeRows(), receipt: withMembers, object: object}
	}
	behind := func(b string) func([]byte) []byte { return func(o []byte) []byte { return append(o, b...) } }
	header := func(h gzip.Header) func(string) []byte {
		h.OS = 255
		return func(text string) []byte { return packAs(text, 2, h) }
	}
	flagged := func(flag byte, field string) func([]byte) []byte {
		return func(o []byte) []byte {
			o[3] = flag
			return append(o[:10:10], append([]byte(field), o[10:]...)...)
		}
	}
	named := member("bad-gzip-name", "the gzip header carries a file name", "gzip_header", nil)
	named.pack = header(gzip.Header{Name: "data.ndjson"})
	commented := member("bad-gzip-comment", "the gzip header carries a comment", "gzip_header", nil)
	commented.pack = header(gzip.Header{Comment: "x"})
	return []spec{
		named,
		commented,
		member("bad-gzip-empty-name", "the gzip header carries a name of no characters", "gzip_header", flagged(1<<3, "\x00")),
		member("bad-gzip-extra", "the gzip header carries an extra field", "gzip_header", flagged(1<<2, "\x04\x00ab\x00\x00")),
		member("bad-gzip-time", "the gzip header carries a time", "gzip_header", func(o []byte) []byte { o[4] = 1; return o }),
		member("bad-gzip-second-member", "a second gzip member follows, empty", "gzip_members", behind(string(pack("")))),
		member("bad-gzip-trailing-byte", "one zero byte follows the gzip trailer", "gzip_trailing_bytes", behind("\x00")),
		member("bad-gzip-trailing-bytes", "text follows the gzip trailer", "gzip_trailing_bytes", behind("more")),
		member("bad-gzip-cut", "the gzip trailer is cut short by a byte", "gzip_damaged", func(o []byte) []byte { return o[:len(o)-1] }),
		member("bad-gzip-empty", "the data object has one byte", "gzip_damaged", func(o []byte) []byte { return o[:1] }),
		member("bad-gzip-crc", "the CRC-32 of the gzip trailer is another", "gzip_damaged", func(o []byte) []byte { o[len(o)-5] ^= 0x40; return o }),
		member("bad-gzip-length", "the length in the gzip trailer is another", "gzip_damaged", func(o []byte) []byte { o[len(o)-4] ^= 1; return o }),
		member("bad-gzip-reserved-flag", "a reserved flag of the gzip header is set", "gzip_damaged", flagged(1<<5, "")),
		member("bad-not-gzip", "the data object is plain text", "gzip_damaged", func([]byte) []byte { return []byte(linesOf(threeRows())) }),
		{name: "bad-bomb", why: "the data object unpacks to 4 MiB where the manifest declares some hundred bytes", checks: []string{"more_bytes_than_declared"}, records: threeRows(), receipt: withMembers,
			object: func([]byte) []byte { return pack(strings.Repeat("\n", 4<<20)) }},
		{name: "bad-one-byte-more", why: "the manifest declares one uncompressed byte less than there is", checks: []string{"more_bytes_than_declared"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.UncompressedBytes-- }},
		{name: "bad-uncompressed-bytes", why: "the manifest declares one uncompressed byte more than there is", checks: []string{"uncompressed_bytes"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.UncompressedBytes++ }},
		{name: "bad-compressed-bytes", why: "the manifest declares one packed byte more than there is, which the store's own size shows as well", checks: []string{"compressed_bytes", "object_size"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.CompressedBytes++ }},
		{name: "bad-data-crc64", why: "the manifest has another CRC64", checks: []string{"data_crc64"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.DataCRC64++ }},
		{name: "bad-gzip-sha256", why: "the manifest has another SHA-256 of the packed bytes", checks: []string{"gzip_sha256"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.GzipSHA256[0] ^= 1 }},
		{name: "bad-ndjson-sha256", why: "the manifest has another SHA-256 of the text", checks: []string{"ndjson_sha256"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.NDJSONSHA256[0] ^= 1 }},
		{name: "bad-ndjson-sha256-content", why: "as before, found without decoding a row", level: "content", checks: []string{"ndjson_sha256"}, records: threeRows(), receipt: withMembers,
			claims: func(m *manifest.Manifest) { m.NDJSONSHA256[0] ^= 1 }},
		{name: "bad-data-missing", why: "the data object is not there", checks: []string{"object_missing"}, records: threeRows(), receipt: withMembers, omit: []string{manifest.DataName}},
		{name: "bad-manifest-missing", why: "manifest.json is not there", checks: []string{"object_missing"}, records: threeRows(), receipt: withMembers, omit: []string{manifest.ManifestName}},
		{name: "bad-success-missing", why: "_SUCCESS is not there, though the receipt says that it was", checks: []string{"object_missing"}, records: threeRows(), receipt: withMembers, omit: []string{manifest.SuccessName}},
		{name: "bad-no-batch", why: "_SUCCESS is not there and no receipt is known: this is no batch", noBatch: true, records: threeRows(), omit: []string{manifest.SuccessName}},
	}
}

// badLines break one line; every hash agrees with the broken line.
func badLines() []spec {
	line := func(name, why, old, broken string) spec {
		return spec{name: "bad-line-" + name, why: why, checks: []string{"line_syntax"}, records: threeRows(), receipt: withMembers, text: func(text string) string {
			if strings.Count(text, old) != 1 {
				panic(name + ": the text to edit is not there exactly once")
			}
			return strings.Replace(text, old, broken, 1)
		}}
	}
	return []spec{
		line("duplicate-member", "a member comes twice, with the same value", `"user_id":43`, `"user_id":43,"user_id":43`),
		line("duplicate-escaped", "a member comes twice, once with an escape in its name", `"user_id":43`, `"user_id":43,"user\u005fid":43`),
		line("unknown-member", "a member that no record has", `"user_id":43`, `"user_id":43,"note":""`),
		line("missing-member", "a member is missing", `"retry_count":2,`, ``),
		line("missing-null", "a member whose value would be null is missing", `"lock_until_ms":null,"retry_count":0,"next_retry_at_ms":null`, `"retry_count":0,"next_retry_at_ms":null`),
		line("column-name", "payload_json is called payload", `"payload_json":"[]"`, `"payload":"[]"`),
		line("string-for-integer", "an integer is a string", `"user_id":43`, `"user_id":"43"`),
		line("null-for-integer", "an integer that cannot be NULL is null", `"user_id":43`, `"user_id":null`),
		line("null-for-string", "a string that cannot be NULL is null", `"transaction_id":"tx_2"`, `"transaction_id":null`),
		line("fraction", "an integer has a fraction, if only of zero", `"user_id":43`, `"user_id":43.0`),
		line("exponent", "an integer has an exponent", `"retry_count":2`, `"retry_count":2e0`),
		line("leading-zero", "an integer has a leading zero", `"user_id":43`, `"user_id":043`),
		line("beyond-int64", "an integer is one more than int64 holds", `"user_id":43`, `"user_id":9223372036854775808`),
		line("payload-object", "payload_json is an object in place of a string", `"payload_json":"[]"`, `"payload_json":[]`),
		line("high-surrogate", "an escaped high surrogate stands alone", `😀`, `\ud83d`),
		line("low-surrogate", "an escaped low surrogate stands alone", `😀`, `\ude00`),
		line("reversed-surrogates", "a surrogate pair the wrong way round", `😀`, `\ude00\ud83d`),
		line("surrogate-in-utf8", "a surrogate pair as two UTF-8 sequences", `😀`, "\xed\xa0\xbd\xed\xb8\x80"),
		line("invalid-utf8", "a byte that is not UTF-8", `礼`, "\xe7\xa4"),
		line("overlong-utf8", "a character in more bytes than it needs", `timeout`, "time\xc1\xafut"),
		line("raw-control", "a control character without an escape", `timeout`, "time\tout"),
		line("unknown-escape", "an escape that JSON does not have", `timeout`, `time\x6fut`),
		line("text-after", "a second object on the line", "\"updated_at_ms\":1700000000500}\n", "\"updated_at_ms\":1700000000500}{}\n"),
		line("trailing-comma", "a comma before the closing brace", "\"updated_at_ms\":1700000000500}", "\"updated_at_ms\":1700000000500,}"),
		line("unterminated", "the last line has no newline", "\"created_at_ms\":1700000000100,\"updated_at_ms\":1700000000600}\n", "\"created_at_ms\":1700000000100,\"updated_at_ms\":1700000000600}"),
		line("blank", "a blank line", "\"updated_at_ms\":1700000000500}\n", "\"updated_at_ms\":1700000000500}\n\n"),
		line("byte-order-mark", "a byte order mark before the first line", `{"app_code":"wallet","event_id":"evt_0001"`, "\ufeff"+`{"app_code":"wallet","event_id":"evt_0001"`),
	}
}

// badRows break a rule that holds between rows, or between rows and figures.
func badRows() []spec {
	figure := func(name, why, check string, older bool, claims func(*manifest.Manifest)) spec {
		return spec{name: "bad-" + name, why: why, checks: []string{check}, older: older, records: threeRows(), claims: claims}
	}
	swap := func(recs []manifest.Record) { recs[0], recs[1] = recs[1], recs[0] }
	return []spec{
		{name: "bad-row-app-code", why: "a row belongs to another app_code", checks: []string{"row_app_code"}, records: changed(1, func(r *manifest.Record) { r.AppCode = "Wallet" }), claims: rootOf(changed(1, func(r *manifest.Record) { r.AppCode = "Wallet" }))},
		{name: "bad-row-status", why: "a row was not delivered", checks: []string{"row_status"}, records: changed(1, func(r *manifest.Record) { r.Status = "pending" }), claims: rootOf(changed(1, func(r *manifest.Record) { r.Status = "pending" }))},
		{name: "bad-row-order", why: "updated_at_ms falls; the cursors are those of the first and last line", checks: []string{"row_order"}, older: true, records: threeRows(), rows: swap, claims: func(m *manifest.Manifest) {
			m.FirstCursor = threeRows()[1].Cursor()
		}},
		{name: "bad-row-order-bytes", why: "event_ids of one millisecond fall, though the collation compares by bytes", checks: []string{"row_order"}, collation: "utf8mb4_bin", records: withIDs("a", "c", "b", "d")},
		{name: "bad-event-id-twice", why: "an event_id comes twice", checks: []string{"event_id_unique"}, records: changed(2, func(r *manifest.Record) { r.EventID = "evt_0001" })},
		{name: "bad-row-changed", why: "a delta of a row changed and every hash with it, but not the total", checks: []string{"available_delta_total"}, older: true, records: threeRows(), rows: func(recs []manifest.Record) { recs[0].AvailableDelta++ }},
		{name: "bad-rows-exchanged", why: "two rows exchanged their deltas and every hash follows, so that each total is as before: only rows_root shows it", checks: []string{"rows_root"}, records: threeRows(), rows: func(recs []manifest.Record) {
			recs[0].AvailableDelta, recs[2].AvailableDelta = recs[2].AvailableDelta, recs[0].AvailableDelta
		}},
		{name: "bad-payload-exchanged", why: "two rows exchanged their payloads and every hash but rows_root follows", checks: []string{"rows_root"}, records: threeRows(), rows: func(recs []manifest.Record) {
			recs[0].PayloadJSON, recs[2].PayloadJSON = recs[2].PayloadJSON, recs[0].PayloadJSON
		}},
		{name: "bad-null-emptied", why: "a NULL became an empty string and every hash but rows_root follows", checks: []string{"rows_root"}, records: threeRows(), rows: func(recs []manifest.Record) { recs[0].LastError = ptr("") }},
		figure("rows-root", "rows_root is another", "rows_root", false, func(m *manifest.Manifest) { m.RowsRoot[31] ^= 1 }),
		figure("row-count", "row_count is one more than there are rows", "row_count", true, func(m *manifest.Manifest) { m.RowCount++ }),
		figure("first-cursor", "first_cursor has another event_id", "first_cursor", false, func(m *manifest.Manifest) { m.FirstCursor.EventID = "evt_0000" }),
		figure("last-cursor", "last_cursor is a millisecond later", "last_cursor", false, func(m *manifest.Manifest) { m.LastCursor.UpdatedAtMS++ }),
		figure("min-created", "min_created_at_ms is that of the first row, not the smallest", "min_created_at_ms", false, func(m *manifest.Manifest) { m.MinCreatedAtMS = 1700000000000 }),
		figure("max-created", "max_created_at_ms is a millisecond later", "max_created_at_ms", false, func(m *manifest.Manifest) { m.MaxCreatedAtMS++ }),
		figure("available-total", "available_delta_total is one more", "available_delta_total", true, func(m *manifest.Manifest) { m.AvailableDeltaTotal.Add(1) }),
		figure("frozen-total", "frozen_delta_total is one less", "frozen_delta_total", true, func(m *manifest.Manifest) { m.FrozenDeltaTotal.Add(-1) }),
		figure("total-modulo", "available_delta_total is 2^128 more, which is the same in 128 bits", "available_delta_total", true, func(m *manifest.Manifest) {
			m.AvailableDeltaTotal = sum("340282366920938463463374607431768212636") // 2^128 + 1180
		}),
		figure("totals-by-asset", "one asset has 1 more and the other 1 less", "totals_by_asset", false, func(m *manifest.Manifest) {
			c, d := m.TotalsByAsset["COIN"], m.TotalsByAsset["DIAMOND"]
			c.AvailableDeltaTotal.Add(1)
			d.AvailableDeltaTotal.Add(-1)
			m.TotalsByAsset["COIN"], m.TotalsByAsset["DIAMOND"] = c, d
		}),
		figure("asset-renamed", "an asset has the name of another", "totals_by_asset", false, func(m *manifest.Manifest) {
			m.TotalsByAsset["coin"] = m.TotalsByAsset["COIN"]
			delete(m.TotalsByAsset, "COIN")
		}),
	}
}

func sum(text string) manifest.Sum {
	s, err := manifest.ParseSum(text)
	if err != nil {
		panic(err)
	}
	return s
}

// rootOf sets the rows_root of rows that manifest.Writer does not write.
func rootOf(recs []manifest.Record) func(*manifest.Manifest) {
	return func(m *manifest.Manifest) { m.RowsRoot = ptr(rootOfLines(recs)) }
}
