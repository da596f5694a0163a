package report

import "testing"

func TestOutcomeVerdict(t *testing.T) {
	tests := []struct {
		outcome Outcome
		name    string
		want    Verdict
	}{
		{Passed, "passed", Proven},
		{Unfinished, "unfinished", NotProven},
		{NoBatch, "no_batch", NotProven},
		{TargetDiffers, "target_differs", Failed},
		{ArchiveWrong, "archive_wrong", Failed},
		{Outcome(99), "Outcome(99)", NotProven},
	}
	if len(Outcomes()) != len(tests)-1 {
		t.Errorf("Outcomes() has %d outcomes, this test knows %d", len(Outcomes()), len(tests)-1)
	}
	for _, tt := range tests {
		if got := tt.outcome.Verdict(); got != tt.want {
			t.Errorf("%v.Verdict() = %v, want %v", tt.outcome, got, tt.want)
		}
		if got := tt.outcome.String(); got != tt.name {
			t.Errorf("String() = %q, want %q", got, tt.name)
		}
	}
}

func TestVerdictWords(t *testing.T) {
	for v, want := range map[Verdict]string{Proven: "proven", NotProven: "not proven", Failed: "failed"} {
		text, err := v.MarshalText()
		if err != nil || string(text) != want {
			t.Errorf("MarshalText() = %q, %v, want %q", text, err, want)
		}
	}
	var zero Verdict
	var none Outcome
	if zero == Proven || none.Verdict() == Proven {
		t.Error("a zero value is a pass")
	}
}

func TestGravest(t *testing.T) {
	tests := []struct {
		name string
		all  []Outcome
		want Outcome
	}{
		{"nothing looked at is no pass", nil, NoBatch},
		{"all passed", []Outcome{Passed, Passed}, Passed},
		{"one unfinished", []Outcome{Passed, Unfinished, Passed}, Unfinished},
		{"missing before unfinished", []Outcome{Unfinished, NoBatch}, NoBatch},
		{"target before missing", []Outcome{TargetDiffers, NoBatch}, TargetDiffers},
		{"archive before target", []Outcome{TargetDiffers, ArchiveWrong, Unfinished}, ArchiveWrong},
		{"unknown is no pass", []Outcome{Passed, Outcome(99)}, Outcome(99)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Gravest(tt.all...); got != tt.want {
				t.Errorf("Gravest(%v) = %v, want %v", tt.all, got, tt.want)
			}
		})
	}
}
