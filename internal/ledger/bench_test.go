package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

// BenchmarkLedger records 200,000 members whose event_ids come in no order, as
// those of a batch do, records them again, and streams them.
func BenchmarkLedger(b *testing.B) {
	const rows = 200_000
	for _, name := range mysqltest.Names() {
		b.Run(name, func(b *testing.B) {
			s := mysqltest.Get(b, name)
			db, _ := s.NewDB(b)
			l := New(db)
			if err := l.CreateTables(b.Context()); err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 1))
			batches := 0
			fresh := func() batch {
				batches++
				x := newBatch(b, "game", fmt.Sprintf("batch-%06d", batches), rows)
				for i := range x.members[1 : rows-1] {
					x.members[i+1].EventID = fmt.Sprintf("%08x-%04x-%016x", r.Uint32(), batches, i)
				}
				return x
			}
			var last batch
			b.Run("Record", func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					last = fresh()
					b.StartTimer()
					if existed, err := l.Record(b.Context(), last.receipt, each(last.members)); err != nil || existed {
						b.Fatal(existed, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "µs/member")
			})
			b.Run("RecordAgain", func(b *testing.B) {
				for b.Loop() {
					if existed, err := l.Record(b.Context(), last.receipt, each(last.members)); err != nil || !existed {
						b.Fatal(existed, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "µs/member")
			})
			b.Run("Members", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					n := 0
					for _, err := range l.Members(b.Context(), "game", last.receipt.BatchID) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
					if n != rows {
						b.Fatalf("%d members, want %d", n, rows)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "µs/member")
			})
		})
	}
}
