package main

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/manifest"
)

func ptr[T any](v T) *T { return &v }

// threeRows are the rows that most broken batches start from: two assets, a
// payload whose text does not survive a restore, two rows in one millisecond.
func threeRows() []manifest.Record {
	return []manifest.Record{
		{
			AppCode: app, EventID: "evt_0001", EventType: "balance.changed", TransactionID: "tx_1", CommandID: "cmd_1", UserID: 42,
			AssetType: "COIN", AvailableDelta: 1500, FrozenDelta: 0, PayloadJSON: `{"d": 1.10, "room": 7}`, Status: "delivered",
			WorkerID: "relay-1", RetryCount: 0, CreatedAtMS: 1700000000000, UpdatedAtMS: 1700000000500,
		},
		{
			AppCode: app, EventID: "evt_0002", EventType: "balance.frozen", TransactionID: "tx_2", CommandID: "cmd_2", UserID: 43,
			AssetType: "DIAMOND", AvailableDelta: -20, FrozenDelta: 20, PayloadJSON: `{"note": "礼物 😀 <b>"}`, Status: "delivered",
			WorkerID: "relay-2", LockUntilMS: ptr(int64(1700000003000)), RetryCount: 2, LastError: ptr("timeout"),
			CreatedAtMS: 1699999999000, UpdatedAtMS: 1700000000600,
		},
		{
			AppCode: app, EventID: "evt_0003", EventType: "balance.changed", TransactionID: "tx_3", CommandID: "cmd_3", UserID: 42,
			AssetType: "COIN", AvailableDelta: -300, FrozenDelta: 0, PayloadJSON: `[]`, Status: "delivered",
			WorkerID: "relay-1", RetryCount: 0, NextRetryAtMS: ptr(int64(0)), LastError: ptr(""), CreatedAtMS: 1700000000100, UpdatedAtMS: 1700000000600,
		},
	}
}

// withIDs returns rows of one millisecond in this order.
func withIDs(ids ...string) []manifest.Record {
	var recs []manifest.Record
	for i, id := range ids {
		r := threeRows()[i%3]
		r.EventID, r.UpdatedAtMS = id, 1700000000600
		recs = append(recs, r)
	}
	return recs
}

// changed returns the three rows with one of them edited.
func changed(i int, f func(*manifest.Record)) []manifest.Record {
	recs := threeRows()
	f(&recs[i])
	return recs
}

func awkwardRows() []manifest.Record {
	return []manifest.Record{
		{
			AppCode: app, EventID: "\x00\x01\b\t\n\f\r\x1f\x7f", EventType: `"quoted" \ / <b>&amp;'`, TransactionID: "", CommandID: " ",
			UserID: math.MinInt64, AssetType: "", AvailableDelta: math.MaxInt64, FrozenDelta: math.MinInt64,
			PayloadJSON: `"\u0000\ud83d\ude00"`, Status: "delivered", WorkerID: "", LockUntilMS: ptr(int64(math.MinInt64)),
			RetryCount: 1<<53 + 1, NextRetryAtMS: ptr(int64(math.MaxInt64)), LastError: ptr(""), CreatedAtMS: -1, UpdatedAtMS: 1<<40 - 1,
		},
		{
			AppCode: app, EventID: "é\u2028\u2029\ufeff\ufffd", EventType: "\U0001F600\U0010FFFF\U00010000", TransactionID: "null", CommandID: "0",
			UserID: -1, AssetType: "\"é\n", AvailableDelta: 1<<53 + 1, FrozenDelta: -1<<53 - 1,
			PayloadJSON: `{"big": 18446744073709551615, "neg": -0.0, "e": 1e400, "dup": 1}`, Status: "delivered", WorkerID: "null",
			LockUntilMS: ptr(int64(0)), RetryCount: -1, LastError: ptr("null"), CreatedAtMS: 0, UpdatedAtMS: 1 << 40,
		},
		{
			AppCode: app, EventID: "E", EventType: "e", TransactionID: "e\u0301", CommandID: "\u00e9", UserID: 0, AssetType: "COIN",
			PayloadJSON: `"` + strings.Repeat("x", 70_000) + `"`, Status: "delivered", WorkerID: "w", CreatedAtMS: 1, UpdatedAtMS: 1 << 40,
		},
	}
}

func beyondInt64() []manifest.Record {
	recs := slices.Concat(threeRows(), threeRows(), threeRows())
	for i := range recs {
		r := &recs[i]
		r.EventID = fmt.Sprintf("evt_%04d", i+1)
		r.UpdatedAtMS = 1700000000500 + int64(i)
		r.AssetType = []string{"COIN", "DIAMOND", "GEM"}[i%3]
		r.AvailableDelta = []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - int64(i)}[i%3]
		r.FrozenDelta = []int64{math.MinInt64, math.MaxInt64, -1}[i%3]
	}
	return recs
}

// respell writes each line in another valid spelling.
func respell(text string) string {
	lines := strings.SplitAfter(text, "\n")
	lines[0] = regexp.MustCompile(`([{,])"([a-z_]+)":`).ReplaceAllString(lines[0], "$1\t\"$2\" : ")
	lines[0] = " " + strings.TrimSuffix(lines[0], "}\n") + "\r} \n"
	lines[1] = strings.NewReplacer("礼物", `\u793c\u7269`, "😀", `\ud83d\uDE00`, "<b>", `\u003cb\u003E`, `"user_id"`, `"user\u005fid"`).Replace(lines[1])
	inner := strings.TrimSuffix(strings.TrimPrefix(lines[2], "{"), "}\n")
	members := strings.Split(inner, `,"`)
	for i := range members[1:] {
		members[i+1] = `"` + members[i+1]
	}
	slices.Reverse(members)
	lines[2] = "{" + strings.Join(members, ",") + "}\n"
	lines[2] = strings.Replace(lines[2], `"frozen_delta":0`, `"frozen_delta":-0`, 1)
	return strings.Join(lines, "")
}

func stdPack(text string) []byte {
	var b bytes.Buffer
	w, err := stdgzip.NewWriterLevel(&b, stdgzip.NoCompression)
	if err != nil {
		panic(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func goodBatches() []spec {
	ids := make([]string, 0, 12)
	for i := range 12 {
		ids = append(ids, fmt.Sprintf("evt_%04d", i+1))
	}
	return []spec{
		{name: "good-minimal", why: "one row; the example of docs/FORMAT.md", records: threeRows()[:1], receipt: withMembers},
		{name: "good-three-rows", why: "what the broken batches are made from", records: threeRows(), receipt: withMembers},
		{name: "good-awkward", why: "every value that is hard to carry: control characters, extremes of int64, NULL beside empty and zero, a long payload", records: awkwardRows(), receipt: withMembers},
		{name: "good-beyond-int64", why: "totals of three assets that overflow 64 bits", records: beyondInt64(), receipt: withMembers},
		{name: "good-manifest-only", why: "no receipt is known", records: threeRows()},
		{name: "good-receipt-without-members", why: "an older receipt: it proves the batch, its rows are never eligible for a clean-up", records: threeRows(), receipt: withoutMembers},
		{name: "good-older", why: "an older writer's manifest: no rows_root, payload_fidelity, batch_id_scheme, totals_by_asset, collation, source and writer", records: threeRows(), older: true, receipt: withoutMembers},
		{name: "good-older-manifest-only", why: "an older writer's manifest and no receipt", records: threeRows(), older: true},
		{name: "good-other-scheme", why: "a batch_id_scheme that is not known makes batch_id opaque", records: threeRows(), receipt: withMembers, claims: func(m *manifest.Manifest) { m.BatchIDScheme = "somebody-elses-v7" }},
		{name: "good-respelled", why: "members in another order, white space, needless escapes and -0: rows_root is over the canonical lines all the same", records: threeRows(), receipt: withMembers, text: respell},
		{name: "good-recompressed", why: "stored without compression by another gzip", records: threeRows(), receipt: withMembers, pack: stdPack},
		{name: "good-prefix", why: "the batch stands under a prefix", prefix: "archive/v1", records: threeRows(), receipt: withMembers},
		{name: "good-moved", why: "copied to another prefix: the keys inside still name the old one", records: threeRows(), described: func(m *manifest.Manifest) { m.DataObjectKey = "old/place/" + m.DataObjectKey }, marker: func(s *manifest.Success) { s.ManifestObjectKey = "old/place/" + s.ManifestObjectKey }},
		{name: "good-collation", why: "event_ids of one millisecond in the order of utf8mb4_0900_ai_ci, which is not byte order", records: withIDs("_x", "a_1", "A2", "b", "é", "e2", "Z"), receipt: withMembers},
		{name: "good-byte-order", why: "event_ids of one millisecond in byte order, as the collation has them", collation: "utf8mb4_bin", records: withIDs("A2", "Z", "_x", "a_1", "b", "e2", "é"), receipt: withMembers},
		{name: "good-fidelity", why: "twelve rows of unstable text, of which ten are named, and one of unstable value", records: withIDs(ids...), receipt: withMembers, claims: func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{Checked: true, TextUnstableRows: 12, TextUnstableEventIDs: ids[:10], ValueUnstableRows: 1, ValueUnstableEventIDs: ids[4:5]}
		}},
		{name: "good-fidelity-unchecked", why: "a server that keeps JSON as text was not asked", records: threeRows(), receipt: withMembers, claims: func(m *manifest.Manifest) {
			m.PayloadFidelity = &manifest.PayloadFidelity{}
			m.Source.ServerVersion = "10.11.19-MariaDB"
		}},
	}
}
