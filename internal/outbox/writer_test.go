package outbox

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// What a server would cut, replace or leave out is an error that names the row
// and the column, by either method and wherever in a chunk the row is.
func TestWriterRefusesWhatWouldChange(t *testing.T) {
	tests := []struct {
		name       string
		statements []string
		change     func(*manifest.Record)
		column     string // "" for what a server never tells
		duplicate  bool
		flavor     string // "" for both
	}{
		{"too long", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(8) NOT NULL"}, func(r *manifest.Record) { r.WorkerID = "123456789" }, "worker_id", false, ""},
		// Strict mode cuts spaces all the same, and makes no more than a note of it.
		{"spaces too long", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(8) NOT NULL"}, func(r *manifest.Record) { r.WorkerID = "12345678 " }, "worker_id", false, ""},
		{"text too long", []string{"ALTER TABLE wallet_outbox MODIFY last_error TINYTEXT"}, func(r *manifest.Record) { r.LastError = ptr(strings.Repeat("e", 256)) }, "last_error", false, ""},
		{"key too long", []string{"ALTER TABLE wallet_outbox MODIFY event_id VARCHAR(16) NOT NULL"}, func(r *manifest.Record) { r.EventID = "12345678901234567" }, "event_id", false, ""},
		{"number out of range", []string{"ALTER TABLE wallet_outbox MODIFY retry_count TINYINT NOT NULL"}, func(r *manifest.Record) { r.RetryCount = 128 }, "retry_count", false, ""},
		{"negative into unsigned", []string{"ALTER TABLE wallet_outbox MODIFY user_id BIGINT UNSIGNED NOT NULL"}, func(r *manifest.Record) { r.UserID = -1 }, "user_id", false, ""},
		{"NULL", []string{"ALTER TABLE wallet_outbox MODIFY last_error TEXT NOT NULL"}, func(r *manifest.Record) { r.LastError = nil }, "last_error", false, ""},
		{"character of four bytes", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET utf8 NOT NULL"}, func(r *manifest.Record) { r.WorkerID = "😀" }, "worker_id", false, ""},
		{"character that latin1 lacks", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET latin1 NOT NULL"}, func(r *manifest.Record) { r.WorkerID = "日" }, "worker_id", false, ""},
		{"word that an enum lacks", []string{"ALTER TABLE wallet_outbox MODIFY status ENUM('delivered') NOT NULL"}, func(r *manifest.Record) { r.Status = "lost" }, "status", false, ""},
		{"payload that is no JSON", nil, func(r *manifest.Record) { r.PayloadJSON = `{"a":` }, "payload", false, ""},
		{"payload that is empty", nil, func(r *manifest.Record) { r.PayloadJSON = "" }, "payload", false, ""},
		{"duplicate key", nil, func(r *manifest.Record) { r.EventID = "there" }, "", true, ""},
		{"duplicate in the same chunk", nil, func(r *manifest.Record) { r.EventID = "row 3" }, "", true, ""},
		{"duplicate by the collation", []string{"ALTER TABLE wallet_outbox MODIFY event_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL"}, func(r *manifest.Record) { r.EventID = "THERE" }, "", true, ""},
		{"a refusing check", []string{"ALTER TABLE wallet_outbox ADD CONSTRAINT c CHECK (user_id > 0)"}, func(r *manifest.Record) { r.UserID = -1 }, "", false, mysqltest.MySQL},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		for _, tt := range tests {
			if tt.flavor != "" && tt.flavor != s.Name {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				recreate(t, db)
				for _, statement := range tt.statements {
					mustExec(t, db, statement)
				}
				tab := describe(t, db, DefaultTable)
				good := func(id string) manifest.Record {
					r := record(1)
					r.EventID, r.WorkerID, r.LastError = id, "w", ptr("e")
					return r
				}
				if err := write(t, db, tab, WriterOptions{}, []manifest.Record{good("there")}); err != nil {
					t.Fatal(err)
				}
				const bad = 6
				var records []manifest.Record
				for i := range 9 {
					r := good(fmt.Sprintf("row %d", 8-i)) // so that sorting turns them round
					if i == bad {
						r.EventID = "row 2"
						tt.change(&r)
					}
					records = append(records, r)
				}
				for _, opts := range []WriterOptions{{Method: Insert}, {Method: Insert, rows: 3}, {Method: Insert, rows: 3, SortByKey: true}, {Method: LoadData}, {Method: LoadData, SortByKey: true}, {Method: Insert, ChunkBytes: 1000}, {Method: LoadData, ChunkBytes: 1000}} {
					name := fmt.Sprintf("%+v", opts)
					err := write(t, db, tab, opts, records)
					var we *WarningError
					var re *RowError
					var eventID, column string
					var row int64
					switch {
					case errors.As(err, &we):
						eventID, column, row = we.EventID, we.Column, we.Row
						if we.Code == 0 || we.Message == "" {
							t.Errorf("%s: the warning is empty: %+v", name, we)
						}
					case errors.As(err, &re):
						eventID, column, row = re.EventID, re.Column, re.Row
					case err == nil:
						t.Errorf("%s: every row was taken", name)
						continue
					}
					// Which of two new rows is the duplicate depends on their order, and
					// which row has the NULL only LOAD DATA tells.
					unsure := tt.name == "duplicate in the same chunk" || tt.name == "NULL" && row == 0 || tt.column == "" && !tt.duplicate
					if column != tt.column || !unsure && (eventID != records[bad].EventID || row != bad+1) {
						t.Errorf("%s: event_id %q, row %d, column %q, want %q, %d, %q: %v", name, eventID, row, column, records[bad].EventID, bad+1, tt.column, err)
					}
					if errors.Is(err, ErrDuplicate) != tt.duplicate {
						t.Errorf("%s: errors.Is(%v, ErrDuplicate) = %v", name, err, !tt.duplicate)
					}
					if n := count(t, db); n != 1 {
						t.Fatalf("%s: %d rows after the rollback, want 1", name, n)
					}
				}
			})
		}
	})
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM wallet_outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWriterChecksTheSession(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		for _, mode := range []string{"", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES"} {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, conn, "SET sql_mode = '"+mode+"'")
			if _, err := NewWriter(t.Context(), conn, tab, WriterOptions{}); err == nil {
				t.Errorf("NewWriter took sql_mode %q", mode)
			}
			mustExec(t, conn, "SET sql_mode = 'STRICT_ALL_TABLES'")
			w, err := NewWriter(t.Context(), conn, tab, WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]Method{mysqltest.MySQL: LoadData, mysqltest.MariaDB: Insert}[s.Name]; w.Method() != want {
				t.Errorf("Method = %v, want %v where both are allowed", w.Method(), want)
			}
			if err := w.Flush(t.Context()); err != nil || w.Written() != 0 {
				t.Errorf("Flush of nothing = %v, %d rows", err, w.Written())
			}
			conn.Close()
		}
	})
}

// Rows are spread over statements as the limit says, and one that is over
// max_allowed_packet fails before it is sent.
func TestWriterKeepsToThePacket(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, tab := newTable(t, s, "")
		settings, err := mysqldb.ReadSettings(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		var records []manifest.Record
		for i := range 5 {
			r := record(i)
			r.PayloadJSON = `"` + strings.Repeat("'", settings.MaxAllowedPacket/5) + `"` // twice as long in a statement
			records = append(records, r)
		}
		if err := write(t, db, tab, WriterOptions{Method: Insert, ChunkBytes: 1 << 30}, records); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db); n != len(records) {
			t.Errorf("%d rows, want %d", n, len(records))
		}
		r := record(9)
		r.PayloadJSON = `"` + strings.Repeat("'", settings.MaxAllowedPacket*2/3) + `"`
		err = write(t, db, tab, WriterOptions{Method: Insert}, []manifest.Record{record(8), r})
		var re *RowError
		if !errors.Is(err, ErrRowTooLarge) || !errors.As(err, &re) || re.EventID != r.EventID || re.Row != 2 {
			t.Errorf("a row over max_allowed_packet = %v, want ErrRowTooLarge with its event_id", err)
		}
	})
}

// ChunkBytes bounds a chunk and not a row: one that is larger has a statement of
// its own, as long as max_allowed_packet lets it through.
func TestWriterTakesRowsOverTheChunk(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, opts := range []WriterOptions{{Method: Insert}, {Method: LoadData}, {Method: Insert, ChunkBytes: 1000}, {Method: LoadData, ChunkBytes: 1000}, {Method: Insert, rows: 1}} {
			db, tab := newTable(t, s, "")
			var records []manifest.Record
			want := map[string]string{}
			for i, size := range []int{10, DefaultInsertBytes + 1, 10, 3 << 20, 2 << 20, 10, 10} {
				r := record(i)
				r.PayloadJSON = `{"s": "` + strings.Repeat("x", size-len(`{"s": ""}`)+1) + `"}`
				records = append(records, r)
				want[r.EventID] = string(r.AppendLine(nil))
			}
			if err := write(t, db, tab, opts, records); err != nil {
				t.Errorf("%+v: %v", opts, err)
				continue
			}
			got := map[string]string{}
			for r, err := range ReadAll(t.Context(), db, tab, "", AnyOrder) {
				if err != nil {
					t.Fatal(err)
				}
				got[r.EventID] = string(r.AppendLine(nil))
			}
			if !maps.Equal(want, got) {
				t.Errorf("%+v: %d rows came back, or other ones than the %d written", opts, len(got), len(want))
			}
		}
	})
}

func TestColumnOf(t *testing.T) {
	for message, want := range map[string]string{
		"Data too long for column 'worker_id' at row 3":                                                          "worker_id",
		"Incorrect string value: '\\xF0' for column `d`.`wallet_outbox`.`worker_id` at row 1":                    "worker_id",
		`Invalid JSON text: "The document is empty." at position 0 in value for column 'wallet_outbox.payload'.`: "payload",
		"Column 'last_error' cannot be null":                                                                     "last_error",
		"Duplicate entry 'column' for key":                                                                       "",
	} {
		if got := columnOf(message); got != want {
			t.Errorf("columnOf(%q) = %q, want %q", message, got, want)
		}
	}
}

func TestChunkReader(t *testing.T) {
	c := chunkReader{buf: []byte("aaabbbbcc"), rows: []chunkRow{{start: 7, end: 9}, {start: 0, end: 3}, {start: 3, end: 7}}}
	if err := iotest.TestReader(&c, []byte("ccaaabbbb")); err != nil {
		t.Error(err)
	}
	empty := chunkReader{}
	if n, err := empty.Read(make([]byte, 3)); n != 0 || err != io.EOF {
		t.Errorf("Read of nothing = %d, %v", n, err)
	}
}

func TestAppendField(t *testing.T) {
	for s, want := range map[string]string{
		"":                  "",
		`\N`:                `\\N`,
		"a\tb\nc\\d\x00e\r": `a\tb\nc\\d\0e\r`,
		"😀'\"":              "😀'\"",
	} {
		if got := string(appendField([]byte("x"), s)); got != "x"+want {
			t.Errorf("appendField(%q) = %q, want x%q", s, got, want)
		}
	}
	r := manifest.Record{PayloadJSON: "{}", LastError: nil, LockUntilMS: ptr(int64(-1))}
	if diff := cmp.Diff("\t\t\t\t\t0\t\t0\t0\t{}\t\t\t-1\t0\t\\N\t\\N\t0\t0\n", string(appendLine(nil, &r))); diff != "" {
		t.Errorf("appendLine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("('','','','','',0,'',0,0,'{}','','',-1,0,NULL,NULL,0,0)", string(appendTuple(nil, &r))); diff != "" {
		t.Errorf("appendTuple (-want +got):\n%s", diff)
	}
}
