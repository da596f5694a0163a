package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// found is what the target holds under the key of one row of the batch.
type found struct {
	likeness likeness
	changes  []ColumnChange   // when likeness is differs
	got      *manifest.Record // valid during the call only; nil when missing, or when it is no record
	missing  bool
}

// target reads rows of the target and compares them with those of a batch.
type target struct {
	q        mysqldb.Queryer
	table    *outbox.Table
	appCode  string
	comparer comparer
	seen     []bool // of the window at hand
}

// empty reports whether the target has no row of the batch's app_code at all.
func (t *target) empty(ctx context.Context) (bool, error) {
	var n int
	err := t.q.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM "+mysqldb.QuoteName(t.table.Name)+
		" WHERE "+mysqldb.QuoteName("app_code")+" = ?)", t.appCode).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for rows of app_code %q in table %s: %w", t.appCode, t.table.Name, err)
	}
	return n == 0, nil
}

// visitor takes what compare finds. An error of either ends the comparison.
type visitor struct {
	// row is called once for each row of the window, in no order.
	row func(*manifest.Row, found) error
	// stranger is called for a row of the target that its collation takes for one
	// of the window although its event_id is another one; perhaps more than once.
	stranger func(*manifest.Record) error
}

// compare looks up every row of w. It asks by key, or first, when dense says that
// next to nothing else lies between the keys, for all that lies between them.
func (t *target) compare(ctx context.Context, w window, dense bool, v visitor) error {
	t.seen = append(t.seen[:0], make([]bool, len(w))...)
	if dense {
		if err := t.between(ctx, w, v); err != nil {
			return err
		}
	}
	for {
		again, err := t.byKeys(ctx, w, v)
		if err != nil {
			return err
		}
		if !again {
			break
		}
	}
	for i, row := range w {
		if !t.seen[i] {
			if err := v.row(row, found{missing: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// between visits what one scan of the key gives. What it does not give, or cannot
// read, is left to byKeys.
func (t *target) between(ctx context.Context, w window, v visitor) error {
	const room = 1000 // with more strangers than that the keys are not dense
	rows := outbox.ReadBetween(ctx, t.q, t.table, t.appCode, w[0].EventID, w[len(w)-1].EventID, len(w)+room)
	next := 0
	for got, err := range rows {
		var inexact *manifest.ExactnessError
		if errors.As(err, &inexact) {
			return nil
		}
		if err != nil {
			return err
		}
		if i, ok := w.find(got.EventID, next); ok && !t.seen[i] {
			next = i + 1
			if err := t.visit(w, i, got, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// byKeys visits the rows of w that were not seen yet and are in the target. It
// asks to be called again after a row that is no record of any archive, with
// which a sequence of rows ends.
func (t *target) byKeys(ctx context.Context, w window, v visitor) (again bool, err error) {
	var ids []string
	for i, row := range w {
		if !t.seen[i] {
			ids = append(ids, row.EventID)
		}
	}
	next := 0
	for got, err := range outbox.ReadByKeys(ctx, t.q, t.table, t.appCode, ids) {
		var inexact *manifest.ExactnessError
		if errors.As(err, &inexact) {
			if i, ok := w.find(inexact.EventID, next); ok && !t.seen[i] {
				t.seen[i] = true
				return true, v.row(w[i], found{likeness: differs, changes: []ColumnChange{{
					Column: inexact.Column, Archived: show(&w[i].Record, inexact.Column), Found: inexact.Err.Error(),
				}}})
			}
		}
		if err != nil {
			return false, err
		}
		i, ok := w.find(got.EventID, next)
		if !ok || t.seen[i] {
			if err := v.stranger(got); err != nil {
				return false, err
			}
			continue
		}
		next = i + 1
		if err := t.visit(w, i, got, v); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (t *target) visit(w window, i int, got *manifest.Record, v visitor) error {
	t.seen[i] = true
	like, changes, err := t.comparer.compare(w[i], got)
	if err != nil {
		return err
	}
	return v.row(w[i], found{likeness: like, changes: changes, got: got})
}
