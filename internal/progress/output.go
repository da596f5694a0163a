package progress

import (
	"io"
	"sync"
)

// Output is the stream, stderr as a rule, that log records and progress share.
// While bars are shown what is written to it appears above them. It is safe for
// concurrent use; each Write should end with a newline.
type Output struct {
	w  io.Writer
	mu sync.Mutex
	// over is where writes go while bars are shown, nil otherwise.
	over io.Writer
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write writes p above the bars, or straight to the stream when there are none.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		return o.over.Write(p)
	}
	return o.w.Write(p)
}

// divert sends writes to over.
func (o *Output) divert(over io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = over
}

// restore runs end, which writes the last of the bars to the stream, and sends
// writes straight to it again. Writes wait meanwhile.
func (o *Output) restore(end func(w io.Writer)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	end(o.w)
	o.over = nil
}
