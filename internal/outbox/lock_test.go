package outbox

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestLockUpdateDelete(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		rows := []manifest.Record{record(1), record(2), record(3)}
		if err := write(t, db, tab, WriterOptions{Method: Insert}, rows); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		mustExec(t, conn, "START TRANSACTION")
		var found int
		for r, err := range LockByKeys(ctx, conn, tab, app, []string{rows[0].EventID, rows[1].EventID, "none"}) {
			if err != nil || (r.RowHash() != rows[0].RowHash() && r.RowHash() != rows[1].RowHash()) {
				t.Errorf("locked %v, %v", r, err)
			}
			found++
		}
		if found != 2 {
			t.Errorf("%d rows locked, want 2", found)
		}
		// Nobody else may write it now.
		other, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		mustExec(t, other, "SET SESSION innodb_lock_wait_timeout = 1")
		if _, err := Delete(ctx, other, tab, app, []string{rows[0].EventID}); !mysqldb.IsError(err, mysqldb.ErLockWaitTimeout) {
			t.Errorf("a locked row was deleted by another connection: %v", err)
		}
		changed := rows[1].Clone()
		text := "it's \\ odd"
		changed.LastError, changed.UserID, changed.LockUntilMS = &text, -5, new(int64)
		if n, err := Update(ctx, conn, tab, changed); n != 1 || err != nil {
			t.Errorf("Update = %d, %v", n, err)
		}
		if n, err := Delete(ctx, conn, tab, app, []string{rows[0].EventID, "none"}); n != 1 || err != nil {
			t.Errorf("Delete = %d, %v", n, err)
		}
		long := rows[2].Clone()
		long.AssetType = string(make([]byte, 40))
		if _, err := Update(ctx, conn, tab, long); !mysqldb.IsError(err, mysqldb.ErDataTooLong) {
			t.Errorf("Update with a value that is too long: %v", err)
		}
		// What the server says beside its OK is an error, too.
		mustExec(t, conn, "SET SESSION sql_mode = ''")
		var warning *WarningError
		if _, err := Update(ctx, conn, tab, long); !errors.As(err, &warning) || warning.Column != "asset_type" {
			t.Errorf("Update with a value that is cut: %v", err)
		}
		mustExec(t, conn, "ROLLBACK")
		mustExec(t, conn, "SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
		if _, err := Update(ctx, conn, tab, changed); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for r, err := range ReadAll(ctx, conn, tab, "", AnyOrder) {
			if err != nil {
				t.Fatal(err)
			}
			got[r.EventID] = string(r.AppendLine(nil))
		}
		want := map[string]string{}
		for _, r := range []*manifest.Record{&rows[0], changed, &rows[2]} {
			want[r.EventID] = string(r.AppendLine(nil))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
