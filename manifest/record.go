package manifest

// StatusDelivered is the one status that an archived row may have: the relay
// has handed the event on and will not touch the row again.
const StatusDelivered = "delivered"

// Record is one row of wallet_outbox as the archive carries it
// (docs/FORMAT.md "Source table"). Strings are UTF-8. Deltas are minor units of
// AssetType; fields that end in MS are Unix milliseconds. A nil pointer is SQL
// NULL, which is not the same as zero or the empty string.
type Record struct {
	AppCode        string
	EventID        string
	EventType      string
	TransactionID  string
	CommandID      string
	UserID         int64
	AssetType      string
	AvailableDelta int64
	FrozenDelta    int64
	// PayloadJSON is the exact text that the source server rendered with
	// CAST(payload AS CHAR). It is carried as text and never reformatted.
	PayloadJSON   string
	Status        string
	WorkerID      string
	LockUntilMS   *int64
	RetryCount    int64
	NextRetryAtMS *int64
	LastError     *string
	CreatedAtMS   int64
	UpdatedAtMS   int64
}

// Cursor returns the position of r in export order.
func (r *Record) Cursor() Cursor { return Cursor{UpdatedAtMS: r.UpdatedAtMS, EventID: r.EventID} }

// RowHash returns the SHA-256 of the canonical line of r without its newline
// (docs/FORMAT.md "Row hash"). Two records are equal if and only if their row
// hashes are.
func (r *Record) RowHash() Hash { return SumHash(r.AppendLine(nil)) }

// Clone returns a copy of r that shares no memory that could change.
func (r *Record) Clone() *Record {
	own := *r
	own.LockUntilMS, own.NextRetryAtMS, own.LastError = clone(r.LockUntilMS), clone(r.NextRetryAtMS), clone(r.LastError)
	return &own
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Differs returns the columns in which r and o differ, named as [Columns], in
// their order; nil when both are equal. NULL differs from every value.
func (r *Record) Differs(o *Record) []string {
	var columns []string
	for m := range memberCount {
		a, b := r.target(m), o.target(m)
		var same bool
		switch {
		case a.str != nil:
			same = *a.str == *b.str
		case a.num != nil:
			same = *a.num == *b.num
		case a.nullStr != nil:
			same = equalPointees(*a.nullStr, *b.nullStr)
		case a.nullNum != nil:
			same = equalPointees(*a.nullNum, *b.nullNum)
		}
		if !same {
			columns = append(columns, Columns[m])
		}
	}
	return columns
}

func equalPointees[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Cursor is a position in export order: updated_at_ms first, then event_id.
// The zero Cursor stands before every row. How event_ids compare within one
// millisecond is the source column's collation, not byte order
// (docs/FORMAT.md "Cursor"), so Cursor has no Less.
type Cursor struct {
	UpdatedAtMS int64  `json:"updated_at_ms"` // Unix milliseconds
	EventID     string `json:"event_id"`
}

// Member is one row of wallet_outbox_archive_members: it says which VERIFIED
// batch holds an event. Only members may ever be deleted by a later clean-up.
type Member struct {
	AppCode             string  `json:"app_code"`
	EventID             string  `json:"event_id"`
	UpdatedAtMS         int64   `json:"updated_at_ms"`
	BatchID             BatchID `json:"batch_id"`
	ManifestSHA256      Hash    `json:"manifest_sha256"`
	ReceiptVerifiedAtMS int64   `json:"receipt_verified_at_ms"`
}

// Columns are the columns of wallet_outbox in the order of the archive, named
// as in MySQL. Members of a line have the same order and names, except that
// payload is called payload_json there (docs/FORMAT.md "Objects of a batch").
var Columns = [...]string{
	"app_code", "event_id", "event_type", "transaction_id", "command_id", "user_id", "asset_type",
	"available_delta", "frozen_delta", "payload", "status", "worker_id", "lock_until_ms", "retry_count",
	"next_retry_at_ms", "last_error", "created_at_ms", "updated_at_ms",
}
