package report

import "time"

// Run is what a scheduler wants to know of one finished run, for
// [WriteMetrics] and [AppendHistory].
type Run struct {
	Command string
	// AppCode and Store label the run; "" leaves the label out.
	AppCode string
	Store   string
	Started time.Time
	Ended   time.Time
	Summary Summary
	// ExitCode is what the process ends with.
	ExitCode int
}

// succeeded reports whether the run may refresh the last success: it is proven
// and the process says so.
func (r *Run) succeeded() bool { return r.ExitCode == 0 && r.Summary.Verdict == Proven }

// runJSON is a line of the history file (docs/CLI.md).
type runJSON struct {
	Schema    string `json:"schema"`
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at"`
	AppCode   string `json:"app_code,omitempty"`
	Store     string `json:"store,omitempty"`
	ExitCode  int    `json:"exit_code"`
	Summary
}

func (r *Run) document() runJSON {
	return runJSON{
		Schema:    "walletarchive." + r.Command + ".run/v1",
		StartedAt: r.Started.UTC().Format(time.RFC3339Nano), EndedAt: r.Ended.UTC().Format(time.RFC3339Nano),
		AppCode: r.AppCode, Store: r.Store, ExitCode: r.ExitCode, Summary: r.Summary,
	}
}
