package ledger

import (
	"database/sql"
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hyapp/walletarchive/manifest"
)

// column is one column of the receipts: how a receipt's field becomes the text
// that is written and compared, and back.
type column struct {
	name string
	get  func(*manifest.Receipt) string
	set  func(*manifest.Receipt, string) error
	// time marks the columns that a receipt recorded again may have otherwise: the
	// first recording stays (docs/FORMAT.md "Ledger").
	time bool
}

func text[S ~string](name string, field func(*manifest.Receipt) *S) column {
	return column{
		name: name,
		get:  func(r *manifest.Receipt) string { return string(*field(r)) },
		set:  func(r *manifest.Receipt, s string) error { *field(r) = S(s); return nil },
	}
}

func number[N int | int64](name string, field func(*manifest.Receipt) *N) column {
	return column{
		name: name,
		get:  func(r *manifest.Receipt) string { return strconv.FormatInt(int64(*field(r)), 10) },
		set: func(r *manifest.Receipt, s string) error {
			v, err := strconv.ParseInt(s, 10, strconv.IntSize)
			*field(r) = N(v)
			return err
		},
	}
}

func coded[T any, P interface {
	*T
	fmt.Stringer
	encoding.TextUnmarshaler
}](name string, field func(*manifest.Receipt) *T) column {
	return column{
		name: name,
		get:  func(r *manifest.Receipt) string { return P(field(r)).String() },
		set:  func(r *manifest.Receipt, s string) error { return P(field(r)).UnmarshalText([]byte(s)) },
	}
}

func instant(name string, field func(*manifest.Receipt) *int64) column {
	c := number(name, field)
	c.time = true
	return c
}

// receiptColumns are in the order of docs/FORMAT.md "Ledger".
var receiptColumns = []column{
	text("app_code", func(r *manifest.Receipt) *string { return &r.AppCode }),
	text("batch_id", func(r *manifest.Receipt) *manifest.BatchID { return &r.BatchID }),
	text("state", func(r *manifest.Receipt) *string { return &r.State }),
	text("data_object_key", func(r *manifest.Receipt) *string { return &r.DataObjectKey }),
	text("manifest_object_key", func(r *manifest.Receipt) *string { return &r.ManifestObjectKey }),
	text("success_object_key", func(r *manifest.Receipt) *string { return &r.SuccessObjectKey }),
	number("schema_version", func(r *manifest.Receipt) *int { return &r.SchemaVersion }),
	number("row_count", func(r *manifest.Receipt) *int64 { return &r.RowCount }),
	number("first_updated_at_ms", func(r *manifest.Receipt) *int64 { return &r.FirstUpdatedAtMS }),
	text("first_event_id", func(r *manifest.Receipt) *string { return &r.FirstEventID }),
	number("last_updated_at_ms", func(r *manifest.Receipt) *int64 { return &r.LastUpdatedAtMS }),
	text("last_event_id", func(r *manifest.Receipt) *string { return &r.LastEventID }),
	number("min_created_at_ms", func(r *manifest.Receipt) *int64 { return &r.MinCreatedAtMS }),
	number("max_created_at_ms", func(r *manifest.Receipt) *int64 { return &r.MaxCreatedAtMS }),
	coded("available_delta_total", func(r *manifest.Receipt) *manifest.Sum { return &r.AvailableDeltaTotal }),
	coded("frozen_delta_total", func(r *manifest.Receipt) *manifest.Sum { return &r.FrozenDeltaTotal }),
	coded("ndjson_sha256", func(r *manifest.Receipt) *manifest.Hash { return &r.NDJSONSHA256 }),
	coded("gzip_sha256", func(r *manifest.Receipt) *manifest.Hash { return &r.GzipSHA256 }),
	coded("data_crc64", func(r *manifest.Receipt) *manifest.CRC64 { return &r.DataCRC64 }),
	coded("manifest_crc64", func(r *manifest.Receipt) *manifest.CRC64 { return &r.ManifestCRC64 }),
	coded("success_crc64", func(r *manifest.Receipt) *manifest.CRC64 { return &r.SuccessCRC64 }),
	coded("manifest_sha256", func(r *manifest.Receipt) *manifest.Hash { return &r.ManifestSHA256 }),
	number("uncompressed_bytes", func(r *manifest.Receipt) *int64 { return &r.UncompressedBytes }),
	number("compressed_bytes", func(r *manifest.Receipt) *int64 { return &r.CompressedBytes }),
	instant("verified_at_ms", func(r *manifest.Receipt) *int64 { return &r.VerifiedAtMS }),
	instant("created_at_ms", func(r *manifest.Receipt) *int64 { return &r.CreatedAtMS }),
	instant("updated_at_ms", func(r *manifest.Receipt) *int64 { return &r.UpdatedAtMS }),
}

func receiptColumnNames() []string {
	names := make([]string, len(receiptColumns))
	for i, c := range receiptColumns {
		names[i] = c.name
	}
	return names
}

// memberColumns are in the order of docs/FORMAT.md "Ledger".
var memberColumns = []string{"app_code", "event_id", "updated_at_ms", "batch_id", "manifest_sha256", "receipt_verified_at_ms"}

// Statements without their conditions.
var (
	selectReceipts = "SELECT " + strings.Join(receiptColumnNames(), ", ") + " FROM " + ReceiptsTable
	insertReceipt  = "INSERT INTO " + ReceiptsTable + " (" + strings.Join(receiptColumnNames(), ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(receiptColumns)-1) + ")"
	selectMembers = "SELECT " + strings.Join(memberColumns, ", ") + " FROM " + MembersTable
	insertMembers = "INSERT INTO " + MembersTable + " (" + strings.Join(memberColumns, ", ") + ") VALUES "
)

func receiptArgs(r *manifest.Receipt) []any {
	args := make([]any, len(receiptColumns))
	for i, c := range receiptColumns {
		args[i] = c.get(r)
	}
	return args
}

// scanReceipt reads the row of selectReceipts that rows stands on. A field that
// is NULL or cannot be read is the Err of what it returns; err is the server's.
func scanReceipt(rows *sql.Rows) (s Stored, err error) {
	fields := make([]sql.NullString, len(receiptColumns))
	into := make([]any, len(fields))
	for i := range fields {
		into[i] = &fields[i]
	}
	if err := rows.Scan(into...); err != nil {
		return Stored{}, err
	}
	for i, c := range receiptColumns {
		err := errors.New("is NULL")
		if fields[i].Valid {
			err = c.set(&s.Receipt, fields[i].String)
		}
		if err != nil {
			app, id := fields[0].String, fields[1].String // the first two of receiptColumns
			return Stored{
				Receipt: manifest.Receipt{AppCode: app, BatchID: manifest.BatchID(id)},
				Err:     fmt.Errorf("receipt %s of %s: %s: %w: %w", clip(id), clip(app), c.name, err, manifest.ErrBadReceipt),
			}, nil
		}
	}
	return s, nil
}
