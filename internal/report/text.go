package report

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// MaxTextFaults is how many faults of one batch are printed for people; the
// JSON document lists all that the command kept.
const MaxTextFaults = 20

// ColorAllowed reports whether w is a terminal that may be written to in
// colours: NO_COLOR is unset or empty (no-color.org) and TERM is not "dumb".
func ColorAllowed(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// IsTerminal reports whether w is a file that is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *Printer) headText() string {
	var b strings.Builder
	if p.opts.Store != "" {
		line(&b, "", Fact{"store", p.opts.Store})
	}
	if p.opts.Against != "" {
		line(&b, "", Fact{"against", p.opts.Against})
	}
	for _, f := range p.opts.Facts {
		line(&b, "", f)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

func (p *Printer) batchText(batch Batch) string {
	var b strings.Builder
	v := batch.Outcome.Verdict()
	fmt.Fprintf(&b, "%s  %s  %s", p.paint(v, fmt.Sprintf("%-10s", v)), Printable(batch.AppCode), Printable(batch.BatchID.String()))
	if batch.Examined.Rows > 0 {
		fmt.Fprintf(&b, "  %s", Plural(batch.Examined.Rows, "row"))
	}
	if batch.Examined.Bytes > 0 {
		fmt.Fprintf(&b, "  %s", Bytes(batch.Examined.Bytes))
	}
	fmt.Fprintf(&b, "  %s\n", Duration(batch.Duration))
	for _, f := range batch.Facts {
		line(&b, "    ", f)
	}
	omitted := batch.FaultsOmitted
	for i, f := range batch.Faults {
		if i == MaxTextFaults {
			omitted += int64(len(batch.Faults) - i)
			break
		}
		line(&b, "    ", Fact{"fault", f.String()})
	}
	if omitted > 0 {
		line(&b, "    ", Fact{"fault", "and " + Count(omitted) + " more"})
	}
	for _, n := range batch.Unchecked {
		line(&b, "    ", Fact{"unchecked", n})
	}
	for _, n := range batch.Notes {
		line(&b, "    ", Fact{"note", n})
	}
	switch {
	case batch.Outcome == NoBatch && batch.Err == nil:
		line(&b, "    ", Fact{"missing", "there is no such batch in the store"})
	case batch.Outcome == NoBatch:
		line(&b, "    ", Fact{"missing", batch.Err.Error()})
	case batch.Err != nil:
		line(&b, "    ", Fact{"unfinished", batch.Err.Error()})
	}
	return b.String()
}

func (p *Printer) summaryText() string {
	var b strings.Builder
	s := &p.summary
	if s.Batches > 0 {
		b.WriteByte('\n')
	}
	command := strings.ReplaceAll(p.opts.Command, "_", " ")
	fmt.Fprintf(&b, "%s: %s", command, p.paint(s.Verdict, s.Verdict.String()))
	switch {
	case s.Batches == 0 && s.Error == "":
		fmt.Fprintf(&b, ": nothing was selected, so nothing to %s\n", command)
		return b.String()
	case s.Batches == 0:
		fmt.Fprintf(&b, ": could not be finished: %s\n", Printable(s.Error))
		return b.String()
	}
	fmt.Fprintf(&b, ": %s", Plural(s.Batches, "batch"))
	for _, part := range []struct {
		n int64
		v Verdict
	}{{s.Proven, Proven}, {s.NotProven, NotProven}, {s.Failed, Failed}} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %s %s", Count(part.n), part.v)
		}
	}
	fmt.Fprintf(&b, "; %s and %s read in %s\n", Plural(s.Examined.Rows, "row"), Bytes(s.Examined.Bytes),
		Duration(time.Duration(s.DurationMS)*time.Millisecond))
	if s.Error != "" {
		fmt.Fprintf(&b, "could not be finished: %s\n", Printable(s.Error))
	}
	return b.String()
}

func (p *Printer) paint(v Verdict, word string) string {
	if !p.opts.Color {
		return word
	}
	code := "33" // yellow
	switch v {
	case Proven:
		code = "32" // green
	case Failed:
		code = "31" // red
	case NotProven:
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

func line(b *strings.Builder, indent string, f Fact) {
	fmt.Fprintf(b, "%s%-10s  %s\n", indent, Printable(f.Label), Printable(f.Value))
}

// String returns the fault on one line: where, which rule, and what was found
// instead of what. Values from outside are not cleaned; see [Printable].
func (f Fault) String() string {
	var where []string
	if f.Object != "" {
		where = append(where, f.Object)
	}
	if f.Line > 0 {
		where = append(where, "line "+strconv.FormatInt(f.Line, 10))
	}
	if f.Row != "" {
		where = append(where, "row "+strconv.Quote(f.Row))
	}
	if f.Column != "" {
		where = append(where, "column "+f.Column)
	}
	s := f.Check
	if len(where) > 0 {
		s = strings.Join(where, ", ") + ": " + f.Check
	}
	if f.Got != "" || f.Want != "" {
		s += ": expected " + orEmpty(f.Want) + ", found " + orEmpty(f.Got)
	}
	if f.Detail != "" {
		s += " (" + f.Detail + ")"
	}
	return s
}

// orEmpty makes the empty string visible.
func orEmpty(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// Printable returns s with every character that could move a terminal's cursor,
// reorder text or hide replaced by its Go escape, so that what an archive or a
// server holds cannot forge a line of a report.
func Printable(s string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// Count returns n with a comma before each group of three digits.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Plural returns [Count] of n and the noun, in the plural unless n is 1.
func Plural(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return Count(n) + " " + noun + "es"
	}
	return Count(n) + " " + noun + "s"
}

// Bytes returns n bytes in the decimal unit that keeps it under a thousand:
// "512 B", "225.0 kB", "1.2 GB".
func Bytes(n int64) string {
	if n > -1000 && n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB"} {
		v /= 1000
		// 999.95 is where "%.1f" would show 1000.0.
		if v < 999.95 && v > -999.95 {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.1f PB", v/1000)
}

// Duration returns d rounded for people: "0.4 s", "12.0 s", "3m05s", "2h03m".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case d < 59950*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	m := d.Round(time.Second)
	if m < time.Hour {
		return fmt.Sprintf("%dm%02ds", m/time.Minute, m%time.Minute/time.Second)
	}
	m = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", m/time.Hour, m%time.Hour/time.Minute)
}
