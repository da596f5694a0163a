package jsonvalue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/internal/jsonvalue"
)

func TestCompare(t *testing.T) {
	nines := strings.Repeat("9", 40)
	tests := []struct {
		name string
		a, b string
		want jsonvalue.Outcome
	}{
		{"same bytes", `{"d": 1.10}`, `{"d": 1.10}`, jsonvalue.Identical},
		{"same bytes that are not JSON", `{"d": `, `{"d": `, jsonvalue.Identical},

		// What MySQL 9.7 was measured to do on a restore, and what MariaDB to MySQL does.
		{"DECIMAL through text", `{"d": 1.10}`, `{"d": 1.1}`, jsonvalue.SameValue},
		{"integer that became a double", `123456789012345678901234567890`, `1.2345678901234568e29`, jsonvalue.Different},
		{"integers one apart beyond 2^53", `9007199254740993`, `9007199254740992`, jsonvalue.Different},
		{"largest unsigned and the double next to it", `18446744073709551615`, `1.8446744073709552e19`, jsonvalue.Different},
		{"a double and its neighbour", `0.1`, `0.10000000000000000555`, jsonvalue.Different},

		{"exponent", `1e2`, `100.0`, jsonvalue.SameValue},
		{"exponent in upper case with a sign", `1E+2`, `100`, jsonvalue.SameValue},
		{"negative exponent", `1e-7`, `0.0000001`, jsonvalue.SameValue},
		{"exponent with leading zeros", `1e007`, `10000000`, jsonvalue.SameValue},
		{"minus zero", `-0`, `0`, jsonvalue.SameValue},
		{"minus zero with a fraction", `-0.0`, `0`, jsonvalue.SameValue},
		{"zero with an exponent", `0e999999999999999999999999`, `0.000`, jsonvalue.SameValue},
		{"sign", `-1`, `1`, jsonvalue.Different},
		{"last digit", `1.10`, `1.11`, jsonvalue.Different},
		{"power of ten", `10`, `100`, jsonvalue.Different},
		{"number and string", `1`, `"1"`, jsonvalue.Different},
		{"huge exponent", `1e1000000000`, `10e999999999`, jsonvalue.SameValue},
		{"huge exponent one apart", `1e1000000000`, `1e1000000001`, jsonvalue.Different},
		{"exponent of 40 digits", `1e` + nines, `0.1e1` + strings.Repeat("0", 40), jsonvalue.SameValue},
		{"exponent of 40 digits one apart", `1e` + nines, `1e1` + strings.Repeat("0", 40), jsonvalue.Different},
		{"exponent that borrows", `100e1` + strings.Repeat("0", 30), `1e1` + strings.Repeat("0", 29) + "2", jsonvalue.SameValue},
		{"negative exponent of 40 digits", `10e-1` + strings.Repeat("0", 40), `1e-` + nines, jsonvalue.SameValue},
		{"negative exponent of 40 digits and a fraction", `0.1e-` + nines, `1e-1` + strings.Repeat("0", 40), jsonvalue.SameValue},
		{"exponent that falls to 18 digits", `0.1e1000000000000000000`, `1e999999999999999999`, jsonvalue.SameValue},
		{"exponent with its sign turned", `1e` + nines, `1e-` + nines, jsonvalue.Different},

		{"white space", "\t{ \"a\" : [ 1 ,\n2 ] }\r\n", `{"a":[1,2]}`, jsonvalue.SameValue},
		{"key order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, jsonvalue.SameValue},
		{"key order deep", `[{"a":{"x":1,"y":[]}}]`, `[{"a":{"y":[],"x":1.0}}]`, jsonvalue.SameValue},
		{"array order", `[1,2]`, `[2,1]`, jsonvalue.Different},
		{"last of equal keys", `{"a":1,"b":3,"a":2}`, `{"a":2,"b":3}`, jsonvalue.Different},
		{"first of equal keys", `{"a":1,"a":2}`, `{"a":1}`, jsonvalue.Different},
		{"one of two equal members", `{"a":1,"a":1}`, `{"a":1}`, jsonvalue.Different},
		{"equal keys spelled otherwise", `{"\u0061":1,"a":2}`, `{"a":1.0,"a":2}`, jsonvalue.SameValue},
		{"equal keys among others", `{"a":1,"b":3,"a":2}`, `{"b":3,"a":1,"a":2}`, jsonvalue.SameValue},
		{"equal keys in another order", `{"a":1,"a":2}`, `{"a":2,"a":1}`, jsonvalue.Different},
		{"missing key", `{"a":1,"b":null}`, `{"a":1}`, jsonvalue.Different},
		{"empty key", `{"":1}`, `{}`, jsonvalue.Different},
		{"empty array and object", `[]`, `{}`, jsonvalue.Different},
		{"keys that differ in case", `{"A":1}`, `{"a":1}`, jsonvalue.Different},
		{"null and false", `null`, `false`, jsonvalue.Different},
		{"null and the word", `null`, `"null"`, jsonvalue.Different},

		{"escaped letter", `"caf\u00e9"`, `"café"`, jsonvalue.SameValue},
		{"hex digits in upper case", `"\u00E9"`, `"\u00e9"`, jsonvalue.SameValue},
		{"escaped slash", `"a\/b"`, `"a/b"`, jsonvalue.SameValue},
		{"short escapes", `"\b\f\n\r\t\"\\"`, `"\u0008\u000c\u000a\u000d\u0009\u0022\u005c"`, jsonvalue.SameValue},
		{"newline and the letter n", `"\n"`, `"n"`, jsonvalue.Different},
		{"escaped emoji", `"\ud83d\ude00"`, `"😀"`, jsonvalue.SameValue},
		{"line separator", `"\u2028"`, "\"\u2028\"", jsonvalue.SameValue},
		{"NUL and nothing", `"\u0000"`, `""`, jsonvalue.Different},
		{"composed and decomposed", `"é"`, "\"e\u0301\"", jsonvalue.Different},
		{"lone surrogate in another case", `"\uD800x"`, `"\ud800x"`, jsonvalue.SameValue},
		{"two lone surrogates", `"\ud800"`, `"\ud801"`, jsonvalue.Different},
		{"lone surrogate and U+FFFD", `"\ud800"`, `"\ufffd"`, jsonvalue.Different},
		{"surrogates in the wrong order", `"\ude00\ud83d"`, `"😀"`, jsonvalue.Different},
		{"lone high before a pair", `"\ud83d\ud83d\ude00"`, `"\ud83d😀"`, jsonvalue.SameValue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
				got, err := jsonvalue.Compare(p[0], p[1])
				if err != nil || got != tt.want {
					t.Errorf("Compare(%.60q, %.60q) = %v, %v, want %v", p[0], p[1], got, err, tt.want)
				}
			}
		})
	}
}

func TestCompareOfWhatIsNotJSON(t *testing.T) {
	tests := []struct {
		name   string
		text   string
		offset int
	}{
		{"nothing", ``, 0},
		{"space alone", `  `, 2},
		{"text after the value", `1 2`, 2},
		{"two values", `{}{}`, 2},
		{"word cut short", `nul`, 0},
		{"word run on", `nulls`, 4},
		{"word in upper case", `NULL`, 0},
		{"NaN", `NaN`, 0},
		{"plus sign", `+1`, 0},
		{"leading zero", `01`, 2},
		{"leading zero after the sign", `-01`, 3},
		{"sign alone", `-`, 1},
		{"no whole part", `.5`, 0},
		{"no fraction", `1.`, 2},
		{"no fraction before the exponent", `1.e5`, 2},
		{"no exponent", `1e`, 2},
		{"no exponent after its sign", `1e+`, 3},
		{"hex number", `0x10`, 1},
		{"open array", `[1`, 2},
		{"open array after a comma", `[1,`, 3},
		{"comma before the end", `[1,]`, 3},
		{"comma before the end of an object", `{"a":1,}`, 7},
		{"wrong end", `[1}`, 2},
		{"wrong end of an object", `{"a":1]`, 6},
		{"key without quotes", `{a:1}`, 1},
		{"key without a value", `{"a"}`, 4},
		{"no colon", `{"a" 1}`, 5},
		{"single quotes", `'a'`, 0},
		{"open string", `"abc`, 4},
		{"open string after an escape", `"abc\n`, 6},
		{"raw newline", "\"a\nb\"", 2},
		{"raw newline after an escape", "\"\\n\nb\"", 3},
		{"unknown escape", `"\x41"`, 2},
		{"escape at the end", `"\`, 2},
		{"short \\u", `"\u12"`, 2},
		{"\\u with a sign", `"\u+123"`, 2},
		{"invalid UTF-8", "\"\xff\"", 1},
		{"overlong UTF-8", "\"\xc0\xaf\"", 1},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", 1},
		{"byte order mark", "\ufeff1", 0},
		{"NUL", "\x00", 0},
		{"no-break space", "\u00a01", 0},
		{"comment", `1/*x*/`, 1},
		{"too deep", strings.Repeat("[", 513) + strings.Repeat("]", 513), 512},
		{"too deep without an end", strings.Repeat(`{"a":`, 1_000_000), 512 * 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := jsonvalue.Canonical(tt.text)
			var syntax *jsonvalue.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset != tt.offset {
				t.Errorf("Canonical(%.60q) = %v, want a SyntaxError at byte %d", tt.text, err, tt.offset)
			}
			for _, p := range [][2]string{{tt.text, `7`}, {`7`, tt.text}} {
				got, err := jsonvalue.Compare(p[0], p[1])
				if got != jsonvalue.Different || !errors.As(err, &syntax) {
					t.Errorf("Compare(%.60q, %.60q) = %v, %v, want different and a SyntaxError", p[0], p[1], got, err)
				}
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"number", `-1.2300e5`, `-123e3`},
		{"fraction", `1.10`, `11e-1`},
		{"small fraction", `0.00123`, `123e-5`},
		{"integer", `42`, `42`},
		{"hundred", `100`, `1e2`},
		{"string", `"\u003c\u0001\u00e9\/\ud800"`, `"<\u0001é/\ud800"`},
		{"object", ` { "b" : [ true , null ] , "a" : "x" , "b" : 1.0 } `, `{"a":"x","b":[true,null],"b":1}`},
		{"512 levels", strings.Repeat("[", 512) + strings.Repeat("]", 512), strings.Repeat("[", 512) + strings.Repeat("]", 512)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jsonvalue.Canonical(tt.text)
			if err != nil || got != tt.want {
				t.Errorf("Canonical(%.60q) = %.60q, %v, want %.60q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestOutcomeString(t *testing.T) {
	var zero jsonvalue.Outcome
	for o, want := range map[jsonvalue.Outcome]string{
		zero: "different", jsonvalue.SameValue: "same value", jsonvalue.Identical: "identical", 7: "Outcome(7)",
	} {
		if got := o.String(); got != want {
			t.Errorf("Outcome(%d).String() = %q, want %q", int(o), got, want)
		}
	}
}

// TestNumbersAgainstRat compares random spellings of few values with math/big,
// so that equal and different values are both common.
func TestNumbersAgainstRat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	equal := 0
	for range 200_000 {
		a, b := spelling(r), spelling(r)
		x, okA := new(big.Rat).SetString(a)
		y, okB := new(big.Rat).SetString(b)
		if !okA || !okB {
			t.Fatalf("math/big refuses %q or %q", a, b)
		}
		got, err := jsonvalue.Compare(a, b)
		if err != nil {
			t.Fatalf("Compare(%q, %q) = %v", a, b, err)
		}
		if same := x.Cmp(y) == 0; same != (got != jsonvalue.Different) {
			t.Fatalf("Compare(%q, %q) = %v, but math/big finds the same value: %v", a, b, got, same)
		} else if same {
			equal++
		}
	}
	if equal < 1000 {
		t.Errorf("only %d of the pairs were equal, the test proves little", equal)
	}
}

func spelling(r *rand.Rand) string {
	s := []string{"", "-"}[r.IntN(2)]
	s += []string{"0", "1", "10", "12", "100", "120"}[r.IntN(6)]
	if r.IntN(2) == 0 {
		s += "." + []string{"0", "1", "01", "20", "000", "10"}[r.IntN(6)]
	}
	if r.IntN(2) == 0 {
		s += []string{"e", "E", "e+", "e-", "E-"}[r.IntN(5)] + []string{"0", "1", "02", "3"}[r.IntN(4)]
	}
	return s
}

// TestExponentsAgainstBig checks the exponents that are added digit by digit.
func TestExponentsAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		e := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(17+r.IntN(10))), nil)
		e.Add(e, big.NewInt(int64(r.IntN(7)-3)))
		if r.IntN(2) == 0 {
			e.Neg(e)
		}
		zeros, places := r.IntN(4), r.IntN(4)
		text := "1" + strings.Repeat("0", zeros) + "." + strings.Repeat("0", places) + "7e" + e.String()
		last := new(big.Int).Sub(e, big.NewInt(int64(places+1)))
		want := "1" + strings.Repeat("0", zeros+places) + "7e" + last.String()
		if got, err := jsonvalue.Canonical(text); err != nil || got != want {
			t.Fatalf("Canonical(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestHostileTextIsCheap holds texts that would cost gigabytes or minutes if a
// number were expanded, an exponent converted, or a level copied at each depth.
func TestHostileTextIsCheap(t *testing.T) {
	const many = 200_000
	wide := `{"k":[` + strings.Repeat(`1.5,`, many) + `0]}`
	texts := map[string]string{
		"exponent of a billion":   `1e1000000000`,
		"many digits":             strings.Repeat("7", many) + "e-5",
		"exponent of many digits": "1e" + strings.Repeat("8", many),
		"many elements deep":      strings.Repeat("[", 500) + wide + strings.Repeat("]", 500),
		"many equal keys":         `{` + strings.Repeat(`"a":1,`, many) + `"a":2}`,
		"a string of many \\u":    `"` + strings.Repeat(`\ud800`, many) + `"`,
		"many levels":             strings.Repeat("[", many),
		"many zeros after a dot":  "0." + strings.Repeat("0", many) + "1",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if _, err := jsonvalue.Compare(text, text+" "); err != nil && name != "many levels" {
				t.Error(err)
			}
			// Generous, for slow machines and the race detector: quadratic work takes minutes.
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// FuzzCompare holds that nothing panics, that a text is JSON here exactly when
// it is for encoding/json, that the canonical form is a fixed point which
// encoding/json reads as the same value, and that Compare agrees with it.
func FuzzCompare(f *testing.F) {
	for _, s := range []string{
		`{"d": 1.10}`, `{"a":1,"b":[null,true,"\ud83d\ude00\/\u0000"],"a":-0.0e+17}`, `1e999999999999999999999`, `"\ud800"`, "[1,]",
		`{"\u0061":{},"a":[]}`, "\"\xff\"", `0.1e-1000000000000000000`,
	} {
		f.Add(s, strings.ReplaceAll(s, " ", ""))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ca, errA := jsonvalue.Canonical(a)
		cb, errB := jsonvalue.Canonical(b)
		outcome, err := jsonvalue.Compare(a, b)
		want := jsonvalue.Different
		switch {
		case a == b:
			want = jsonvalue.Identical
		case errA == nil && errB == nil && ca == cb:
			want = jsonvalue.SameValue
		}
		if outcome != want || (err != nil) != (a != b && (errA != nil || errB != nil)) {
			t.Errorf("Compare(%q, %q) = %v, %v, want %v; canonical errors %v, %v", a, b, outcome, err, want, errA, errB)
		}
		if back, _ := jsonvalue.Compare(b, a); back != outcome {
			t.Errorf("Compare(%q, %q) = %v, but the other way round %v", a, b, outcome, back)
		}
		if utf8.ValidString(a) && strings.Count(a, "[")+strings.Count(a, "{") <= jsonvalue.MaxDepth && json.Valid([]byte(a)) != (errA == nil) {
			t.Errorf("Canonical(%q) = %v, but encoding/json calls it valid: %v", a, errA, json.Valid([]byte(a)))
		}
		if errA != nil {
			if ca != "" {
				t.Errorf("Canonical(%q) = %q beside an error", a, ca)
			}
			return
		}
		if again, err := jsonvalue.Canonical(ca); err != nil || again != ca {
			t.Errorf("Canonical(Canonical(%q)) = %q, %v, want %q", a, again, err, ca)
		}
		if got, want := decode(t, ca), decode(t, a); !reflect.DeepEqual(got, want) {
			t.Errorf("Canonical(%q) = %q, which encoding/json reads as %v, want %v", a, ca, got, want)
		}
	})
}

// decode reads text with encoding/json, numbers as doubles where they fit. A
// lone surrogate becomes U+FFFD on both sides and so proves nothing here.
func decode(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	return doubles(v)
}

func doubles(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return "out of range"
		}
		return f + 0 // -0 becomes 0
	case []any:
		for i := range v {
			v[i] = doubles(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = doubles(v[k])
		}
	}
	return v
}

func ExampleCompare() {
	for _, p := range [][2]string{
		{`{"d": 1.10}`, `{"d": 1.10}`},
		{`{"d": 1.10, "n": null}`, `{"n": null, "d": 1.1}`},
		{`123456789012345678901234567890`, `1.2345678901234568e29`},
	} {
		outcome, err := jsonvalue.Compare(p[0], p[1])
		fmt.Println(outcome, err)
	}
	// Output:
	// identical <nil>
	// same value <nil>
	// different <nil>
}

func BenchmarkCompare(b *testing.B) {
	const one = `{"order_id": 9007199254740993, "amount": 12.50, "note": "caf\u00e9", "lines": [{"sku": "a-1", "qty": 2}, {"sku": "b-2", "qty": 1.0}]}`
	const two = `{"amount": 12.5, "order_id": 9007199254740993, "lines": [{"qty": 2, "sku": "a-1"}, {"qty": 1, "sku": "b-2"}], "note": "café"}`
	b.SetBytes(int64(len(one) + len(two)))
	for b.Loop() {
		if o, err := jsonvalue.Compare(one, two); o != jsonvalue.SameValue || err != nil {
			b.Fatal(o, err)
		}
	}
}
