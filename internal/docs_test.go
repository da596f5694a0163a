package internal

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocSections holds the places in docs/ that comments name against the
// headings there. docs/FORMAT.md has a test of its own in package manifest.
func TestDocSections(t *testing.T) {
	place := regexp.MustCompile(`docs/([A-Z]+\.md)\s+"([^"]+)"`)
	headings := map[string]map[string]bool{}
	found := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// A comment may break its line between the file and the section.
		text := strings.ReplaceAll(strings.ReplaceAll(string(b), "\n\t// ", " "), "\n// ", " ")
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			doc, section := m[1], m[2]
			if doc == "FORMAT.md" || strings.HasSuffix(path, "docs_test.go") {
				continue
			}
			if headings[doc] == nil {
				headings[doc] = readHeadings(t, filepath.Join("..", "docs", doc))
			}
			if found++; !headings[doc][section] {
				t.Errorf("%s names docs/%s %q, which is not there", path, doc, section)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no place was found at all")
	}
}

func readHeadings(t *testing.T, path string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			all[strings.TrimSpace(title)] = true
		}
	}
	return all
}
