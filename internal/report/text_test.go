package report

import (
	"math"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", -1: "-1", -1000: "-1,000", 123456: "123,456",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 1_234_000_000: "1.2 GB",
		-5000: "-5.0 kB", math.MaxInt64: "9223.4 PB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0 ms", 1500 * time.Microsecond: "2 ms", 400 * time.Millisecond: "0.4 s", 59949 * time.Millisecond: "59.9 s",
		59950 * time.Millisecond: "1m00s", 185 * time.Second: "3m05s", 3599600 * time.Millisecond: "1h00m",
		123 * time.Minute: "2h03m", -time.Second: "-1.0 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", int64(d), got, want)
		}
	}
	for _, tt := range []struct {
		n          int64
		noun, want string
	}{{1, "batch", "1 batch"}, {0, "batch", "0 batches"}, {2000, "row", "2,000 rows"}} {
		if got := Plural(tt.n, tt.noun); got != tt.want {
			t.Errorf("Plural(%d, %q) = %q, want %q", tt.n, tt.noun, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain, ü, 钱, 😀", "plain, ü, 钱, 😀"},
		{"a\nproven", `a\nproven`},
		{"\x1b[2Jx", `\x1b[2Jx`},
		{"right\u202eleft", `right\u202eleft`},
		{"bad\xff\xfe", `bad\xff\xfe`},
		{"kept \uFFFD\n", "kept \uFFFD\\n"},
		{"no\u00a0break", `no\u00a0break`},
	}
	for _, tt := range tests {
		if got := Printable(tt.in); got != tt.want {
			t.Errorf("Printable(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestFaultString(t *testing.T) {
	tests := []struct {
		fault Fault
		want  string
	}{
		{Fault{Check: "row_count", Got: "1", Want: "2"}, `row_count: expected 2, found 1`},
		{Fault{Check: "member", Row: "e 1", Detail: "is not in the batch"}, `row "e 1": member (is not in the batch)`},
		{Fault{Check: "value", Object: "t", Row: "e", Column: "payload", Got: "x"}, `t, row "e", column payload: value: expected "", found x`},
	}
	for _, tt := range tests {
		if got := tt.fault.String(); got != tt.want {
			t.Errorf("String() = %q, want %q", got, tt.want)
		}
	}
}
