package manifest

import (
	"fmt"
	"maps"
	"time"
)

// SchemaVersion is the version of the contract that this package writes and the
// only one that it reads.
const SchemaVersion = 1

// Manifest is manifest.json: what a batch says of itself
// (docs/FORMAT.md "manifest.json"). Encode it with [EncodeManifest], read it
// with [DecodeManifest].
type Manifest struct {
	SchemaVersion int     `json:"schema_version"`
	AppCode       string  `json:"app_code"`
	BatchID       BatchID `json:"batch_id"`
	// BatchIDScheme is [FingerprintScheme] when BatchID can be recomputed, ""
	// in a manifest of an older writer, whose id is opaque.
	BatchIDScheme string `json:"batch_id_scheme,omitempty"`
	RowCount      int64  `json:"row_count"`
	FirstCursor   Cursor `json:"first_cursor"`
	LastCursor    Cursor `json:"last_cursor"`
	// MinCreatedAtMS and MaxCreatedAtMS are Unix milliseconds, both inclusive.
	MinCreatedAtMS      int64                  `json:"min_created_at_ms"`
	MaxCreatedAtMS      int64                  `json:"max_created_at_ms"`
	AvailableDeltaTotal Sum                    `json:"available_delta_total"`
	FrozenDeltaTotal    Sum                    `json:"frozen_delta_total"`
	TotalsByAsset       map[string]AssetTotals `json:"totals_by_asset,omitempty"`
	NDJSONSHA256        Hash                   `json:"ndjson_sha256"`
	GzipSHA256          Hash                   `json:"gzip_sha256"`
	DataCRC64           CRC64                  `json:"data_crc64"`
	UncompressedBytes   int64                  `json:"uncompressed_bytes"`
	CompressedBytes     int64                  `json:"compressed_bytes"`
	DataObjectKey       string                 `json:"data_object_key"`
	// RowsRoot is nil in a manifest of an older writer; ndjson_sha256 then is
	// the only fixity of the rows.
	RowsRoot *Hash `json:"rows_root,omitempty"`
	// PayloadFidelity is nil in a manifest of an older writer, which never asked.
	PayloadFidelity  *PayloadFidelity `json:"payload_fidelity,omitempty"`
	EventIDCollation string           `json:"event_id_collation,omitempty"`
	Source           Origin           `json:"source,omitzero"`
	Writer           Program          `json:"writer,omitzero"`
	CreatedAtMS      int64            `json:"created_at_ms"`
}

// PayloadFidelity says what the source server itself found when the rows were
// read (docs/FORMAT.md "payload_fidelity").
type PayloadFidelity struct {
	// Checked is false when the server was not asked, or keeps JSON as text
	// (MariaDB); every other field is then zero.
	Checked bool `json:"checked"`
	// TextUnstableRows counts rows whose payload text, parsed and rendered
	// again by the same server, is another text.
	TextUnstableRows int64 `json:"text_unstable_rows"`
	// ValueUnstableRows counts rows whose payload, parsed again from its text,
	// is another JSON value: a DATETIME or BLOB that became a string.
	ValueUnstableRows int64 `json:"value_unstable_rows"`
	// The event_ids of the first [MaxUnstableEventIDs] of each, in row order.
	TextUnstableEventIDs  []string `json:"text_unstable_event_ids"`
	ValueUnstableEventIDs []string `json:"value_unstable_event_ids"`
}

// MaxUnstableEventIDs is how many event_ids [PayloadFidelity] names of each kind.
const MaxUnstableEventIDs = 10

// Origin is where the rows came from.
type Origin struct {
	ServerVersion string `json:"server_version"` // as SELECT VERSION() gives it
	Table         string `json:"table"`
}

// Program is what wrote the batch.
type Program struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Success is _SUCCESS, the object written last. A batch without it does not
// exist.
type Success struct {
	BatchID           BatchID `json:"batch_id"`
	ManifestObjectKey string  `json:"manifest_object_key"`
	ManifestSHA256    Hash    `json:"manifest_sha256"`
	RowCount          int64   `json:"row_count"`
}

// Figures are everything that one pass over a data object can tell. [Writer]
// and [Reader] both compute them, and a batch is whole when both agree.
type Figures struct {
	Totals
	FirstCursor       Cursor
	LastCursor        Cursor
	NDJSONSHA256      Hash
	GzipSHA256        Hash
	DataCRC64         CRC64
	UncompressedBytes int64
	CompressedBytes   int64
	RowsRoot          Hash
}

// New returns the manifest of a batch with these figures, stored under prefix.
// What the figures cannot know (payload_fidelity, event_id_collation, source,
// writer) is left to the caller. It refuses figures of no rows, since an empty
// batch does not exist ([ErrNoRows]), and a prefix, app_code or first cursor that
// gives no valid object key ([ErrBadKey]).
func New(prefix, app string, f Figures, created time.Time) (Manifest, error) {
	if f.All.RowCount == 0 {
		return Manifest{}, fmt.Errorf("manifest of app_code %q: %w", clip(app), ErrNoRows)
	}
	id := Fingerprint(SchemaVersion, app, f.All.RowCount, f.FirstCursor, f.LastCursor, f.NDJSONSHA256)
	key := NewLocation(prefix, app, f.FirstCursor, id).DataKey()
	if _, err := ParseLocation(key); err != nil {
		return Manifest{}, fmt.Errorf("manifest of app_code %q: %w", clip(app), err)
	}
	root := f.RowsRoot
	return Manifest{
		SchemaVersion: SchemaVersion, AppCode: app, BatchID: id, BatchIDScheme: FingerprintScheme,
		RowCount: f.All.RowCount, FirstCursor: f.FirstCursor, LastCursor: f.LastCursor,
		MinCreatedAtMS: f.MinCreatedAtMS, MaxCreatedAtMS: f.MaxCreatedAtMS,
		AvailableDeltaTotal: f.All.AvailableDeltaTotal, FrozenDeltaTotal: f.All.FrozenDeltaTotal,
		TotalsByAsset: maps.Clone(f.ByAsset),
		NDJSONSHA256:  f.NDJSONSHA256, GzipSHA256: f.GzipSHA256, DataCRC64: f.DataCRC64,
		UncompressedBytes: f.UncompressedBytes, CompressedBytes: f.CompressedBytes,
		DataObjectKey: key,
		RowsRoot:      &root,
		CreatedAtMS:   created.UnixMilli(),
	}, nil
}

// Location returns where the manifest says that its batch lives.
func (m *Manifest) Location() (Location, error) { return ParseLocation(m.DataObjectKey) }
