package mysqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-sql-driver/mysql"
)

// quoting are the messages of the servers that quote a value of a row, by their
// numbers. The expressions are those of the English texts: what is before the
// value and what is after it.
var quoting = map[uint16]*regexp.Regexp{
	ErDupEntry:            regexp.MustCompile(`(?s)^(Duplicate entry )'.*' (for key '.*')$`),
	ErDupEntryWithKeyName: regexp.MustCompile(`(?s)^(Duplicate entry )'.*' (for key '.*')$`),
	1292:                  wrongValue,                                                         // ER_TRUNCATED_WRONG_VALUE
	1300:                  regexp.MustCompile(`(?s)^(Invalid \S+ character string)(): '.*'$`), // ER_INVALID_CHARACTER_STRING
	ErTruncatedWrongValue: wrongValue,
	1411:                  wrongValue,                                                                // ER_WRONG_VALUE_FOR_TYPE
	1525:                  wrongValue,                                                                // ER_WRONG_VALUE
	1526:                  regexp.MustCompile(`(?s)^(Table has no partition for )(value) .*$`),       // ER_NO_PARTITION_FOR_GIVEN_VALUE
	1690:                  regexp.MustCompile(`(?s)^(.* value is out of range)() in '.*'$`),          // ER_DATA_OUT_OF_RANGE
	1918:                  regexp.MustCompile(`(?s)^(Encountered illegal value )'.*' (when .*)$`),    // ER_BAD_DATA (MariaDB)
	3854:                  regexp.MustCompile(`(?s)^(Cannot convert string )'.*' (from \S+ to .*)$`), // ER_CANNOT_CONVERT_STRING (MySQL)
}

var wrongValue = regexp.MustCompile(`(?s)^((?:Truncated incorrect|Incorrect) \S+ value)(?:: '.*'( for (?:column|function) .*)|: '.*'())$`)

// quiet returns message without the value that it quotes. Where the text is none
// that is known, since the server speaks another language, nothing is left of it.
func quiet(number uint16, message string) string {
	re, ok := quoting[number]
	if !ok {
		return message
	}
	m := re.FindStringSubmatch(message)
	if m == nil {
		return "(the server's words may hold a value of a row, and are left out)"
	}
	text := m[1]
	for _, part := range m[2:] {
		text += part
	}
	return text
}

// quietError is an error of the server whose text holds no value of a row. The
// *mysql.MySQLError that it wraps has the whole message, which must not be shown.
type quietError struct {
	whole *mysql.MySQLError
}

// Error is that of a mysql.MySQLError, without values.
func (e *quietError) Error() string {
	text := quiet(e.whole.Number, e.whole.Message)
	if e.whole.SQLState != [5]byte{} {
		return fmt.Sprintf("Error %d (%s): %s", e.whole.Number, e.whole.SQLState, text)
	}
	return fmt.Sprintf("Error %d: %s", e.whole.Number, text)
}

// Unwrap returns what the driver gave.
func (e *quietError) Unwrap() error { return e.whole }

// quieted returns err as a *quietError where it quotes a value.
func quieted(err error) error {
	var me *mysql.MySQLError
	if errors.As(err, &me) && quoting[me.Number] != nil {
		return &quietError{me}
	}
	return err
}

// quietConnector makes connections whose statements give errors without values.
// Only what sends rows to the server is wrapped, or a condition of a user.
type quietConnector struct{ driver.Connector }

// mysqlConn and mysqlStmt are what the driver's own types implement and
// database/sql asks for.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type mysqlStmt interface {
	driver.Stmt
	driver.NamedValueChecker
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Connect returns a connection of the driver, wrapped.
func (c quietConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(mysqlConn)
	if !ok { // another version of the driver
		return nil, errors.Join(fmt.Errorf("the driver's %T is not what it was", conn), conn.Close())
	}
	return quietConn{whole}, nil
}

type quietConn struct{ mysqlConn }

// ExecContext is that of the driver.
func (c quietConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	res, err := c.mysqlConn.ExecContext(ctx, query, args)
	return res, quieted(err)
}

// QueryContext is that of the driver.
func (c quietConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	return rows, quieted(err)
}

// PrepareContext is that of the driver, wrapped.
func (c quietConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.mysqlConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, quieted(err)
	}
	whole, ok := stmt.(mysqlStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's %T is not what it was", stmt), stmt.Close())
	}
	return quietStmt{whole}, nil
}

type quietStmt struct{ mysqlStmt }

// ExecContext is that of the driver.
func (s quietStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	res, err := s.mysqlStmt.ExecContext(ctx, args)
	return res, quieted(err)
}

// QueryContext is that of the driver.
func (s quietStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.mysqlStmt.QueryContext(ctx, args)
	return rows, quieted(err)
}
