package jsonvalue

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parser reads one JSON text by the grammar of RFC 8259 and nothing beyond it.
type parser struct {
	text  string
	pos   int
	depth int
}

func (p *parser) fail(reason string) error { return &SyntaxError{Offset: p.pos, Reason: reason} }

// peek returns the next byte, or 0 at the end; a NUL in the text is no token
// either, so the two need not be told apart.
func (p *parser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) document() (value, error) {
	p.space()
	v, err := p.value()
	if err != nil {
		return value{}, err
	}
	p.space()
	if p.pos < len(p.text) {
		return value{}, p.fail("text after the value")
	}
	return v, nil
}

func (p *parser) value() (value, error) {
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if p.depth == MaxDepth {
			return value{}, p.fail(fmt.Sprintf("nested deeper than %d levels", MaxDepth))
		}
		p.depth++
		v, err := p.container(c)
		p.depth--
		return v, err
	case c == '"':
		s, err := p.string()
		return value{scalar: s}, err
	case c == '-' || isDigit(c):
		s, err := p.number()
		return value{scalar: s}, err
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(p.text[p.pos:], word) {
			p.pos += len(word)
			return value{scalar: word}, nil
		}
	}
	if p.pos == len(p.text) {
		return value{}, p.fail("a value is missing at the end of the text")
	}
	return value{}, p.fail("not the start of a value")
}

// container reads the array or object that starts here with open.
func (p *parser) container(open byte) (value, error) {
	v := value{kind: open}
	end := open + 2 // ']' and '}' both stand two after their partner in ASCII
	p.pos++
	if p.space(); p.peek() == end {
		p.pos++
		return v, nil
	}
	for {
		if open == '{' {
			if p.peek() != '"' {
				return value{}, p.fail("not the start of a key")
			}
			key, err := p.string()
			if err != nil {
				return value{}, err
			}
			if p.space(); p.peek() != ':' {
				return value{}, p.fail("no colon after a key")
			}
			p.pos++
			p.space()
			v.keys = append(v.keys, key)
		}
		elem, err := p.value()
		if err != nil {
			return value{}, err
		}
		v.elems = append(v.elems, elem)
		p.space()
		switch p.peek() {
		case end:
			p.pos++
			return v, nil
		case ',':
			p.pos++
			p.space()
		default:
			return value{}, p.fail(fmt.Sprintf("neither a comma nor %q", end))
		}
	}
}

// string reads the string that starts here and returns its canonical spelling,
// quotes included.
func (p *parser) string() (string, error) {
	start := p.pos
	p.pos++
	// Most strings have nothing to undo: they are their own canonical spelling.
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		if c == '"' {
			p.pos++
			return p.text[start:p.pos], nil
		}
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			break
		}
		p.pos++
	}
	out := append([]byte(nil), p.text[start:p.pos]...)
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(append(out, '"')), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = appendRune(out, r)
		case c < ' ':
			return "", p.fail("control character in a string")
		case c < utf8.RuneSelf:
			out = append(out, c)
			p.pos++
		default:
			r, n := utf8.DecodeRuneInString(p.text[p.pos:])
			if r == utf8.RuneError && n == 1 {
				return "", p.fail("invalid UTF-8")
			}
			out = append(out, p.text[p.pos:p.pos+n]...)
			p.pos += n
		}
	}
	return "", p.fail("string without an end")
}

// escape reads the escape that starts here. Two escapes that make a surrogate
// pair are one rune; a surrogate without its partner is returned as it is.
func (p *parser) escape() (rune, error) {
	p.pos++
	c := p.peek()
	if c == 'u' {
		r, ok := hex4(p.text[p.pos+1:])
		if !ok {
			return 0, p.fail("\\u without four hex digits")
		}
		p.pos += 5
		if rest := p.text[p.pos:]; strings.HasPrefix(rest, `\u`) {
			if low, ok := hex4(rest[2:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					p.pos += 6
					return pair, nil
				}
			}
		}
		return r, nil
	}
	// Each letter stands where the character it means does in the other string.
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, p.fail("unknown escape")
	}
	p.pos++
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

// hex4 reads the first four bytes of s as hex digits of either case.
func hex4(s string) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range []byte(s[:4]) {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendRune appends r as it stands in a canonical string: escaped only where
// JSON has no other way to write it.
func appendRune(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r < ' ' || utf16.IsSurrogate(r):
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}
