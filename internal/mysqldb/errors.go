package mysqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
)

// Server error numbers, with the symbols of MySQL's and MariaDB's own lists.
const (
	ErTableExists         uint16 = 1050 // ER_TABLE_EXISTS_ERROR
	ErDBCreateExists      uint16 = 1007 // ER_DB_CREATE_EXISTS
	ErDBAccessDenied      uint16 = 1044 // ER_DBACCESS_DENIED_ERROR
	ErAccessDenied        uint16 = 1045 // ER_ACCESS_DENIED_ERROR
	ErNoDB                uint16 = 1046 // ER_NO_DB_ERROR
	ErBadNull             uint16 = 1048 // ER_BAD_NULL_ERROR
	ErBadDB               uint16 = 1049 // ER_BAD_DB_ERROR
	ErServerShutdown      uint16 = 1053 // ER_SERVER_SHUTDOWN
	ErBadField            uint16 = 1054 // ER_BAD_FIELD_ERROR
	ErDupEntry            uint16 = 1062 // ER_DUP_ENTRY
	ErParse               uint16 = 1064 // ER_PARSE_ERROR
	ErTooLongIdent        uint16 = 1059 // ER_TOO_LONG_IDENT
	ErUnknownCharset      uint16 = 1115 // ER_UNKNOWN_CHARACTER_SET
	ErTableAccessDenied   uint16 = 1142 // ER_TABLEACCESS_DENIED_ERROR
	ErNoSuchTable         uint16 = 1146 // ER_NO_SUCH_TABLE
	ErNotAllowedCommand   uint16 = 1148 // ER_NOT_ALLOWED_COMMAND: LOCAL is off (MySQL 5.7, MariaDB)
	ErNetPacketTooLarge   uint16 = 1153 // ER_NET_PACKET_TOO_LARGE
	ErKeyDoesNotExist     uint16 = 1176 // ER_KEY_DOES_NOT_EXITS: the index of FORCE INDEX is missing
	ErLockWaitTimeout     uint16 = 1205 // ER_LOCK_WAIT_TIMEOUT
	ErLockDeadlock        uint16 = 1213 // ER_LOCK_DEADLOCK
	ErNoReferencedRow     uint16 = 1216 // ER_NO_REFERENCED_ROW
	ErRowIsReferenced     uint16 = 1217 // ER_ROW_IS_REFERENCED
	ErSpecificAccess      uint16 = 1227 // ER_SPECIFIC_ACCESS_DENIED_ERROR
	ErWarnDataOutOfRange  uint16 = 1264 // ER_WARN_DATA_OUT_OF_RANGE
	ErWarnDataTruncated   uint16 = 1265 // WARN_DATA_TRUNCATED
	ErUnknownCollation    uint16 = 1273 // ER_UNKNOWN_COLLATION
	ErOptionPrevents      uint16 = 1290 // ER_OPTION_PREVENTS_STATEMENT: read-only server
	ErQueryInterrupted    uint16 = 1317 // ER_QUERY_INTERRUPTED
	ErNoDefaultForField   uint16 = 1364 // ER_NO_DEFAULT_FOR_FIELD
	ErTruncatedWrongValue uint16 = 1366 // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD: also a character that the column's charset lacks
	ErDataTooLong         uint16 = 1406 // ER_DATA_TOO_LONG
	ErRowIsReferenced2    uint16 = 1451 // ER_ROW_IS_REFERENCED_2
	ErNoReferencedRow2    uint16 = 1452 // ER_NO_REFERENCED_ROW_2
	ErDupEntryWithKeyName uint16 = 1586 // ER_DUP_ENTRY_WITH_KEY_NAME
	ErSignal              uint16 = 1644 // ER_SIGNAL_EXCEPTION
	ErConnectionKilled    uint16 = 1927 // ER_CONNECTION_KILLED (MariaDB)
	ErInvalidJSONText     uint16 = 3140 // ER_INVALID_JSON_TEXT
	ErSessionWasKilled    uint16 = 3169 // ER_SESSION_WAS_KILLED (MySQL)
	ErCheckConstraint     uint16 = 3819 // ER_CHECK_CONSTRAINT_VIOLATED (MySQL)
	ErClientLocalFiles    uint16 = 3948 // ER_CLIENT_LOCAL_FILES_DISABLED: LOCAL is off (MySQL 8)
	ErConstraintFailed    uint16 = 4025 // ER_CONSTRAINT_FAILED (MariaDB)
	ErInteractionTimeout  uint16 = 4031 // ER_CLIENT_INTERACTION_TIMEOUT (MySQL)
	ErUserLockOverlong    uint16 = 4163 // ER_USER_LOCK_OVERLONG_NAME (MySQL): a lock's name has over 64 characters
)

// IsError reports whether err is, or wraps, the server's error of that number.
// It is false for a nil error.
func IsError(err error, number uint16) bool {
	var me *mysql.MySQLError
	return errors.As(err, &me) && me.Number == number
}

// Number returns the server's error number in err, or 0 when err is nil or did
// not come from a server.
func Number(err error) uint16 {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

// IsRetryable reports whether the server rolled the statement or transaction
// back for reasons of other transactions, so that the same transaction may be
// run again from its start: a deadlock or a lock wait that took too long.
func IsRetryable(err error) bool {
	n := Number(err)
	return n == ErLockDeadlock || n == ErLockWaitTimeout
}

// IsConnLost reports whether err means that the connection is gone. What the
// last statement did is then unknown and must be read back, not assumed. A
// context that ended is the caller's own doing and gives false, although the
// driver closes the connection then, too.
func IsConnLost(err error) bool {
	switch Number(err) {
	case ErServerShutdown, ErConnectionKilled, ErSessionWasKilled, ErInteractionTimeout:
		return true
	case 0:
	default:
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, lost := range []error{
		driver.ErrBadConn, sql.ErrConnDone, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var ne net.Error
	return errors.As(err, &ne)
}
