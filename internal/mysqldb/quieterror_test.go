package mysqldb_test

import (
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// No error and no warning of a statement shows a value, whichever way the
// statement was sent, and each still has its number and names the key or column.
func TestErrorsShowNoValue(t *testing.T) {
	const secret = "secret-1"
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		c := conns(t, db, 1)[0]
		ctx := t.Context()
		exec := func(statement string, args ...any) error {
			_, err := c.ExecContext(ctx, statement, args...)
			return err
		}
		prepared := func(statement string, args ...any) error {
			st, err := c.PrepareContext(ctx, statement)
			if err != nil {
				return err
			}
			defer st.Close()
			_, err = st.ExecContext(ctx, args...)
			return err
		}
		query := func(statement string, args ...any) error {
			rows, err := c.QueryContext(ctx, statement, args...)
			if err == nil {
				err = rows.Close()
			}
			return err
		}
		for _, statement := range []string{
			"CREATE TABLE t (v VARCHAR(64), n INT NOT NULL DEFAULT 0, l VARCHAR(64) CHARACTER SET latin1 NOT NULL DEFAULT '', UNIQUE KEY uk_v (v))",
			"INSERT INTO t (v) VALUES ('" + secret + "')",
		} {
			if err := exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		for name, send := range map[string]func(string, ...any) error{"exec": exec, "prepared": prepared, "query": query} {
			for _, tt := range []struct {
				statement string
				value     string
				number    uint16
				names     string
			}{
				{"INSERT INTO t (v) VALUES (?)", secret, mysqldb.ErDupEntry, "uk_v"},
				{"INSERT INTO t (n) VALUES (?)", secret, mysqldb.ErTruncatedWrongValue, "n"},
				{"INSERT INTO t (l) VALUES (?)", secret + "日", 0, ""}, // numbers differ
				{"UPDATE t SET n = CAST(? AS SIGNED)", secret, 1292, "INTEGER"},
			} {
				err := send(tt.statement, tt.value)
				if err == nil || mysqldb.Number(err) == 0 {
					t.Errorf("%s %s = %v, want an error of the server", name, tt.statement, err)
					continue
				}
				if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, `\xE6`) || !strings.Contains(text, tt.names) {
					t.Errorf("%s %s: %s", name, tt.statement, text)
				}
				if tt.number != 0 && !mysqldb.IsError(err, tt.number) {
					t.Errorf("%s %s = %v, want the error %d", name, tt.statement, err, tt.number)
				}
			}
		}
		if err := exec("INSERT IGNORE INTO t (v) VALUES ('" + secret + "')"); err != nil {
			t.Fatal(err)
		}
		warnings, err := mysqldb.Warnings(ctx, c)
		if err != nil || len(warnings) != 1 || warnings[0].Code != mysqldb.ErDupEntry {
			t.Fatalf("warnings %v, %v", warnings, err)
		}
		if w := warnings[0]; strings.Contains(w.String()+w.Message, "secret") || !strings.Contains(w.String(), "uk_v") || !strings.Contains(w.Whole, secret) {
			t.Errorf("the warning is %q, whole %q", w, w.Whole)
		}
	})
}
