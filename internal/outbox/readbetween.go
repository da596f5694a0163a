package outbox

import (
	"context"
	"iter"
	"strconv"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// ReadBetween yields the rows of t whose event_id is in [first, last] by the
// collation of the column, at most limit of them, in no order: one scan of the
// key, at half the price of [ReadByKeys]. What lies between two keys is the
// server's to say, so rows may be missing that are between them byte for byte,
// and others may come: the caller compares, and asks by key for the rest.
//
// A Record is valid until the next one is asked for. Errors are those of
// [ReadAll].
func ReadBetween(ctx context.Context, q mysqldb.Queryer, t *Table, appCode, first, last string, limit int) iter.Seq2[*manifest.Record, error] {
	return func(yield func(*manifest.Record, error) bool) {
		rq, err := newRowQuery(t, false)
		if err != nil {
			yield(nil, err)
			return
		}
		query := "SELECT " + rq.list + " FROM " + mysqldb.QuoteName(t.Name)
		if key, ok := t.keyIndex(); ok {
			query += " FORCE INDEX (" + mysqldb.QuoteName(key.Name) + ")"
		}
		query += " WHERE " + t.quoted("app_code") + " = " + literal(appCode) +
			" AND " + t.quoted("event_id") + " BETWEEN " + literal(first) + " AND " + literal(last) +
			" LIMIT " + strconv.Itoa(limit)
		readRows(ctx, q, newDecoder(rq), query, yield)
	}
}
