package restore

import (
	"context"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// TargetIdentity tells one target from another.
type TargetIdentity struct {
	// Server is the server_uuid of MySQL, and elsewhere what serverName makes of
	// the server's place. A restart keeps it; a replica has another one.
	Server   string `json:"server"`
	Version  string `json:"version"` // as SELECT VERSION() gives it; may change
	Database string `json:"database"`
	Table    string `json:"table"`
}

// Same reports whether both are one table. The version is not compared: a server
// is upgraded now and then.
func (t TargetIdentity) Same(o TargetIdentity) bool {
	return t.Server == o.Server && t.Database == o.Database && t.Table == o.Table
}

// String names the table and the server.
func (t TargetIdentity) String() string {
	return fmt.Sprintf("table %s of database %s on server %s (%s)", t.Table, t.Database, t.Server, t.Version)
}

// IdentifyTarget asks the server who it is.
func IdentifyTarget(ctx context.Context, q mysqldb.Queryer, table string) (TargetIdentity, error) {
	t := TargetIdentity{Table: table}
	if err := q.QueryRowContext(ctx, "SELECT VERSION(), COALESCE(DATABASE(), '')").Scan(&t.Version, &t.Database); err != nil {
		return t, fmt.Errorf("ask the target who it is: %w", err)
	}
	rows, err := q.QueryContext(ctx,
		"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port', 'server_id', 'datadir', 'socket')")
	if err != nil {
		return t, fmt.Errorf("ask the target who it is: %w", err)
	}
	defer rows.Close()
	values := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return t, fmt.Errorf("ask the target who it is: %w", err)
		}
		values[name] = value
	}
	if err := rows.Err(); err != nil {
		return t, fmt.Errorf("ask the target who it is: %w", err)
	}
	t.Server = serverName(values)
	return t, nil
}

// serverName tells servers apart by their global variables. MariaDB's server_uid
// alone does not: it is a hash of the machine's network card and the port, the
// same for every server of a machine that listens on sockets, or in containers
// on the same address.
func serverName(variables map[string]string) string {
	if uuid := variables["server_uuid"]; uuid != "" {
		return uuid
	}
	name := variables["hostname"] + ":" + variables["port"] + "#" + variables["server_id"]
	for _, more := range []string{"datadir", "socket", "server_uid"} {
		if variables[more] != "" {
			name += " " + variables[more]
		}
	}
	return name
}
