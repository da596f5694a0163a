package mysqldb_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// conns opens n connections of one pool at once.
func conns(t *testing.T, db *sql.DB, n int) []*sql.Conn {
	t.Helper()
	var all []*sql.Conn
	for range n {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}

func TestEveryConnectionHasTheSettings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		_, dsn := s.NewDB(t)
		db, err := mysqldb.Open(t.Context(), dsn+"?sql_mode=''&time_zone='%2B08:00'&character_set_results=latin1&sql_select_limit=1&charset=latin1&completion_type=2&@@session.completion_type=1", mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, c := range conns(t, db, 3) {
			var mode, zone, client, results, connection, completion string
			var limit uint64
			err := c.QueryRowContext(t.Context(), "SELECT @@sql_mode, @@time_zone, @@character_set_client, @@character_set_results, @@character_set_connection, @@sql_select_limit, @@completion_type").
				Scan(&mode, &zone, &client, &results, &connection, &limit, &completion)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(mode, "STRICT_ALL_TABLES") || zone != "+00:00" || client != "utf8mb4" || results != "utf8mb4" || connection != "utf8mb4" || limit != 1<<64-1 || completion != "NO_CHAIN" {
				t.Errorf("session: sql_mode %s, time_zone %s, charsets %s %s %s, limit %d, completion_type %s", mode, zone, client, results, connection, limit, completion)
			}
		}
	})
}

func TestIdentify(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		got, err := mysqldb.Identify(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		want := mysqldb.MySQL
		if s.Name == mysqltest.MariaDB {
			want = mysqldb.MariaDB
		}
		if got.Flavor != want || got.Major < 8 || !strings.HasPrefix(got.String(), want.String()+" ") {
			t.Errorf("Identify = %+v", got)
		}
		if got.KeepsJSONText() != (want == mysqldb.MariaDB) {
			t.Errorf("KeepsJSONText = %v", got.KeepsJSONText())
		}
	})
}

func TestWarnings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := conns(t, db, 1)[0]
		exec := func(statement string) {
			t.Helper()
			if _, err := c.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		exec("CREATE TABLE t (v VARCHAR(3))")
		if ws, err := mysqldb.Warnings(t.Context(), c); err != nil || ws != nil {
			t.Errorf("Warnings of a statement without any = %v, %v", ws, err)
		}
		exec("INSERT INTO t VALUES ('abc  ')") // a note even in strict mode
		ws, err := mysqldb.Warnings(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(ws) != 1 || ws[0].Level != "Note" || ws[0].Code != mysqldb.ErWarnDataTruncated || !strings.Contains(ws[0].String(), "note 1265: ") {
			t.Errorf("Warnings = %+v, want the note 1265", ws)
		}
	})
}

// The errors that are told apart by number really have these numbers.
func TestErrorNumbers(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		ctx := t.Context()
		if _, err := db.ExecContext(ctx, "CREATE TABLE t (k INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT NOT NULL DEFAULT 0, j JSON)"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO t (k, v) VALUES (1, 'a')"); err != nil {
			t.Fatal(err)
		}
		got, want := map[string]uint16{}, map[string]uint16{}
		for statement, number := range map[string]uint16{
			"CREATE TABLE t (k INT)":                        mysqldb.ErTableExists,
			"SELECT * FROM missing":                         mysqldb.ErNoSuchTable,
			"SELECT missing FROM t":                         mysqldb.ErBadField,
			"SELECT * FROM t FORCE INDEX (missing)":         mysqldb.ErKeyDoesNotExist,
			"INSERT INTO t (k, v) VALUES (1, 'b')":          mysqldb.ErDupEntry,
			"INSERT INTO t (k, v) VALUES (2, 'abcd')":       mysqldb.ErDataTooLong,
			"INSERT INTO t (k, v) VALUES (2, NULL)":         mysqldb.ErBadNull,
			"INSERT INTO t (k) VALUES (2)":                  mysqldb.ErNoDefaultForField,
			"INSERT INTO t (k, v, n) VALUES (2, 'a', 1000)": mysqldb.ErWarnDataOutOfRange,
			"USE missing": mysqldb.ErBadDB,
			"CREATE TABLE u (v TEXT COLLATE missing)": mysqldb.ErUnknownCollation,
		} {
			_, err := db.ExecContext(ctx, statement)
			got[statement], want[statement] = mysqldb.Number(err), number
		}
		if s.Name == mysqltest.MySQL {
			statement := "INSERT INTO t (k, v, j) VALUES (2, 'a', '{')"
			_, err := db.ExecContext(ctx, statement)
			got[statement], want[statement] = mysqldb.Number(err), mysqldb.ErInvalidJSONText
			statement = "SELECT GET_LOCK(REPEAT('x', 65), 0)"
			err = db.QueryRowContext(ctx, statement).Scan(new(int))
			got[statement], want[statement] = mysqldb.Number(err), mysqldb.ErUserLockOverlong
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("error numbers (-want +got):\n%s", diff)
		}
	})
}

// A deadlock is real, and the one who lost may try again.
func TestDeadlockIsRetryable(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		ctx := t.Context()
		if _, err := db.ExecContext(ctx, "CREATE TABLE t (k INT PRIMARY KEY, n INT)"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 0), (2, 0)"); err != nil {
			t.Fatal(err)
		}
		var txs [2]*sql.Tx
		for i := range txs {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, "UPDATE t SET n = n + 1 WHERE k = ?", i+1); err != nil {
				t.Fatal(err)
			}
			txs[i] = tx
		}
		errs := make(chan error, 2)
		for i, tx := range txs {
			go func() {
				_, err := tx.ExecContext(ctx, "UPDATE t SET n = n + 1 WHERE k = ?", 2-i)
				errs <- err
				_ = tx.Rollback()
			}()
		}
		lost := 0
		for range txs {
			if err := <-errs; mysqldb.IsRetryable(err) {
				lost++
			} else if err != nil {
				t.Errorf("update = %v", err)
			}
		}
		if lost != 1 {
			t.Errorf("%d of two transactions lost a deadlock, want 1", lost)
		}
	})
}

func TestKilledConnectionIsLost(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := conns(t, db, 1)[0]
		var id int64
		if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(context.Background(), "DO SLEEP(60)")
			done <- err
		}()
		// KILL may come before the statement, which is then the one to fail.
		if _, err := db.ExecContext(t.Context(), "KILL ?", id); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !mysqldb.IsConnLost(err) {
			t.Errorf("IsConnLost(%v) = false, want true", err)
		}
	})
}

// A server may ask its client for any file. It gets none.
func TestNoLocalFileIsGiven(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		_, dsn := s.NewDB(t)
		db, err := mysqldb.Open(t.Context(), dsn+"?allowAllFiles=true", mysqldb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (v TEXT)"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE '"+file+"' INTO TABLE t"); err == nil {
			t.Error("the server got a file")
		}
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows, %v, want none", n, err)
		}
	})
}

func TestReadSettings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := conns(t, db, 1)[0]
		got, err := mysqldb.ReadSettings(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Strict() || got.MaxAllowedPacket < 1<<20 || !got.LocalInfile || got.ReadOnly {
			t.Errorf("ReadSettings = %+v", got)
		}
		if _, err := c.ExecContext(t.Context(), "SET sql_mode = ''"); err != nil {
			t.Fatal(err)
		}
		if got, err = mysqldb.ReadSettings(t.Context(), c); err != nil || got.Strict() || got.SQLMode != nil {
			t.Errorf("ReadSettings without a mode = %+v, %v", got, err)
		}
	})
}

// Literals are exact for every byte and at every place.
func TestAppendStringIsExact(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		var all []string
		for r := range rune(0x180) {
			all = append(all, string(r), string(r)+"'", "\\"+string(r))
		}
		all = append(all, "", "😀", `\'`, `'; --`, "\u2028", "a\x00b")
		for _, want := range all {
			var got string
			if err := db.QueryRowContext(t.Context(), string(mysqldb.AppendString([]byte("SELECT "), want))).Scan(&got); err != nil || got != want {
				t.Errorf("%q came back as %q, %v", want, got, err)
			}
		}
	})
}
