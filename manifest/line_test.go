package manifest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// awkwardRecord has every kind of value that a line must carry exactly.
func awkwardRecord() Record {
	return Record{
		AppCode: "wallet", EventID: "evt_\u00e9\u2028\U0001F600", EventType: `a "quoted" \ slash / <b>&amp;`,
		TransactionID: "", CommandID: "\x00\x01\b\t\n\f\r\x1f\x7f", UserID: math.MinInt64, AssetType: "COIN",
		AvailableDelta: math.MaxInt64, FrozenDelta: -1, PayloadJSON: "{\"d\": 1.10, \"s\": \"\\u0000\"}",
		Status: StatusDelivered, WorkerID: "\ufffd\ufeff", LockUntilMS: ptr(int64(0)), RetryCount: 1 << 53,
		NextRetryAtMS: ptr(int64(-1)), LastError: ptr(""), CreatedAtMS: 1<<53 + 1, UpdatedAtMS: 1700000000000,
	}
}

const awkwardLine = `{"app_code":"wallet","event_id":"evt_é` + "\u2028" + `😀","event_type":"a \"quoted\" \\ slash / <b>&amp;",` +
	`"transaction_id":"","command_id":"\u0000\u0001\b\t\n\f\r\u001f` + "\x7f" + `","user_id":-9223372036854775808,"asset_type":"COIN",` +
	`"available_delta":9223372036854775807,"frozen_delta":-1,"payload_json":"{\"d\": 1.10, \"s\": \"\\u0000\"}",` +
	`"status":"delivered","worker_id":"` + "\ufffd\ufeff" + `","lock_until_ms":0,"retry_count":9007199254740992,` +
	`"next_retry_at_ms":-1,"last_error":"","created_at_ms":9007199254740993,"updated_at_ms":1700000000000}`

// plainLine is canonical; tests below break it at one place.
const plainLine = `{"app_code":"wallet","event_id":"evt_1","event_type":"balance.changed","transaction_id":"tx","command_id":"cmd",` +
	`"user_id":7,"asset_type":"COIN","available_delta":100,"frozen_delta":-5,"payload_json":"{}","status":"delivered",` +
	`"worker_id":"w","lock_until_ms":null,"retry_count":0,"next_retry_at_ms":null,"last_error":null,"created_at_ms":1,"updated_at_ms":2}`

func plainRecord() Record {
	return Record{
		AppCode: "wallet", EventID: "evt_1", EventType: "balance.changed", TransactionID: "tx", CommandID: "cmd",
		UserID: 7, AssetType: "COIN", AvailableDelta: 100, FrozenDelta: -5, PayloadJSON: "{}", Status: StatusDelivered,
		WorkerID: "w", CreatedAtMS: 1, UpdatedAtMS: 2,
	}
}

func TestAppendLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		rec  Record
		want string
	}{
		{"plain", plainRecord(), plainLine},
		{"awkward", awkwardRecord(), awkwardLine},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(tc.rec.AppendLine(nil)); got != tc.want {
				t.Errorf("AppendLine:\n%s\nwant\n%s", got, tc.want)
			}
			if got := string(tc.rec.AppendLine([]byte("x"))); got != "x"+tc.want {
				t.Errorf("AppendLine does not append: %s", got)
			}
			got, canonical, err := decodeLine(tc.want)
			if err != nil || !canonical {
				t.Fatalf("decodeLine: canonical %t, error %v", canonical, err)
			}
			if diff := cmp.Diff(tc.rec, got); diff != "" {
				t.Errorf("decodeLine (-want +got):\n%s", diff)
			}
			// The strict parser must read a canonical line alike.
			var strict Record
			if err := parseLine(tc.want, &strict); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.rec, strict); diff != "" {
				t.Errorf("parseLine (-want +got):\n%s", diff)
			}
		})
	}
}

// Every byte of a string is carried, at every position within eight bytes,
// since the scanner looks at eight at a time.
func TestStringsAtEveryPosition(t *testing.T) {
	for c := rune(0); c <= 0x100; c++ {
		for at := range 10 {
			for _, next := range []string{"", "\"", "\\", "\x00", " ", "!", "é", "\x1f\x20"} {
				s := strings.Repeat("a", at) + string(c) + next + strings.Repeat("z", 10)
				naive := strings.IndexFunc(s, func(c rune) bool { return c == '"' || c == '\\' || c < 0x20 })
				if naive < 0 {
					naive = len(s)
				}
				if got := plainLen(s); got != naive {
					t.Fatalf("plainLen(%q) = %d, want %d", s, got, naive)
				}
				r := plainRecord()
				r.PayloadJSON = s
				got, canonical, err := decodeLine(string(r.AppendLine(nil)))
				if err != nil || !canonical || got.PayloadJSON != s {
					t.Fatalf("%q came back as %q, canonical %t, error %v", s, got.PayloadJSON, canonical, err)
				}
			}
		}
	}
}

func TestDecodeLineAcceptsEverySpelling(t *testing.T) {
	reversed := "{"
	parts := strings.Split(strings.Trim(plainLine, "{}"), ",\"")
	for i := len(parts) - 1; i >= 0; i-- {
		reversed += `"` + strings.TrimPrefix(parts[i], `"`)
		if i > 0 {
			reversed += ","
		}
	}
	reversed += "}"
	reversed = strings.ReplaceAll(reversed, `"payload_json":""`, `"payload_json":"{}"`)
	with := func(old, spelled string) string {
		if strings.Count(plainLine, old) != 1 {
			t.Fatalf("%q is not in the line exactly once", old)
		}
		return strings.Replace(plainLine, old, spelled, 1)
	}
	edit := func(f func(r *Record)) Record {
		r := plainRecord()
		f(&r)
		return r
	}
	for _, tc := range []struct {
		name, line string
		want       Record
	}{
		{"members in another order", reversed, plainRecord()},
		{"white space", " \t\r" + strings.NewReplacer(`":`, "\"\t:  ", `,"`, " ,\r\n\t\"").Replace(plainLine) + " \r", plainRecord()},
		{"minus zero", with(`"user_id":7`, `"user_id":-0`), edit(func(r *Record) { r.UserID = 0 })},
		{"escaped name", with(`"app_code"`, `"\u0061pp\u005Fcode"`), plainRecord()},
		{"escaped slash", with(`"worker_id":"w"`, `"worker_id":"a\/b"`), edit(func(r *Record) { r.WorkerID = "a/b" })},
		{"escaped slash by number", with(`"worker_id":"w"`, `"worker_id":"a\u002fb"`), edit(func(r *Record) { r.WorkerID = "a/b" })},
		{"escaped letter", with(`"worker_id":"w"`, `"worker_id":"\u0077"`), plainRecord()},
		{"upper-case digits", with(`"worker_id":"w"`, `"worker_id":"\u001F\u00E9"`), edit(func(r *Record) { r.WorkerID = "\x1fé" })},
		{"long spelling of a newline", with(`"worker_id":"w"`, `"worker_id":"\u000a\u0008\u0022\u005c"`), edit(func(r *Record) { r.WorkerID = "\n\b\"\\" })},
		{"escaped U+2028", with(`"worker_id":"w"`, `"worker_id":"\u2028\u2029"`), edit(func(r *Record) { r.WorkerID = "\u2028\u2029" })},
		{"no HTML escapes", with(`"worker_id":"w"`, `"worker_id":"\u003c\u003E\u0026"`), edit(func(r *Record) { r.WorkerID = "<>&" })},
		{"surrogate pair", with(`"worker_id":"w"`, `"worker_id":"\ud83d\uDE00"`), edit(func(r *Record) { r.WorkerID = "😀" })},
		{"lowest pair", with(`"worker_id":"w"`, `"worker_id":"\uD800\uDC00"`), edit(func(r *Record) { r.WorkerID = "\U00010000" })},
		{"highest pair", with(`"worker_id":"w"`, `"worker_id":"\uDBFF\uDFFF"`), edit(func(r *Record) { r.WorkerID = "\U0010FFFF" })},
		{"replacement character", with(`"worker_id":"w"`, `"worker_id":"\ufffd"`), edit(func(r *Record) { r.WorkerID = "\ufffd" })},
		{"escaped backslash before u", with(`"worker_id":"w"`, `"worker_id": "\\ud800"`), edit(func(r *Record) { r.WorkerID = `\ud800` })},
		{"largest integer", with(`"user_id":7`, `"user_id": 9223372036854775807`), edit(func(r *Record) { r.UserID = math.MaxInt64 })},
		{"smallest integer", with(`"user_id":7`, `"user_id": -9223372036854775808`), edit(func(r *Record) { r.UserID = math.MinInt64 })},
		{"empty string is not NULL", with(`"last_error":null`, `"last_error": ""`), edit(func(r *Record) { r.LastError = ptr("") })},
		{"zero is not NULL", with(`"lock_until_ms":null`, `"lock_until_ms": 0`), edit(func(r *Record) { r.LockUntilMS = ptr(int64(0)) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, canonical, err := decodeLine(tc.line)
			if err != nil {
				t.Fatalf("%v in %s", err, tc.line)
			}
			if canonical {
				t.Errorf("taken for canonical: %s", tc.line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decodeLine (-want +got):\n%s", diff)
			}
			if got.RowHash() != tc.want.RowHash() {
				t.Error("another row hash for an equal record")
			}
		})
	}
}

func TestDecodeLineRefuses(t *testing.T) {
	with := func(old, broken string) string {
		if strings.Count(plainLine, old) != 1 {
			t.Fatalf("%q is not in the line exactly once", old)
		}
		return strings.Replace(plainLine, old, broken, 1)
	}
	worker := func(value string) string { return with(`"worker_id":"w"`, `"worker_id":`+value) }
	user := func(value string) string { return with(`"user_id":7`, `"user_id":`+value) }
	tests := []struct {
		name, line string
		kind       error
		member     string
	}{
		{"empty line", "", ErrInvalidJSON, ""},
		{"white space only", "  \t", ErrInvalidJSON, ""},
		{"byte order mark", "\ufeff" + plainLine, ErrInvalidJSON, ""},
		{"array", "[" + plainLine + "]", ErrInvalidJSON, ""},
		{"null", "null", ErrInvalidJSON, ""},
		{"empty object", "{}", ErrMissingMember, "app_code"},
		{"cut in the middle", plainLine[:200], ErrInvalidJSON, "payload_json"},
		{"without its last brace", strings.TrimSuffix(plainLine, "}"), ErrInvalidJSON, ""},
		{"trailing comma", with(`"updated_at_ms":2}`, `"updated_at_ms":2,}`), ErrInvalidJSON, ""},
		{"leading comma", "{," + plainLine[1:], ErrInvalidJSON, ""},
		{"two commas", with(`"tx",`, `"tx",,`), ErrInvalidJSON, ""},
		{"no comma", with(`"tx",`, `"tx"`), ErrInvalidJSON, ""},
		{"no colon", with(`"tx",`, `"tx","x"`), ErrUnknownMember, "x"},
		{"name without a value", with(`"status":"delivered"`, `"status"`), ErrInvalidJSON, "status"},
		{"name without quotes", with(`"status":`, `status:`), ErrInvalidJSON, ""},
		{"single quotes", worker(`'w'`), ErrInvalidJSON, "worker_id"},
		{"comment", with(`"tx",`, `"tx",/**/`), ErrInvalidJSON, ""},
		{"form feed for white space", with(`"tx",`, "\"tx\",\f"), ErrInvalidJSON, ""},
		{"no-break space for white space", with(`"tx",`, "\"tx\",\u00a0"), ErrInvalidJSON, ""},

		{"duplicate", with(`"asset_type":"COIN",`, `"asset_type":"COIN","user_id":7,`), ErrDuplicateMember, "user_id"},
		{"duplicate under an escaped name", with(`"asset_type":"COIN",`, `"asset_type":"COIN","user\u005fid":7,`), ErrDuplicateMember, "user_id"},
		{"duplicate of a NULL", with(`"last_error":null,`, `"last_error":null,"last_error":null,`), ErrDuplicateMember, "last_error"},
		{"unknown", with(`"tx",`, `"tx","note":1,`), ErrUnknownMember, "note"},
		{"name of the column", with(`"payload_json":`, `"payload":`), ErrUnknownMember, "payload"},
		{"name in other case", with(`"user_id":`, `"User_ID":`), ErrUnknownMember, "User_ID"},
		{"empty name", with(`"tx",`, `"tx","":1,`), ErrUnknownMember, ""},
		{"text after the object", plainLine + "x", ErrTrailingText, ""},
		{"second object", plainLine + plainLine, ErrTrailingText, ""},
		{"NUL after the object", plainLine + "\x00", ErrTrailingText, ""},

		{"string for integer", user(`"7"`), ErrWrongType, "user_id"},
		{"NULL for integer", user(`null`), ErrWrongType, "user_id"},
		{"true for integer", user(`true`), ErrWrongType, "user_id"},
		{"fraction", user(`1.0`), ErrWrongType, "user_id"},
		{"exponent", user(`1e2`), ErrWrongType, "user_id"},
		{"upper-case exponent", user(`1E2`), ErrWrongType, "user_id"},
		{"array for integer", user(`[7]`), ErrWrongType, "user_id"},
		{"fraction for nullable integer", with(`"lock_until_ms":null`, `"lock_until_ms":0.5`), ErrWrongType, "lock_until_ms"},
		{"string for nullable integer", with(`"lock_until_ms":null`, `"lock_until_ms":""`), ErrWrongType, "lock_until_ms"},
		{"integer for string", worker(`1`), ErrWrongType, "worker_id"},
		{"NULL for string", worker(`null`), ErrWrongType, "worker_id"},
		{"false for nullable string", with(`"last_error":null`, `"last_error":false`), ErrWrongType, "last_error"},
		{"object for payload", with(`"payload_json":"{}"`, `"payload_json":{}`), ErrWrongType, "payload_json"},

		{"one over the largest", user(`9223372036854775808`), ErrOutOfRange, "user_id"},
		{"one under the smallest", user(`-9223372036854775809`), ErrOutOfRange, "user_id"},
		{"thirty digits", user(strings.Repeat("9", 30)), ErrOutOfRange, "user_id"},
		{"leading zero", user(`07`), ErrInvalidJSON, "user_id"},
		{"two zeros", user(`00`), ErrInvalidJSON, "user_id"},
		{"minus and leading zero", user(`-07`), ErrInvalidJSON, "user_id"},
		{"plus", user(`+7`), ErrInvalidJSON, "user_id"},
		{"minus alone", user(`-`), ErrInvalidJSON, "user_id"},
		{"minus and letter", user(`-x`), ErrInvalidJSON, "user_id"},
		{"hexadecimal", user(`0x7`), ErrInvalidJSON, ""},
		{"underscore", user(`1_000`), ErrInvalidJSON, ""},
		{"NaN", user(`NaN`), ErrInvalidJSON, "user_id"},
		{"nothing for integer", user(``), ErrInvalidJSON, "user_id"},
		{"half of null", with(`"last_error":null`, `"last_error":nul`), ErrWrongType, "last_error"},
		{"longer than null", with(`"last_error":null`, `"last_error":nulls`), ErrInvalidJSON, ""},

		{"high surrogate", worker(`"\ud83d"`), ErrLoneSurrogate, "worker_id"},
		{"low surrogate", worker(`"\ude00"`), ErrLoneSurrogate, "worker_id"},
		{"reversed pair", worker(`"\ude00\ud83d"`), ErrLoneSurrogate, "worker_id"},
		{"two high surrogates", worker(`"\ud83d\ud83d\ude00"`), ErrLoneSurrogate, "worker_id"},
		{"high surrogate and letter", worker(`"\ud83dx"`), ErrLoneSurrogate, "worker_id"},
		{"high surrogate and escaped letter", worker(`"\ud83d\u0041"`), ErrLoneSurrogate, "worker_id"},
		{"high surrogate and short escape", worker(`"\ud83d\n"`), ErrLoneSurrogate, "worker_id"},
		{"lone surrogate in a name", with(`"tx",`, `"tx","\ud800":1,`), ErrLoneSurrogate, ""},
		{"surrogate as UTF-8", worker("\"\xed\xa0\xbd\""), ErrInvalidUTF8, ""},
		{"overlong slash", worker("\"\xc0\xaf\""), ErrInvalidUTF8, ""},
		{"Latin-1", worker("\"\xe9\""), ErrInvalidUTF8, ""},
		{"beyond U+10FFFF", worker("\"\xf4\x90\x80\x80\""), ErrInvalidUTF8, ""},
		{"cut character", worker("\"\xf0\x9f\x98\""), ErrInvalidUTF8, ""},
		{"invalid UTF-8 after the object", plainLine + "\xff", ErrInvalidUTF8, ""},

		{"raw NUL", worker("\"\x00\""), ErrInvalidJSON, "worker_id"},
		{"raw tab", worker("\"a\tb\""), ErrInvalidJSON, "worker_id"},
		{"raw newline", worker("\"a\nb\""), ErrInvalidJSON, "worker_id"},
		{"raw U+001F", worker("\"abcdefgh\x1f\""), ErrInvalidJSON, "worker_id"},
		{"unknown escape", worker(`"\x41"`), ErrInvalidJSON, "worker_id"},
		{"escaped apostrophe", worker(`"\'"`), ErrInvalidJSON, "worker_id"},
		{"upper-case U", worker(`"\U0041"`), ErrInvalidJSON, "worker_id"},
		{"three digits", worker(`"\u041"`), ErrInvalidJSON, "worker_id"},
		{"sign among digits", worker(`"\u+041"`), ErrInvalidJSON, "worker_id"},
		{"underscore among digits", worker(`"\u0_41"`), ErrInvalidJSON, "worker_id"},
		{"low surrogate cut short", worker(`"\ud83d\ude0"`), ErrInvalidJSON, "worker_id"},
		{"string without an end", strings.TrimSuffix(plainLine, `null,"created_at_ms":1,"updated_at_ms":2}`) + `"x`, ErrInvalidJSON, "last_error"},
		{"backslash at the end", strings.TrimSuffix(plainLine, `null,"created_at_ms":1,"updated_at_ms":2}`) + `"x\`, ErrInvalidJSON, "last_error"},
		{"escape at the end", strings.TrimSuffix(plainLine, `null,"created_at_ms":1,"updated_at_ms":2}`) + `"x\u00`, ErrInvalidJSON, "last_error"},
	}
	for m, name := range memberNames {
		line := string(heads[m]) // the member with its value
		i := strings.Index(plainLine, line)
		rest := plainLine[i+len(line):]
		end := strings.IndexAny(rest, ",")
		if end < 0 {
			end = len(rest) - 1
		}
		without := plainLine[:i] + rest[end:]
		if m == 0 {
			without = "{" + rest[end+1:]
		}
		tests = append(tests, struct {
			name, line string
			kind       error
			member     string
		}{"without " + name, without, ErrMissingMember, name})
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, err := DecodeLine([]byte(tc.line))
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("DecodeLine = %v, want a *SyntaxError", err)
			}
			if !errors.Is(err, tc.kind) || se.Member != tc.member {
				t.Errorf("DecodeLine = %v (member %q), want %v in member %q", err, se.Member, tc.kind, tc.member)
			}
			if se.Offset < 0 || se.Offset > len(tc.line) {
				t.Errorf("offset %d of %d", se.Offset, len(tc.line))
			}
			if diff := cmp.Diff(Record{}, r); diff != "" {
				t.Errorf("a record came with the error:\n%s", diff)
			}
		})
	}
}

// What is valid but not canonical must not pass the scanner, or rows_root and
// the row hash would depend on the spelling.
func TestScanCanonicalRefuses(t *testing.T) {
	for _, value := range []string{
		`"\/"`, `"\u002f"`, `"\u0008"`, `"\u0009"`, `"\u000a"`, `"\u000c"`, `"\u000d"`, `"\u000A"`, `"\u001F"`, `"\u0020"`, `"\u007f"`, `"\u0022"`, `"\u00e9"`, `"\u2028"`, `"\ud83d\ude00"`,
		` "w"`, `"w" `, `null`, `7`, `"`, `"\`, `"\u`, `"\u000`, `"\u0000`, "\"\xff\"", "\"\t\"", "\"a\n\"", "\"\tan\"",
	} {
		line := strings.Replace(plainLine, `"worker_id":"w"`, `"worker_id":`+value, 1)
		var r Record
		if scanCanonical(line, &r) {
			t.Errorf("scanCanonical took %s", line)
		}
	}
	for _, value := range []string{"-0", "00", "07", "-07", "+7", "7.0", "7e0", " 7", "7 ", "", "-", "9223372036854775808", "-9223372036854775809", `"7"`, "null"} {
		line := strings.Replace(plainLine, `"user_id":7`, `"user_id":`+value, 1)
		var r Record
		if scanCanonical(line, &r) {
			t.Errorf("scanCanonical took %s", line)
		}
	}
	for i := range len(plainLine) {
		var r Record
		if scanCanonical(plainLine[:i], &r) {
			t.Errorf("scanCanonical took a line cut after %d bytes", i)
		}
	}
	var r Record
	if scanCanonical(plainLine+" ", &r) {
		t.Error("scanCanonical took white space after the object")
	}
}

func TestCheckExact(t *testing.T) {
	r := awkwardRecord()
	if err := r.CheckExact(); err != nil {
		t.Fatal(err)
	}
	for m := range memberCount {
		r := awkwardRecord()
		switch tg := r.target(m); {
		case tg.str != nil:
			*tg.str = "a\xffb"
		case tg.nullStr != nil:
			*tg.nullStr = ptr("\xed\xa0\x80")
		default:
			continue
		}
		err := r.CheckExact()
		var ee *ExactnessError
		if !errors.As(err, &ee) || !errors.Is(err, ErrInvalidUTF8) || ee.Column != Columns[m] {
			t.Errorf("CheckExact with broken %s = %v", Columns[m], err)
		}
		if !utf8.ValidString(err.Error()) {
			t.Errorf("message is not UTF-8: %q", err)
		}
	}
}

// Changing any member changes the row hash and is named by Differs.
func TestRowHashCoversEveryMember(t *testing.T) {
	seen := map[Hash]string{}
	base := awkwardRecord()
	seen[base.RowHash()] = "unchanged"
	note := func(r Record, column string) {
		t.Helper()
		h := r.RowHash()
		if other, ok := seen[h]; ok {
			t.Errorf("%s: same row hash as %s", column, other)
		}
		seen[h] = column
		if got := base.Differs(&r); len(got) != 1 || got[0] != column {
			t.Errorf("Differs = %v, want [%s]", got, column)
		}
	}
	if got := base.Differs(&base); got != nil {
		t.Errorf("Differs of itself = %v", got)
	}
	for m := range memberCount {
		r := awkwardRecord()
		switch tg := r.target(m); {
		case tg.str != nil:
			*tg.str += "x"
		case tg.num != nil:
			*tg.num ^= 1
		case tg.nullStr != nil:
			*tg.nullStr = ptr("null")
			note(r, Columns[m])
			r = awkwardRecord()
			*r.target(m).nullStr = nil
		case tg.nullNum != nil:
			*tg.nullNum = ptr(int64(5))
			note(r, Columns[m])
			r = awkwardRecord()
			*r.target(m).nullNum = nil
		}
		note(r, Columns[m])
	}
}

func TestMemberNames(t *testing.T) {
	names := MemberNames()
	if len(names) != len(Columns) {
		t.Fatalf("%d members, %d columns", len(names), len(Columns))
	}
	for i, c := range Columns {
		if c == "payload" {
			c = "payload_json"
		}
		if names[i] != c {
			t.Errorf("member %d is %q, column %q", i, names[i], c)
		}
	}
	names[0] = "changed"
	if MemberNames()[0] != "app_code" {
		t.Error("MemberNames gives away the package's own names")
	}
}

func TestSyntaxErrorText(t *testing.T) {
	for _, tc := range []struct {
		err  SyntaxError
		want string
	}{
		{SyntaxError{Offset: 3, Err: ErrInvalidJSON}, "byte 3: invalid JSON"},
		{SyntaxError{Line: 9, Offset: 3, Member: "user_id", Err: ErrWrongType}, `line 9, byte 3, member "user_id": wrong type`},
		{SyntaxError{Line: 1, Member: strings.Repeat("x", 200), Err: ErrUnknownMember}, fmt.Sprintf("line 1, byte 0, member %q: unknown member", strings.Repeat("x", 80)+"…")},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("Error() = %s, want %s", got, tc.want)
		}
	}
}
