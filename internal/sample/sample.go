// Package sample makes wallet events to try the program on: the demo, the
// benchmarks and the tests fill tables with them. The same seed gives the same
// rows. Nothing here is real.
package sample

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// Assets are the asset types of sample rows, which take turns.
var Assets = [...]string{"COIN", "DIAMOND"}

// Options say which rows to make. Apps and Rows have no default.
type Options struct {
	Apps []string // app_codes, which take turns
	Rows int      // of all apps together
	Seed uint64
	// Start is the updated_at_ms of the oldest row and Span how far the rows
	// reach from there, exclusive. A zero Span puts all rows into one millisecond.
	Start time.Time
	Span  time.Duration
	// Awkward gives one row in ten a payload, an event_id or a nullable column
	// that is hard to carry: 64-bit integers, escapes, emoji, NULL beside ''.
	Awkward bool
	// PayloadBytes is about how long a payload is; 0 means 150.
	PayloadBytes int
}

// awkward are JSON members that a careless tool changes.
var awkward = [...]string{
	`"max": 9223372036854775807, "min": -9223372036854775808`,
	`"unsigned": 18446744073709551615`,
	`"text": "tab\tquote\"backslash\\slash/newline\n"`,
	`"emoji": "🎁👨‍👩‍👧", "accents": "é ü ñ 漢字"`,
	`"nul": "\u0000", "separators": "` + "\u2028\u2029" + `"`,
	`"html": "<b>&amp;</b>", "empty": "", "nothing": null`,
	`"nested": [[], {}, [1, [2, [3]]], {"a": {"b": {"c": false}}}]`,
	`"amount": "12.50", "ratio": 0.1, "tiny": 1e-7, "zero": -0.0`,
}

// Records yields the rows. Rows come in order of updated_at_ms; within one
// millisecond their event_ids are in no order. A record is the caller's to keep.
func Records(opts Options) iter.Seq[*manifest.Record] {
	return func(yield func(*manifest.Record) bool) {
		rng := rand.New(rand.NewPCG(opts.Seed, 0x77616c6c6574))
		payload := opts.PayloadBytes
		if payload == 0 {
			payload = 150
		}
		for i := range opts.Rows {
			at := opts.Start.UnixMilli() + opts.Span.Milliseconds()*int64(i)/int64(opts.Rows)
			created := at - 50 - rng.Int64N(900)
			gift := rng.Int64N(5_000_000)
			r := &manifest.Record{
				AppCode: opts.Apps[i%len(opts.Apps)], EventID: fmt.Sprintf("evt_%016x%08x", rng.Uint64(), i),
				EventType:     [...]string{"wallet.credited", "wallet.debited", "wallet.frozen", "wallet.released"}[i/7%4],
				TransactionID: fmt.Sprintf("txn_%016x", rng.Uint64()), CommandID: fmt.Sprintf("cmd_%016x", rng.Uint64()),
				UserID: 10_000_000 + rng.Int64N(90_000_000), AssetType: Assets[i/len(opts.Apps)%len(Assets)],
				AvailableDelta: gift - 2_500_000, FrozenDelta: [...]int64{0, 0, gift, -gift}[i/7%4],
				Status: manifest.StatusDelivered, WorkerID: fmt.Sprintf("relay-%d", rng.IntN(8)), CreatedAtMS: created, UpdatedAtMS: at,
			}
			var b strings.Builder
			fmt.Fprintf(&b, `{"kind": "gift", "room": %d, "from": %d, "to": %d, "count": %d, "trace": "%016x%016x"`,
				rng.Int64N(1e9), r.UserID, 10_000_000+rng.Int64N(90_000_000), 1+rng.IntN(99), rng.Uint64(), rng.Uint64())
			if opts.Awkward && i%10 == 3 {
				b.WriteString(", " + awkward[i/10%len(awkward)])
				makeAwkward(r, i)
			}
			if n := payload - b.Len() - len(`, "memo": ""}`); n > 0 {
				fmt.Fprintf(&b, `, "memo": "%s"`, memo(rng, n))
			}
			b.WriteString("}")
			r.PayloadJSON = b.String()
			if !yield(r) {
				return
			}
		}
	}
}

// makeAwkward changes columns beside the payload.
func makeAwkward(r *manifest.Record, i int) {
	empty, text, ms := "", "timeout\tafter 3 tries: \"peer\" said '\\N'\n", r.CreatedAtMS+100
	switch i / 10 % 4 {
	case 0:
		r.LastError = &empty // and not NULL
	case 1:
		r.LastError, r.RetryCount, r.NextRetryAtMS = &text, 3, &ms
	case 2:
		r.LockUntilMS, r.WorkerID = &ms, ""
	case 3:
		r.AvailableDelta, r.FrozenDelta = 1<<53+1, -(1<<53 + 1)
	}
}

// memo returns n bytes of words, which compress about as text does.
func memo(rng *rand.Rand, n int) string {
	words := [...]string{"rose", "birthday", "combo", "lucky", "crown", "thanks", "welcome", "star", "castle", "rocket", "heart", "fireworks"}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// fillRows is how many rows one INSERT of Fill carries.
const fillRows = 500

// Fill writes the rows into a table of the columns of docs/FORMAT.md
// "Source table", which need not be empty, and returns how many it wrote.
func Fill(ctx context.Context, db *sql.DB, table string, opts Options) (int, error) {
	tuple := "(" + strings.TrimSuffix(strings.Repeat("?,", len(manifest.Columns)), ",") + ")"
	head := "INSERT INTO " + mysqldb.QuoteName(table) + " (" + strings.Join(manifest.Columns[:], ",") + ") VALUES "
	var args []any
	n, total := 0, 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		if _, err := db.ExecContext(ctx, head+tuple+strings.Repeat(","+tuple, n-1), args...); err != nil {
			return fmt.Errorf("fill table %s: %w", table, err)
		}
		total += n
		n, args = 0, args[:0]
		return nil
	}
	for r := range Records(opts) {
		args = append(args, r.AppCode, r.EventID, r.EventType, r.TransactionID, r.CommandID, r.UserID, r.AssetType,
			r.AvailableDelta, r.FrozenDelta, r.PayloadJSON, r.Status, r.WorkerID, r.LockUntilMS, r.RetryCount,
			r.NextRetryAtMS, r.LastError, r.CreatedAtMS, r.UpdatedAtMS)
		if n++; n == fillRows {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// AddDecimals puts a DECIMAL into the payload of every hundredth row or so of
// app, as a service does that builds its JSON in SQL. MySQL keeps its scale in
// the text ("1.10") and loses it when the text is parsed again; a server that
// keeps JSON as text does not care. It returns how many rows it changed.
func AddDecimals(ctx context.Context, db *sql.DB, table, app string) (int64, error) {
	res, err := db.ExecContext(ctx, "UPDATE "+mysqldb.QuoteName(table)+
		" SET payload = JSON_SET(payload, '$.fee', CAST(1.10 AS DECIMAL(10,2))) WHERE app_code = ? AND user_id % 100 = 7", app)
	if err != nil {
		return 0, fmt.Errorf("put decimals into table %s: %w", table, err)
	}
	return res.RowsAffected()
}
