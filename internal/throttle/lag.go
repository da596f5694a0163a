package throttle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// lag returns how far a replica is behind, the greatest of its channels. known is
// false when a channel does not say, since one of its threads does not run.
func lag(ctx context.Context, q mysqldb.Queryer) (behind time.Duration, known bool, err error) {
	rows, err := q.QueryContext(ctx, "SHOW REPLICA STATUS") // MySQL 8.0.22, MariaDB 10.5.1
	if mysqldb.IsError(err, mysqldb.ErParse) {
		rows, err = q.QueryContext(ctx, "SHOW SLAVE STATUS")
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask how far it is behind: %w", err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return 0, false, fmt.Errorf("ask how far it is behind: %w", err)
	}
	channels := 0
	known = true
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return 0, false, fmt.Errorf("ask how far it is behind: %w", err)
		}
		d, ok, err := behindOf(names, values)
		if err != nil {
			return 0, false, err
		}
		channels++
		known = known && ok
		behind = max(behind, d)
	}
	if err := rows.Err(); err != nil {
		return 0, false, fmt.Errorf("ask how far it is behind: %w", err)
	}
	if channels == 0 {
		return 0, false, ErrNotReplica
	}
	return behind, known, nil
}

// behindOf reads one row of SHOW REPLICA STATUS. Servers call the column
// Seconds_Behind_Source or Seconds_Behind_Master.
func behindOf(names []string, values []sql.NullString) (behind time.Duration, known bool, err error) {
	for i, name := range names {
		if !strings.EqualFold(name, "Seconds_Behind_Source") && !strings.EqualFold(name, "Seconds_Behind_Master") {
			continue
		}
		if !values[i].Valid {
			return 0, false, nil
		}
		n, err := strconv.ParseInt(values[i].String, 10, 32)
		if err != nil {
			return 0, false, fmt.Errorf("column %s: %w", name, err)
		}
		return time.Duration(n) * time.Second, true, nil
	}
	return 0, false, errors.New("its status has no column Seconds_Behind_Source or Seconds_Behind_Master")
}
