package report

import (
	"time"

	"github.com/hyapp/walletarchive/manifest"
)

// Batch is what one command found out about one batch.
type Batch struct {
	AppCode string
	BatchID manifest.BatchID
	Outcome Outcome
	// Examined is what was really read. A batch with the outcome Passed of
	// which nothing was examined is reported as Unfinished.
	Examined Examined
	Duration time.Duration
	// Faults are the broken rules, in the order in which they were found.
	Faults []Fault
	// FaultsOmitted counts further faults that were found but are not listed.
	FaultsOmitted int64
	// Unchecked are checks that could not be made; they rule out a pass.
	Unchecked []string
	// Notes are what a reader must know although it is no fault, such as a
	// receipt without members.
	Notes []string
	// Facts are further lines for people, in this order. Programs read Details.
	Facts []Fact
	// Details is the part of the JSON document that belongs to one command;
	// nil when there is none.
	Details any
	// Err is why looking could not be finished; nil when it was.
	Err error
}

// Examined counts what was read and compared, so that a pass says how much it
// is worth. The zero value is nothing.
type Examined struct {
	Objects int   `json:"objects"` // of the three objects of a batch
	Bytes   int64 `json:"bytes"`   // bytes of objects that were downloaded
	Rows    int64 `json:"rows"`    // rows decoded and hashed
	Members int64 `json:"members"` // members compared with rows
}

// Add counts what e counts into the receiver.
func (x *Examined) Add(e Examined) {
	x.Objects += e.Objects
	x.Bytes += e.Bytes
	x.Rows += e.Rows
	x.Members += e.Members
}

// Fault is one broken rule: what was found where something else was expected.
// Empty fields do not apply.
type Fault struct {
	Check  string `json:"check"`            // the rule, by its name in docs/FORMAT.md
	Object string `json:"object,omitempty"` // object key or table
	Line   int64  `json:"line,omitempty"`   // counted from 1; 0 when no line is meant
	Row    string `json:"row,omitempty"`    // event_id
	Column string `json:"column,omitempty"`
	Got    string `json:"got,omitempty"`
	Want   string `json:"want,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Fact is one labelled line for people.
type Fact struct {
	Label string
	Value string
}

// batchJSON is a Batch in the documents of --json (docs/CLI.md).
type batchJSON struct {
	AppCode       string           `json:"app_code"`
	BatchID       manifest.BatchID `json:"batch_id"`
	Verdict       Verdict          `json:"verdict"`
	Outcome       Outcome          `json:"outcome"`
	Examined      Examined         `json:"examined"`
	DurationMS    int64            `json:"duration_ms"`
	Faults        []Fault          `json:"faults"`
	FaultsOmitted int64            `json:"faults_omitted,omitempty"`
	Unchecked     []string         `json:"unchecked"`
	Notes         []string         `json:"notes"`
	Details       any              `json:"details,omitempty"`
	Error         string           `json:"error,omitempty"`
}

// document returns b as docs/CLI.md describes it: a verdict beside the outcome,
// duration_ms, and lists that are empty rather than null.
func (b Batch) document() batchJSON {
	out := batchJSON{
		AppCode: b.AppCode, BatchID: b.BatchID, Verdict: b.Outcome.Verdict(), Outcome: b.Outcome,
		Examined: b.Examined, DurationMS: b.Duration.Milliseconds(),
		Faults: b.Faults, FaultsOmitted: b.FaultsOmitted, Unchecked: b.Unchecked, Notes: b.Notes, Details: b.Details,
	}
	if out.Faults == nil {
		out.Faults = []Fault{}
	}
	if out.Unchecked == nil {
		out.Unchecked = []string{}
	}
	if out.Notes == nil {
		out.Notes = []string{}
	}
	if b.Err != nil {
		out.Error = b.Err.Error()
	}
	return out
}

// settle returns b with an outcome that its own evidence allows: faults, an
// error, an unmade check, or nothing examined rule out a pass.
func (b Batch) settle() Batch {
	if b.Outcome != Passed {
		return b
	}
	switch {
	case len(b.Faults) > 0 || b.FaultsOmitted > 0:
		b.Outcome = ArchiveWrong
	case b.Err != nil || len(b.Unchecked) > 0:
		b.Outcome = Unfinished
	case b.Examined == Examined{}:
		b.Outcome = Unfinished
		b.Notes = append(b.Notes[:len(b.Notes):len(b.Notes)], "nothing was examined")
	}
	return b
}
