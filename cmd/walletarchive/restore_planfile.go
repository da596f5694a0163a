package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/sink"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/restore"
)

// planSchema names the format of a plan, docs/CLI.md "The plan".
const planSchema = "walletarchive.restore_plan_file/v1"

// planFile is a plan as it is kept: its bytes, and the hash of these bytes.
type planFile struct {
	Plan   jsontext.Value `json:"plan"`
	SHA256 manifest.Hash  `json:"sha256"`
}

// restorePlan says what a restore is to do, and what was found when it was made.
type restorePlan struct {
	Schema    string              `json:"schema"`
	Tool      manifest.Program    `json:"tool"`
	CreatedAt string              `json:"created_at"` // RFC 3339, UTC
	Operator  string              `json:"operator"`
	Store     string              `json:"store"`   // URL, without secrets
	Against   string              `json:"against"` // who vouched for the batches
	Target    restore.TargetState `json:"target"`
	Options   planOptions         `json:"options"`
	Runnable  bool                `json:"runnable"`
	Why       []string            `json:"why"` // not runnable
	Totals    planTotals          `json:"totals"`
	Estimate  planEstimate        `json:"estimate"`
	Batches   []planBatch         `json:"batches"` // in the order in which they are restored
	id        manifest.Hash       // of the bytes of the plan
}

// planOptions are what decides what is written.
type planOptions struct {
	OnConflict    string    `json:"on_conflict"`
	RelayQuery    string    `json:"relay_query"`
	AllowTriggers bool      `json:"allow_triggers"`
	StrictPayload bool      `json:"strict_payload"`
	Rows          rowChoice `json:"rows"` // {} chooses all
}

// planTotals are over all batches.
type planTotals struct {
	Batches     int64      `json:"batches"`
	Rows        int64      `json:"rows"`
	Bytes       int64      `json:"bytes"` // of NDJSON
	ColdObjects int64      `json:"cold_objects"`
	Found       *planFound `json:"found"` // null unless every batch was compared
}

// planFound are rows as they were found in the target.
type planFound struct {
	Selected  int64 `json:"selected"`
	Present   int64 `json:"present"`   // as archived
	Respelled int64 `json:"respelled"` // of the present
	Different int64 `json:"different"`
	Missing   int64 `json:"missing"`
	Insert    int64 `json:"insert"`    // what a run of the plan will do
	Overwrite int64 `json:"overwrite"` // the number to confirm
	Skip      int64 `json:"skip"`
}

func (f *planFound) add(g planFound) {
	f.Selected += g.Selected
	f.Present += g.Present
	f.Respelled += g.Respelled
	f.Different += g.Different
	f.Missing += g.Missing
	f.Insert += g.Insert
	f.Overwrite += g.Overwrite
	f.Skip += g.Skip
}

// planEstimate is how long the loading may take.
type planEstimate struct {
	DurationMS    *int64 `json:"duration_ms"` // null when nothing was measured
	RowsPerSecond *int64 `json:"rows_per_second"`
	MeasuredRows  int64  `json:"measured_rows"` // that were rehearsed
	Basis         string `json:"basis"`
}

// planBatch is one batch of a plan.
type planBatch struct {
	AppCode             string             `json:"app_code"`
	BatchID             manifest.BatchID   `json:"batch_id"`
	DataObjectKey       string             `json:"data_object_key"`
	ManifestSHA256      manifest.Hash      `json:"manifest_sha256"`
	ReceiptVerifiedAtMS int64              `json:"receipt_verified_at_ms"`
	Rows                int64              `json:"rows"`
	Bytes               int64              `json:"bytes"`
	CompressedBytes     int64              `json:"compressed_bytes"`
	ColdObjects         int64              `json:"cold_objects"`
	Found               *planFound         `json:"found"` // null when the rows were not compared
	DifferentColumns    map[string]int64   `json:"different_columns"`
	Problems            []restore.Problem  `json:"problems"`
	Rehearsal           *restore.Rehearsal `json:"rehearsal"` // null when there was none
	// States are null when the rows were not compared.
	States *restore.RowStates `json:"states"`
}

// key tells batches apart.
func (b *planBatch) key() [2]string { return [2]string{b.AppCode, string(b.BatchID)} }

// encode returns the plan with the hash of its bytes, and sets its id.
func (p *restorePlan) encode() (planFile, error) {
	b, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return planFile{}, fmt.Errorf("encode the plan: %w", err)
	}
	p.id = manifest.SumHash(b)
	return planFile{Plan: b, SHA256: p.id}, nil
}

// text returns what a file of the plan holds, but for the newline.
func (f planFile) text() ([]byte, error) { return json.Marshal(f) }

// write makes a file of the plan. None is replaced.
func (f planFile) write(path string) (err error) {
	text, err := f.text()
	if err != nil {
		return err
	}
	out, err := sink.Create(path)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	defer func() { err = errors.Join(err, out.Discard()) }()
	if _, err := out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return out.Commit()
}

// errPlan is why a file is no plan that can be trusted.
var errPlan = errors.New("not a whole plan of a restore")

// maxPlanBytes bounds what is read of a file that may be anything.
const maxPlanBytes = 1 << 30

// readPlan reads a plan strictly. The error is an errPlan, or of the file.
func readPlan(path string) (*restorePlan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPlanBytes+1))
	if err != nil {
		return nil, err
	}
	p, err := decodePlan(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func decodePlan(text []byte) (*restorePlan, error) {
	fail := func(why string, args ...any) (*restorePlan, error) {
		return nil, fmt.Errorf("%w: %s", errPlan, fmt.Sprintf(why, args...))
	}
	var file planFile
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return fail("it is empty")
	case len(text) > maxPlanBytes:
		return fail("it is longer than any plan")
	}
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return fail("it is cut off, or was edited: %v", err)
	}
	if file.Plan == nil || file.SHA256.IsZero() {
		return fail("it is cut off, or was edited: plan or sha256 is missing")
	}
	if sum := manifest.SumHash(file.Plan); sum != file.SHA256 {
		return fail("it was edited: its own SHA-256 says %s, and it has %s; make a new plan instead", file.SHA256, sum)
	}
	p := &restorePlan{id: file.SHA256}
	if err := json.Unmarshal(file.Plan, p, json.RejectUnknownMembers(true)); err != nil {
		return fail("%v", err)
	}
	if p.Schema != planSchema {
		return fail("its schema is %q, want %s", p.Schema, planSchema)
	}
	return p, p.check()
}

// check refuses a plan that this program would not have written.
func (p *restorePlan) check() error {
	how, err := restore.ParseOnConflict(p.Options.OnConflict)
	if err == nil {
		err = restore.CheckRelayQuery(p.Options.RelayQuery)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errPlan, err)
	}
	fail := func(why string) error { return fmt.Errorf("%w: %s", errPlan, why) }
	if len(p.Batches) == 0 || p.Target.Table == "" || p.Store == "" {
		return fail("it has no batches, no store or no target")
	}
	if p.Runnable != (len(p.Why) == 0) {
		return fail("it does not say whether it can be run")
	}
	seen := map[[2]string]bool{}
	var total planFound
	for i := range p.Batches {
		b := &p.Batches[i]
		if seen[b.key()] {
			return fail("it names a batch twice")
		}
		seen[b.key()] = true
		if !p.Runnable {
			continue
		}
		if b.Found == nil || b.States == nil {
			return fail("a batch was not compared, and it says that it can be run")
		}
		want := *b.Found
		want.Missing, want.Different = b.States.Missing.Count(), int64(len(b.States.Different))
		want.settle(how)
		if want != *b.Found {
			return fail("its numbers do not fit its rows")
		}
		total.add(want)
	}
	if p.Runnable && (p.Totals.Found == nil || *p.Totals.Found != total) {
		return fail("its totals are not those of its batches")
	}
	return nil
}

// settle sets what a run does from what was found.
func (f *planFound) settle(how restore.OnConflict) {
	f.Present = f.Selected - f.Missing - f.Different
	f.Insert, f.Overwrite, f.Skip = f.Missing, 0, 0
	switch how {
	case restore.Overwrite:
		f.Overwrite = f.Different
	case restore.Skip:
		f.Skip = f.Different
	case restore.Fail:
	}
}

// restoreOptions returns the options that the plan asks for.
func (p *restorePlan) restoreOptions() (restore.Options, error) {
	how, err := restore.ParseOnConflict(p.Options.OnConflict)
	return restore.Options{
		Table: p.Target.Table, OnConflict: how, RelayQuery: p.Options.RelayQuery,
		AllowTriggers: p.Options.AllowTriggers, StrictPayload: p.Options.StrictPayload,
	}, err
}

// rehearsed reports whether what a batch is to write was rehearsed when the plan
// was made, on a target of the same definition, settings and version, and would do
// the same now. A relay's own condition may select other rows at another time.
func (p *restorePlan) rehearsed(i int) bool {
	r := p.Batches[i].Rehearsal
	return r != nil && r.Whole && p.Options.RelayQuery == restore.DefaultRelayQuery
}

// planOf returns what a survey of batches says. Operator, store and target are for
// the caller to add.
func planOf(all []surveyed, opts restore.Options, rows *rowChoice) *restorePlan {
	p := &restorePlan{
		Schema: planSchema, Tool: tool(), Why: []string{}, Batches: make([]planBatch, 0, len(all)),
		Options: planOptions{
			OnConflict: opts.OnConflict.String(), RelayQuery: opts.RelayQuery, AllowTriggers: opts.AllowTriggers,
			StrictPayload: opts.StrictPayload, Rows: *rows,
		},
	}
	total := &planFound{}
	var measured restore.Rehearsal
	for i := range all {
		s := &all[i]
		b := plannedBatch(s, opts.OnConflict)
		if s.err != nil {
			p.Why = append(p.Why, fmt.Sprintf("batch %s: %v", b.BatchID.Short(), s.err))
		}
		if b.Found == nil {
			total = nil
		} else if total != nil {
			total.add(*b.Found)
		}
		if r := b.Rehearsal; r != nil {
			measured.Rows += r.Rows
			measured.DurationMS += r.DurationMS
		}
		p.Totals.Batches++
		p.Totals.Rows += b.Rows
		p.Totals.Bytes += b.Bytes
		p.Totals.ColdObjects += b.ColdObjects
		p.Batches = append(p.Batches, b)
	}
	p.Totals.Found = total
	p.Runnable = len(p.Why) == 0
	p.Estimate = estimate(measured, total)
	return p
}

func plannedBatch(s *surveyed, how restore.OnConflict) planBatch {
	m := s.rows.Manifest()
	b := planBatch{
		AppCode: m.AppCode, BatchID: m.BatchID, DataObjectKey: s.Location.DataKey(),
		ManifestSHA256: s.Receipt.ManifestSHA256, ReceiptVerifiedAtMS: s.Receipt.VerifiedAtMS,
		Rows: m.RowCount, Bytes: m.UncompressedBytes, CompressedBytes: m.CompressedBytes,
		DifferentColumns: s.found.ConflictColumns, Problems: s.found.Problems, Rehearsal: s.found.Rehearsal, States: s.found.States,
	}
	for _, o := range s.report.Objects {
		if o.Thaw != objstore.NotCold.String() {
			b.ColdObjects++
		}
	}
	if b.States != nil {
		b.Found = &planFound{
			Selected: s.found.Selected, Respelled: s.found.Respelled,
			Missing: b.States.Missing.Count(), Different: int64(len(b.States.Different)),
		}
		b.Found.settle(how)
	}
	return b
}

// estimate says how long the rows to be written may take at the measured rate.
func estimate(measured restore.Rehearsal, found *planFound) planEstimate {
	e := planEstimate{
		MeasuredRows: measured.Rows,
		Basis: "the rate at which the rehearsal wrote these rows into a temporary table and read them back; without what verifying and " +
			"comparing take, throttles, and the indexes of a table that is full",
	}
	if measured.Rows == 0 || found == nil {
		e.Basis = "nothing was measured: no row was rehearsed"
		return e
	}
	ms := max(measured.DurationMS, 1)
	rate := max(measured.Rows*1000/ms, 1)
	duration := (found.Insert + found.Overwrite) * ms / measured.Rows
	e.RowsPerSecond, e.DurationMS = &rate, &duration
	return e
}
