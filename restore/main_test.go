package restore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }

const app = "game"

// record returns a plain delivered row; n tells it apart and orders it. The
// event_id is not in that order.
func record(n int) manifest.Record {
	return manifest.Record{
		AppCode: app, EventID: fmt.Sprintf("evt_%08x_%d", uint32(n)*2654435761, n), EventType: "wallet.credited",
		TransactionID: fmt.Sprintf("tx_%d", n), CommandID: fmt.Sprintf("cmd_%08x", n), UserID: int64(100000 + n%5000), AssetType: "COIN",
		AvailableDelta: int64(n)*7 - 50, FrozenDelta: -int64(n),
		PayloadJSON: fmt.Sprintf(`{"ids": [%d, %d], "note": "room-%d \"x\" \\ é", "amount": %d}`, n, n+1, n, n*7-50),
		Status:      manifest.StatusDelivered, WorkerID: fmt.Sprintf("worker-%d", n%4),
		CreatedAtMS: 1700000000000 + int64(n)*10, UpdatedAtMS: 1700000000500 + int64(n)*10,
	}
}

func records(n int) []manifest.Record {
	all := make([]manifest.Record, n)
	for i := range all {
		all[i] = record(i)
	}
	return all
}

// memory is a verify.Source of objects by key.
type memory map[string][]byte

func (m memory) Head(_ context.Context, key, _ string) (objstore.Info, error) {
	b, ok := m[key]
	if !ok {
		return objstore.Info{}, objstore.ErrNotExist
	}
	crc := manifest.SumCRC64(b)
	return objstore.Info{Key: key, Size: int64(len(b)), CRC64: &crc}, nil
}

func (m memory) Get(ctx context.Context, key, version string) (io.ReadCloser, objstore.Info, error) {
	info, err := m.Head(ctx, key, version)
	return io.NopCloser(bytes.NewReader(m[key])), info, err
}

// open makes a batch of rows, changes its manifest by edit when that is not nil,
// and opens it.
func open(t testing.TB, rows []manifest.Record, edit func(*manifest.Manifest)) *verify.Verified {
	t.Helper()
	return openWith(t, rows, edit, verify.Options{TempDir: t.TempDir()})
}

func openWith(t testing.TB, rows []manifest.Record, edit func(*manifest.Manifest), opts verify.Options) *verify.Verified {
	t.Helper()
	var data bytes.Buffer
	w := manifest.NewWriter(&data, app)
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	figures, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.New("", app, figures, time.UnixMilli(1700000001000))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&m)
	}
	loc, err := m.Location()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := manifest.EncodeManifest(&m)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := manifest.EncodeSuccess(&manifest.Success{
		BatchID: m.BatchID, ManifestObjectKey: loc.ManifestKey(), ManifestSHA256: manifest.SumHash(raw), RowCount: m.RowCount,
	})
	if err != nil {
		t.Fatal(err)
	}
	src := memory{loc.DataKey(): data.Bytes(), loc.ManifestKey(): raw, loc.SuccessKey(): mark}
	v, report, err := verify.Open(t.Context(), src, verify.Target{Location: loc}, opts)
	if err != nil || v == nil {
		t.Fatalf("open the batch: %v, faults %+v", err, report.Faults)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return v
}

type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func mustExec(t testing.TB, db execer, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement[:min(len(statement), 300)], err)
	}
}

// newTarget returns an empty wallet_outbox in a database of its own.
func newTarget(t testing.TB, s mysqltest.Server) *sql.DB {
	t.Helper()
	db, _ := s.NewDB(t)
	mustExec(t, db, outbox.Schema(outbox.DefaultTable, ""))
	return db
}

// insert writes rows with plain INSERTs.
func insert(t testing.TB, db *sql.DB, rows ...manifest.Record) {
	t.Helper()
	insertOn(t, db, rows...)
}

func insertOn(t testing.TB, db execer, rows ...manifest.Record) {
	t.Helper()
	for i := range rows {
		r := &rows[i]
		mustExec(t, db, "INSERT INTO wallet_outbox VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", r.AppCode, r.EventID, r.EventType,
			r.TransactionID, r.CommandID, r.UserID, r.AssetType, r.AvailableDelta, r.FrozenDelta, r.PayloadJSON, r.Status, r.WorkerID,
			r.LockUntilMS, r.RetryCount, r.NextRetryAtMS, r.LastError, r.CreatedAtMS, r.UpdatedAtMS)
	}
}

// contents returns the lines of the rows in the target, by event_id.
func contents(t testing.TB, db *sql.DB) map[string]string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	table, err := outbox.Describe(ctx, db, outbox.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for r, err := range outbox.ReadAll(ctx, db, &table, "", outbox.AnyOrder) {
		if err != nil {
			t.Fatal(err)
		}
		all[r.AppCode+"/"+r.EventID] = string(r.AppendLine(nil))
	}
	return all
}

// lines is what contents returns when the target holds exactly rows.
func linesOf(rows []manifest.Record) map[string]string {
	all := make(map[string]string)
	for i := range rows {
		all[rows[i].AppCode+"/"+rows[i].EventID] = string(rows[i].AppendLine(nil))
	}
	return all
}

// testOptions are those of most tests: windows of a few rows, and no patience.
func testOptions(t testing.TB) Options {
	return Options{
		Scratch: true, WindowBytes: 4 << 10, TempDir: t.TempDir(), backoff: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// eachMethod runs f on every server with both ways of writing.
func eachMethod(t *testing.T, f func(t *testing.T, s mysqltest.Server, method outbox.Method)) {
	t.Helper()
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, method := range []outbox.Method{outbox.LoadData, outbox.Insert} {
			t.Run(strings.ReplaceAll(method.String(), " ", "_"), func(t *testing.T) { f(t, s, method) })
		}
	})
}

// without drops the problems of these codes from the preflight.
func without(codes ...outbox.Code) func(Problem) bool {
	return func(p Problem) bool { return slices.Contains(codes, p.Code) }
}
