package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// refusing is a session that prepares as prepare says, and counts what is written
// without.
type refusing struct {
	mysqldb.Session
	prepare func(query string) (*sql.Stmt, error)
	asked   int
	plain   int
}

func (r *refusing) PrepareContext(_ context.Context, query string) (*sql.Stmt, error) {
	r.asked++
	return r.prepare(query)
}

func (r *refusing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(query, "INSERT") {
		r.plain++
	}
	return r.Session.ExecContext(ctx, query, args...)
}

// Full chunks are written by one prepared statement, and all are written plainly
// where none is to be had; either way every row is there.
func TestWriterPrepares(t *testing.T) {
	lost := errors.New("lost")
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tc := range []struct {
			name         string
			prepare      func(tx *sql.Tx) func(string) (*sql.Stmt, error)
			asked, plain int
			err          error
		}{
			{"prepared", func(tx *sql.Tx) func(string) (*sql.Stmt, error) {
				return func(q string) (*sql.Stmt, error) { return tx.PrepareContext(context.Background(), q) }
			}, 1, 1, nil},
			{"refused", func(*sql.Tx) func(string) (*sql.Stmt, error) {
				return func(string) (*sql.Stmt, error) {
					return nil, &mysql.MySQLError{Number: 1461, Message: "max_prepared_stmt_count"}
				}
			}, 1, 4, nil},
			{"lost", func(*sql.Tx) func(string) (*sql.Stmt, error) {
				return func(string) (*sql.Stmt, error) { return nil, lost }
			}, 1, 0, lost},
		} {
			t.Run(tc.name, func(t *testing.T) {
				db, tab := newTable(t, s, "")
				var all []manifest.Record
				for i := range 10 {
					r := record(i)
					r.EventID = fmt.Sprintf("row %d", i)
					if i%2 == 0 {
						r.LockUntilMS, r.LastError = ptr(int64(i)), ptr("it's 😀 \\")
					}
					all = append(all, r)
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				session := &refusing{Session: tx, prepare: tc.prepare(tx)}
				w, err := NewWriter(t.Context(), session, tab, WriterOptions{Method: Insert, rows: 3})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				for i := range all {
					r := all[i]
					r.LockUntilMS = copied(r.LockUntilMS)
					if err = w.Add(t.Context(), &r); err != nil {
						break
					}
					if r.LockUntilMS != nil {
						*r.LockUntilMS = -1 // it may be changed afterwards
					}
					r.EventID = "changed"
				}
				if err == nil {
					err = w.Flush(t.Context())
				}
				if !errors.Is(err, tc.err) || session.asked != tc.asked || session.plain != tc.plain {
					t.Fatalf("error %v, prepared %d times, %d plain statements, want %v, %d, %d", err, session.asked, session.plain, tc.err, tc.asked, tc.plain)
				}
				if err != nil {
					return
				}
				byID := map[string]string{}
				for r, err := range ReadAll(t.Context(), tx, tab, "", AnyOrder) {
					if err != nil {
						t.Fatal(err)
					}
					byID[r.EventID] = string(r.AppendLine(nil))
				}
				want := map[string]string{}
				for i := range all {
					want[all[i].EventID] = string(all[i].AppendLine(nil))
				}
				if diff := cmp.Diff(want, byID); diff != "" {
					t.Errorf("rows (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// A statement is never longer than what was reckoned with.
func TestTupleBound(t *testing.T) {
	r := record(1)
	for _, r := range []manifest.Record{{}, r, {
		EventID: "'\\\x00\n\x1a\"", PayloadJSON: strings.Repeat("'", 1000), LastError: ptr("'"), LockUntilMS: ptr(int64(-1 << 63)), NextRetryAtMS: ptr(int64(-1 << 63)),
		UserID: -1 << 63, AvailableDelta: -1 << 63, FrozenDelta: -1 << 63, RetryCount: -1 << 63, CreatedAtMS: -1 << 63, UpdatedAtMS: -1 << 63,
	}} {
		if got, most := len(appendTuple(nil, &r)), tupleBound(&r); got > most {
			t.Errorf("%d bytes, bound %d: %+v", got, most, r)
		}
	}
}
