package sink

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/outboxtest"
	"github.com/hyapp/walletarchive/manifest"
)

// stored returns records as db holds them after plain INSERTs, since MySQL
// spells JSON in its own way: what an archive of it would have.
func stored(t *testing.T, db *sql.DB, records []manifest.Record) []manifest.Record {
	t.Helper()
	table, err := outbox.Describe(t.Context(), db, outbox.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := outbox.NewWriter(t.Context(), conn, &table, outbox.WriterOptions{Method: outbox.Insert})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Add(t.Context(), &records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []manifest.Record
	for r, err := range outbox.ReadAll(t.Context(), conn, &table, "", outbox.CursorOrder) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *r.Clone())
	}
	return all
}

// client runs the stock client of the server on a file and returns what it said
// and whether it ended well.
func client(t *testing.T, s mysqltest.Server, dsn, file string, more ...string) (string, bool) {
	t.Helper()
	args := append(s.ClientArgs(t, dsn), more...)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// TestSQLLoadsWithTheStockClient loads a file and compares every row hash; then
// it shows that a table that would change a value, or holds a row, gets nothing.
func TestSQLLoadsWithTheStockClient(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		records := stored(t, db, awkward())
		want := outboxtest.RowHashes(t, db)
		for i := range records {
			if want[records[i].AppCode+"/"+records[i].EventID] != records[i].RowHash().String() {
				t.Fatalf("row %q is not what the server has", records[i].EventID)
			}
		}
		file := filepath.Join(t.TempDir(), "rows.sql")
		text, _ := write(t, SQL, Options{StatementBytes: 5000, Origin: "a test"}, records)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		outboxtest.Exec(t, db, "DELETE FROM wallet_outbox")
		// A client that begins with another charset and a lax sql_mode.
		if out, ok := client(t, s, dsn, file, "--default-character-set=latin1", "--init-command=SET sql_mode=''"); !ok {
			t.Fatalf("the client failed:\n%s", out)
		}
		if diff := cmp.Diff(want, outboxtest.RowHashes(t, db)); diff != "" {
			t.Errorf("row hashes (-archived +loaded)\n%s", diff)
		}
		// Once more: every row is there already.
		if out, ok := client(t, s, dsn, file); ok || !strings.Contains(out, "1062") {
			t.Errorf("loading twice: %v\n%s", ok, out)
		}
		for _, change := range []string{
			"ALTER TABLE wallet_outbox MODIFY last_error VARCHAR(10)",
			"CREATE TRIGGER lost BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.event_id = IF(NEW.event_id = 'text_3', NULL, NEW.event_id)",
		} {
			outboxtest.Exec(t, db, "DELETE FROM wallet_outbox")
			outboxtest.Exec(t, db, change)
			// --force is the client that goes on after an error.
			for _, force := range []string{"--force", "--skip-force"} {
				if out, ok := client(t, s, dsn, file, force); len(outboxtest.RowHashes(t, db)) != 0 || ok && force != "--force" {
					t.Errorf("%s: rows were kept:\n%s", change, out)
				}
			}
		}
	})
}

// TestSQLNeedsTransactions keeps every row out of a table that could not give them
// back, and leaves the session as it was.
func TestSQLNeedsTransactions(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		// A row that the server would refuse, too, after others were taken.
		text, _ := write(t, SQL, Options{StatementBytes: 1}, append(awkward()[:3], awkward()[0]))
		good, _ := write(t, SQL, Options{}, awkward()[:3])
		dir := t.TempDir()
		file, whole := filepath.Join(dir, "rows.sql"), filepath.Join(dir, "whole.sql")
		for name, content := range map[string]string{file: text, whole: good + "DELETE FROM wallet_outbox LIMIT 1;\n"} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		outboxtest.Exec(t, db, "ALTER TABLE wallet_outbox ENGINE = MyISAM")
		for _, force := range []string{"--force", "--skip-force"} {
			out, ok := client(t, s, dsn, file, force)
			if n := len(outboxtest.RowHashes(t, db)); n != 0 || !strings.Contains(out, "1242") || ok && force != "--force" {
				t.Errorf("%s: %d rows were kept, ended well %v:\n%s", force, n, ok, out)
			}
		}
		outboxtest.Exec(t, db, "ALTER TABLE wallet_outbox ENGINE = InnoDB")
		out, ok := client(t, s, dsn, whole)
		if n := len(outboxtest.RowHashes(t, db)); !ok || n != 2 {
			t.Errorf("a session that goes on: %d rows, ended well %v:\n%s", n, ok, out)
		}
	})
}

// TestSQLCheckFires shows that the check at the end is one that can fail, by a
// file that lacks a row.
func TestSQLCheckFires(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		text, _ := write(t, SQL, Options{}, awkward()[:3])
		for name, broken := range map[string]string{
			"a row less": strings.Replace(text, "= 3 AND", "= 4 AND", 1),
			"a warning":  strings.Replace(text, "START TRANSACTION;", "START TRANSACTION; SET @walletarchive_warnings = 1;", 1),
		} {
			if broken == text {
				t.Fatal("nothing was changed")
			}
			outboxtest.Exec(t, db, "DELETE FROM wallet_outbox")
			file := filepath.Join(t.TempDir(), "rows.sql")
			if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, ok := client(t, s, dsn, file); ok || !strings.Contains(out, "1242") || len(outboxtest.RowHashes(t, db)) != 0 {
				t.Errorf("%s: ended well %v, %d rows\n%s", name, ok, len(outboxtest.RowHashes(t, db)), out)
			}
		}
	})
}

// TestSQLCountsWarnings shows that @@warning_count is that of the INSERT before.
func TestSQLCountsWarnings(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		records := awkward()[:3]
		text, _ := write(t, SQL, Options{}, append(records, records[0]))
		// IGNORE makes a warning of the duplicate; as many rows as it wrote are asked for.
		text = strings.Replace(strings.Replace(text, "INSERT INTO", "INSERT IGNORE INTO", 1), "= 4 AND", "= 3 AND", 1)
		file := filepath.Join(t.TempDir(), "rows.sql")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, ok := client(t, s, dsn, file); ok || !strings.Contains(out, "1242") || len(outboxtest.RowHashes(t, db)) != 0 {
			t.Errorf("ended well %v, %d rows\n%s", ok, len(outboxtest.RowHashes(t, db)), out)
		}
	})
}

// TestCSVLoads reads a file with the statement of docs/CLI.md.
func TestCSVLoads(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		outboxtest.Exec(t, db, outbox.Schema(outbox.DefaultTable, ""))
		records := stored(t, db, awkward())
		want := outboxtest.RowHashes(t, db)
		outboxtest.Exec(t, db, "DELETE FROM wallet_outbox")
		text, _ := write(t, CSV, Options{}, records)
		file := filepath.Join(t.TempDir(), "rows.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		mysql.RegisterLocalFile(file)
		defer mysql.DeregisterLocalFile(file)
		conn, err := db.Conn(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE '"+file+"' INTO TABLE wallet_outbox CHARACTER SET utf8mb4 "+
			`FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\n' IGNORE 1 LINES `+
			"("+strings.Join(slices.Clone(manifest.Columns[:]), ", ")+")"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, outboxtest.RowHashes(t, db)); diff != "" {
			t.Errorf("row hashes (-archived +loaded)\n%s", diff)
		}
	})
}
