package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
)

// A server that quotes payloads in what it refuses does not make the restore show
// them: neither in its error, nor in its report, nor in its log.
func TestRefusalsShowNoPayload(t *testing.T) {
	eachMethod(t, func(t *testing.T, s mysqltest.Server, method outbox.Method) {
		for _, tt := range []struct {
			name string
			dry  bool
			bulk bool // the row is there already, so that only the write itself finds it
		}{{"rehearsal", true, false}, {"write", false, true}} {
			t.Run(tt.name, func(t *testing.T) {
				db := newTarget(t, s)
				mustExec(t, db, "ALTER TABLE wallet_outbox ADD p VARCHAR(200) AS (JSON_UNQUOTE(JSON_EXTRACT(payload, '$.s'))) VIRTUAL, ADD UNIQUE KEY uk_secret (p)")
				rows := records(20)
				for i := range rows {
					rows[i].PayloadJSON = fmt.Sprintf(`{"s": "secretpayload-%d"}`, i)
				}
				v := open(t, rows, nil)
				if tt.bulk {
					mustExec(t, db, "INSERT INTO wallet_outbox (app_code, event_id, event_type, transaction_id, command_id, user_id, asset_type, available_delta, frozen_delta, payload, status, worker_id, retry_count, created_at_ms, updated_at_ms) "+
						"SELECT 'other', 'e', 't', 'x', 'c', 1, 'COIN', 0, 0, '{\"s\": \"secretpayload-7\"}', 'delivered', '', 0, 1, 1")
				} else {
					rows[8].PayloadJSON = rows[7].PayloadJSON
					v = open(t, rows, nil)
				}
				var log bytes.Buffer
				opts := rehearsing(t)
				opts.Method, opts.DryRun = method, tt.dry
				opts.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				r, err := Batch(t.Context(), v, db, opts)
				if !errors.Is(err, ErrConflict) {
					t.Fatalf("error %v, want a conflict", err)
				}
				said, jerr := json.Marshal(r)
				if jerr != nil {
					t.Fatal(jerr)
				}
				for where, text := range map[string]string{"error": err.Error(), "report": string(said), "log": log.String()} {
					if strings.Contains(text, "secretpayload") {
						t.Errorf("the %s shows a payload: %s", where, text)
					}
				}
				if !strings.Contains(err.Error(), "uk_secret") {
					t.Errorf("the error does not name the key: %v", err)
				}
			})
		}
	})
}
