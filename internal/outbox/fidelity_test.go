package outbox

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestMayBeUnstable(t *testing.T) {
	for payload, want := range map[string]bool{
		`{}`: false, `null`: false, `[true, false, null]`: false, `""`: false, `0`: false, `-1`: false,
		`{"a": 1, "b": "x", "c": [1.5, 100.0, -2.25, 0.001]}`: false,
		`999999999999999999`:                     false,
		`1234567890123456789`:                    true, // 19 digits
		`18446744073709551615`:                   true,
		`123456789012345678901234567890`:         true,
		`1.10`:                                   true,
		`1.00`:                                   true,
		`1.0`:                                    false,
		`0.0`:                                    false,
		`-0.0`:                                   true,
		`-1.0`:                                   false,
		`0.0001`:                                 true,
		`1e30`:                                   true,
		`1.5e-7`:                                 true,
		`1234567.12345678`:                       false, // 15 digits
		`1234567.123456789`:                      true,
		`"2024-01-02"`:                           true,
		`"2024-01-02 03:04:05.678000"`:           true,
		`"-12:30:00.000000"`:                     true,
		`"base64:type15:YWJj"`:                   true,
		`["a", {"b": "2024-01-02"}]`:             true,
		`{"2024-01-02": 1}`:                      true, // a key, which costs a question for nothing
		`"2024-01-02T03:04:05Z"`:                 false,
		`"3f2504e0-4f89-11d3-9a0c-0305e82c3301"`: false,
		`"12345"`:                                false,
		`"1.10"`:                                 false,
		`"\"1.10"`:                               false,
		`"\\"`:                                   false,
		`"\\", 1.10`:                             true,
		`"a\\\"", 1.10`:                          true,
		`"unterminated`:                          true,
		`"1e30"`:                                 false,
		`[-]`:                                    true,
	} {
		if got := mayBeUnstable([]byte(payload)); got != want {
			t.Errorf("mayBeUnstable(%s) = %v, want %v", payload, got, want)
		}
	}
}

func FuzzMayBeUnstable(f *testing.F) {
	f.Add([]byte(`{"a": [1.10, "2024-01-02", "\\\"", -0.0]}`))
	f.Fuzz(func(t *testing.T, payload []byte) { mayBeUnstable(payload) })
}

// Whatever a server finds unstable has been doubted: values of every type that
// JSON can hold there, at random, alone and in company.
func TestEveryUnstablePayloadIsDoubted(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MySQL)
	db, _ := s.NewDB(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + rnd.IntN(10)))
		}
		return b.String()
	}
	date := func() string { return fmt.Sprintf("%04d-%02d-%02d", rnd.IntN(9999), 1+rnd.IntN(12), 1+rnd.IntN(28)) }
	clock := func() string {
		return fmt.Sprintf("%02d:%02d:%02d.%s", rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), digits(rnd.IntN(7)))
	}
	kinds := []func() string{
		func() string { return strconv.FormatInt(int64(rnd.Uint64())>>rnd.IntN(64), 10) },
		func() string { return strconv.FormatUint(rnd.Uint64(), 10) },
		func() string { // DECIMAL, whose scale the literal decides
			return strings.TrimLeft(digits(1+rnd.IntN(20)), "0") + "0." + digits(1+rnd.IntN(20))
		},
		func() string { return fmt.Sprintf("-%d.%s", rnd.IntN(1000), digits(1+rnd.IntN(4))) },
		func() string { return fmt.Sprintf("CAST(%s AS DECIMAL(40,%d))", digits(1+rnd.IntN(25)), rnd.IntN(3)) },
		func() string { return fmt.Sprintf("0.%s", strings.Repeat("0", rnd.IntN(12))+digits(1+rnd.IntN(6))) },
		func() string { // DOUBLE
			return strconv.FormatFloat(rnd.NormFloat64()*math.Pow(10, float64(rnd.IntN(40)-20)), 'e', -1, 64)
		},
		func() string { return strconv.FormatFloat(float64(rnd.IntN(1e6))/100, 'e', -1, 64) },
		func() string { return strconv.FormatFloat(math.Float64frombits(rnd.Uint64()&^(1<<62)), 'e', -1, 64) },
		func() string { return "CAST(" + strconv.FormatFloat(rnd.NormFloat64()*100, 'e', 6, 64) + " AS FLOAT)" },
		func() string { return "CAST('" + date() + "' AS DATE)" },
		func() string {
			return "CAST('" + date() + " " + clock() + "' AS DATETIME(" + strconv.Itoa(rnd.IntN(7)) + "))"
		},
		func() string { return "CAST('-" + strconv.Itoa(rnd.IntN(800)) + ":00:00.5' AS TIME(6))" },
		func() string { return "CAST('" + clock() + "' AS TIME(6))" },
		func() string { return "CAST('" + digits(rnd.IntN(100)) + "' AS BINARY)" },
		func() string { return "CAST(" + strconv.Itoa(1950+rnd.IntN(100)) + " AS YEAR)" },
		func() string { return "b'" + strconv.FormatInt(rnd.Int64N(256), 2) + "'" },
		func() string { return "ST_PointFromText('POINT(" + strconv.Itoa(rnd.IntN(90)) + ".25 1)')" },
		func() string { return "'" + date() + "'" },
		func() string { return "'" + digits(rnd.IntN(20)) + "'" },
		func() string { return `'a"b\\c` + "\t\x01é😀'" },
		func() string { return "TRUE" }, func() string { return "NULL" },
		func() string { return "CAST('true' AS JSON)" },
	}
	value := func() string { return kinds[rnd.IntN(len(kinds))]() }
	mustExec(t, db, "CREATE TABLE j (n INT PRIMARY KEY AUTO_INCREMENT, p JSON)")
	const batches, perBatch = 25, 100
	for range batches {
		var rows []string
		for range perBatch {
			switch rnd.IntN(4) {
			case 0, 1:
				rows = append(rows, "(JSON_ARRAY("+value()+"))")
			case 2:
				rows = append(rows, "(JSON_OBJECT('k', "+value()+", 'longer', "+value()+"))")
			default:
				rows = append(rows, "(JSON_ARRAY(JSON_OBJECT('', "+value()+"), "+value()+", "+value()+"))")
			}
		}
		mustExec(t, db, "INSERT INTO j (p) VALUES "+strings.Join(rows, ","))
	}
	rows, err := db.QueryContext(t.Context(), `SELECT CAST(p AS CHAR), COALESCE(CAST(CAST(CAST(CAST(p AS CHAR) AS JSON) AS CHAR) AS BINARY) = CAST(CAST(p AS CHAR) AS BINARY), 0),
COALESCE(CAST(CAST(p AS CHAR) AS JSON) = p, 0) FROM j`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n, unstable, certain := 0, 0, 0
	for rows.Next() {
		var payload sql.RawBytes
		var textStable, valueStable bool
		if err := rows.Scan(&payload, &textStable, &valueStable); err != nil {
			t.Fatal(err)
		}
		doubted := mayBeUnstable(payload)
		if n++; !textStable || !valueStable {
			unstable++
			if !doubted {
				t.Errorf("%s: text stable %v, value stable %v, not doubted", payload, textStable, valueStable)
			}
		}
		if !doubted {
			certain++
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d payloads, %d unstable, %d not doubted", n, unstable, certain)
	if n != batches*perBatch || unstable < n/4 || certain < n/10 {
		t.Errorf("%d payloads, %d unstable, %d not doubted: the test proves little", n, unstable, certain)
	}
}

func TestPayloadFidelity(t *testing.T) {
	payloads := []struct {
		name, expression string
		text, value      bool
	}{
		{"plain", `'{"a": 1.1, "b": [true, null, "x😀"], "c": 18446744073709551615}'`, false, false},
		{"letters whose cases a collation takes for one", `JSON_OBJECT('A', 'É')`, false, false},
		{"DECIMAL", `JSON_OBJECT('d', CAST(1.10 AS DECIMAL(10,2)))`, true, false},
		{"DATETIME", `JSON_OBJECT('t', CAST('2024-01-02 03:04:05.678' AS DATETIME(3)))`, false, true},
		{"BLOB", `JSON_OBJECT('b', CAST('abc' AS BINARY))`, false, true},
		{"DATE and DECIMAL", `JSON_ARRAY(CAST('2024-01-02' AS DATE), CAST(2.50 AS DECIMAL(10,2)))`, true, true},
		{"a text like a date", `JSON_OBJECT('t', '2024-01-02')`, false, false},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		// With many plain rows between them, the doubtful ones are asked about one
		// by one; with none, a page asks about all.
		for _, plain := range []int{0, 20} {
			db, tab := newTable(t, s, "")
			var records []manifest.Record
			for i := range len(payloads) * (plain + 1) {
				r := record(i)
				r.EventID = fmt.Sprintf("%04d", i)
				records = append(records, r)
			}
			if err := write(t, db, tab, WriterOptions{}, records); err != nil {
				t.Fatal(err)
			}
			for i, p := range payloads {
				mustExec(t, db, fmt.Sprintf("UPDATE wallet_outbox SET payload = %s WHERE event_id = '%04d'", p.expression, i*(plain+1)))
			}
			for _, ask := range []bool{true, false} {
				rd, err := NewReader(db, tab, ReaderOptions{AppCode: app, CutoffMS: 1 << 60, Fidelity: ask, PageRows: 5})
				if err != nil {
					t.Fatal(err)
				}
				checked := ask && s.Name == mysqltest.MySQL
				if rd.FidelityChecked() != checked {
					t.Errorf("FidelityChecked = %v, want %v", !checked, checked)
				}
				n := 0
				for row, err := range rd.Rows(t.Context(), manifest.Cursor{}) {
					if err != nil {
						t.Fatal(err)
					}
					p := payloads[0]
					if n%(plain+1) == 0 {
						p = payloads[n/(plain+1)]
					}
					if row.TextUnstable != (checked && p.text) || row.ValueUnstable != (checked && p.value) {
						t.Errorf("%s, asked %v, %d plain rows: text %v, value %v; payload %s", p.name, ask, plain, row.TextUnstable, row.ValueUnstable, row.PayloadJSON)
					}
					n++
				}
				if n != len(records) {
					t.Errorf("%d rows, want %d", n, len(records))
				}
			}
		}
	})
}

// The flags must be about the text that is archived.
func TestAskFindsARowThatChanged(t *testing.T) {
	s := mysqltest.Get(t, mysqltest.MySQL)
	db, tab := newTable(t, s, "")
	r := record(1)
	r.PayloadJSON = `["2024-01-02"]`
	if err := write(t, db, tab, WriterOptions{}, []manifest.Record{r}); err != nil {
		t.Fatal(err)
	}
	rd, err := NewReader(db, tab, ReaderOptions{AppCode: app, CutoffMS: 1 << 60, Fidelity: true})
	if err != nil {
		t.Fatal(err)
	}
	src, err := rd.newSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	if err := src.ask(t.Context(), []Row{{Record: r}}, []int{0}); err != nil {
		t.Errorf("ask about a row as it is = %v", err)
	}
	other := r
	other.PayloadJSON = `["2024-01-03"]`
	if err := src.ask(t.Context(), []Row{{Record: other}}, []int{0}); err == nil || !strings.Contains(err.Error(), "payload") {
		t.Errorf("ask about a row with another payload = %v, want an error that names it", err)
	}
	other = r
	other.EventID = "gone"
	if err := src.ask(t.Context(), []Row{{Record: other}}, []int{0}); err == nil {
		t.Error("ask about a row that is gone succeeded")
	}
}
