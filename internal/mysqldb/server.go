package mysqldb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Queryer runs statements that return rows; *sql.DB, *sql.Conn and *sql.Tx do.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Execer runs statements that return none; *sql.DB, *sql.Conn and *sql.Tx do.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Session is one connection, held by its user: *sql.Conn and *sql.Tx are, and a
// *sql.DB is not, although it has the methods. Warnings and temporary state
// belong to a session.
type Session interface {
	Queryer
	Execer
}

// Flavor is the family that a server's behaviour follows.
type Flavor int

// The flavors. MySQL keeps JSON parsed and renders it again; MariaDB keeps the
// text.
const (
	MySQL   Flavor = iota // MySQL, Percona Server and whatever says it is neither
	MariaDB               // MariaDB
)

// String returns "MySQL" or "MariaDB".
func (f Flavor) String() string {
	if f == MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

// Server says what answers on a connection.
type Server struct {
	Version string // as SELECT VERSION() gives it
	Flavor  Flavor
	Major   int
	Minor   int
	Patch   int
}

// String returns the flavor and the version without its suffixes:
// "MariaDB 10.11.19".
func (s Server) String() string {
	return fmt.Sprintf("%s %d.%d.%d", s.Flavor, s.Major, s.Minor, s.Patch)
}

// KeepsJSONText reports whether the server's JSON type holds the text that was
// put in. If not, it parses the text and renders another one.
func (s Server) KeepsJSONText() bool { return s.Flavor == MariaDB }

// Identify asks the server for its version.
func Identify(ctx context.Context, q Queryer) (Server, error) {
	var version, comment string
	if err := q.QueryRowContext(ctx, "SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
		return Server{}, fmt.Errorf("ask the server for its version: %w", err)
	}
	s, err := parseVersion(version)
	if err != nil {
		return Server{}, err
	}
	if strings.Contains(strings.ToLower(version+" "+comment), "mariadb") {
		s.Flavor = MariaDB
	}
	return s, nil
}

func parseVersion(version string) (Server, error) {
	s := Server{Version: version}
	// MariaDB puts 5.5.5- before its version for old replicas.
	v := strings.TrimPrefix(version, "5.5.5-")
	if end := strings.IndexFunc(v, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		v = v[:end]
	}
	parts := strings.Split(v, ".")
	for i, part := range []*int{&s.Major, &s.Minor, &s.Patch} {
		if i >= len(parts) {
			break
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return Server{}, fmt.Errorf("server version %q does not begin with numbers", version)
		}
		*part = n
	}
	return s, nil
}

// Warning is a line of SHOW WARNINGS.
type Warning struct {
	Level   string // Note, Warning or Error
	Code    uint16
	Message string // without the value of a row that the server may quote
	// Whole is the message as the server gave it, with the value; not to be shown.
	Whole string
}

// String returns the line as one.
func (w Warning) String() string {
	return fmt.Sprintf("%s %d: %s", strings.ToLower(w.Level), w.Code, w.Message)
}

// Warnings returns what the last statement of session left to be said, notes
// included, at most max_error_count of them (64 or 1024 by default); nil when there was nothing. Session must be
// the connection or transaction that ran the statement, and nothing may have
// run on it since.
func Warnings(ctx context.Context, session Queryer) ([]Warning, error) {
	rows, err := session.QueryContext(ctx, "SHOW WARNINGS")
	if err != nil {
		return nil, fmt.Errorf("show warnings: %w", err)
	}
	defer rows.Close()
	var all []Warning
	for rows.Next() {
		var w Warning
		if err := rows.Scan(&w.Level, &w.Code, &w.Whole); err != nil {
			return nil, fmt.Errorf("show warnings: %w", err)
		}
		w.Message = quiet(w.Code, w.Whole)
		all = append(all, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("show warnings: %w", err)
	}
	return all, nil
}

// Settings are what a session may do, as the server says.
type Settings struct {
	SQLMode          []string
	Charset          string // of statements and of the values in them
	MaxAllowedPacket int    // bytes of one statement or row
	LocalInfile      bool   // LOAD DATA LOCAL is allowed by the server
	ReadOnly         bool   // the server refuses writes, though not those of every account
}

// ReadSettings asks for the settings of session.
func ReadSettings(ctx context.Context, session Queryer) (Settings, error) {
	var s Settings
	var mode, readOnly string
	err := session.QueryRowContext(ctx, "SELECT @@SESSION.sql_mode, @@SESSION.character_set_client, @@SESSION.max_allowed_packet, @@GLOBAL.local_infile, @@GLOBAL.read_only").
		Scan(&mode, &s.Charset, &s.MaxAllowedPacket, &s.LocalInfile, &readOnly)
	if err != nil {
		return Settings{}, fmt.Errorf("read session settings: %w", err)
	}
	s.ReadOnly = readOnly != "0" && readOnly != "OFF" // MariaDB 12 gives a word
	if mode != "" {
		s.SQLMode = strings.Split(mode, ",")
	}
	return s, nil
}

// Strict reports whether the session refuses, rather than changes, a value that
// does not fit, in tables of every engine.
func (s Settings) Strict() bool {
	return slices.Contains(s.SQLMode, "STRICT_ALL_TABLES")
}
