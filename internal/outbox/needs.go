package outbox

import (
	"strings"
	"unicode/utf8"

	"github.com/hyapp/walletarchive/manifest"
)

// Needs is what a table must be able to hold for the records that were added.
// The zero value is that of no records. It is not safe for concurrent use.
type Needs struct {
	Rows        int64
	MaxRowBytes int64 // the longest record, all columns together, numbers at their widest
	Columns     [len(manifest.Columns)]ColumnNeeds
}

// ColumnNeeds is what one column, named by its place in manifest.Columns, must
// be able to hold. The first three are for text, the next two for numbers.
type ColumnNeeds struct {
	MaxChars      int // code points of the longest value
	MaxBytes      int // of its UTF-8
	Repertoire    Repertoire
	Min, Max      int64 // both included; zero when there were only NULLs
	Null          bool
	TrailingSpace bool // a value ends with a space, which CHAR does not keep

	seen bool
}

// Repertoire is how large a character set must be.
type Repertoire uint8

// The repertoires, each within the next.
const (
	ASCII         Repertoire = iota
	Latin1                   // what the servers call latin1, which is Windows-1252
	BMP                      // three bytes of UTF-8, utf8mb3
	Supplementary            // four bytes, such as an emoji
)

// windows1252 are its characters beyond U+00FF.
const windows1252 = "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"

// Add takes r into account.
func (n *Needs) Add(r *manifest.Record) {
	n.Rows++
	row := int64(0)
	for i := range fields {
		f, c := &fields[i], &n.Columns[i]
		switch {
		case f.str != nil:
			row += c.addText(*f.str(r))
		case f.num != nil:
			row += c.addNumber(*f.num(r))
		case f.optStr != nil:
			if p := *f.optStr(r); p == nil {
				c.Null = true
			} else {
				row += c.addText(*p)
			}
		default:
			if p := *f.optNum(r); p == nil {
				c.Null = true
			} else {
				row += c.addNumber(*p)
			}
		}
	}
	n.MaxRowBytes = max(n.MaxRowBytes, row)
}

func (c *ColumnNeeds) addNumber(v int64) int64 {
	if !c.seen {
		c.seen, c.Min, c.Max = true, v, v
	}
	c.Min, c.Max = min(c.Min, v), max(c.Max, v)
	return 20 // digits and sign of the longest int64
}

func (c *ColumnNeeds) addText(s string) int64 {
	c.MaxBytes = max(c.MaxBytes, len(s))
	if s != "" && s[len(s)-1] == ' ' {
		c.TrailingSpace = true
	}
	// A string has at most as many characters as bytes, so most are not counted.
	if len(s) > c.MaxChars {
		c.MaxChars = max(c.MaxChars, utf8.RuneCountInString(s))
	}
	if c.Repertoire == Supplementary {
		return int64(len(s))
	}
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			for _, r := range s[i:] {
				c.Repertoire = max(c.Repertoire, repertoire(r))
			}
			break
		}
	}
	return int64(len(s))
}

func repertoire(r rune) Repertoire {
	switch {
	case r < utf8.RuneSelf:
		return ASCII
	case r >= 0xa0 && r <= 0xff, strings.ContainsRune(windows1252, r):
		return Latin1
	case r <= 0xffff:
		return BMP
	}
	return Supplementary
}

// column returns the needs of the column of that name, which must be one of
// manifest.Columns.
func (n *Needs) column(name string) ColumnNeeds {
	for i, c := range manifest.Columns {
		if c == name {
			return n.Columns[i]
		}
	}
	panic("outbox: no column " + name)
}
