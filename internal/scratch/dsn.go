package scratch

import (
	"context"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

// useDSN takes a running server. The database that the DSN may name is not
// touched; the one of the given name is dropped by remove.
func useDSN(dsn, database string) (*instance, error) {
	dsn, err := mysqldb.WithDatabase(dsn, "")
	if err != nil {
		return nil, fmt.Errorf("read scratch DSN: %w", err)
	}
	account := mysqldb.Redact(dsn)
	return &instance{
		place: "at " + account,
		dsn:   dsn,
		given: true,
		kept: func(database string) string {
			return fmt.Sprintf("database %s at %s; remove it with DROP DATABASE %[1]s", database, account)
		},
		remove: func(ctx context.Context) error { return dropDatabase(ctx, dsn, database) },
	}, nil
}

// dropDatabase drops over a connection of its own: the one that created the
// database may be why things went wrong. IF EXISTS makes a second try safe.
func dropDatabase(ctx context.Context, dsn, name string) error {
	db, err := mysqldb.Open(ctx, dsn, mysqldb.Options{MaxConns: 1})
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+mysqldb.QuoteName(name)); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}
