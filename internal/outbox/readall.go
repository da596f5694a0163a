package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Order is the order in which [ReadAll] gives rows.
type Order int

const (
	// CursorOrder is by status, updated_at_ms and event_id (with several apps,
	// by app_code before that), so that where every row is delivered it is the
	// order of an export.
	CursorOrder Order = iota
	// AnyOrder is how the server comes by the rows, most often that of the
	// primary key: several times as fast on a large table.
	AnyOrder
)

// keysPerStatement is how many rows one statement of [ReadByKeys] asks for.
const keysPerStatement = 500

// ReadAll yields every row of t, whatever its status, in one statement that
// streams: memory holds one row. appCode "" means all apps; else the server
// compares it by the column's collation, and the rows are given as they are.
//
// A Record is valid until the next one is asked for; its strings stay valid.
// The first error ends the sequence: a *manifest.ExactnessError, ctx.Err(), or
// what the server said. The connection is busy until the sequence ends.
func ReadAll(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string, order Order) iter.Seq2[*manifest.Record, error] {
	from := mysqldb.QuoteName(t.Name)
	var tail string
	if appCode != "" {
		tail = " WHERE " + t.quoted("app_code") + " = " + literal(appCode)
	}
	if order == CursorOrder {
		// The whole index in order, which needs no sort even when app_code and
		// status are not fixed.
		columns := make([]string, len(retentionColumns))
		for i, c := range retentionColumns {
			columns[i] = t.quoted(c)
		}
		if name, ok := t.RetentionIndex(); ok {
			from += " FORCE INDEX (" + mysqldb.QuoteName(name) + ")"
		}
		tail += " ORDER BY " + strings.Join(columns, ", ")
	}
	return func(yield func(*manifest.Record, error) bool) {
		rq, err := newRowQuery(t, false)
		if err != nil {
			yield(nil, err)
			return
		}
		readRows(ctx, q, newDecoder(rq), "SELECT "+rq.list+" FROM "+from+tail, yield)
	}
}

// ReadByKeys yields the rows of t that the server finds under these keys, in no
// order. It compares by the columns' collations, so a row may come whose
// event_id is spelled otherwise than asked for: the caller compares. Ids without
// a row yield nothing. q should be the transaction that wrote the rows.
//
// A Record is valid until the next one is asked for. Errors are those of
// [ReadAll].
func ReadByKeys(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string, eventIDs []string) iter.Seq2[*manifest.Record, error] {
	return readByKeys(ctx, q, t, appCode, eventIDs, ")")
}

func readByKeys(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string, eventIDs []string, tail string) iter.Seq2[*manifest.Record, error] {
	return func(yield func(*manifest.Record, error) bool) {
		rq, err := newRowQuery(t, false)
		if err != nil {
			yield(nil, err)
			return
		}
		head := "SELECT " + rq.list + " FROM " + mysqldb.QuoteName(t.Name)
		// With many keys the planner may think that the whole table is cheaper.
		if key, ok := t.keyIndex(); ok {
			head += " FORCE INDEX (" + mysqldb.QuoteName(key.Name) + ")"
		}
		head += " WHERE " + t.quoted("app_code") + " = " + literal(appCode) + " AND " + t.quoted("event_id") + " IN ("
		dec := newDecoder(rq)
		for ids := range slices.Chunk(eventIDs, keysPerStatement) {
			query := []byte(head)
			for i, id := range ids {
				if i > 0 {
					query = append(query, ',')
				}
				query = mysqldb.AppendString(query, id)
			}
			if !readRows(ctx, q, dec, string(append(query, tail...)), yield) {
				return
			}
		}
	}
}

// readRows yields the rows of one statement; false says that the sequence ends.
func readRows(ctx context.Context, q mysqldb.Queryer, dec *decoder, query string, yield func(*manifest.Record, error) bool) bool {
	fail := func(err error) bool {
		yield(nil, err)
		return false
	}
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return fail(fmt.Errorf("read rows: %w", err))
	}
	defer rows.Close()
	var row Row
	for rows.Next() {
		if err := dec.decode(rows, &row); err != nil {
			return fail(err)
		}
		if !yield(&row.Record, nil) {
			return false
		}
	}
	if err := rows.Err(); err != nil {
		return fail(fmt.Errorf("read rows: %w", err))
	}
	return true
}

// Summary is what the server itself computes over all rows of a table, of
// whatever status. Without rows it is the zero value.
type Summary struct {
	All     manifest.AssetTotals
	ByAsset map[string]manifest.AssetTotals // asset_type to totals; nil without rows
	// MinCreatedAtMS and MaxCreatedAtMS include both ends; zero without rows.
	MinCreatedAtMS int64
	MaxCreatedAtMS int64
	FirstCursor    manifest.Cursor // least in the server's order, that of the column's collation
	LastCursor     manifest.Cursor // greatest
}

// Summarize has the server count and add up the rows of t; appCode "" means
// all apps. Sums are exact: the server adds BIGINTs as decimals. Asset types
// are told apart byte by byte, whatever the column's collation. The statements
// are several, so they agree only when nobody writes meanwhile, or inside a
// REPEATABLE READ transaction.
func Summarize(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string) (Summary, error) {
	var s Summary
	where := " FROM " + mysqldb.QuoteName(t.Name)
	if appCode != "" {
		where += " WHERE " + t.quoted("app_code") + " = " + literal(appCode)
	}
	aggregates := "COUNT(*), COALESCE(SUM(" + t.quoted("available_delta") + "), 0), COALESCE(SUM(" + t.quoted("frozen_delta") + "), 0)"
	created := t.quoted("created_at_ms")
	var available, frozen string
	err := q.QueryRowContext(ctx, "SELECT "+aggregates+", COALESCE(MIN("+created+"), 0), COALESCE(MAX("+created+"), 0)"+where).
		Scan(&s.All.RowCount, &available, &frozen, &s.MinCreatedAtMS, &s.MaxCreatedAtMS)
	if err != nil {
		return Summary{}, fmt.Errorf("add up table %s: %w", t.Name, err)
	}
	if err := setSums(&s.All, available, frozen); err != nil {
		return Summary{}, fmt.Errorf("add up table %s: %w", t.Name, err)
	}
	if s.All.RowCount == 0 {
		return s, nil
	}
	s.ByAsset = make(map[string]manifest.AssetTotals)
	asset := "CAST(CONVERT(" + t.quoted("asset_type") + " USING utf8mb4) AS BINARY)"
	err = each(ctx, q, func(rows *sql.Rows) error {
		var name string
		var a manifest.AssetTotals
		if err := rows.Scan(&name, &a.RowCount, &available, &frozen); err != nil {
			return err
		}
		if err := setSums(&a, available, frozen); err != nil {
			return err
		}
		s.ByAsset[name] = a
		return nil
	}, "SELECT "+asset+", "+aggregates+where+" GROUP BY "+asset)
	if err != nil {
		return Summary{}, fmt.Errorf("add up table %s by asset type: %w", t.Name, err)
	}
	ms, id := t.quoted("updated_at_ms"), t.quoted("event_id")
	for _, end := range []struct {
		direction string
		cursor    *manifest.Cursor
	}{{"", &s.FirstCursor}, {" DESC", &s.LastCursor}} {
		err := q.QueryRowContext(ctx, "SELECT "+ms+", "+id+where+" ORDER BY "+ms+end.direction+", "+id+end.direction+" LIMIT 1").
			Scan(&end.cursor.UpdatedAtMS, &end.cursor.EventID)
		if err != nil {
			return Summary{}, fmt.Errorf("find the first and last row of table %s: %w", t.Name, err)
		}
	}
	return s, nil
}

func setSums(a *manifest.AssetTotals, available, frozen string) error {
	var err error
	if a.AvailableDeltaTotal, err = manifest.ParseSum(available); err != nil {
		return err
	}
	a.FrozenDeltaTotal, err = manifest.ParseSum(frozen)
	return err
}
