package manifest

import "fmt"

// StateVerified is the one state of a receipt: all three objects were read back
// and every figure was recomputed from what came back. It does not say that a
// restore was ever proved.
const StateVerified = "VERIFIED"

// Receipt is one row of wallet_outbox_archive_receipts, named as its columns
// (docs/FORMAT.md "Ledger"). Times are Unix milliseconds.
type Receipt struct {
	AppCode             string  `json:"app_code"`
	BatchID             BatchID `json:"batch_id"`
	State               string  `json:"state"`
	DataObjectKey       string  `json:"data_object_key"`
	ManifestObjectKey   string  `json:"manifest_object_key"`
	SuccessObjectKey    string  `json:"success_object_key"`
	SchemaVersion       int     `json:"schema_version"`
	RowCount            int64   `json:"row_count"`
	FirstUpdatedAtMS    int64   `json:"first_updated_at_ms"`
	FirstEventID        string  `json:"first_event_id"`
	LastUpdatedAtMS     int64   `json:"last_updated_at_ms"`
	LastEventID         string  `json:"last_event_id"`
	MinCreatedAtMS      int64   `json:"min_created_at_ms"`
	MaxCreatedAtMS      int64   `json:"max_created_at_ms"`
	AvailableDeltaTotal Sum     `json:"available_delta_total"`
	FrozenDeltaTotal    Sum     `json:"frozen_delta_total"`
	NDJSONSHA256        Hash    `json:"ndjson_sha256"`
	GzipSHA256          Hash    `json:"gzip_sha256"`
	DataCRC64           CRC64   `json:"data_crc64"`
	ManifestCRC64       CRC64   `json:"manifest_crc64"`
	SuccessCRC64        CRC64   `json:"success_crc64"`
	ManifestSHA256      Hash    `json:"manifest_sha256"`
	UncompressedBytes   int64   `json:"uncompressed_bytes"`
	CompressedBytes     int64   `json:"compressed_bytes"`
	VerifiedAtMS        int64   `json:"verified_at_ms"`
	CreatedAtMS         int64   `json:"created_at_ms"`
	UpdatedAtMS         int64   `json:"updated_at_ms"`
}

// NewReceipt returns the VERIFIED receipt of the batch that m describes, with
// the digests of the manifest and marker bytes that were read back. All three
// times are set to verifiedAtMS.
func NewReceipt(m *Manifest, manifestBytes, successBytes []byte, verifiedAtMS int64) (Receipt, error) {
	loc, err := m.Location()
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{
		AppCode: m.AppCode, BatchID: m.BatchID, State: StateVerified,
		DataObjectKey: m.DataObjectKey, ManifestObjectKey: loc.ManifestKey(), SuccessObjectKey: loc.SuccessKey(),
		SchemaVersion: m.SchemaVersion, RowCount: m.RowCount,
		FirstUpdatedAtMS: m.FirstCursor.UpdatedAtMS, FirstEventID: m.FirstCursor.EventID,
		LastUpdatedAtMS: m.LastCursor.UpdatedAtMS, LastEventID: m.LastCursor.EventID,
		MinCreatedAtMS: m.MinCreatedAtMS, MaxCreatedAtMS: m.MaxCreatedAtMS,
		AvailableDeltaTotal: m.AvailableDeltaTotal, FrozenDeltaTotal: m.FrozenDeltaTotal,
		NDJSONSHA256: m.NDJSONSHA256, GzipSHA256: m.GzipSHA256, DataCRC64: m.DataCRC64,
		ManifestCRC64: SumCRC64(manifestBytes), SuccessCRC64: SumCRC64(successBytes), ManifestSHA256: SumHash(manifestBytes),
		UncompressedBytes: m.UncompressedBytes, CompressedBytes: m.CompressedBytes,
		VerifiedAtMS: verifiedAtMS, CreatedAtMS: verifiedAtMS, UpdatedAtMS: verifiedAtMS,
	}
	return r, r.Validate()
}

// FirstCursor returns the position of the first row of the batch.
func (r *Receipt) FirstCursor() Cursor { return Cursor{r.FirstUpdatedAtMS, r.FirstEventID} }

// LastCursor returns the position of the last row of the batch.
func (r *Receipt) LastCursor() Cursor { return Cursor{r.LastUpdatedAtMS, r.LastEventID} }

// Member returns the member that r records for one of its rows.
func (r *Receipt) Member(eventID string, updatedAtMS int64) Member {
	return Member{
		AppCode: r.AppCode, EventID: eventID, UpdatedAtMS: updatedAtMS, BatchID: r.BatchID,
		ManifestSHA256: r.ManifestSHA256, ReceiptVerifiedAtMS: r.VerifiedAtMS,
	}
}

// Validate reports the first field of r that is missing or contradicts another.
// The error wraps [ErrBadReceipt] and names the column.
func (r *Receipt) Validate() error {
	bad := func(column, why string) error {
		return fmt.Errorf("%s %s: %w", column, why, ErrBadReceipt)
	}
	if err := CheckAppCode(r.AppCode); err != nil {
		return bad("app_code", err.Error())
	}
	if _, err := ParseBatchID(string(r.BatchID)); err != nil {
		return bad("batch_id", err.Error())
	}
	if r.State != StateVerified {
		return bad("state", fmt.Sprintf("is %q, not %s", clip(r.State), StateVerified))
	}
	if r.SchemaVersion != SchemaVersion {
		return bad("schema_version", fmt.Sprintf("is %d, not %d", r.SchemaVersion, SchemaVersion))
	}
	loc, err := ParseLocation(r.DataObjectKey)
	switch {
	case err != nil:
		return bad("data_object_key", err.Error())
	case loc.DataKey() != r.DataObjectKey:
		return bad("data_object_key", "does not name a data object")
	case loc.AppCode != r.AppCode || loc.BatchID != r.BatchID:
		return bad("data_object_key", "belongs to another app_code or batch_id")
	case loc.Date != PartitionDate(r.FirstUpdatedAtMS):
		return bad("data_object_key", "has another date than first_updated_at_ms")
	case r.ManifestObjectKey != loc.ManifestKey():
		return bad("manifest_object_key", "is not beside data_object_key")
	case r.SuccessObjectKey != loc.SuccessKey():
		return bad("success_object_key", "is not beside data_object_key")
	case r.RowCount <= 0:
		return bad("row_count", "is not positive")
	case r.FirstEventID == "":
		return bad("first_event_id", "is empty")
	case r.LastEventID == "":
		return bad("last_event_id", "is empty")
	case r.FirstUpdatedAtMS > r.LastUpdatedAtMS:
		return bad("last_updated_at_ms", "is before first_updated_at_ms")
	case r.RowCount == 1 && r.FirstCursor() != r.LastCursor():
		return bad("row_count", "is 1 but the cursors differ")
	case r.RowCount > 1 && r.FirstCursor() == r.LastCursor():
		return bad("row_count", "is over 1 but the cursors are the same")
	case r.MinCreatedAtMS > r.MaxCreatedAtMS:
		return bad("max_created_at_ms", "is before min_created_at_ms")
	case r.NDJSONSHA256.IsZero():
		return bad("ndjson_sha256", "is missing")
	case r.GzipSHA256.IsZero():
		return bad("gzip_sha256", "is missing")
	case r.ManifestSHA256.IsZero():
		return bad("manifest_sha256", "is missing")
	case r.DataCRC64 == 0:
		return bad("data_crc64", "is missing")
	case r.ManifestCRC64 == 0:
		return bad("manifest_crc64", "is missing")
	case r.SuccessCRC64 == 0:
		return bad("success_crc64", "is missing")
	case r.UncompressedBytes <= 0:
		return bad("uncompressed_bytes", "is not positive")
	case r.CompressedBytes <= 0:
		return bad("compressed_bytes", "is not positive")
	case r.VerifiedAtMS <= 0:
		return bad("verified_at_ms", "is missing")
	case r.CreatedAtMS <= 0:
		return bad("created_at_ms", "is missing")
	case r.UpdatedAtMS < r.CreatedAtMS:
		return bad("updated_at_ms", "is before created_at_ms")
	}
	return nil
}
