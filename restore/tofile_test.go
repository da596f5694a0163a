package restore

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/sink"
	"github.com/hyapp/walletarchive/manifest"
)

func TestToFile(t *testing.T) {
	rows := records(2500)
	v := open(t, rows, nil)
	var out bytes.Buffer
	var told int64
	w := sink.NewWriter(&out, sink.NDJSON, sink.Options{})
	r, err := ToFile(t.Context(), v, w, FileOptions{
		Keep:     func(r *manifest.Record) bool { return r.UserID%2 == 0 },
		Progress: func(n int64) { told += n },
	})
	if err != nil || r.Rows != 2500 || r.Written != 1250 || told != 2500 {
		t.Fatalf("report %+v, told %d, error %v", r, told, err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range rows {
		if rows[i].UserID%2 == 0 {
			want.Write(append(rows[i].AppendLine(nil), '\n'))
		}
	}
	if out.String() != want.String() {
		t.Error("the file holds other lines")
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestToFileStops(t *testing.T) {
	v := open(t, records(3000), nil)
	if _, err := ToFile(t.Context(), v, sink.NewWriter(fullDisk{}, sink.SQL, sink.Options{}), FileOptions{}); !errors.Is(err, errFull) {
		t.Errorf("on a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := ToFile(ctx, v, sink.NewWriter(&bytes.Buffer{}, sink.SQL, sink.Options{}), FileOptions{Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("when cancelled: %v", err)
	}
}
