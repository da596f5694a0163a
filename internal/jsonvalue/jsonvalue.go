// Package jsonvalue tells a JSON text that was spelled otherwise from one that
// means something else.
//
// A server that parses JSON and renders it again may move keys, drop spaces or
// write 1.10 as 1.1 without changing a value, and it may turn a 30-digit integer
// into a double, which does. A comparison of bytes calls both different and a
// comparison of float64 calls both equal, so numbers are compared here as
// decimals of any length and any exponent, digit by digit.
//
// Start with [Compare].
package jsonvalue

import (
	"fmt"
	"slices"
	"strings"
)

// MaxDepth is the deepest nesting of arrays and objects that is read. MySQL
// refuses to store more than 100 levels (error 3157), so no payload reaches it.
const MaxDepth = 512

// Outcome says how two JSON texts relate.
type Outcome int

const (
	// Different means another value, or that the same value could not be shown.
	// It is the zero Outcome, so a forgotten one is never a pass.
	Different Outcome = iota
	// SameValue means the same JSON value, spelled otherwise.
	SameValue
	// Identical means the same bytes.
	Identical
)

// String returns "different", "same value" or "identical".
func (o Outcome) String() string {
	switch o {
	case Different:
		return "different"
	case SameValue:
		return "same value"
	case Identical:
		return "identical"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// SyntaxError says why a text is not JSON as RFC 8259 has it, or is nested
// deeper than [MaxDepth].
type SyntaxError struct {
	Offset int // bytes from the start of the text
	Reason string
}

// Error names the byte and the reason.
func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Compare reports whether a and b are the same bytes, else whether they are the
// same JSON value:
//
//   - numbers are equal as exact decimals: 1.10 and 1.1, 1e2 and 100.0, 0 and -0.0;
//   - strings are equal by code points once their escapes are undone: \u00e9 and é,
//     \/ and /. A lone surrogate equals only itself;
//   - objects are equal whatever the order of their keys. A key that is there twice
//     is not the same as one of its two: MySQL drops the first of them, and a
//     function of MariaDB finds the first, so that a reader would see another value;
//   - white space between tokens counts for nothing.
//
// Equal bytes are Identical even when they are not JSON, and are not parsed. When
// the bytes differ and a text is not JSON, the outcome is Different and the error,
// a wrapped [*SyntaxError], only says why no more can be said: the outcome holds
// with or without it.
//
// Time is linear in the texts apart from the sorting of keys.
func Compare(a, b string) (Outcome, error) {
	if a == b {
		return Identical, nil
	}
	ca, err := Canonical(a)
	if err != nil {
		return Different, fmt.Errorf("first text: %w", err)
	}
	cb, err := Canonical(b)
	if err != nil {
		return Different, fmt.Errorf("second text: %w", err)
	}
	if ca == cb {
		return SameValue, nil
	}
	return Different, nil
}

// Canonical returns the one spelling that stands for the value of text: two
// texts have the same canonical form if and only if [Compare] finds the same
// value. It is JSON and its own canonical form. Keys are sorted by bytes, nothing
// is spaced or escaped without need, and a number is an integer without trailing
// zeros and an exponent where there is one: 1.10 is 11e-1, 100 is 1e2.
//
// It is made for comparing, not for storing. The error is a [*SyntaxError].
func Canonical(text string) (string, error) {
	p := parser{text: text}
	v, err := p.document()
	if err != nil {
		return "", err
	}
	return string(v.appendTo(make([]byte, 0, len(text)))), nil
}

// value is a JSON value in memory. A scalar is its canonical text; an array has
// elems; an object has a key for each elem, in the order of the text.
type value struct {
	kind   byte // '[', '{', or 0 for a scalar
	scalar string
	keys   []string // in canonical spelling, quotes included
	elems  []value
}

func (v *value) appendTo(dst []byte) []byte {
	switch v.kind {
	case '[':
		dst = append(dst, '[')
		for i := range v.elems {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.elems[i].appendTo(dst)
		}
		return append(dst, ']')
	case '{':
		dst = append(dst, '{')
		for n, i := range v.members() {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, v.keys[i]...)
			dst = append(dst, ':')
			dst = v.elems[i].appendTo(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.scalar...)
}

// members returns the indices of the members by key, equal keys as they stand.
func (v *value) members() []int {
	order := make([]int, len(v.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(v.keys[i], v.keys[j]) })
	return order
}
