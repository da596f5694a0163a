package restore

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/hyapp/walletarchive/internal/jsonvalue"
	"github.com/hyapp/walletarchive/manifest"
)

// likeness says how a row of the target relates to its line in the archive.
type likeness int

const (
	differs   likeness = iota // the zero value is never a pass
	sameValue                 // only the payload's text differs, and its value is the same
	identical                 // the same row hash
)

// comparer compares rows of the target with those of the archive. It is used by
// one goroutine.
type comparer struct {
	strict bool // sameValue counts as differs
	buf    []byte
}

// compare returns how got relates to row, and for differs the columns. The usual
// row costs one hash: that of its canonical line, which the reader of the archive
// computed for rows_root, so that whatever lies between the archive and the
// target, this program's own copies included, lies between the two hashes.
//
// The error says that row is not what was verified, so that nothing can be said
// of got.
func (c *comparer) compare(row *manifest.Row, got *manifest.Record) (likeness, []ColumnChange, error) {
	if c.leaf(got) == row.LeafHash {
		return identical, nil, nil
	}
	if c.leaf(&row.Record) != row.LeafHash {
		return differs, nil, fmt.Errorf("%w: line %d", errSortedRows, row.Line)
	}
	names := row.Differs(got)
	if len(names) == 1 && names[0] == payloadColumn && !c.strict {
		// The error only says why no more could be said than "different".
		if o, _ := jsonvalue.Compare(row.PayloadJSON, got.PayloadJSON); o == jsonvalue.SameValue {
			return sameValue, nil, nil
		}
	}
	return differs, changes(&row.Record, got, names), nil
}

func (c *comparer) leaf(r *manifest.Record) manifest.Hash {
	c.buf = append(c.buf[:0], rfc6962.RFC6962LeafHashPrefix)
	c.buf = r.AppendLine(c.buf)
	return sha256.Sum256(c.buf)
}

const (
	payloadColumn = "payload"
	eventIDColumn = "event_id"
)

// changes shows the columns, by name, in which found differs from archived.
func changes(archived, found *manifest.Record, names []string) []ColumnChange {
	all := make([]ColumnChange, len(names))
	for i, name := range names {
		all[i] = ColumnChange{Column: name, Archived: show(archived, name), Found: show(found, name)}
	}
	return all
}

// show renders a value for people: NULL, a number, a quoted text, or the hash and
// length of one that may hold more than identifiers; "" for an unknown column.
func show(r *manifest.Record, column string) string {
	switch column {
	case "app_code":
		return quote(r.AppCode)
	case eventIDColumn:
		return quote(r.EventID)
	case "event_type":
		return quote(r.EventType)
	case "transaction_id":
		return quote(r.TransactionID)
	case "command_id":
		return quote(r.CommandID)
	case "user_id":
		return number(&r.UserID)
	case "asset_type":
		return quote(r.AssetType)
	case "available_delta":
		return number(&r.AvailableDelta)
	case "frozen_delta":
		return number(&r.FrozenDelta)
	case payloadColumn:
		return mask(&r.PayloadJSON)
	case "status":
		return quote(r.Status)
	case "worker_id":
		return quote(r.WorkerID)
	case "lock_until_ms":
		return number(r.LockUntilMS)
	case "retry_count":
		return number(&r.RetryCount)
	case "next_retry_at_ms":
		return number(r.NextRetryAtMS)
	case "last_error":
		return mask(r.LastError)
	case "created_at_ms":
		return number(&r.CreatedAtMS)
	case "updated_at_ms":
		return number(&r.UpdatedAtMS)
	}
	return ""
}

const null = "NULL"

func quote(s string) string { return strconv.Quote(clip(s)) }

func number(n *int64) string {
	if n == nil {
		return null
	}
	return strconv.FormatInt(*n, 10)
}

func mask(s *string) string {
	if s == nil {
		return null
	}
	return fmt.Sprintf("%d bytes, SHA-256 %s", len(*s), manifest.SumHash([]byte(*s)))
}
