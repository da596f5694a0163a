package restore

import (
	"io"
	"strings"
	"testing"
)

// counted counts what is read.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += n
	return n, err
}

func TestEndsComplete(t *testing.T) {
	target := TargetIdentity{Server: "s", Database: "d", Table: "t"}
	line := func(l receiptLine) string {
		text, err := encodeReceiptLine(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	header := func(schema, plan string, target TargetIdentity) string {
		return line(receiptLine{Header: &ReceiptHeader{Schema: schema, PlanID: plan, Target: target}})
	}
	first := header(ReceiptSchema, "p", target)
	middle := strings.Repeat("damaged\n", 1<<17) // nobody may look at it
	end := line(receiptLine{End: &receiptEnd{Complete: true}})
	for _, tc := range []struct {
		name, text string
		want       bool
	}{
		{"complete", first + middle + end, true},
		{"complete, and no row", first + end, true},
		{"nothing", "", false},
		{"a header alone", first, false},
		{"an end alone", end, false},
		{"no end", first + middle, false},
		{"an end that is not complete", first + middle + line(receiptLine{End: &receiptEnd{}}), false},
		{"an end that is torn", first + middle + strings.TrimSuffix(end, "\n"), false},
		{"gone on with after the end", first + middle + end + line(receiptLine{Resumed: &receiptResumed{}}), false},
		{"something after the end", first + middle + end + "{", false},
		{"an end that is the rest of a line", first + middle + strings.Repeat("x", endBytes) + end, false},
		{"an end that ends a longer line", first + strings.Repeat("x", endBytes-len(end)) + end, false},
		{"two members in the last line", first + middle + strings.Replace(end, "}}", `},"resumed":{}}`, 1), false},
		{"another schema", header("walletarchive.restore_receipt/v9", "p", target) + middle + end, false},
		{"another plan", header(ReceiptSchema, "q", target) + middle + end, false},
		{"another target", header(ReceiptSchema, "p", TargetIdentity{Server: "s", Database: "d", Table: "u"}) + middle + end, false},
		{"a first line without an end", strings.Repeat("x", 2*headBytes) + "\n" + end, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &counted{ReaderAt: strings.NewReader(tc.text)}
			got, err := endsComplete(f, int64(len(tc.text)), "p", target)
			if err != nil || got != tc.want {
				t.Errorf("endsComplete = %t, %v; want %t", got, err, tc.want)
			}
			if f.bytes > headBytes+endBytes {
				t.Errorf("%d of %d bytes were read", f.bytes, len(tc.text))
			}
		})
	}
}
