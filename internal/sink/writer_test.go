package sink

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/sample"
	"github.com/hyapp/walletarchive/manifest"
)

func ptr[T any](v T) *T { return &v }

// awkward returns rows that a careless writer changes.
func awkward() []manifest.Record {
	all := make([]manifest.Record, 0, 200)
	for r := range sample.Records(sample.Options{Apps: []string{"game"}, Rows: 120, Seed: 3, Start: time.UnixMilli(1700000000000), Span: time.Hour, Awkward: true}) {
		all = append(all, *r)
	}
	for i, text := range []string{
		"", "NULL", `\N`, `"`, `""`, `a"b`, "'", "''; DROP TABLE wallet_outbox; --", `\`, `\\'`, "a\nb", "a\r\nb", "\t", "\x00", "\x1a", "\x7f",
		"-- x", "delimiter //", "a,b", " lead and trail ", "🎁漢字é\u2028\ufeff", strings.Repeat("long ", 200), "/*!40101 x */", "`", "$$", "%s",
	} {
		r := *all[i].Clone()
		r.EventID = "text_" + strconv.Itoa(i)
		r.LastError = ptr(text)
		r.WorkerID = text[:min(len(text), 20)]
		if text != r.WorkerID {
			r.WorkerID = ""
		}
		r.UserID, r.LockUntilMS, r.NextRetryAtMS = -1<<63, ptr(int64(1<<63-1)), nil
		all = append(all, r)
	}
	return all
}

func write(t testing.TB, format Format, opts Options, records []manifest.Record) (string, Totals) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, format, opts)
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	totals, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if want := (Totals{Rows: int64(len(records)), Bytes: int64(b.Len()), SHA256: sha256.Sum256(b.Bytes())}); totals != want {
		t.Errorf("totals %+v, want %+v", totals, want)
	}
	if err := w.Write(&manifest.Record{}); err == nil {
		t.Error("a write after Close went through")
	}
	return b.String(), totals
}

func TestNDJSONIsTheCanonicalLine(t *testing.T) {
	records := awkward()
	text, _ := write(t, NDJSON, Options{}, records)
	lines := strings.SplitAfter(text, "\n")
	if len(lines) != len(records)+1 || lines[len(records)] != "" {
		t.Fatalf("%d lines of %d records", len(lines)-1, len(records))
	}
	for i := range records {
		line := []byte(strings.TrimSuffix(lines[i], "\n"))
		if manifest.SumHash(line) != records[i].RowHash() {
			t.Errorf("line %d is not canonical: %s", i+1, line)
		}
	}
}

func TestCSV(t *testing.T) {
	r := manifest.Record{
		AppCode: "a", EventID: `x"y`, EventType: "", TransactionID: "NULL", CommandID: "c,d", UserID: -1 << 63, AssetType: "C", AvailableDelta: 5,
		FrozenDelta: -5, PayloadJSON: `{"a": "b\n"}`, Status: "delivered", WorkerID: "w\r\nv", RetryCount: 2, LastError: ptr(""), CreatedAtMS: 3, UpdatedAtMS: 4,
	}
	want := "app_code,event_id,event_type,transaction_id,command_id,user_id,asset_type,available_delta,frozen_delta,payload,status,worker_id," +
		"lock_until_ms,retry_count,next_retry_at_ms,last_error,created_at_ms,updated_at_ms\n" +
		`"a","x""y","","NULL","c,d",-9223372036854775808,"C",5,-5,"{""a"": ""b\n""}","delivered","w` + "\r\n" + `v",NULL,2,NULL,"",3,4` + "\n"
	got, _ := write(t, CSV, Options{}, []manifest.Record{r})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Another program's reader finds the same fields.
	records := slices.DeleteFunc(awkward(), func(r manifest.Record) bool {
		return r.LastError != nil && strings.Contains(*r.LastError, "\r") // this one changes line ends
	})
	text, _ := write(t, CSV, Options{}, records)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != len(records)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range records {
		row := rows[i+1]
		if len(row) != len(manifest.Columns) || row[1] != r.EventID || row[9] != r.PayloadJSON || row[5] != strconv.FormatInt(r.UserID, 10) {
			t.Errorf("row %d: %q", i, row)
		}
	}
}

func TestCutsStatements(t *testing.T) {
	records := awkward()
	text, _ := write(t, SQL, Options{StatementBytes: 2000, Table: "odd`name", Origin: "two\nlines"}, records)
	if n := strings.Count(text, "\nINSERT INTO `odd``name` ("); n < 10 || n > len(records) {
		t.Errorf("%d statements", n)
	}
	for stmt := range strings.SplitSeq(text, "INSERT INTO ") {
		tuples := stmt[:max(0, strings.Index(stmt, ";\nSET @walletarchive_rows"))]
		if strings.Count(tuples, "\n(") > 1 && len(tuples) > 2400 {
			t.Errorf("a statement of %d bytes", len(tuples))
		}
	}
	if !strings.Contains(text, "\n-- two lines\n") || !strings.HasSuffix(text, "-- 146 rows\n") {
		t.Errorf("comments:\n%.200s\n…%s", text, text[len(text)-100:])
	}
	if one, _ := write(t, SQL, Options{}, records); strings.Count(one, "INSERT INTO") != 1 {
		t.Error("a short file has more than one statement")
	}
}

// failing takes n bytes.
type failing struct{ n int }

var errDisk = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriterReportsTheStream(t *testing.T) {
	records := awkward()
	for _, n := range []int{0, 100, 1 << 18} {
		w := NewWriter(&failing{n}, SQL, Options{})
		var err error
		for i := 0; i < 2000 && err == nil; i++ {
			err = w.Write(&records[i%len(records)])
		}
		if _, cerr := w.Close(); !errors.Is(cerr, errDisk) {
			t.Errorf("Close after %d bytes = %v", n, cerr)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Destination{
		"ndjson:-": {NDJSON, Stdout}, "sql:a:b.sql": {SQL, "a:b.sql"}, "csv:/x/y": {CSV, "/x/y"},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("Parse(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ndjson", "ndjson:", "x:y", "/etc/x", ":x", "SQL:x"} {
		if got, err := Parse(text); !errors.Is(err, ErrDestination) {
			t.Errorf("Parse(%q) = %v, %v", text, got, err)
		}
	}
}
