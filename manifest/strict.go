package manifest

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parser reads one line in any valid JSON spelling (RFC 8259). It is the slow
// and strict way: decodeLine comes here only for lines that are not canonical.
type parser struct {
	s      string
	pos    int
	member string // the member being read, for errors
}

func (p *parser) fail(err error) error { return p.failAt(p.pos, err) }

func (p *parser) failAt(pos int, err error) error {
	return &SyntaxError{Member: p.member, Offset: pos, Err: err}
}

// parseLine reads the record in s into r.
func parseLine(s string, r *Record) error {
	p := &parser{s: s}
	if i := invalidUTF8(s); i >= 0 {
		return p.failAt(i, ErrInvalidUTF8)
	}
	p.space()
	if !p.take('{') {
		return p.fail(ErrInvalidJSON)
	}
	var seen [memberCount]bool
	p.space()
	for first := true; !p.take('}'); first = false {
		if !first {
			if !p.take(',') {
				return p.fail(ErrInvalidJSON)
			}
			p.space()
		}
		at := p.pos
		name, err := p.str()
		if err != nil {
			return err
		}
		m, known := memberByName[name]
		p.member = name
		switch {
		case !known:
			return p.failAt(at, ErrUnknownMember)
		case seen[m]:
			return p.failAt(at, ErrDuplicateMember)
		}
		seen[m] = true
		p.space()
		if !p.take(':') {
			return p.fail(ErrInvalidJSON)
		}
		p.space()
		if err := p.value(r.target(m)); err != nil {
			return err
		}
		p.member = ""
		p.space()
	}
	for m, ok := range seen {
		if !ok {
			p.member = memberNames[m]
			return p.fail(ErrMissingMember)
		}
	}
	p.space()
	if p.pos != len(s) {
		return p.fail(ErrTrailingText)
	}
	return nil
}

func invalidUTF8(s string) int {
	for i, c := range s {
		if c == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

func (p *parser) space() {
	for p.pos < len(p.s) {
		switch p.s[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) take(c byte) bool {
	if p.pos < len(p.s) && p.s[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) value(t target) error {
	if t.nullNum != nil || t.nullStr != nil {
		if strings.HasPrefix(p.s[p.pos:], "null") {
			p.pos += len("null")
			return nil
		}
		if t.nullNum != nil {
			t.num = new(int64)
			*t.nullNum = t.num
		} else {
			t.str = new(string)
			*t.nullStr = t.str
		}
	}
	if p.pos == len(p.s) {
		return p.fail(ErrInvalidJSON)
	}
	c := p.s[p.pos]
	switch {
	case t.str != nil && c == '"':
		v, err := p.str()
		*t.str = v
		return err
	case t.num != nil && (c == '-' || '0' <= c && c <= '9'):
		v, err := p.integer()
		*t.num = v
		return err
	case strings.IndexByte(`"-0123456789tfn[{`, c) >= 0:
		return p.fail(ErrWrongType)
	}
	return p.fail(ErrInvalidJSON)
}

// integer reads a JSON number that has no fraction and no exponent. "-0" is
// the integer 0.
func (p *parser) integer() (int64, error) {
	start := p.pos
	p.take('-')
	digits := p.pos
	for p.pos < len(p.s) && '0' <= p.s[p.pos] && p.s[p.pos] <= '9' {
		p.pos++
	}
	if p.pos == digits || p.s[digits] == '0' && p.pos > digits+1 {
		return 0, p.failAt(start, ErrInvalidJSON)
	}
	if p.pos < len(p.s) && strings.IndexByte(".eE", p.s[p.pos]) >= 0 {
		return 0, p.failAt(start, ErrWrongType)
	}
	v, err := strconv.ParseInt(p.s[start:p.pos], 10, 64)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			return 0, p.failAt(start, ErrOutOfRange)
		}
		return 0, p.failAt(start, ErrInvalidJSON)
	}
	return v, nil
}

// str reads a JSON string with any escapes that RFC 8259 section 7 allows. A
// \u escape of one half of a surrogate pair without the other is refused.
func (p *parser) str() (string, error) {
	if !p.take('"') {
		return "", p.fail(ErrInvalidJSON)
	}
	var b strings.Builder
	for {
		n := plainLen(p.s[p.pos:])
		b.WriteString(p.s[p.pos : p.pos+n])
		p.pos += n
		if p.take('"') {
			return b.String(), nil
		}
		if !p.take('\\') || p.pos == len(p.s) {
			return "", p.fail(ErrInvalidJSON)
		}
		c := p.s[p.pos]
		p.pos++
		switch c {
		case '"', '\\', '/':
			b.WriteByte(c)
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			at := p.pos - 2
			u, err := p.hex4()
			if err != nil {
				return "", err
			}
			if utf16.IsSurrogate(u) {
				if !strings.HasPrefix(p.s[p.pos:], `\u`) {
					return "", p.failAt(at, ErrLoneSurrogate)
				}
				p.pos += 2
				low, err := p.hex4()
				if err != nil {
					return "", err
				}
				if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
					return "", p.failAt(at, ErrLoneSurrogate)
				}
			}
			b.WriteRune(u)
		default:
			return "", p.failAt(p.pos-2, ErrInvalidJSON)
		}
	}
}

func (p *parser) hex4() (rune, error) {
	if p.pos+4 > len(p.s) {
		return 0, p.fail(ErrInvalidJSON)
	}
	// ParseUint would take a sign-free form only in base 16 without prefix, and
	// underscores only in base 0, so four characters are four hex digits here.
	v, err := strconv.ParseUint(p.s[p.pos:p.pos+4], 16, 32)
	if err != nil {
		return 0, p.fail(ErrInvalidJSON)
	}
	p.pos += 4
	return rune(v), nil
}
