package restore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
)

// benchRecords are rows of about 450 bytes with random event_ids.
func benchRecords(n int) []manifest.Record {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]manifest.Record, n)
	for i := range all {
		r := record(i)
		id := fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())
		r.EventID, r.TransactionID = "evt_"+id, "tx_"+id[:16]
		r.PayloadJSON = fmt.Sprintf(`{"ids": [%d, %d], "note": "%s", "amount": %d}`, i, i+1, strings.Repeat("x", 30), i)
		all[i] = r
	}
	return all
}

// BenchmarkBatch restores a verified batch into an empty table with its primary
// key and retention index, and, to show what that costs, with a rehearsal before.
func BenchmarkBatch(b *testing.B) {
	const rows = 200_000
	v := open(b, benchRecords(rows), nil)
	b.Logf("%d bytes a line", v.Manifest().UncompressedBytes/rows)
	for _, name := range mysqltest.Names() {
		for _, opts := range []Options{
			{Method: outbox.LoadData, Scratch: true}, {Method: outbox.Insert, Scratch: true}, {Method: outbox.LoadData},
		} {
			kind := strings.ReplaceAll(opts.Method.String(), " ", "_")
			if !opts.Scratch {
				kind += "/rehearsed"
			}
			b.Run(name+"/"+kind, func(b *testing.B) {
				db := newTarget(b, mysqltest.Get(b, name))
				for b.Loop() {
					b.StopTimer()
					mustExec(b, db, "TRUNCATE TABLE wallet_outbox")
					b.StartTimer()
					r, err := Batch(b.Context(), v, db, opts)
					if err != nil || !r.Complete() {
						b.Fatalf("error %v, report %+v", err, r)
					}
				}
				b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
