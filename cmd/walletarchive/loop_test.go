package main

import (
	"database/sql"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/sample"
)

// TestLoop sends rows through every command, on a directory and on a bucket.
func TestLoop(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		t.Run("directory", func(t *testing.T) {
			loop(t, s, "file://"+filepath.Join(t.TempDir(), "made", "by", "export"))
		})
		t.Run("bucket", func(t *testing.T) {
			fake, err := cosfake.New(cosfake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(fake)
			t.Cleanup(srv.Close)
			t.Setenv("COS_SECRET_ID", cosfake.DefaultSecretID)
			t.Setenv("COS_SECRET_KEY", cosfake.DefaultSecretKey)
			loop(t, s, "cos://"+cosfake.DefaultBucket+"/pre/fix?region="+cosfake.DefaultRegion+"&endpoint="+srv.URL)
		})
	})
}

func loop(t *testing.T, s mysqltest.Server, store string) {
	source, dsn := s.NewDB(t)
	target, targetDSN := s.NewDB(t)
	for _, db := range []*sql.DB{source, target} {
		if _, err := db.ExecContext(t.Context(), strings.TrimRight(outbox.Schema(outbox.DefaultTable, ""), "; \n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.New(source).CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	const rows = 500
	if _, err := sample.Fill(t.Context(), source, outbox.DefaultTable, sample.Options{
		Apps: []string{"wallet"}, Rows: rows, Seed: 1, Start: time.Now().Add(-48 * time.Hour), Span: time.Hour, Awkward: true,
	}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WALLETARCHIVE_SOURCE_DSN", dsn)
	t.Setenv("WALLETARCHIVE_TARGET_DSN", targetDSN)
	t.Setenv("WALLETARCHIVE_SCRATCH", "dsn:"+s.DSN(""))
	clean := func(code int, args ...string) string {
		t.Helper()
		out, errs := runs(t, code, args...)
		for _, secret := range []string{dsn, targetDSN, s.DSN(""), cosfake.DefaultSecretKey} {
			if strings.Contains(out+errs, secret) {
				t.Errorf("%q printed a secret:\n%s%s", args, out, errs)
			}
		}
		return out
	}

	export := []string{"export", "--json", "--app", "wallet", "--store", store, "--older-than", "24h", "--batch-rows", "200"}
	var exported struct {
		Rows       int64
		DurationMS int64 `json:"duration_ms"`
		Batches    []struct{ Recorded bool }
	}
	if dir, ok := strings.CutPrefix(store, "file://"); ok {
		// A dry run writes nothing, not even the directory.
		clean(exitUsage, append(export, "--dry-run")...)
		if _, err := os.Stat(dir); err == nil {
			t.Error("a dry run made the directory")
		}
	} else if err := json.Unmarshal([]byte(clean(exitOK, append(export, "--dry-run")...)), &exported); err != nil || exported.Rows != rows {
		t.Errorf("dry run: %+v, %v", exported, err)
	}
	if err := json.Unmarshal([]byte(clean(exitOK, export...)), &exported); err != nil || exported.Rows != rows || len(exported.Batches) != 3 || exported.DurationMS < 1 {
		t.Errorf("export: %+v, %v", exported, err)
	}
	exported.Batches = nil
	if err := json.Unmarshal([]byte(clean(exitOK, export...)), &exported); err != nil || len(exported.Batches) != 0 {
		t.Errorf("export with nothing left: %+v, %v", exported, err)
	}

	t.Setenv("WALLETARCHIVE_LEDGER_DSN", dsn)
	ledgered := []string{"--json", "--app", "wallet", "--store", store, "--all"}
	receipts := filepath.Join(t.TempDir(), "receipts.ndjson")
	clean(exitOK, "receipts", "export", "--app", "wallet", "--all", "--out", receipts)
	for _, args := range [][]string{
		append([]string{"verify"}, ledgered...),
		{"verify", "--json", "--store", store, "--receipt", receipts},
		append([]string{"restore"}, ledgered...),
		append([]string{"drill"}, ledgered...),
	} {
		d := documentOf(t, clean(exitOK, args...))
		if d.Summary.Verdict != "proven" || len(d.Batches) != 3 {
			t.Errorf("%s: %+v", args[0], d.Summary)
		}
		if d.Batches[0].Examined.Rows != 200 || d.Batches[0].Examined.Members != 200 {
			t.Errorf("%s examined %+v", args[0], d.Batches[0].Examined)
		}
	}
	if got := count(t, target, "SELECT COUNT(*) FROM "+outbox.DefaultTable); got != rows {
		t.Errorf("%d rows restored, want %d", got, rows)
	}
}
