package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/manifest"
)

// Format is how a [Printer] writes.
type Format int

// The formats.
const (
	Text Format = iota // lines for people
	JSON               // one document, docs/CLI.md
)

// PrinterOptions are what a [Printer] says beside its batches.
type PrinterOptions struct {
	Format Format
	// Command is the name of the command, "verify" for example. The document's
	// schema is walletarchive.<Command>/v1.
	Command string
	// AppCode labels the run in metrics and history; "" where it is of several apps.
	AppCode string
	// Tool is the program that reports.
	Tool manifest.Program
	// Store names the store without credentials.
	Store string
	// Against says what the batches were compared with, such as "receipts and
	// members of the ledger" or "their own manifests only".
	Against string
	// Color says whether Text may use colours; see [ColorAllowed].
	Color bool
	// Started is when the run began; zero means when the Printer is made.
	Started time.Time
	// Details is the part of the JSON document that belongs to one command as
	// a whole; nil when there is none.
	Details any
	// Facts are lines for people that come before the batches.
	Facts []Fact
}

// Printer writes the result of one run while it is being found out: memory does
// not grow with the number of batches. It is not safe for concurrent use.
type Printer struct {
	w       io.Writer
	opts    PrinterOptions
	summary Summary
	started bool
	closed  bool
	err     error
}

// NewPrinter returns a Printer that writes to w. Nothing is written before the
// first batch or Close.
func NewPrinter(w io.Writer, opts PrinterOptions) *Printer {
	if opts.Started.IsZero() {
		opts.Started = time.Now()
	}
	return &Printer{w: w, opts: opts}
}

// Summary is the result of a whole run.
type Summary struct {
	Verdict   Verdict  `json:"verdict"`
	Outcome   Outcome  `json:"outcome"`
	Batches   int64    `json:"batches"`
	Proven    int64    `json:"proven"`
	NotProven int64    `json:"not_proven"`
	Failed    int64    `json:"failed"`
	Examined  Examined `json:"examined"`
	// DurationMS is from PrinterOptions.Started to Close.
	DurationMS int64 `json:"duration_ms"`
	// Error is why the run could not be finished; "" when it was.
	Error string `json:"error,omitempty"`
}

// Batch prints b and counts it. The error is that of writing, which Close
// returns again.
func (p *Printer) Batch(b Batch) error {
	b = b.settle()
	p.count(b)
	if p.opts.Format == JSON {
		text, err := marshal(b.document())
		if err != nil {
			return p.fail(err)
		}
		p.open()
		sep := ",\n  "
		if p.summary.Batches == 1 {
			sep = "\n  "
		}
		return p.write(sep + text)
	}
	p.open()
	return p.write(p.batchText(b))
}

func (p *Printer) count(b Batch) {
	s := &p.summary
	if s.Batches == 0 {
		s.Outcome = b.Outcome
	}
	s.Outcome = Gravest(s.Outcome, b.Outcome)
	s.Batches++
	switch b.Outcome.Verdict() {
	case Proven:
		s.Proven++
	case Failed:
		s.Failed++
	case NotProven:
		s.NotProven++
	}
	s.Examined.Add(b.Examined)
}

// Close prints the summary and returns it. runErr is why the run as a whole
// could not be finished, nil when it was; it makes a pass Unfinished and leaves
// a proven fault standing. A run of no batches is NoBatch. The error is that of
// writing: the summary was then not seen by anybody. Close is called once.
func (p *Printer) Close(runErr error) (Summary, error) {
	if p.closed {
		return p.summary, fmt.Errorf("report of %s was closed before", p.opts.Command)
	}
	p.closed = true
	s := &p.summary
	switch {
	case s.Batches == 0 && runErr == nil:
		s.Outcome = NoBatch
	case runErr != nil && s.Batches == 0:
		s.Outcome = Unfinished
	case runErr != nil:
		s.Outcome = Gravest(s.Outcome, Unfinished)
	}
	if runErr != nil {
		s.Error = runErr.Error()
	}
	s.Verdict = s.Outcome.Verdict()
	s.DurationMS = time.Since(p.opts.Started).Milliseconds()
	if p.opts.Format == JSON {
		p.closeJSON()
	} else {
		p.open()
		p.write(p.summaryText())
	}
	return *s, p.err
}

// head is the part of the document before its batches.
type head struct {
	Schema    string           `json:"schema"`
	Tool      manifest.Program `json:"tool"`
	StartedAt string           `json:"started_at"`
	Store     string           `json:"store,omitempty"`
	Against   string           `json:"against,omitempty"`
	Details   any              `json:"details,omitempty"`
}

// open writes what comes before the first batch, once.
func (p *Printer) open() {
	if p.started {
		return
	}
	p.started = true
	if p.opts.Format == Text {
		p.write(p.headText())
		return
	}
	text, err := marshal(head{
		Schema: Schema(p.opts.Command), Tool: p.opts.Tool,
		StartedAt: p.opts.Started.UTC().Format(time.RFC3339Nano),
		Store:     p.opts.Store, Against: p.opts.Against, Details: p.opts.Details,
	})
	if err != nil {
		p.fail(err)
		return
	}
	p.write(strings.TrimSuffix(text, "}") + `,"batches":[`)
}

func (p *Printer) closeJSON() {
	text, err := marshal(p.summary)
	if err != nil {
		p.fail(err)
		return
	}
	p.open()
	end := "]"
	if p.summary.Batches > 0 {
		end = "\n]"
	}
	p.write(end + `,"summary":` + text + "}\n")
}

// Schema returns the name and version of the JSON document of a command.
func Schema(command string) string { return "walletarchive." + command + "/v1" }

func (p *Printer) write(s string) error {
	if p.err != nil {
		return p.err
	}
	if _, err := io.WriteString(p.w, s); err != nil {
		return p.fail(err)
	}
	return nil
}

func (p *Printer) fail(err error) error {
	p.err = cmp.Or(p.err, fmt.Errorf("write the report of %s: %w", p.opts.Command, err))
	return p.err
}

// marshal returns v as JSON on one line, without HTML escaping.
func marshal(v any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}
