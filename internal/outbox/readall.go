package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strconv"
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
// are two, so they agree only when nobody writes meanwhile, or inside a
// REPEATABLE READ transaction.
func Summarize(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string) (Summary, error) {
	var s Summary
	from := " FROM " + mysqldb.QuoteName(t.Name)
	where := " WHERE TRUE"
	if appCode != "" {
		where = " WHERE " + t.quoted("app_code") + " = " + literal(appCode)
	}
	// One pass over the table; what is over all asset types is put together here.
	asset := "CAST(CONVERT(" + t.quoted("asset_type") + " USING utf8mb4) AS BINARY)"
	available, frozen := t.quoted("available_delta"), t.quoted("frozen_delta")
	created, updated := t.quoted("created_at_ms"), t.quoted("updated_at_ms")
	var sums addition
	var first, last int64 // updated_at_ms
	err := each(ctx, q, func(rows *sql.Rows) error {
		var name, available, frozen string
		var n, minCreated, maxCreated, minUpdated, maxUpdated int64
		if err := rows.Scan(&name, &n, &available, &frozen, &minCreated, &maxCreated, &minUpdated, &maxUpdated); err != nil {
			return err
		}
		a, err := sums.add(n, available, frozen)
		if err != nil {
			return err
		}
		if s.ByAsset == nil {
			s.ByAsset = make(map[string]manifest.AssetTotals)
			s.MinCreatedAtMS, s.MaxCreatedAtMS, first, last = minCreated, maxCreated, minUpdated, maxUpdated
		}
		s.ByAsset[name] = a
		s.MinCreatedAtMS, s.MaxCreatedAtMS = min(s.MinCreatedAtMS, minCreated), max(s.MaxCreatedAtMS, maxCreated)
		first, last = min(first, minUpdated), max(last, maxUpdated)
		return nil
	}, "SELECT "+asset+", COUNT(*), COALESCE(SUM("+available+"), 0), COALESCE(SUM("+frozen+"), 0), MIN("+created+"), MAX("+created+
		"), MIN("+updated+"), MAX("+updated+")"+from+where+" GROUP BY "+asset)
	if err == nil {
		s.All, err = sums.totals()
	}
	if err != nil {
		return Summary{}, fmt.Errorf("add up table %s: %w", t.Name, err)
	}
	if s.All.RowCount == 0 {
		return s, nil
	}
	// The retention index holds all that this needs.
	s.FirstCursor.UpdatedAtMS, s.LastCursor.UpdatedAtMS = first, last
	id, ms := t.quoted("event_id"), strconv.FormatInt
	err = q.QueryRowContext(ctx, "SELECT MIN(CASE WHEN "+updated+" = "+ms(first, 10)+" THEN "+id+" END), MAX(CASE WHEN "+updated+" = "+ms(last, 10)+" THEN "+id+" END)"+
		from+where+" AND "+updated+" IN ("+ms(first, 10)+", "+ms(last, 10)+")").
		Scan(&s.FirstCursor.EventID, &s.LastCursor.EventID)
	if err != nil {
		return Summary{}, fmt.Errorf("find the first and last row of table %s: %w", t.Name, err)
	}
	return s, nil
}

// addition adds up the totals of groups of rows, whose sums may have any length.
type addition struct {
	rows              int64
	available, frozen big.Int
}

// add takes the totals of one group, and returns them.
func (s *addition) add(rows int64, available, frozen string) (manifest.AssetTotals, error) {
	a := manifest.AssetTotals{RowCount: rows}
	s.rows += rows
	for _, x := range []struct {
		text  string
		group *manifest.Sum
		all   *big.Int
	}{{available, &a.AvailableDeltaTotal, &s.available}, {frozen, &a.FrozenDeltaTotal, &s.frozen}} {
		var err error
		if *x.group, err = manifest.ParseSum(x.text); err != nil {
			return a, err
		}
		v, ok := new(big.Int).SetString(x.text, 10)
		if !ok {
			return a, fmt.Errorf("sum %q is no integer", x.text)
		}
		x.all.Add(x.all, v)
	}
	return a, nil
}

// totals returns those of all groups.
func (s *addition) totals() (manifest.AssetTotals, error) {
	available, err := manifest.ParseSum(s.available.String())
	if err != nil {
		return manifest.AssetTotals{}, err
	}
	frozen, err := manifest.ParseSum(s.frozen.String())
	return manifest.AssetTotals{RowCount: s.rows, AvailableDeltaTotal: available, FrozenDeltaTotal: frozen}, err
}
