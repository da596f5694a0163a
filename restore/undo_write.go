package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// errRefusedRows has a chunk begun again without the rows that undoing.refused
// names.
var errRefusedRows = errors.New("the target refuses some of the rows")

const whyDisputed = "the journal table has no line of its transaction, which was never confirmed: it may be another's"

// whyLeft says why a row is left although it is as the restore left it; "" when
// it is not.
func (u *undoing) whyLeft(row *receiptRow) string {
	if u.disputed {
		return whyDisputed
	}
	return u.refused[row.EventID]
}

// rowErrors are the errors of a server that are about one row, with words that
// have no value of it in them. The statement is rolled back then and no more.
var rowErrors = map[uint16]string{
	mysqldb.ErDupEntry:            "another row has a unique key of it",
	mysqldb.ErDupEntryWithKeyName: "another row has a unique key of it",
	mysqldb.ErRowIsReferenced:     "rows of another table refer to it",
	mysqldb.ErRowIsReferenced2:    "rows of another table refer to it",
	mysqldb.ErNoReferencedRow:     "a row that it refers to is missing",
	mysqldb.ErNoReferencedRow2:    "a row that it refers to is missing",
	mysqldb.ErCheckConstraint:     "a CHECK constraint does not hold",
	mysqldb.ErConstraintFailed:    "a CHECK constraint does not hold",
	mysqldb.ErSignal:              "a trigger refuses it",
	mysqldb.ErBadNull:             "a column takes no NULL",
	mysqldb.ErWarnDataOutOfRange:  "a value does not fit",
	mysqldb.ErWarnDataTruncated:   "a value does not fit",
	mysqldb.ErTruncatedWrongValue: "a value does not fit",
	mysqldb.ErDataTooLong:         "a value does not fit",
	mysqldb.ErInvalidJSONText:     "a value does not fit",
}

// rowError returns why the target refuses a row; "" when err is about more.
func rowError(what string, err error) string {
	number := mysqldb.Number(err)
	if text := rowErrors[number]; text != "" {
		return fmt.Sprintf("%s: error %d, %s", what, number, text)
	}
	return ""
}

// remove deletes rows. When the server refuses it asks for each of them, so as to
// know which.
func (u *undoing) remove(ctx context.Context, conn *sql.Conn, app string, ids []string) error {
	const what = "the target does not let it be deleted"
	n, err := outbox.Delete(ctx, conn, &u.table, app, ids)
	if err == nil && n != int64(len(ids)) {
		err = fmt.Errorf("the server deleted %d of %d rows that were locked", n, len(ids))
	}
	if rowError(what, err) == "" {
		return err
	}
	for _, id := range ids {
		if _, err := outbox.Delete(ctx, conn, &u.table, app, []string{id}); err != nil {
			why := rowError(what, err)
			if why == "" {
				return err
			}
			u.refused[id] = why
		}
	}
	return nil
}

// putBack writes the old rows and reads them back.
func (u *undoing) putBack(ctx context.Context, conn *sql.Conn, app string, back []manifest.Record, done *undoneChunk) error {
	if len(back) == 0 {
		return nil
	}
	written, err := u.update(ctx, conn, back)
	if err != nil {
		return err
	}
	ids := make([]string, len(written))
	byID := make(map[string]*manifest.Record, len(written))
	for i, old := range written {
		ids[i], byID[old.EventID] = old.EventID, old
	}
	var c comparer
	for got, err := range outbox.ReadByKeys(ctx, conn, &u.table, app, ids) {
		if err != nil {
			return err
		}
		old := byID[got.EventID]
		if old == nil {
			continue
		}
		delete(byID, got.EventID)
		like, changes, err := c.compare(&manifest.Row{Record: *old, LeafHash: c.leaf(old)}, got)
		switch {
		case err != nil:
			return err
		case like == differs:
			columns := make([]string, len(changes))
			for i, change := range changes {
				columns[i] = change.Column
			}
			u.refused[got.EventID] = "the target changes what is put back, in " + strings.Join(columns, ", ")
		case like == sameValue:
			done.Respelled++
		}
	}
	for id := range byID {
		u.refused[id] = "the target does not have it after it was put back"
	}
	return nil
}

// update writes the old rows and returns those that the target took. Two rows may
// have changed a unique key between them, so one that is refused is tried again
// after the others.
func (u *undoing) update(ctx context.Context, conn *sql.Conn, back []manifest.Record) ([]*manifest.Record, error) {
	var written, todo []*manifest.Record
	for i := range back {
		todo = append(todo, &back[i])
	}
	for len(todo) > 0 {
		var refused []*manifest.Record
		for _, old := range todo {
			_, err := outbox.Update(ctx, conn, &u.table, old)
			var warning *outbox.WarningError
			why := rowError("the target does not take back what it was", err)
			switch {
			case errors.As(err, &warning):
				u.refused[old.EventID] = fmt.Sprintf("the target does not take back what it was: warning %d", warning.Code)
			case err != nil && why == "":
				return nil, err
			case err != nil:
				u.refused[old.EventID] = why
				refused = append(refused, old)
			default:
				delete(u.refused, old.EventID)
				written = append(written, old)
			}
		}
		if len(refused) == len(todo) {
			break
		}
		todo = slices.Clone(refused)
	}
	return written, nil
}
