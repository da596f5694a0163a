package manifest

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readFormat(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Comments in the code name sections of docs/FORMAT.md; each of them must exist.
func TestFormatSectionsExist(t *testing.T) {
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(readFormat(t), -1) {
		sections[m[1]] = true
	}
	breaks := regexp.MustCompile(`\n[ \t]*(//|#)[ \t]*`) // a reference may go over the end of a comment's line
	ref := regexp.MustCompile(`FORMAT\.md\s+"([^"\n]+)"`)
	refs := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".sh":
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range ref.FindAllStringSubmatch(breaks.ReplaceAllString(string(b), " "), -1) {
			refs++
			if !sections[m[1]] {
				t.Errorf("%s names %q, which docs/FORMAT.md does not have", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if refs < 30 {
		t.Errorf("only %d references were found", refs)
	}
	for _, m := range regexp.MustCompile(`\("([A-Za-z_][^"]*)"\)`).FindAllStringSubmatch(readFormat(t), -1) {
		if !sections[m[1]] {
			t.Errorf("docs/FORMAT.md names its own section %q, which it does not have", m[1])
		}
	}
}

// The examples of docs/FORMAT.md are what the code makes.
func TestFormatExamples(t *testing.T) {
	doc := readFormat(t)
	contains := func(what, text string) {
		t.Helper()
		if !strings.Contains(doc, text) {
			t.Errorf("docs/FORMAT.md lacks %s:\n%s", what, text)
		}
	}
	golden := func(pattern string) string {
		t.Helper()
		names, err := filepath.Glob("../testdata/batches/" + pattern)
		if err != nil || len(names) != 1 {
			t.Fatalf("%s is %v, %v", pattern, names, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	contains("the manifest", golden("good-minimal/*/*/*/manifest.json"))
	contains("the marker", golden("good-minimal/*/*/*/_SUCCESS"))
	contains("a member line", golden("good-minimal/receipts.ndjson")[strings.Index(golden("good-minimal/receipts.ndjson"), "\n")+1:])

	minimal := readAll(t, strings.NewReader(golden("good-minimal/*/*/*/data.ndjson.gz")), ReaderOptions{})
	if len(minimal.rows) != 1 {
		t.Fatal(minimal.err)
	}
	row := minimal.rows[0]
	contains("the canonical line", string(row.AppendLine(nil)))
	contains("the row hash", row.RowHash().String())
	contains("the leaf", row.LeafHash.String())

	three := readAll(t, strings.NewReader(golden("good-three-rows/*/*/*/data.ndjson.gz")), ReaderOptions{})
	var leaves string
	for _, r := range three.rows {
		leaves += r.LeafHash.String() + "\n"
	}
	contains("the leaves", leaves)
	contains("the head", three.figures.RowsRoot.String())

	// The fingerprint is computed from the bytes that the page prints.
	m, err := DecodeManifest([]byte(golden("good-minimal/*/*/*/manifest.json")))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("```\n(0000000000000019 [0-9a-f \n]+)```").FindStringSubmatch(doc)
	if block == nil {
		t.Fatal("no bytes of a fingerprint")
	}
	raw, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "").Replace(block[1]))
	if err != nil {
		t.Fatal(err)
	}
	if id := SumHash(raw).String(); id != string(m.BatchID) {
		t.Errorf("the bytes give the fingerprint %s, the batch is %s", id, m.BatchID)
	}
	contains("the number of those bytes", fmt.Sprintf("these are %d bytes", len(raw)))

	for _, name := range MemberNames() {
		contains("the member", "`"+name+"`")
	}
}
