package main

import (
	"testing"

	"github.com/hyapp/walletarchive/restore"
)

func TestRehearsed(t *testing.T) {
	for _, tc := range []struct {
		rep  restore.Report
		want string
	}{
		{restore.Report{}, ""},
		{restore.Report{NoRehearsal: "not needed: why"}, "not needed: why"},
		{restore.Report{Rehearsal: &restore.Rehearsal{Rows: 1200}}, "1,200 rows"},
		{restore.Report{Rehearsal: &restore.Rehearsal{Rows: 2, Because: []string{"a"}}}, "2 rows, since a"},
		{restore.Report{Rehearsal: &restore.Rehearsal{Rows: 2, Because: []string{"a", "b", "c"}}}, "2 rows, since a (and 2 more)"},
	} {
		if got := rehearsed(tc.rep); got != tc.want {
			t.Errorf("rehearsed(%+v) = %q, want %q", tc.rep, got, tc.want)
		}
	}
}
