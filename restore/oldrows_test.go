package restore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestOldRows(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		rows := records(40)
		target, options, run := conflicting(t, s, rows)
		before := target(t)
		path := filepath.Join(t.TempDir(), "old.ndjson")
		old, err := CreateOldRows(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CreateOldRows(path); !errors.Is(err, os.ErrExist) {
			t.Errorf("a file was replaced: %v", err)
		}
		failing := errors.New("the hook fails")
		opts := options()
		opts.OnConflict, opts.ConfirmOverwrite = Overwrite, 10
		opts.Hooks = []Hooks{old.Hooks(), {BeforeCommit: func(context.Context, mysqldb.Session) error {
			// The rows are in the file before the commit.
			if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") != 10 {
				t.Errorf("%d lines before the commit, error %v", strings.Count(string(b), "\n"), err)
			}
			return failing
		}}}
		if _, err := run(opts); !errors.Is(err, failing) || old.Rows() != 0 {
			t.Errorf("error %v, %d rows", err, old.Rows())
		}
		failing = nil
		if _, err := run(opts); err != nil || old.Rows() != 10 {
			t.Errorf("error %v, %d rows", err, old.Rows())
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range rows[20:30] {
			want = append(want, before[app+"/"+r.EventID])
		}
		got := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("old rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
