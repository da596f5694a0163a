package outbox

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// LockByKeys is [ReadByKeys] with FOR UPDATE: what it yields is committed, or
// this transaction's own, and nobody else changes it before the transaction
// ends. Where another transaction has written one of the rows it waits for the
// end of that. q must be a connection in a transaction; under READ COMMITTED
// only rows that exist are locked.
func LockByKeys(ctx context.Context, q mysqldb.Queryer, t *Table, appCode string, eventIDs []string) iter.Seq2[*manifest.Record, error] {
	return readByKeys(ctx, q, t, appCode, eventIDs, ") FOR UPDATE")
}

// Update makes the row of t under the key of r what r says, all columns but the
// key. Columns that no archive has keep their values. It returns how many rows
// the server changed: 0 when there is no such row, or it is as r says already.
func Update(ctx context.Context, session mysqldb.Session, t *Table, r *manifest.Record) (affected int64, err error) {
	query := []byte("UPDATE " + mysqldb.QuoteName(t.Name) + " SET ")
	for i := range fields {
		f := &fields[i]
		if i == appCodeField || i == eventIDField {
			continue
		}
		query = append(query, t.quoted(f.name)+" = "...)
		query = append(f.appendValue(query, r), ", "...)
	}
	query = append(query[:len(query)-2], " WHERE "+t.quoted("app_code")+" = "...)
	query = mysqldb.AppendString(query, r.AppCode)
	query = append(query, " AND "+t.quoted("event_id")+" = "...)
	query = mysqldb.AppendString(query, r.EventID)
	affected, err = exec(ctx, session, string(query))
	if err != nil {
		return 0, fmt.Errorf("update event_id %q in table %s: %w", clip(r.EventID), t.Name, err)
	}
	return affected, t.noWarnings(ctx, session)
}

// Delete deletes the rows of t under these keys and returns how many there were.
// The columns' collations decide what a key is: the caller has locked the rows
// and knows that they are the ones meant.
func Delete(ctx context.Context, session mysqldb.Session, t *Table, appCode string, eventIDs []string) (affected int64, err error) {
	for ids := range slices.Chunk(eventIDs, keysPerStatement) {
		query := []byte("DELETE FROM " + mysqldb.QuoteName(t.Name) + " WHERE " + t.quoted("app_code") + " = ")
		query = mysqldb.AppendString(query, appCode)
		query = append(query, " AND "+t.quoted("event_id")+" IN ("...)
		for i, id := range ids {
			if i > 0 {
				query = append(query, ',')
			}
			query = mysqldb.AppendString(query, id)
		}
		n, err := exec(ctx, session, string(append(query, ')')))
		if err != nil {
			return affected, fmt.Errorf("delete %d rows of table %s: %w", len(ids), t.Name, err)
		}
		affected += n
		if err := t.noWarnings(ctx, session); err != nil {
			return affected, err
		}
	}
	return affected, nil
}

// noWarnings makes an error of what the last statement left to be said.
func (t *Table) noWarnings(ctx context.Context, session mysqldb.Session) error {
	warnings, err := mysqldb.Warnings(ctx, session)
	if err != nil || len(warnings) == 0 {
		return err
	}
	x := warnings[0]
	return fmt.Errorf("write to table %s: %w", t.Name, &WarningError{
		Column: columnOf(x.Message), Code: x.Code, Message: x.Message, Others: len(warnings) - 1,
	})
}

func (f *field) appendValue(dst []byte, r *manifest.Record) []byte {
	switch {
	case f.str != nil:
		return mysqldb.AppendString(dst, *f.str(r))
	case f.num != nil:
		return strconv.AppendInt(dst, *f.num(r), 10)
	case f.optStr != nil:
		if p := *f.optStr(r); p != nil {
			return mysqldb.AppendString(dst, *p)
		}
	default:
		if p := *f.optNum(r); p != nil {
			return strconv.AppendInt(dst, *p, 10)
		}
	}
	return append(dst, "NULL"...)
}
