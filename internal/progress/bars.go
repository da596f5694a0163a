package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/vbauerster/cupwriter"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/hyapp/walletarchive/internal/report"
)

// maxBarWidth keeps a bar readable on a very wide terminal, in columns.
const maxBarWidth = 40

// bars draws tasks with mpb. The bars read the counters of their tasks when
// they are drawn, so counting costs no message to the drawing goroutine.
type bars struct {
	out     *Output
	console *cupwriter.Writer
	p       *mpb.Progress
	above   *above
}

func newBars(out *Output) *bars {
	b := &bars{out: out}
	// Force the control sequences: this mode was asked for by name, or out is a
	// terminal.
	b.console = cupwriter.New(out.w, true)
	b.p = mpb.New(mpb.WithConsoleWriter(b.console), mpb.WithAutoRefresh())
	b.above = &above{p: b.p}
	out.divert(b.above)
	return b
}

// add shows t and returns the function that takes it away again.
func (b *bars) add(t *Task) func() {
	bar, err := b.p.Add(0, mpb.BarFillerFunc(func(w io.Writer, st decor.Statistics) error {
		return fill(w, t.Status(), st.AvailableWidth)
	}),
		mpb.BarFillerTrim(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return report.Printable(t.name) + " " })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + t.Status().String() })),
	)
	if err != nil { // closed already
		return func() {}
	}
	return func() { bar.Abort(true) }
}

// close ends the drawing. All tasks are done.
func (b *bars) close() {
	b.out.restore(func(w io.Writer) {
		b.p.Wait()
		// What was written above the bars after the last redraw is still in the
		// buffer, after the sequence that clears that redraw.
		b.console.WriteTo(w)
		b.above.held.WriteTo(w)
	})
}

// fill draws the bar itself into width columns, or nothing when the total is
// not known or there is no room.
func fill(w io.Writer, s Status, width int) error {
	width = min(width, maxBarWidth)
	f, ok := s.Fraction()
	if !ok || width < 10 {
		return nil
	}
	inner := width - len("[] 100%")
	full := int(f * float64(inner))
	_, err := fmt.Fprintf(w, "[%s%s] %3d%%", strings.Repeat("=", full), strings.Repeat(" ", inner-full), int(100*f))
	return err
}

// above writes whole lines above the bars of p. Output lets in one Write at a
// time.
type above struct {
	p    *mpb.Progress
	held bytes.Buffer // the start of a line that is not ended yet
}

func (a *above) Write(b []byte) (int, error) {
	a.held.Write(b)
	end := bytes.LastIndexByte(a.held.Bytes(), '\n') + 1
	if end > 0 {
		if _, err := a.p.Write(a.held.Next(end)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
