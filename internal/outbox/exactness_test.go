package outbox

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// alter inserts one plain row, and then changes the table and the row.
func alter(t *testing.T, db *sql.DB, statements ...string) (rows []*Row, readErr error) {
	t.Helper()
	recreate(t, db)
	tab := describe(t, db, DefaultTable)
	r := record(1)
	r.EventID = "evt"
	if err := write(t, db, tab, WriterOptions{Method: Insert}, []manifest.Record{r}); err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		mustExec(t, db, statement)
	}
	tab = describe(t, db, DefaultTable)
	if bad := Fatal(tab.CheckSource()); bad != nil {
		t.Fatalf("CheckSource = %v", bad)
	}
	rd, err := NewReader(db, tab, ReaderOptions{AppCode: app, CutoffMS: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range rd.Rows(t.Context(), manifest.Cursor{}) {
		if err != nil {
			return rows, err
		}
		c := *row
		rows = append(rows, &c)
	}
	return rows, nil
}

func TestInexactValuesStopTheReader(t *testing.T) {
	tests := []struct {
		name       string
		statements []string
		column     string
		want       error
	}{
		{"bytes that are not UTF-8", []string{"ALTER TABLE wallet_outbox MODIFY command_id VARBINARY(64) NOT NULL", "UPDATE wallet_outbox SET command_id = X'61ff62'"}, "command_id", ErrNotUTF8},
		{"bytes of a surrogate", []string{"ALTER TABLE wallet_outbox MODIFY command_id VARBINARY(64) NOT NULL", "UPDATE wallet_outbox SET command_id = X'eda080'"}, "command_id", ErrNotUTF8},
		{"payload bytes that are not UTF-8", []string{"ALTER TABLE wallet_outbox MODIFY payload LONGBLOB NOT NULL", "UPDATE wallet_outbox SET payload = X'22ff22'"}, "payload", ErrNotUTF8},
		{"event_id bytes that are not UTF-8", []string{"ALTER TABLE wallet_outbox MODIFY event_id VARBINARY(64) NOT NULL", "UPDATE wallet_outbox SET event_id = X'61ff62'"}, "event_id", ErrNotUTF8},
		{"a byte without a character in cp1250", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET cp1250 NOT NULL",
			"UPDATE wallet_outbox SET worker_id = CONVERT(X'6181' USING cp1250)"}, "worker_id", ErrLossyCharset},
		{"NULL in a text", []string{"ALTER TABLE wallet_outbox MODIFY event_type VARCHAR(64) NULL", "UPDATE wallet_outbox SET event_type = NULL"}, "event_type", ErrNull},
		{"NULL in the payload", []string{"ALTER TABLE wallet_outbox MODIFY payload JSON NULL", "UPDATE wallet_outbox SET payload = NULL"}, "payload", ErrNull},
		{"NULL in a number", []string{"ALTER TABLE wallet_outbox MODIFY user_id BIGINT NULL", "UPDATE wallet_outbox SET user_id = NULL"}, "user_id", ErrNull},
		{"unsigned over int64", []string{"ALTER TABLE wallet_outbox MODIFY user_id BIGINT UNSIGNED NOT NULL", "UPDATE wallet_outbox SET user_id = 9223372036854775808"}, "user_id", ErrOutOfRange},
		{"optional unsigned over int64", []string{"ALTER TABLE wallet_outbox MODIFY lock_until_ms BIGINT UNSIGNED NULL", "UPDATE wallet_outbox SET lock_until_ms = 18446744073709551615"}, "lock_until_ms", ErrOutOfRange},
		{"decimal over int64", []string{"ALTER TABLE wallet_outbox MODIFY available_delta DECIMAL(30,0) NOT NULL", "UPDATE wallet_outbox SET available_delta = 9223372036854775808"}, "available_delta", ErrOutOfRange},
		{"app_code in other letters", []string{"ALTER TABLE wallet_outbox MODIFY app_code VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL", "UPDATE wallet_outbox SET app_code = 'GAME'"}, "app_code", ErrOtherText},
		{"status in other letters", []string{"ALTER TABLE wallet_outbox MODIFY status VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL", "UPDATE wallet_outbox SET status = 'Delivered'"}, "status", ErrOtherText},
		{"status with a space", []string{"UPDATE wallet_outbox SET status = 'delivered '"}, "status", ErrOtherText},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				rows, err := alter(t, db, tt.statements...)
				var ee *manifest.ExactnessError
				if !errors.As(err, &ee) || !errors.Is(err, tt.want) || ee.Column != tt.column {
					t.Fatalf("Rows = %+v, %v, want an ExactnessError of column %s: %v", rows, err, tt.column, tt.want)
				}
				if tt.column != "event_id" && ee.EventID != "evt" {
					t.Errorf("EventID = %q, want evt", ee.EventID)
				}
				if len(rows) != 0 {
					t.Errorf("Rows gave %d rows before the error", len(rows))
				}
			})
		}
	})
}

func TestOtherTypesAreReadExactly(t *testing.T) {
	tests := []struct {
		name       string
		statements []string
		check      func(*manifest.Record) (got, want any)
	}{
		{"latin1", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET latin1 NOT NULL", "UPDATE wallet_outbox SET worker_id = 'é€ü'"},
			func(r *manifest.Record) (any, any) { return r.WorkerID, "é€ü" }},
		{"utf8mb3", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET utf8 NOT NULL", "UPDATE wallet_outbox SET worker_id = '日本'"},
			func(r *manifest.Record) (any, any) { return r.WorkerID, "日本" }},
		{"utf16", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET utf16 NOT NULL", "UPDATE wallet_outbox SET worker_id = 'x😀'"},
			func(r *manifest.Record) (any, any) { return r.WorkerID, "x😀" }},
		{"cp1250", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(64) CHARACTER SET cp1250 NOT NULL", "UPDATE wallet_outbox SET worker_id = 'ž?'"},
			func(r *manifest.Record) (any, any) { return r.WorkerID, "ž?" }},
		{"bytes", []string{"ALTER TABLE wallet_outbox MODIFY worker_id VARBINARY(64) NOT NULL", "UPDATE wallet_outbox SET worker_id = 'x😀'"},
			func(r *manifest.Record) (any, any) { return r.WorkerID, "x😀" }},
		{"enum", []string{"ALTER TABLE wallet_outbox MODIFY status ENUM('pending','delivered') NOT NULL"},
			func(r *manifest.Record) (any, any) { return r.Status, "delivered" }},
		{"payload as text", []string{"ALTER TABLE wallet_outbox MODIFY payload LONGTEXT NOT NULL", `UPDATE wallet_outbox SET payload = '{"b":1, "a" :2}'`},
			func(r *manifest.Record) (any, any) { return r.PayloadJSON, `{"b":1, "a" :2}` }},
		{"payload as bytes", []string{"ALTER TABLE wallet_outbox MODIFY payload LONGBLOB NOT NULL", `UPDATE wallet_outbox SET payload = '{"b":1, "a" :2}'`},
			func(r *manifest.Record) (any, any) { return r.PayloadJSON, `{"b":1, "a" :2}` }},
		{"unsigned", []string{"ALTER TABLE wallet_outbox MODIFY user_id BIGINT UNSIGNED NOT NULL", "UPDATE wallet_outbox SET user_id = 9223372036854775807"},
			func(r *manifest.Record) (any, any) { return r.UserID, int64(1<<63 - 1) }},
		{"decimal", []string{"ALTER TABLE wallet_outbox MODIFY available_delta DECIMAL(30,0) NOT NULL", "UPDATE wallet_outbox SET available_delta = -9223372036854775808"},
			func(r *manifest.Record) (any, any) { return r.AvailableDelta, int64(-1 << 63) }},
		{"smallint", []string{"ALTER TABLE wallet_outbox MODIFY retry_count SMALLINT NOT NULL", "UPDATE wallet_outbox SET retry_count = -3"},
			func(r *manifest.Record) (any, any) { return r.RetryCount, int64(-3) }},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				rows, err := alter(t, db, tt.statements...)
				if err != nil || len(rows) != 1 {
					t.Fatalf("Rows = %v, %v, want one row", rows, err)
				}
				if got, want := tt.check(&rows[0].Record); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	})
}

// Every byte of a latin1 column has a character of its own, on which
// exactCharsets relies.
func TestLatin1IsExact(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		var all strings.Builder
		for b := range 256 {
			fmt.Fprintf(&all, "%02x", b)
		}
		db, _ := s.NewDB(t)
		var same, distinct int
		err := db.QueryRowContext(t.Context(), "SELECT CAST(CONVERT(CONVERT(CONVERT(X'"+all.String()+"' USING latin1) USING utf8mb4) USING latin1) AS BINARY) = X'"+all.String()+"'").Scan(&same)
		if err != nil || same != 1 {
			t.Errorf("latin1 to UTF-8 and back = %d, %v, want the same bytes", same, err)
		}
		var text string
		if err := db.QueryRowContext(t.Context(), "SELECT CONVERT(X'"+all.String()+"' USING latin1)").Scan(&text); err != nil {
			t.Fatal(err)
		}
		seen := map[rune]bool{}
		for _, r := range text {
			seen[r] = true
			if repertoire(r) > Latin1 && (r < 0x80 || r > 0x9f) {
				t.Errorf("latin1 has %q, which is not in Repertoire Latin1", r)
			}
		}
		if distinct = len(seen); distinct != 256 {
			t.Errorf("latin1 has %d characters, want 256", distinct)
		}
	})
}
