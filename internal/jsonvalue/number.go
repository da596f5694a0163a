package jsonvalue

import (
	"strconv"
	"strings"
)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits reads a run of digits, perhaps of none.
func (p *parser) digits() string {
	start := p.pos
	for isDigit(p.peek()) {
		p.pos++
	}
	return p.text[start:p.pos]
}

// number reads the number that starts here and returns its canonical spelling:
// "0", or the digits from the first to the last that is not zero, with the sign
// before them and the power of ten after them unless it is zero.
func (p *parser) number() (string, error) {
	negative := p.peek() == '-'
	if negative {
		p.pos++
	}
	whole := p.digits()
	switch {
	case whole == "":
		return "", p.fail("no digit after the sign of a number")
	case len(whole) > 1 && whole[0] == '0':
		return "", p.fail("leading zero in a number")
	}
	var fraction, exponent string
	if p.peek() == '.' {
		p.pos++
		if fraction = p.digits(); fraction == "" {
			return "", p.fail("no digit after the point of a number")
		}
	}
	exponentNegative := false
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			exponentNegative = c == '-'
			p.pos++
		}
		if exponent = p.digits(); exponent == "" {
			return "", p.fail("no digit in the exponent of a number")
		}
	}
	all := whole + fraction
	significant := strings.TrimRight(all, "0")
	shift := int64(len(all)-len(significant)) - int64(len(fraction))
	significant = strings.TrimLeft(significant, "0")
	if significant == "" {
		return "0", nil
	}
	if negative {
		significant = "-" + significant
	}
	if e := addToExponent(exponentNegative, exponent, shift); e != "0" {
		significant += "e" + e
	}
	return significant, nil
}

// addToExponent returns the exponent with these digits plus shift, as decimal
// text. The digits may be of any length: an exponent is never expanded, and past
// 18 digits not even converted, which math/big would do in quadratic time.
func addToExponent(negative bool, digits string, shift int64) string {
	const low = 18 // decimal digits that an int64 holds with room for shift
	digits = strings.TrimLeft(digits, "0")
	if len(digits) <= low {
		e, _ := strconv.ParseInt("0"+digits, 10, 64) // at most 18 digits: cannot fail
		if negative {
			e = -e
		}
		return strconv.FormatInt(e+shift, 10)
	}
	// shift is bounded by the length of the text, so that the sum keeps its sign
	// and at most one is carried to or borrowed from the upper digits.
	const unit = 1_000_000_000_000_000_000 // 10^low
	upper := []byte(digits[:len(digits)-low])
	e, _ := strconv.ParseInt(digits[len(digits)-low:], 10, 64) // 18 digits: cannot fail
	if negative {
		shift = -shift
	}
	switch e += shift; {
	case e >= unit:
		e -= unit
		upper = increment(upper)
	case e < 0:
		e += unit
		decrement(upper)
	}
	tail := strconv.FormatInt(e+unit, 10)[1:] // with its leading zeros
	sum := strings.TrimLeft(string(upper)+tail, "0")
	if negative {
		return "-" + sum
	}
	return sum
}

// increment adds one to decimal digits, in place where they do not grow.
func increment(d []byte) []byte {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i] != '9' {
			d[i]++
			return d
		}
		d[i] = '0'
	}
	return append([]byte{'1'}, d...)
}

// decrement takes one from decimal digits that are not all zero, in place.
func decrement(d []byte) {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i] != '0' {
			d[i]--
			return
		}
		d[i] = '9'
	}
}
