// Gentestdata writes the golden batches of testdata/batches: whole batches that
// a reader of docs/FORMAT.md must call good, and batches that differ from a good
// one by a single edit, each with the one finding that it must give. Everything
// else is kept consistent with the edit, so that no other rule breaks with it.
//
// The same sources give the same bytes. scripts/gen-testdata.sh runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gentestdata DIR")
		os.Exit(3)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gentestdata:", err)
		os.Exit(1)
	}
}

// generate writes every batch into a folder of its own under dir, which must not
// hold one of them yet.
func generate(dir string) error {
	specs := slices.Concat(goodBatches(), badObjects(), badLines(), badRows(), badDescriptions(), badReceipts())
	seen := map[string]bool{}
	for _, s := range specs {
		if seen[s.name] {
			return fmt.Errorf("two batches are called %s", s.name)
		}
		seen[s.name] = true
		files, err := s.build()
		if err != nil {
			return fmt.Errorf("build %s: %w", s.name, err)
		}
		for path, b := range files {
			path = filepath.Join(dir, s.name, filepath.FromSlash(path))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return err
			}
			if _, err := f.Write(b); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// want is the text of the file that says what a verifier must find.
func (s *spec) want() string {
	var b strings.Builder
	outcome := "failed"
	switch {
	case s.noBatch:
		outcome = "no batch"
	case len(s.checks) == 0:
		outcome = "proven"
	}
	level := s.level
	if level == "" {
		level = "rows"
	}
	fmt.Fprintf(&b, "# %s\nlevel: %s\noutcome: %s\n", s.why, level, outcome)
	for _, c := range s.checks {
		fmt.Fprintf(&b, "check: %s\n", c)
	}
	return b.String()
}
