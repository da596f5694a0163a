package progress

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Mode is how progress is shown.
type Mode int

// The modes. The zero value is Auto.
const (
	Auto  Mode = iota // Bars on a terminal, else Lines
	Off               // not at all
	Lines             // a log record now and then
	Bars              // bars that are redrawn in place
)

// ParseMode reads the value of --progress: auto, off, lines or bars.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Auto, Off, Lines, Bars} {
		if s == m.String() {
			return m, nil
		}
	}
	return Auto, fmt.Errorf("progress %q is none of auto, off, lines and bars", s)
}

// String returns the word that [ParseMode] reads.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Off:
		return "off"
	case Lines:
		return "lines"
	case Bars:
		return "bars"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// resolve turns Auto into what suits w.
func (m Mode) resolve(w io.Writer) Mode {
	if m != Auto {
		return m
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return Lines
	}
	// A terminal that nobody gave a size has no room for a single bar.
	if width, height, err := term.GetSize(int(f.Fd())); err != nil || width < 1 || height < 1 {
		return Lines
	}
	return Bars
}
