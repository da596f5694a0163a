package report

import "fmt"

// Verdict is the one word about a batch or a whole run. The zero value is
// NotProven, so that what was never judged is never a pass.
type Verdict int

const (
	// NotProven is the verdict when looking could not be finished, or there
	// was nothing to look at. It says nothing about the data.
	NotProven Verdict = iota
	// Proven is the verdict when everything that was asked was checked and held.
	Proven
	// Failed is the verdict when a check was made and did not hold.
	Failed
)

// String returns "not proven", "proven" or "failed".
func (v Verdict) String() string {
	switch v {
	case NotProven:
		return "not proven"
	case Proven:
		return "proven"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// MarshalText returns [Verdict.String].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Outcome is why a verdict is what it is. The zero value is Unfinished.
type Outcome int

// The outcomes; [Outcomes] orders them. A proven fault outranks an unknown, and an
// unknown outranks a pass.
const (
	// Unfinished: looking could not be finished. Not proven.
	Unfinished Outcome = iota
	// Passed: all that was asked is done and every check held. Proven.
	Passed
	// NoBatch: nothing was selected, or a batch was asked for that no receipt
	// names and the store does not have. Not proven. (A batch that a receipt
	// names and the store lost is ArchiveWrong.)
	NoBatch
	// TargetDiffers: the target holds something else than the archive, or
	// refused what the archive holds. Failed.
	TargetDiffers
	// ArchiveWrong: the archive breaks the contract, its receipt or its own
	// manifest. Failed.
	ArchiveWrong
)

// Outcomes lists every outcome, gravest first.
func Outcomes() []Outcome {
	return []Outcome{ArchiveWrong, TargetDiffers, NoBatch, Unfinished, Passed}
}

// String returns the name that the JSON documents use.
func (o Outcome) String() string {
	switch o {
	case Unfinished:
		return "unfinished"
	case Passed:
		return "passed"
	case NoBatch:
		return "no_batch"
	case TargetDiffers:
		return "target_differs"
	case ArchiveWrong:
		return "archive_wrong"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// MarshalText returns [Outcome.String].
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Verdict returns the word that goes with o.
func (o Outcome) Verdict() Verdict {
	switch o {
	case Passed:
		return Proven
	case TargetDiffers, ArchiveWrong:
		return Failed
	case Unfinished, NoBatch:
		return NotProven
	}
	return NotProven
}

// rank orders outcomes from the least grave to the gravest. An outcome that
// this package does not know is as grave as one that could not finish.
func (o Outcome) rank() int {
	for i, known := range Outcomes() {
		if o == known {
			return len(Outcomes()) - i
		}
	}
	return Unfinished.rank()
}

// Gravest returns the outcome that decides over several: a fault of the archive
// before one of the target, that before a missing batch, that before anything
// unfinished. No outcomes at all are NoBatch: nothing was looked at, which is
// never a pass.
func Gravest(all ...Outcome) Outcome {
	if len(all) == 0 {
		return NoBatch
	}
	worst := all[0]
	for _, o := range all[1:] {
		if o.rank() > worst.rank() {
			worst = o
		}
	}
	return worst
}
