package sink

import (
	"errors"
	"fmt"
	"strings"
)

// Format is how rows are written.
type Format int

// The formats. Each carries every value of a record exactly.
const (
	// NDJSON is the canonical line of each row, as docs/FORMAT.md "A line" has
	// it, so that its row hash is the SHA-256 of the line.
	NDJSON Format = iota
	// SQL is one transaction of INSERT statements that undoes itself when the
	// server took another number of rows or gave a warning.
	SQL
	// CSV is RFC 4180 with a header, lines that end with \n, every text in double
	// quotes and nothing else in them, and the bare word NULL.
	CSV
)

var formatNames = [...]string{NDJSON: "ndjson", SQL: "sql", CSV: "csv"}

// String returns the word that [Parse] reads.
func (f Format) String() string {
	if f < 0 || int(f) >= len(formatNames) {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formatNames[f]
}

// Stdout is the path that means the standard output.
const Stdout = "-"

// ErrDestination is returned by [Parse]; its text says what it wants.
var ErrDestination = errors.New("want ndjson:FILE, sql:FILE or csv:FILE, with - for stdout")

// Destination is a format and where it goes.
type Destination struct {
	Format Format
	Path   string // Stdout, or the name of a file
}

// Parse reads FORMAT:FILE. The error is [ErrDestination].
func Parse(text string) (Destination, error) {
	name, path, _ := strings.Cut(text, ":")
	for f, n := range formatNames {
		if n == name && path != "" {
			return Destination{Format(f), path}, nil
		}
	}
	return Destination{}, fmt.Errorf("%q: %w", text, ErrDestination)
}

// String returns what [Parse] reads.
func (d Destination) String() string { return d.Format.String() + ":" + d.Path }
