package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/ledger"
	"github.com/hyapp/walletarchive/internal/report"
	"github.com/hyapp/walletarchive/manifest"
)

const day = int64(24 * 3600 * 1000)

// id returns a batch id of one repeated digit.
func id(digit string) manifest.BatchID { return manifest.BatchID(strings.Repeat(digit, 64)) }

// receiptOf returns a valid receipt of a batch of two events, delivered on the
// first milliseconds of two days from 1970-01-01 on.
func receiptOf(app string, batch manifest.BatchID, firstDay, lastDay int64) manifest.Receipt {
	first := manifest.Cursor{UpdatedAtMS: firstDay*day + 1, EventID: "e1-" + batch.Short()}
	loc := manifest.NewLocation("p", app, first, batch)
	h := manifest.SumHash([]byte(batch))
	return manifest.Receipt{
		AppCode: app, BatchID: batch, State: manifest.StateVerified,
		DataObjectKey: loc.DataKey(), ManifestObjectKey: loc.ManifestKey(), SuccessObjectKey: loc.SuccessKey(),
		SchemaVersion: 1, RowCount: 2, FirstUpdatedAtMS: first.UpdatedAtMS, FirstEventID: first.EventID,
		LastUpdatedAtMS: lastDay*day + 1, LastEventID: "e2-" + batch.Short(),
		NDJSONSHA256: h, GzipSHA256: h, ManifestSHA256: h, DataCRC64: 1, ManifestCRC64: 2, SuccessCRC64: 3,
		UncompressedBytes: 10, CompressedBytes: 5, VerifiedAtMS: 1, CreatedAtMS: 1, UpdatedAtMS: 1,
	}
}

func membersOf(r manifest.Receipt) iter.Seq2[manifest.Member, error] {
	return func(yield func(manifest.Member, error) bool) {
		_ = yield(r.Member(r.FirstEventID, r.FirstUpdatedAtMS), nil) && yield(r.Member(r.LastEventID, r.LastUpdatedAtMS), nil)
	}
}

// writeReceiptFile writes a receipt file. Receipts of app "old" get no members.
func writeReceiptFile(path string, receipts ...manifest.Receipt) error {
	var buf bytes.Buffer
	for _, r := range receipts {
		count, members := int64(2), membersOf(r)
		if r.AppCode == "old" {
			count, members = 0, nil
		}
		if err := manifest.WriteReceipt(&buf, &r, count, members); err != nil {
			return err
		}
	}
	return os.WriteFile(path, buf.Bytes(), 0o600)
}

func fileOf(t *testing.T, receipts ...manifest.Receipt) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "receipts.ndjson")
	if err := writeReceiptFile(path, receipts...); err != nil {
		t.Fatal(err)
	}
	return path
}

// selected runs a command that only reads its selection.
func selected(t *testing.T, need need, args ...string) (s selection, err error) {
	t.Helper()
	p := newProgram(io.Discard, io.Discard)
	app := newApp(p)
	probe := &cli.Command{Name: "probe", ArgsUsage: "[BATCH_ID ...]", Flags: selectionFlags()}
	probe.Action = p.action(func(_ context.Context, c *cli.Context) (err error) {
		s, err = p.selection(c, need)
		return err
	})
	finish(probe)
	app.Commands = []*cli.Command{probe}
	args, err = arrange(app, append([]string{"wa", "probe"}, args...))
	if err != nil {
		return s, err
	}
	return s, app.RunContext(t.Context(), args)
}

func TestSelectionRefuses(t *testing.T) {
	a, b := string(id("a")), string(id("b"))
	ledger := []string{"--app", "wallet", "--ledger-dsn", "u@unix(/s)/d"}
	tests := []struct {
		name string
		need need
		args []string
		want string
	}{
		{"no app", receiptOptional, []string{a}, "--app is missing"},
		{"an app that is none", receiptOptional, []string{a, "--app", "a/b"}, "--app: app_code"},
		{"an app that is too long", receiptOptional, []string{a, "--app", strings.Repeat("x", 43)}, "has 43 characters"},
		{"no batch", receiptOptional, ledger, "which batches?"},
		{"no batch and no receipt", receiptOptional, []string{"--app", "wallet"}, "give each BATCH_ID"},
		{"all of nothing", receiptOptional, []string{"--app", "wallet", "--all"}, "give each BATCH_ID"},
		{"no receipt where one is needed", receiptNeeded, []string{"--app", "wallet", a}, "without a receipt"},
		{"a receipt file that is not there", receiptOptional, []string{"--receipt", "/nonexistent"}, "no such file"},
		{"ledger and file", receiptOptional, append(ledger, "--receipt", "x", a), "give one"},
		{"ledger's file and file", receiptOptional, []string{"--receipt", "x", "--ledger-dsn-file", "y"}, "give one"},
		{"no batch id", receiptOptional, append(ledger, "abc"), `batch_id "abc"`},
		{"an upper-case batch id", receiptOptional, append(ledger, strings.ToUpper(a)), "lower-case"},
		{"a batch twice", receiptOptional, append(ledger, a, b, a), "given twice"},
		{"a batch and all", receiptOptional, append(ledger, a, "--all"), "choose one way"},
		{"all and latest", receiptOptional, append(ledger, "--all", "--latest", "1"), "choose one way"},
		{"latest and since", receiptOptional, append(ledger, "--latest", "1", "--since", "2026-01-01"), "choose one way"},
		{"none of the latest", receiptOptional, append(ledger, "--latest", "0"), "at least 1"},
		{"fewer than none", receiptOptional, append(ledger, "--latest", "-1"), "at least 1"},
		{"no time", receiptOptional, append(ledger, "--since", "yesterday"), "neither a UTC date"},
		{"a time without a zone", receiptOptional, append(ledger, "--until", "2026-01-31T08:00:00"), "neither a UTC date"},
		{"until before since", receiptOptional, append(ledger, "--since", "2026-01-02", "--until", "2026-01-01"), "not before"},
		{"until at since", receiptOptional, append(ledger, "--since", "2026-01-02", "--until", "2026-01-02"), "not before"},
		{"a ledger DSN that is none", receiptOptional, []string{"--app", "wallet", a, "--ledger-dsn", "x"}, "--ledger-dsn is not a DSN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := selected(t, tt.need, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || exitCode(t.Context(), err) != exitUsage {
				t.Errorf("selection(%q) = %v, want a usage error with %q", tt.args, err, tt.want)
			}
		})
	}
}

func TestSelectionFromFile(t *testing.T) {
	// Written newest first, so that the order of the file is not that of time.
	path := fileOf(t,
		receiptOf("wallet", id("c"), 20, 30),
		receiptOf("old", id("d"), 5, 6),
		receiptOf("wallet", id("b"), 10, 20),
		receiptOf("wallet", id("a"), 0, 10),
	)
	tests := []struct {
		name string
		args []string
		want string // first digits, in order; a star has no receipt, an exclamation mark no members
	}{
		{"the whole file", nil, "d! a b c"},
		{"all", []string{"--all"}, "d! a b c"},
		{"of one app", []string{"--app", "wallet"}, "a b c"},
		{"of no app", []string{"--app", "other"}, ""},
		{"latest", []string{"--latest", "2"}, "b c"},
		{"latest of one app", []string{"--latest", "1", "--app", "old"}, "d!"},
		{"more than there are", []string{"--latest", "9", "--app", "wallet"}, "a b c"},
		{"by id, in that order", []string{string(id("c")), string(id("a"))}, "c a"},
		{"by id, one unknown", []string{string(id("e")), string(id("a"))}, "e* a"},
		{"since", []string{"--since", "1970-01-21"}, "b c"},
		{"since, at the last event", []string{"--since", "1970-01-31T00:00:00.001Z"}, "c"},
		{"since, after the last event", []string{"--since", "1970-01-31T00:00:00.002Z"}, ""},
		{"until", []string{"--until", "1970-01-11", "--app", "wallet"}, "a"},
		{"until, at the first event", []string{"--until", "1970-01-01T00:00:00.001Z"}, ""},
		{"until, after the first event", []string{"--until", "1970-01-01T00:00:00.002Z"}, "a"},
		{"between", []string{"--since", "1970-01-07", "--until", "1970-01-12"}, "d! a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := selected(t, receiptNeeded, append([]string{"--receipt", path}, tt.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.fromFile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list {
				text := string(c.Location.BatchID[0])
				switch {
				case errors.Is(c.err, ledger.ErrNoReceipt):
					text += "*"
				case c.err != nil || c.Receipt == nil || c.Receipt.BatchID != c.Location.BatchID || c.Location.Prefix != "p":
					t.Errorf("batch %s: %+v", text, c)
				case (c.Members == nil) != (c.members == 0):
					t.Errorf("batch %s: %d members", text, c.members)
				case c.Members == nil:
					text += "!"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("batches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMembersOfFile(t *testing.T) {
	a, b := receiptOf("wallet", id("a"), 0, 10), receiptOf("wallet", id("b"), 10, 20)
	path := fileOf(t, a, receiptOf("old", id("d"), 5, 6), b)
	s := selection{receiptFile: path, ids: []manifest.BatchID{id("b"), id("a")}}
	list, err := s.fromFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []manifest.Receipt{b, a} {
		for range 2 { // Members may be ranged over again
			var got []manifest.Member
			for m, err := range list[i].Members(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m)
			}
			if diff := cmp.Diff([]manifest.Member{want.Member(want.FirstEventID, want.FirstUpdatedAtMS), want.Member(want.LastEventID, want.LastUpdatedAtMS)}, got); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		}
	}
	first := func(ctx context.Context, c chosen) error {
		for _, err := range c.Members(ctx) {
			return err
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first(ctx, list[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled members = %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(`"verified_at_ms":1`), []byte(`"verified_at_ms":2`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first(t.Context(), list[0]); err == nil {
		t.Error("members of a file that changed gave no error")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := first(t.Context(), list[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("members of a file that is gone = %v", err)
	}
}

func TestBadReceiptFile(t *testing.T) {
	a, b := receiptOf("wallet", id("a"), 0, 10), receiptOf("wallet", id("b"), 10, 20)
	whole, err := os.ReadFile(fileOf(t, a, b))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	join := func(keep ...int) string {
		var s string
		for _, i := range keep {
			s += string(lines[i])
		}
		return s
	}
	other := strings.Replace(join(0, 1, 2, 3, 4, 5), `"row_count":2`, `"row_count":0`, 1)
	tests := []struct {
		name, text string
		want       error
		which      string // what names it
		good       string // first digits of the ids that can be used all the same
	}{
		{"a receipt twice", join(0, 1, 2, 0, 1, 2, 3, 4, 5), manifest.ErrBadReceipt, "receipt 2: batch " + string(id("a")), "ab"},
		{"a receipt that contradicts itself", other, manifest.ErrBadReceipt, "receipt 1: receipt file, line 1: receipt of " + string(id("a")), "b"},
		// The file is checked whole, whatever is chosen from it.
		{"a member missing in another receipt", join(0, 1, 2, 3, 4), manifest.ErrMemberCount, "receipt 2: receipt of " + string(id("b")), "a"},
		{"a cut line", string(whole[:len(whole)-3]), manifest.ErrBadDocument, "receipt 2: receipt file, line 6", "a"},
		{"no receipt", "{}\n", manifest.ErrBadDocument, "receipt 1: receipt file, line 1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := selection{receiptFile: path}
			list, err := s.fromFile(t.Context())
			if err != nil || len(list) == 0 {
				t.Fatalf("fromFile = %v, %v", list, err)
			}
			good, last := "", list[len(list)-1]
			for _, b := range list[:len(list)-1] {
				if b.err != nil {
					t.Errorf("batch %s: %v", b.Location.BatchID, b.err)
				}
				good += string(b.Location.BatchID[:1])
			}
			if !errors.Is(last.err, tt.want) || !strings.Contains(fmt.Sprint(last.err), tt.which) || good != tt.good {
				t.Errorf("fromFile gives %s and then %v, want %s and %v, %s", good, last.err, tt.good, tt.want, tt.which)
			}
			if out := unreadable(last); out.Outcome != report.ArchiveWrong || len(out.Faults) != 1 {
				t.Errorf("it is printed as %+v", out)
			}
			s.ids = []manifest.BatchID{id("a")} // the file is checked whole, whatever is chosen
			if list, err = s.fromFile(t.Context()); err != nil || !errors.Is(firstMissing(list[len(list)-1:]), tt.want) {
				t.Errorf("fromFile of one batch = %v, %v", list, err)
			}
		})
	}
	s := selection{receiptFile: filepath.Join(t.TempDir(), "none")}
	if _, err := s.fromFile(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("fromFile of no file = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s = selection{receiptFile: fileOf(t, a, b)}
	if _, err := s.fromFile(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("fromFile, cancelled = %v", err)
	}
}
