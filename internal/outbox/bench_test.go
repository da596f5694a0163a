package outbox

import (
	"context"
	"fmt"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

const benchRows = 20_000

func benchRecords() []manifest.Record {
	all := make([]manifest.Record, benchRows)
	for i := range all {
		all[i] = record(i)
	}
	return all
}

func BenchmarkWriter(b *testing.B) {
	all := benchRecords()
	for _, name := range mysqltest.Names() {
		for _, opts := range []WriterOptions{{Method: Insert}, {Method: LoadData}, {Method: LoadData, SortByKey: true, ChunkBytes: 64 << 20}} {
			b.Run(fmt.Sprintf("%s/%v/sorted=%v", name, opts.Method, opts.SortByKey), func(b *testing.B) {
				db, tab := newTable(b, mysqltest.Get(b, name), "")
				for b.Loop() {
					b.StopTimer()
					mustExec(b, db, "TRUNCATE TABLE wallet_outbox")
					b.StartTimer()
					if err := write(b, db, tab, opts, all); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkReader(b *testing.B) {
	all := benchRecords()
	for _, name := range mysqltest.Names() {
		for _, opts := range []ReaderOptions{
			{PageRows: 100}, {PageRows: 500}, {PageRows: 500, Connections: 2}, {PageRows: 500, Fidelity: true},
		} {
			b.Run(fmt.Sprintf("%s/page=%d/connections=%d/fidelity=%v", name, opts.PageRows, max(opts.Connections, 1), opts.Fidelity), func(b *testing.B) {
				db, tab := newTable(b, mysqltest.Get(b, name), "")
				if err := write(b, db, tab, WriterOptions{}, all); err != nil {
					b.Fatal(err)
				}
				opts.AppCode, opts.CutoffMS = app, 1<<60
				r, err := NewReader(db, tab, opts)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					n := 0
					for _, err := range r.Rows(context.Background(), manifest.Cursor{}) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
					if n != benchRows {
						b.Fatalf("%d rows", n)
					}
				}
				b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func BenchmarkMayBeUnstable(b *testing.B) {
	payload := []byte(record(1).PayloadJSON)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		mayBeUnstable(payload)
	}
}

func BenchmarkAppendLine(b *testing.B) {
	r := record(1)
	var buf []byte
	for b.Loop() {
		buf = appendLine(buf[:0], &r)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkNeeds(b *testing.B) {
	r := record(1)
	var n Needs
	for b.Loop() {
		n.Add(&r)
	}
}
