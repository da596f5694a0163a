package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestLock(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		ctx := t.Context()
		db, dsn := s.NewDB(t)
		l := New(db)
		// A name that no other test of this server uses, and as long as they get.
		app := strings.Repeat("é", 22) + dsn[strings.LastIndex(dsn, "_test_")+6:][:16] + "_é_é"
		lock, err := l.Lock(ctx, app)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Check(ctx); err != nil {
			t.Errorf("Check = %v", err)
		}
		// Of this process, and of another pool as another process would have.
		other, err := mysqldb.Open(ctx, s.DSN(""), mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for _, l := range []*Ledger{l, New(other)} {
			if _, err := l.Lock(ctx, app); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(lock.id)) {
				t.Errorf("second Lock = %v, want %v and connection %d", err, ErrLocked, lock.id)
			}
		}
		second, err := l.Lock(ctx, app[2:])
		if err != nil {
			t.Errorf("Lock of another app = %v", err)
		} else if err := second.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := lock.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
		if err := lock.Check(ctx); !errors.Is(err, ErrLockLost) {
			t.Errorf("Check after Release = %v, want %v", err, ErrLockLost)
		}
		if err := lock.Release(ctx); err != nil {
			t.Errorf("second Release = %v", err)
		}
		again, err := New(other).Lock(ctx, app)
		if err != nil {
			t.Fatalf("Lock after Release = %v", err)
		}
		defer again.Release(context.WithoutCancel(ctx))
		if n := other.Stats().InUse; n != 1 {
			t.Errorf("%d connections in use, want the one of the lock", n)
		}
	})
}

// TestLockLost loses the lock in both ways that the server knows of.
func TestLockLost(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		ctx := t.Context()
		db, _ := s.NewDB(t)
		lose := map[string]func(*Lock){
			"connection killed": func(k *Lock) { exec(t, db, fmt.Sprintf("KILL CONNECTION %d", k.id)) },
			"lock released by the same connection": func(k *Lock) {
				if _, err := k.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", k.name); err != nil {
					t.Fatal(err)
				}
			},
		}
		for name, f := range lose {
			t.Run(name, func(t *testing.T) {
				for _, release := range []bool{true, false} {
					lock := lockWhenFree(t, New(db), "lost")
					f(lock)
					call := lock.Check
					if release {
						call = lock.Release
					}
					if err := call(ctx); !errors.Is(err, ErrLockLost) {
						t.Errorf("Check or Release = %v, want %v", err, ErrLockLost)
					}
					if !release {
						if err := lock.Release(ctx); !errors.Is(err, ErrLockLost) {
							t.Errorf("Release after a Check that failed = %v, want %v", err, ErrLockLost)
						}
					}
				}
			})
		}
		t.Run("taken by another since", func(t *testing.T) {
			lock := lockWhenFree(t, New(db), "lost")
			lose["lock released by the same connection"](lock)
			thief, err := New(db).Lock(ctx, "lost")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Check(ctx); !errors.Is(err, ErrLockLost) {
				t.Errorf("Check = %v, want %v", err, ErrLockLost)
			}
			if err := lock.Release(ctx); !errors.Is(err, ErrLockLost) {
				t.Errorf("Release = %v, want %v", err, ErrLockLost)
			}
			if err := errors.Join(thief.Check(ctx), thief.Release(ctx)); err != nil {
				t.Errorf("the other's lock: %v", err)
			}
		})
		t.Run("cancelled", func(t *testing.T) {
			lock, err := New(db).Lock(ctx, "cancelled")
			if err != nil {
				t.Fatal(err)
			}
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			if err := lock.Check(cancelled); !errors.Is(err, context.Canceled) || errors.Is(err, ErrLockLost) {
				t.Errorf("Check = %v, want %v alone", err, context.Canceled)
			}
			if err := lock.Release(cancelled); !errors.Is(err, context.Canceled) {
				t.Errorf("Release = %v, want %v", err, context.Canceled)
			}
			if _, err := New(db).Lock(cancelled, "cancelled"); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, want %v", err, context.Canceled)
			}
			if err := lockWhenFree(t, New(db), "cancelled").Release(ctx); err != nil {
				t.Error(err)
			}
		})
	})
}

// lockWhenFree takes a lock whose last connection the server may only just have
// seen the end of.
func lockWhenFree(t *testing.T, l *Ledger, app string) *Lock {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		lock, err := l.Lock(t.Context(), app)
		if err == nil {
			return lock
		}
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// untouchable is a server that fails the test when it is asked for anything.
type untouchable struct{ t *testing.T }

func (u untouchable) Connect(context.Context) (driver.Conn, error) {
	u.t.Error("the server was asked")
	return nil, errors.New("no server")
}

func (u untouchable) Driver() driver.Driver { return nil }

func TestLockRefusesBeforeTheServerIsAsked(t *testing.T) {
	db := sql.OpenDB(untouchable{t})
	defer db.Close()
	for _, app := range []string{strings.Repeat("a", 43), strings.Repeat("é", 43), "", "a/b", "\xff"} {
		if _, err := New(db).Lock(t.Context(), app); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Lock(%q) = %v, want %v", app, err, manifest.ErrBadKey)
		}
	}
}

// TestLockOf42Characters holds the limit against the servers.
func TestLockOf42Characters(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		lock, err := New(db).Lock(t.Context(), strings.Repeat("漢", manifest.MaxAppCodeChars))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lock.Check(t.Context()), lock.Release(t.Context())); err != nil {
			t.Error(err)
		}
		_, err = db.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", lockPrefix+strings.Repeat("a", manifest.MaxAppCodeChars+1))
		if err == nil && s.Flavor() == mysqldb.MySQL || err != nil && !mysqldb.IsError(err, mysqldb.ErUserLockOverlong) {
			t.Errorf("GET_LOCK of 65 characters = %v, want error %d", err, mysqldb.ErUserLockOverlong)
		}
	})
}
