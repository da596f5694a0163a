package outbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// WarningError says that the server had something to say about rows that it
// took. Nothing that it says is harmless here: a value was cut or replaced, or
// a row was left out.
type WarningError struct {
	EventID string // "" when the warning does not tell the row
	Column  string // "" when the warning does not tell the column
	Row     int64  // counted from 1 in the order of Add; 0 when not known
	Code    uint16
	Message string
	Others  int // further warnings of the same statement, as far as the server kept them
}

// Error names the row, the column and the warning.
func (e *WarningError) Error() string {
	s := place(e.EventID, e.Row, e.Column) + fmt.Sprintf("warning %d: %s", e.Code, e.Message)
	if e.Others > 0 {
		s += fmt.Sprintf(" (and %d more)", e.Others)
	}
	return s
}

// Is makes a warning of a duplicate key, by which LOAD DATA LOCAL leaves a row
// out, the same as the error.
func (e *WarningError) Is(target error) bool { return target == ErrDuplicate && isDuplicate(e.Code) }

// RowError says that the server refused a row. The statement wrote none of its
// rows.
type RowError struct {
	EventID string // "" when the error does not tell the row
	Column  string // "" when the error does not tell the column
	Row     int64  // counted from 1 in the order of Add; 0 when not known
	Err     error  // what the server said, or ErrRowTooLarge
}

// Error names the row, the column and the reason.
func (e *RowError) Error() string { return place(e.EventID, e.Row, e.Column) + e.Err.Error() }

// Unwrap returns the reason.
func (e *RowError) Unwrap() error { return e.Err }

// Is reports ErrDuplicate for the server's errors of that meaning.
func (e *RowError) Is(target error) bool {
	return target == ErrDuplicate && isDuplicate(mysqldb.Number(e.Err))
}

func isDuplicate(code uint16) bool {
	return code == mysqldb.ErDupEntry || code == mysqldb.ErDupEntryWithKeyName
}

func place(eventID string, row int64, column string) string {
	var s string
	if eventID != "" {
		s = fmt.Sprintf("row %d, event_id %q", row, clip(eventID))
	}
	if column != "" {
		if s != "" {
			s += ", "
		}
		s += "column " + column
	}
	if s == "" {
		return "row not told: "
	}
	return s + ": "
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// What servers say of the place, in English. A server that speaks another
// language gives the same error without it.
var (
	atRow     = regexp.MustCompile(`at row (\d+)`)
	inColumn  = regexp.MustCompile("[Cc]olumn (?:'([^']+)'|((?:`[^`]*`\\.)*`[^`]*`))")
	aboutJSON = regexp.MustCompile("(?i)json|CONSTRAINT `[^`]*\\.payload`")
	dupEntry  = regexp.MustCompile(`(?s)^Duplicate entry '(.*)' for key '`)
)

func columnOf(message string) string {
	m := inColumn.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	name := m[1] + m[2]
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		name = name[dot+1:]
	}
	return strings.Trim(name, "`")
}

// rowOf returns the row of the chunk that a message is about, nil when it does
// not tell.
func (w *Writer) rowOf(message string) *chunkRow {
	if m := dupEntry.FindStringSubmatch(message); m != nil {
		for i := range w.rows {
			if w.rows[i].AppCode+"-"+w.rows[i].EventID == m[1] {
				return &w.rows[i]
			}
		}
		return nil
	}
	if m := atRow.FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 && n <= len(w.rows) {
			return &w.rows[n-1]
		}
	}
	return nil
}

// warningError makes an error of the warnings of a statement.
func (w *Writer) warningError(ctx context.Context, warnings []mysqldb.Warning) error {
	// A duplicate is the plainest reason, and what else there is often follows
	// from it.
	x := warnings[max(0, slices.IndexFunc(warnings, func(x mysqldb.Warning) bool { return isDuplicate(x.Code) }))]
	e := &WarningError{Code: x.Code, Message: x.Message, Others: len(warnings) - 1}
	e.EventID, e.Row, e.Column = w.locate(ctx, x.Whole)
	return fmt.Errorf("write to table %s: %w", w.table.Name, e)
}

// explain puts the row and the column to an error of a statement, as far as the
// server told them.
func (w *Writer) explain(ctx context.Context, err error) error {
	var me *mysql.MySQLError
	if !errors.As(err, &me) {
		return fmt.Errorf("write %d rows to table %s: %w", len(w.rows), w.table.Name, err)
	}
	e := &RowError{Err: err}
	e.EventID, e.Row, e.Column = w.locate(ctx, me.Message)
	if e.Row == 0 && e.Column == "" {
		return fmt.Errorf("write %d rows to table %s: %w", len(w.rows), w.table.Name, err)
	}
	return fmt.Errorf("write to table %s: %w", w.table.Name, e)
}

// locate returns the row and the column that a server's message is about, as
// far as it tells.
func (w *Writer) locate(ctx context.Context, message string) (eventID string, number int64, column string) {
	column = columnOf(message)
	row := w.rowOf(message)
	if row == nil && aboutJSON.MatchString(message) {
		if row = w.findInvalidJSON(ctx); row != nil {
			column = fields[payloadField].name
		}
	}
	if row == nil {
		return "", 0, column
	}
	return row.EventID, row.number, column
}

// findInvalidJSON looks for the row whose payload the server does not take for
// JSON, since the error does not tell. Nil when there is none.
func (w *Writer) findInvalidJSON(ctx context.Context) *chunkRow {
	for i := range w.rows {
		var valid bool
		err := w.s.QueryRowContext(ctx, "SELECT JSON_VALID("+literal(w.rows[i].PayloadJSON)+")").Scan(&valid)
		if mysqldb.Number(err) != 0 || err == nil && !valid {
			return &w.rows[i]
		}
		if err != nil {
			return nil // the connection is gone; the first error is the one to show
		}
	}
	return nil
}
