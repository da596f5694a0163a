package sink

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// DefaultStatementBytes is about how long an INSERT is. Every server of the
// family takes one of that length, and so do their clients.
const DefaultStatementBytes = 1 << 20

// Options are the settings of [NewWriter]. The zero value is usable.
type Options struct {
	// Table is the one that SQL inserts into, without its database; "" means
	// outbox.DefaultTable.
	Table string
	// StatementBytes is about how long an INSERT is; 0 means
	// DefaultStatementBytes. A longer row is an INSERT of its own.
	StatementBytes int
	// Origin is a line about where the rows come from, for the comment that SQL
	// begins with; "" leaves it out.
	Origin string
}

// Totals are what a [Writer] has written.
type Totals struct {
	Rows   int64
	Bytes  int64
	SHA256 manifest.Hash // of all bytes
}

// Writer writes records in one format. It is not safe for concurrent use.
type Writer struct {
	format    Format
	opts      Options
	out       *bufio.Writer
	sum       hash.Hash
	totals    Totals
	buf       []byte
	statement int // bytes of the INSERT at hand, 0 between two
	err       error
}

// NewWriter returns a Writer to w. Nothing is written before the first Write or
// Close.
func NewWriter(w io.Writer, format Format, opts Options) *Writer {
	opts.Table = cmp.Or(opts.Table, outbox.DefaultTable)
	opts.StatementBytes = cmp.Or(opts.StatementBytes, DefaultStatementBytes)
	s := &Writer{format: format, opts: opts, sum: sha256.New()}
	s.out = bufio.NewWriterSize(io.MultiWriter(w, s.sum), 256<<10)
	s.buf = s.appendHead(nil)
	return s
}

// Write writes one record, which may be changed afterwards. After an error
// every call returns it again.
func (s *Writer) Write(r *manifest.Record) error {
	switch s.format {
	case NDJSON:
		s.buf = append(r.AppendLine(s.buf), '\n')
	case CSV:
		s.buf = appendFields(s.buf, r, appendQuoted)
		s.buf = append(s.buf, '\n')
	case SQL:
		s.appendTuple(r)
	}
	s.totals.Rows++
	return s.emit()
}

// Close writes what belongs at the end, without closing the stream below, and
// returns what was written in all. Without it the output is not whole: SQL rolls
// back.
func (s *Writer) Close() (Totals, error) {
	if s.err == nil {
		s.buf = s.appendTail(s.buf)
		s.err = s.emit()
	}
	if s.err == nil {
		s.err = s.out.Flush()
	}
	if s.err != nil {
		return Totals{}, s.err
	}
	s.sum.Sum(s.totals.SHA256[:0])
	s.err = errClosed
	return s.totals, nil
}

var errClosed = errors.New("write after Close")

func (s *Writer) emit() error {
	if s.err != nil {
		return s.err
	}
	n, err := s.out.Write(s.buf)
	s.totals.Bytes += int64(n)
	s.buf, s.err = s.buf[:0], err
	return err
}

// The variables of a file of SQL.
const (
	rowsVariable     = "@walletarchive_rows"
	warningsVariable = "@walletarchive_warnings"
	endVariable      = "@walletarchive_end"
	modeVariable     = "@walletarchive_sql_mode"
	engineVariable   = "@walletarchive_no_transactions" // 1 for a table that keeps what is rolled back
	readOnlyVariable = "@walletarchive_read_only"
)

// appendHead begins the output. A strict sql_mode makes an error of what would
// otherwise be changed, and the literals below are exact under it and utf8mb4.
func (s *Writer) appendHead(dst []byte) []byte {
	switch s.format {
	case CSV:
		return append(append(dst, strings.Join(manifest.Columns[:], ",")...), '\n')
	case SQL:
		dst = append(dst, "-- Rows of an archive, in one transaction. The table has to exist.\n"...)
		if s.opts.Origin != "" {
			dst = append(dst, "-- "+printable(s.opts.Origin)+"\n"...)
		}
		return append(dst, "SET NAMES utf8mb4;\n"+
			"SET "+modeVariable+" = @@SESSION.sql_mode, SESSION sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\n"+
			"SET SESSION unique_checks = 1, SESSION foreign_key_checks = 1, SESSION sql_notes = 1;\n"+
			"SET "+rowsVariable+" = 0, "+warningsVariable+" = 0;\n"+
			s.engineCheck()+
			"START TRANSACTION;\n"...)
	}
	return dst
}

// engineCheck ends the file with error 1242 when the engine of the table has no
// transactions. A client that goes on all the same gets a transaction in which the
// server writes to no table of any engine (1792). Each flavor takes one of the two
// comments, by the name that it has for the variable.
func (s *Writer) engineCheck() string {
	name := string(mysqldb.AppendString(nil, s.opts.Table))
	readOnly := func(variable string) string {
		return ", " + readOnlyVariable + " = @@SESSION." + variable + ", SESSION " + variable + " = IF(" + engineVariable + ", 1, @@SESSION." + variable + ")"
	}
	return "SET " + engineVariable + " = (SELECT COUNT(*) FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE " +
		"WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = " + name + " AND COALESCE(e.TRANSACTIONS, 'NO') <> 'YES') > 0;\n" +
		"SET " + endVariable + " = ''\n/*!50720" + readOnly("transaction_read_only") + " */\n/*M!100000" + readOnly("tx_read_only") + " */;\n" +
		"SET " + endVariable + " = IF(" + engineVariable + ", (SELECT 1 UNION ALL SELECT 2), ''); -- error 1242: the engine of the table has no transactions\n"
}

// engineReset takes back what engineCheck has set.
const engineReset = "SET " + engineVariable + " = 0\n/*!50720, SESSION transaction_read_only = " + readOnlyVariable +
	" */\n/*M!100000, SESSION tx_read_only = " + readOnlyVariable + " */;\n"

// appendTail ends it. A client stops at the first error, and without a COMMIT
// nothing is kept; one that goes on all the same (--force) does not get to commit
// either, since the rows are counted. A subquery of two rows, at last, is an error
// that every server of the family gives (1242), where DO would swallow it.
func (s *Writer) appendTail(dst []byte) []byte {
	if s.format != SQL {
		return dst
	}
	dst = s.appendEnd(dst)
	return fmt.Appendf(dst, "SET %[1]s = IF(%[2]s = %[3]d AND %[4]s = 0, 'COMMIT', 'DO 0');\n"+
		"PREPARE walletarchive_end FROM %[1]s;\nEXECUTE walletarchive_end;\nDEALLOCATE PREPARE walletarchive_end;\nROLLBACK;\n"+
		engineReset+
		"SET SESSION sql_mode = %[5]s;\n"+
		"SET %[1]s = IF(%[1]s = 'COMMIT', %[1]s, (SELECT 1 UNION ALL SELECT 2)); -- error 1242: a row was not taken as it is, none is kept\n"+
		"-- %[3]d rows\n", endVariable, rowsVariable, s.totals.Rows, warningsVariable, modeVariable)
}

func (s *Writer) appendTuple(r *manifest.Record) {
	start := len(s.buf)
	tuple := appendFields(nil, r, mysqldb.AppendString)
	if s.statement > 0 && s.statement+len(tuple) > s.opts.StatementBytes {
		s.buf = s.appendEnd(s.buf)
		start = len(s.buf)
	}
	if s.statement > 0 {
		s.buf = append(s.buf, ",\n("...)
	} else {
		s.buf = append(s.buf, "INSERT INTO "+mysqldb.QuoteName(s.opts.Table)+" ("...)
		for i, c := range manifest.Columns {
			if i > 0 {
				s.buf = append(s.buf, ", "...)
			}
			s.buf = append(s.buf, mysqldb.QuoteName(c)...)
		}
		s.buf = append(s.buf, ") VALUES\n("...)
	}
	s.buf = append(append(s.buf, tuple...), ')')
	s.statement += len(s.buf) - start
}

// appendEnd ends the INSERT at hand.
func (s *Writer) appendEnd(dst []byte) []byte {
	if s.statement == 0 {
		return dst
	}
	s.statement = 0
	return append(dst, ";\nSET "+rowsVariable+" = "+rowsVariable+" + ROW_COUNT(), "+
		warningsVariable+" = "+warningsVariable+" + @@SESSION.warning_count;\n"...)
}

// appendFields appends the values of r in the order of manifest.Columns, with
// commas between them.
func appendFields(dst []byte, r *manifest.Record, str func([]byte, string) []byte) []byte {
	text := func(s string) { dst = append(str(dst, s), ',') }
	num := func(n int64) { dst = append(strconv.AppendInt(dst, n, 10), ',') }
	opt := func(n *int64) {
		if n == nil {
			dst = append(dst, "NULL,"...)
			return
		}
		num(*n)
	}
	text(r.AppCode)
	text(r.EventID)
	text(r.EventType)
	text(r.TransactionID)
	text(r.CommandID)
	num(r.UserID)
	text(r.AssetType)
	num(r.AvailableDelta)
	num(r.FrozenDelta)
	text(r.PayloadJSON)
	text(r.Status)
	text(r.WorkerID)
	opt(r.LockUntilMS)
	num(r.RetryCount)
	opt(r.NextRetryAtMS)
	if r.LastError == nil {
		dst = append(dst, "NULL,"...)
	} else {
		text(*r.LastError)
	}
	num(r.CreatedAtMS)
	num(r.UpdatedAtMS)
	return dst[:len(dst)-1]
}

// appendQuoted appends s as a quoted field of RFC 4180.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			break
		}
		dst = append(append(dst, s[:i]...), `""`...)
		s = s[i+1:]
	}
	return append(append(dst, s...), '"')
}

// printable keeps a comment on its line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
