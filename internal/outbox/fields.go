package outbox

import "github.com/hyapp/walletarchive/manifest"

// kind is what a column of the archive holds.
type kind uint8

const (
	text kind = iota
	integer
	document // payload: text, and JSON where the server knows JSON
)

// field is one column of the archive: its place in manifest.Columns, what it
// holds, and where a record keeps it. Exactly one of the four accessors is set.
type field struct {
	name string
	kind kind
	str  func(*manifest.Record) *string
	num  func(*manifest.Record) *int64
	// For the columns that may be NULL.
	optStr func(*manifest.Record) **string
	optNum func(*manifest.Record) **int64
}

func (f field) nullable() bool { return f.optStr != nil || f.optNum != nil }

// Positions in fields of the columns that are asked for by name.
const (
	appCodeField   = 0
	eventIDField   = 1
	payloadField   = 9
	statusField    = 10
	updatedAtField = 17
)

// fields are in the order of manifest.Columns; a test holds them to it.
var fields = [len(manifest.Columns)]field{
	{name: "app_code", str: func(r *manifest.Record) *string { return &r.AppCode }},
	{name: "event_id", str: func(r *manifest.Record) *string { return &r.EventID }},
	{name: "event_type", str: func(r *manifest.Record) *string { return &r.EventType }},
	{name: "transaction_id", str: func(r *manifest.Record) *string { return &r.TransactionID }},
	{name: "command_id", str: func(r *manifest.Record) *string { return &r.CommandID }},
	{name: "user_id", kind: integer, num: func(r *manifest.Record) *int64 { return &r.UserID }},
	{name: "asset_type", str: func(r *manifest.Record) *string { return &r.AssetType }},
	{name: "available_delta", kind: integer, num: func(r *manifest.Record) *int64 { return &r.AvailableDelta }},
	{name: "frozen_delta", kind: integer, num: func(r *manifest.Record) *int64 { return &r.FrozenDelta }},
	{name: "payload", kind: document, str: func(r *manifest.Record) *string { return &r.PayloadJSON }},
	{name: "status", str: func(r *manifest.Record) *string { return &r.Status }},
	{name: "worker_id", str: func(r *manifest.Record) *string { return &r.WorkerID }},
	{name: "lock_until_ms", kind: integer, optNum: func(r *manifest.Record) **int64 { return &r.LockUntilMS }},
	{name: "retry_count", kind: integer, num: func(r *manifest.Record) *int64 { return &r.RetryCount }},
	{name: "next_retry_at_ms", kind: integer, optNum: func(r *manifest.Record) **int64 { return &r.NextRetryAtMS }},
	{name: "last_error", optStr: func(r *manifest.Record) **string { return &r.LastError }},
	{name: "created_at_ms", kind: integer, num: func(r *manifest.Record) *int64 { return &r.CreatedAtMS }},
	{name: "updated_at_ms", kind: integer, num: func(r *manifest.Record) *int64 { return &r.UpdatedAtMS }},
}
