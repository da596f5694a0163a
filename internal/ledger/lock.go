package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

var (
	// ErrLocked is returned by [Ledger.Lock] when another connection holds the lock.
	ErrLocked = errors.New("another run holds the lock of this app_code")
	// ErrLockLost is returned by [Lock.Check] and [Lock.Release] when the lock is
	// no longer held, because its connection ended or someone released it.
	ErrLockLost = errors.New("the lock of this app_code is no longer ours")
)

// lockPrefix and an app_code make the name of a lock (docs/FORMAT.md "Commit order").
const lockPrefix = "wallet_outbox_archive:"

// Lock is the advisory lock of one app, held on a connection of its own. It is
// not safe for concurrent use. End it with [Lock.Release].
type Lock struct {
	conn *sql.Conn // nil once released
	name string
	id   int64 // of the connection
}

// Lock takes the lock of an app without waiting for it. It is the server's, not
// the database's: two ledgers of one app on one server share it, and the server
// does not tell upper from lower case in it.
//
// The error wraps [manifest.ErrBadKey] for an app_code that cannot be locked,
// before the server is asked, and [ErrLocked] when another connection, of this
// process or another, has the lock.
func (l *Ledger) Lock(ctx context.Context, app string) (*Lock, error) {
	if err := manifest.CheckAppCode(app); err != nil {
		return nil, err
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock app_code %q: %w", app, err)
	}
	k := &Lock{conn: conn, name: lockPrefix + app}
	if err := k.acquire(ctx); err != nil {
		k.discard()
		return nil, fmt.Errorf("lock app_code %q: %w", app, err)
	}
	return k, nil
}

func (k *Lock) acquire(ctx context.Context) error {
	var got, holder sql.NullInt64
	row := k.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0), IS_USED_LOCK(?), CONNECTION_ID()", k.name, k.name)
	if err := row.Scan(&got, &holder, &k.id); err != nil {
		return err
	}
	switch {
	case !got.Valid:
		return errors.New("the server could not say whether the lock is free: GET_LOCK is NULL")
	case got.Int64 == 0:
		return fmt.Errorf("%w: connection %d", ErrLocked, holder.Int64)
	}
	return nil
}

// Check asks the server whether the lock is still held by its connection. The
// error is [ErrLockLost] when it is not, also when the connection is gone.
func (k *Lock) Check(ctx context.Context) error {
	if k.conn == nil {
		return ErrLockLost
	}
	var holder, id sql.NullInt64
	row := k.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?), CONNECTION_ID()", k.name)
	switch err := row.Scan(&holder, &id); {
	case ctx.Err() != nil:
		return fmt.Errorf("check lock %s: %w", k.name, ctx.Err())
	case mysqldb.IsConnLost(err):
		return fmt.Errorf("check lock %s: %w: %w", k.name, ErrLockLost, err)
	case err != nil:
		return fmt.Errorf("check lock %s: %w", k.name, err)
	case id.Int64 != k.id || holder != id:
		return fmt.Errorf("check lock %s: %w: connection %d holds it, ours is %d", k.name, ErrLockLost, holder.Int64, k.id)
	}
	return nil
}

// Release gives the lock back and ends its connection, which alone makes the
// server free the lock, so that it is not held after Release whatever the error.
// The error wraps [ErrLockLost] when the lock was not held any more. Releasing
// once more does nothing.
func (k *Lock) Release(ctx context.Context) error {
	if k.conn == nil {
		return nil
	}
	defer k.discard()
	var released sql.NullInt64
	err := k.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", k.name).Scan(&released)
	switch {
	case mysqldb.IsConnLost(err):
		return fmt.Errorf("release lock %s: %w: %w", k.name, ErrLockLost, err)
	case err != nil:
		return fmt.Errorf("release lock %s: %w", k.name, err)
	case released.Int64 != 1:
		return fmt.Errorf("release lock %s: %w", k.name, ErrLockLost)
	}
	return nil
}

// discard closes the connection instead of giving it back to the pool, where it
// could keep a lock that nobody knows of.
func (k *Lock) discard() {
	_ = k.conn.Raw(func(any) error { return driver.ErrBadConn }) // says so to the pool
	_ = k.conn.Close()
	k.conn = nil
}
