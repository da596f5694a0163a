package outbox

import "bytes"

// mayBeUnstable reports whether a payload, as a MySQL server renders it, may
// come back as another text or another value when it is parsed again. False is
// certain, by what the server renders (docs/DESIGN.md "JSON and fidelity"): an
// integer within 64 bits, true, false, null, and a string that no date, time or
// binary value renders to, all come back as they were; so does a number of at
// most 15 digits spelled as a double is, be it a DOUBLE or a DECIMAL. True is a
// guess that only the server can settle.
//
// Asking the server about every row would double or triple the cost of an
// export, and few payloads hold anything to ask about.
func mayBeUnstable(payload []byte) bool {
	for i := 0; i < len(payload); {
		switch c := payload[i]; {
		case c == '"':
			end := stringEnd(payload, i)
			if end < 0 || renderedFromOther(payload[i+1:end]) {
				return true
			}
			i = end + 1
		case c == '-' || isDigit(c):
			end := i + 1
			for end < len(payload) && isNumber(payload[end]) {
				end++
			}
			if !stableNumber(payload[i:end]) {
				return true
			}
			i = end
		default:
			i++
		}
	}
	return false
}

// stringEnd returns the position of the quote that ends the string which starts
// at the quote payload[i], or -1.
func stringEnd(payload []byte, i int) int {
	for i++; i < len(payload); i++ {
		k := bytes.IndexByte(payload[i:], '"')
		if k < 0 {
			return -1
		}
		i += k
		slashes := 0
		for payload[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return -1
}

// renderedFromOther reports whether a string may be how a value of another type
// is rendered: "2024-01-02", "2024-01-02 03:04:05.678000", "-12:30:00.000000",
// or "base64:type15:YWJj".
func renderedFromOther(s []byte) bool {
	if bytes.HasPrefix(s, []byte("base64:")) {
		return true
	}
	punctuation := false
	for _, c := range s {
		switch {
		case isDigit(c) || c == '.' || c == ' ':
		case c == '-' || c == ':':
			punctuation = true
		default:
			return false
		}
	}
	return punctuation
}

// stableNumber reports whether a number comes back spelled the same, and equal,
// whatever type it had.
func stableNumber(s []byte) bool {
	digits := s
	if digits[0] == '-' {
		digits = digits[1:]
	}
	whole, fraction, hasFraction := bytes.Cut(digits, []byte("."))
	if len(whole) == 0 || hasFraction && len(fraction) == 0 {
		return false // no JSON
	}
	for _, part := range [][]byte{whole, fraction} {
		for _, c := range part {
			if !isDigit(c) { // an exponent
				return false
			}
		}
	}
	if !hasFraction {
		// 19 digits may be over 64 bits, and then it is a DECIMAL.
		return len(whole) <= 18
	}
	if len(whole)+len(fraction) > 15 {
		return false
	}
	if fraction[len(fraction)-1] == '0' {
		return len(fraction) == 1 && !(whole[0] == '0' && s[0] == '-') // 100.0, but not -0.0
	}
	// Numbers near zero are left to the server: where it begins to write an
	// exponent is its own affair.
	return whole[0] != '0' || !bytes.HasPrefix(fraction, []byte("000"))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNumber(c byte) bool {
	return isDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}
