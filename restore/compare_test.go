package restore

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/manifest"
)

func TestCompare(t *testing.T) {
	base := record(1)
	base.PayloadJSON, base.LastError = `{"secret": 1.10}`, pointer("")
	cases := []struct {
		name   string
		edit   func(*manifest.Record)
		strict bool
		want   likeness
		column string
	}{
		{name: "same", edit: func(*manifest.Record) {}, want: identical},
		{name: "same, strict", edit: func(*manifest.Record) {}, strict: true, want: identical},
		{name: "payload respelled", edit: func(r *manifest.Record) { r.PayloadJSON = `{"secret":1.1}` }, want: sameValue},
		{name: "payload respelled, strict", edit: func(r *manifest.Record) { r.PayloadJSON = `{"secret":1.1}` }, strict: true, column: "payload"},
		{name: "payload changed", edit: func(r *manifest.Record) { r.PayloadJSON = `{"secret": 1.1000000000000000001}` }, column: "payload"},
		{name: "payload not JSON", edit: func(r *manifest.Record) { r.PayloadJSON = `{"secret": 1.10` }, column: "payload"},
		{name: "NULL", edit: func(r *manifest.Record) { r.LastError = nil }, column: "last_error"},
		{name: "0 for NULL", edit: func(r *manifest.Record) { r.LockUntilMS = pointer(int64(0)) }, column: "lock_until_ms"},
		{name: "respelled and another", edit: func(r *manifest.Record) { r.PayloadJSON = `{"secret":1.1}`; r.UserID++ }, column: "user_id,payload"},
		{name: "case", edit: func(r *manifest.Record) { r.AppCode = "Game" }, column: "app_code"},
		{name: "space", edit: func(r *manifest.Record) { r.WorkerID += " " }, column: "worker_id"},
	}
	row := rowsOf([]manifest.Record{base})[0]
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := base
			tc.edit(&got)
			c := comparer{strict: tc.strict}
			like, changes, err := c.compare(row, &got)
			if err != nil {
				t.Fatal(err)
			}
			var columns []string
			for _, x := range changes {
				columns = append(columns, x.Column)
				if x.Archived == x.Found || strings.Contains(x.Archived+x.Found, "secret") {
					t.Errorf("shown: %+v", x)
				}
			}
			if like != tc.want || strings.Join(columns, ",") != tc.column {
				t.Errorf("compare = %d, columns %v, want %d, %q", like, columns, tc.want, tc.column)
			}
		})
	}
	broken := *row
	broken.UserID++
	c := comparer{}
	if _, _, err := c.compare(&broken, &base); err != nil {
		t.Errorf("the target has what was verified: %v", err)
	}
	if _, _, err := c.compare(&broken, &broken.Record); !errors.Is(err, errSortedRows) {
		t.Errorf("error %v, want that the row is not what was verified", err)
	}
}

// Every column is shown, NULL as such, and none twice as the same.
func TestShow(t *testing.T) {
	full := manifest.Record{
		AppCode: "a", EventID: "b", EventType: "c", TransactionID: "d", CommandID: "e", UserID: 1, AssetType: "f", AvailableDelta: 2,
		FrozenDelta: 3, PayloadJSON: "g", Status: "h", WorkerID: "i", LockUntilMS: pointer(int64(4)), RetryCount: 5,
		NextRetryAtMS: pointer(int64(6)), LastError: pointer("j"), CreatedAtMS: 7, UpdatedAtMS: 8,
	}
	var got, nulls []string
	seen := map[string]bool{}
	for _, name := range manifest.Columns {
		s := show(&full, name)
		if s == "" || seen[s] {
			t.Errorf("column %s is shown as %q", name, s)
		}
		seen[s] = true
		got = append(got, s)
		if show(&manifest.Record{}, name) == null {
			nulls = append(nulls, name)
		}
	}
	want := []string{
		`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, "1", `"f"`, "2", "3",
		"1 bytes, SHA-256 cd0aa9856147b6c5b4ff2b7dfee5da20aa38253099ef1b4a64aced233c9afe29",
		`"h"`, `"i"`, "4", "5", "6",
		"1 bytes, SHA-256 189f40034be7a199f1fa9891668ee3ab6049f82d38c68be70f596eab2e1857b7",
		"7", "8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lock_until_ms", "next_retry_at_ms", "last_error"}, nulls); diff != "" {
		t.Errorf("NULL (-want +got):\n%s", diff)
	}
	if s := show(&full, "no_such_column"); s != "" {
		t.Errorf("an unknown column is shown as %q", s)
	}
}
