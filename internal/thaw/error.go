package thaw

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/cosstore"
)

// Object is a cold object in a [ColdError].
type Object struct {
	Key          string `json:"key"`
	StorageClass string `json:"storage_class"`
	Bytes        int64  `json:"bytes"`
	Thaw         string `json:"thaw"` // objstore.ThawState: frozen or thawing
	// Asked tells whether this run has asked for a copy.
	Asked bool `json:"asked"`
}

// ColdError is returned for a group of objects of which some cannot be read
// before they are thawed. errors.Is finds objstore.ErrCold and what Err wraps.
// Its JSON form is the details of a batch in docs/CLI.md.
type ColdError struct {
	Objects []Object `json:"cold"`
	// Tier, Days and Waited are those of Options; Tier "" asked for nothing.
	Tier   string        `json:"tier,omitempty"`
	Days   int           `json:"days,omitempty"`
	Waited time.Duration `json:"-"`
	// ReadyFrom and ReadyBy are when the last of the copies that this run asked
	// for may and should be there, by the times that Tencent documents; nil when
	// it asked for none.
	ReadyFrom *time.Time `json:"ready_from,omitempty"`
	ReadyBy   *time.Time `json:"ready_by,omitempty"`
	// Err is why some could not be looked at or asked for; nil when all could.
	Err error `json:"-"`
}

// addTime counts in an object of a class that was asked for at a time.
func (e *ColdError) addTime(at time.Time, class string) {
	least, most, ok := cosstore.ThawTime(class, e.Tier)
	if !ok {
		return
	}
	from, by := at.Add(least).UTC().Truncate(time.Second), at.Add(most).UTC().Truncate(time.Second)
	if e.ReadyFrom == nil || from.After(*e.ReadyFrom) {
		e.ReadyFrom = &from
	}
	if e.ReadyBy == nil || by.After(*e.ReadyBy) {
		e.ReadyBy = &by
	}
}

// Error names the objects and says what to do and when.
func (e *ColdError) Error() string {
	s := e.names() + ": " + e.advice()
	if e.Err != nil {
		s += "; " + e.Err.Error()
	}
	return s
}

// Unwrap returns objstore.ErrCold and Err.
func (e *ColdError) Unwrap() []error {
	if e.Err == nil {
		return []error{objstore.ErrCold}
	}
	return []error{objstore.ErrCold, e.Err}
}

// names lists the objects by state and class: "data.ndjson.gz is in ARCHIVE,
// frozen".
func (e *ColdError) names() string {
	byState := map[[2]string][]string{}
	for _, o := range e.Objects {
		k := [2]string{o.StorageClass, o.Thaw}
		byState[k] = append(byState[k], path.Base(o.Key))
	}
	var parts []string
	for k, names := range byState {
		is := "is"
		if len(names) > 1 {
			is = "are"
		}
		parts = append(parts, fmt.Sprintf("%s %s in %s, %s", strings.Join(names, " and "), is, k[0], k[1]))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// advice is what to do about it.
func (e *ColdError) advice() string {
	asked := slices.ContainsFunc(e.Objects, func(o Object) bool { return o.Asked })
	thawing := slices.ContainsFunc(e.Objects, func(o Object) bool { return o.Thaw == objstore.Thawing.String() })
	switch {
	case e.Tier == "" && thawing:
		return "somebody has asked for a copy: come back later, or wait for it with --thaw TIER --thaw-wait TIME"
	case e.Tier == "":
		return "not read; ask for a copy that can be read with --thaw TIER: " + takes(e.coldest())
	case e.Waited > 0 && (asked || thawing):
		return fmt.Sprintf("not ready after %s; the same command again goes on waiting%s", length(e.Waited), e.when())
	case asked:
		return fmt.Sprintf("a copy for %s was asked for (%s)%s; come back then with the same command, or let it wait with --thaw-wait TIME",
			days(e.Days), e.Tier, e.when())
	case thawing:
		return "a copy was asked for before: come back later with the same command, or let it wait with --thaw-wait TIME"
	}
	return "not read"
}

// when is ", ready about …", "" when that is not known.
func (e *ColdError) when() string {
	if e.ReadyBy == nil {
		return ""
	}
	const layout = "2006-01-02 15:04"
	return fmt.Sprintf(", ready between %s and %s UTC by what Tencent says", e.ReadyFrom.Format(layout), e.ReadyBy.Format(layout))
}

// coldest is the class that takes longest.
func (e *ColdError) coldest() string {
	return slices.MaxFunc(e.Objects, func(a, b Object) int {
		_, x, _ := cosstore.ThawTime(a.StorageClass, "bulk")
		_, y, _ := cosstore.ThawTime(b.StorageClass, "bulk")
		return cmp.Compare(x, y)
	}).StorageClass
}

// takes says in words what each tier takes for a class.
func takes(class string) string {
	var parts []string
	for _, tier := range Tiers {
		if least, most, ok := cosstore.ThawTime(class, tier); ok {
			parts = append(parts, tier+" takes "+span(least, most))
		}
	}
	if len(parts) == 0 {
		return "what it takes is not documented for " + cmp.Or(class, "this class")
	}
	return strings.Join(parts, ", ")
}

func span(least, most time.Duration) string {
	if most >= time.Hour {
		return fmt.Sprintf("%d to %d hours", least/time.Hour, most/time.Hour)
	}
	return fmt.Sprintf("%d to %d minutes", least/time.Minute, most/time.Minute)
}

func days(n int) string {
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

// length is a duration without the zeros that String adds: 2h, 90m, 45s.
func length(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
