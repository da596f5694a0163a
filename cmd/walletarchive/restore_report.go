package main

import (
	"errors"
	"fmt"

	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/restore"
)

// restoreDetails are the details of a batch in walletarchive.restore/v1.
type restoreDetails struct {
	restore.Report
	DurationMS int64         `json:"duration_ms"`
	Receipt    string        `json:"receipt,omitempty"` // of this restore; see docs/CLI.md
	RunID      string        `json:"run_id,omitempty"`
	Verify     verifyDetails `json:"verify"`
}

// restoredBatch says what a report of package restore means for a batch.
func restoredBatch(v verified, rep restore.Report, err error) report.Batch {
	b := verifiedBatch(&v.report, nil)
	b.Err = err
	b.Duration += rep.Duration
	b.Details = restoreDetails{Report: rep, DurationMS: rep.Duration.Milliseconds(), Verify: b.Details.(verifyDetails)}
	b.Facts = append(b.Facts, report.Fact{Label: "rows", Value: restoredRows(rep)})
	if said := rehearsed(rep); said != "" {
		b.Facts = append(b.Facts, report.Fact{Label: "rehearsal", Value: said})
	}
	for _, problem := range rep.Problems {
		if problem.Fatal {
			b.Faults = append(b.Faults, report.Fault{Check: string(problem.Code), Object: rep.Table, Column: problem.Column, Detail: problem.Detail})
		} else {
			b.Notes = append(b.Notes, problem.String())
		}
	}
	planned, omitted := planFaults(err, rep.Table)
	settled := err == nil && rep.Skipped == 0 && rep.ConflictCount > 0
	switch {
	case settled && rep.DryRun:
		b.Notes = append(b.Notes, fmt.Sprintf("%s would be overwritten; --%s wants the number of all batches together",
			report.Plural(rep.ConflictCount, "row"), confirmOverwriteFlag))
	case settled:
		b.Notes = append(b.Notes, fmt.Sprintf("%s overwritten", report.Plural(rep.Overwritten, "row")))
	case rep.Skipped > 0:
		b.Notes = append(b.Notes, fmt.Sprintf("%s left, which the target holds otherwise", report.Plural(rep.Skipped, "row")))
	}
	for _, c := range rep.Conflicts {
		if settled || planned != nil {
			break // they are in the details
		}
		for _, change := range c.Columns {
			b.Faults = append(b.Faults, report.Fault{
				Check: "conflict", Object: rep.Table, Line: c.Line, Row: c.EventID, Column: change.Column, Got: change.Found, Want: change.Archived,
			})
		}
	}
	if !settled && planned == nil {
		b.FaultsOmitted = rep.ConflictCount - int64(len(rep.Conflicts))
	}
	if planned != nil {
		b.Faults, b.FaultsOmitted = append(b.Faults, planned...), omitted
	}
	var refused *restore.RefusedError
	if errors.As(err, &refused) {
		fault := report.Fault{Check: "refused", Object: rep.Table, Line: refused.Line, Row: refused.EventID, Detail: refused.Err.Error()}
		for _, change := range refused.Columns {
			fault.Column, fault.Got, fault.Want = change.Column, change.Found, change.Archived
			b.Faults = append(b.Faults, fault)
		}
		if refused.Columns == nil {
			b.Faults = append(b.Faults, fault)
		}
	}
	switch {
	case errors.Is(err, restore.ErrConflict):
		b.Outcome, b.Err = report.TargetDiffers, nil
	case err != nil:
		b.Outcome = outcomeOf(err)
	case rep.Skipped > 0:
		b.Outcome = report.TargetDiffers
	case !rep.DryRun && !rep.Complete():
		b.Outcome = report.Unfinished
	}
	return b
}

// rehearsed says whether there was a rehearsal, and why; "" when nothing was to be
// written.
func rehearsed(rep restore.Report) string {
	h := rep.Rehearsal
	if h == nil {
		return rep.NoRehearsal
	}
	s := report.Count(h.Rows) + " rows"
	if len(h.Because) > 0 {
		s += ", since " + h.Because[0]
		if more := len(h.Because) - 1; more > 0 {
			s += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return s
}

func restoredRows(rep restore.Report) string {
	s := ""
	if rep.Selected != rep.Rows {
		s = fmt.Sprintf("%s of %s chosen: ", report.Count(rep.Selected), report.Count(rep.Rows))
	}
	s += fmt.Sprintf("%s present, %s missing", report.Count(rep.Present), report.Count(rep.Missing))
	if rep.ConflictCount > 0 {
		s += fmt.Sprintf(", %s different", report.Count(rep.ConflictCount))
	}
	if !rep.DryRun {
		s += fmt.Sprintf(", %s inserted and read back", report.Count(rep.Inserted))
	}
	if rep.Overwritten > 0 {
		s += fmt.Sprintf(", %s overwritten and read back", report.Count(rep.Overwritten))
	}
	if rep.Respelled > 0 {
		s += fmt.Sprintf(", %s with the payload spelled otherwise", report.Count(rep.Respelled))
	}
	s += ": " + rep.State.String()
	if rep.Duration > 0 && rep.Inserted > 0 {
		s += fmt.Sprintf(", %s rows/s", report.Count(int64(float64(rep.Inserted)/rep.Duration.Seconds())))
	}
	return s
}
