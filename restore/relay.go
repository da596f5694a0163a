package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// DefaultRelayQuery selects what a relay may ever pick up: pending rows, those
// whose next try is due later, and leases, whether they have expired or will. It
// does not depend on the time, and so holds for the day after, too.
const DefaultRelayQuery = "status IS NULL OR status <> 'delivered'"

// ErrRelayQuery is returned for a relay query that is not one SQL condition, or
// that the server does not understand.
var ErrRelayQuery = errors.New("the relay query is not a condition on the rows of the outbox")

// ErrWouldDispatch is the reason of a [RefusedError] when the relay's condition
// selects a row that was written: it would be dispatched a second time.
var ErrWouldDispatch = errors.New("the relay would dispatch the row again")

// CheckRelayQuery refuses what is not one expression of SQL: the error is an
// [ErrRelayQuery]. Whether the expression makes sense only the server knows.
//
// An expression is closed in itself: quotes and parentheses are balanced, and
// there is neither a semicolon nor a comment outside of quotes, so that between
// parentheses it is one condition and nothing more.
func CheckRelayQuery(query string) error {
	fail := func(why string) error { return fmt.Errorf("%w: %s", ErrRelayQuery, why) }
	if strings.TrimSpace(query) == "" {
		return fail("it is empty")
	}
	if !utf8.ValidString(query) || strings.IndexByte(query, 0) >= 0 {
		return fail("it is not text")
	}
	depth := 0
	for i := 0; i < len(query); i++ {
		switch c := query[i]; c {
		case '\'', '"', '`':
			end := quoteEnd(query, i)
			if end < 0 {
				return fail("a quote is not closed")
			}
			i = end
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return fail("a parenthesis is closed that is not open")
			}
		case ';':
			return fail("it holds a semicolon")
		case '#':
			return fail("it holds a comment")
		case '-', '/', '*':
			if pair := query[i:min(i+2, len(query))]; pair == "--" || pair == "/*" || pair == "*/" {
				return fail("it holds a comment")
			}
		}
	}
	if depth != 0 {
		return fail("a parenthesis is not closed")
	}
	return nil
}

// quoteEnd returns where the quote that begins at s[i] ends, or -1. A backslash
// escapes except between backticks, as on the connections of mysqldb.Open; a
// doubled quote reads as two quoted texts side by side, which ends at the same
// place.
func quoteEnd(s string, i int) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return i
		case s[i] == '\\' && quote != '`':
			i++
		}
	}
	return -1
}

// dispatched counts the rows of a table that the relay's condition selects, and
// returns the event_id of one.
func dispatched(ctx context.Context, q mysqldb.Queryer, table, condition string) (n int64, eventID string, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(MIN("+mysqldb.QuoteName(eventIDColumn)+"), '') FROM "+
		mysqldb.QuoteName(table)+" WHERE ("+condition+")").Scan(&n, &eventID)
	return n, eventID, relayError(err)
}

// relayError tells a condition that the server does not understand from a server
// that does not answer.
func relayError(err error) error {
	switch {
	case err == nil:
		return nil
	case mysqldb.Number(err) == 0, mysqldb.IsRetryable(err), mysqldb.IsConnLost(err):
		return fmt.Errorf("ask which rows the relay would take: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrRelayQuery, err)
}

// keysPerQuery is how many keys one statement of relay asks for.
const keysPerQuery = 500

// relay runs the relay's condition against rows of the target that were just
// written, sorted as in a window. The error is a *RefusedError for the first one
// that it selects.
func (l *loader) relay(ctx context.Context, written window) error {
	if l.opts.Scratch || len(written) == 0 || len(l.doubts) == 0 {
		// Without a doubt the condition is the default one and status a text: a row
		// that is read back as archived is delivered (confirm), under any collation.
		return nil
	}
	// By key and not by a range of keys: what lies between two of them is for the
	// collation to say, and a row that is not looked at would pass.
	for from := 0; from < len(written); from += keysPerQuery {
		some := written[from:min(from+keysPerQuery, len(written))]
		query := []byte("SELECT " + mysqldb.QuoteName(eventIDColumn) + " FROM " + mysqldb.QuoteName(l.table.Name) + " WHERE " +
			mysqldb.QuoteName("app_code") + " = ")
		query = mysqldb.AppendString(query, l.manifest.AppCode)
		query = append(query, " AND "+mysqldb.QuoteName(eventIDColumn)+" IN ("...)
		for i, row := range some {
			if i > 0 {
				query = append(query, ',')
			}
			query = mysqldb.AppendString(query, row.EventID)
		}
		query = append(query, ") AND ("+l.opts.RelayQuery+") LIMIT 1"...)
		var id string
		err := l.conn.QueryRowContext(ctx, string(query)).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return relayError(err)
		}
		refused := &RefusedError{Table: l.table.Name, EventID: id, Err: ErrWouldDispatch}
		if i, ok := some.find(id, 0); ok {
			refused.Line = some[i].Line
		}
		return refused
	}
	return nil
}

// wouldDispatch is the problem of rows that the relay would take.
const wouldDispatch outbox.Code = "relay_would_dispatch"
