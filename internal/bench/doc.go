package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// result is one case of the document.
type result struct {
	title      string
	unit       int // rows that each contender handles
	contenders []contender
	samples    [][]sample
	claims     []claim
	memory     []memoryRow
}

// claim is an aim: the median over the rounds of time over[i] / under[i].
type claim struct {
	what        string
	over, under int // indexes of contenders
	aim         float64
	atLeast     bool // the aim is a least ratio, else a largest one
	samples     [][]sample
}

func (c claim) ratio() float64 { return median(ratios(c.samples[c.over], c.samples[c.under])) }

func (c claim) reached() bool {
	if c.atLeast {
		return c.ratio() >= c.aim
	}
	return c.ratio() <= c.aim
}

func (c claim) String() string {
	bound, word := "at most", "reached"
	if c.atLeast {
		bound = "at least"
	}
	if !c.reached() {
		word = "**not reached**"
	}
	return fmt.Sprintf("| %s | %.2f | %s %.2f | %s |", cell(c.what), c.ratio(), bound, c.aim, word)
}

// cell keeps a pipe in a command from ending its column.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

type memoryRow struct {
	command      string
	small, large sample
}

// memoryAim is the most memory that a command may take, and memoryGrowth how much
// more it may take for many rows than for few: the collector's moments differ.
const (
	memoryAim    = 128 << 20
	memoryGrowth = 1.25
)

func (b *bench) add(r result) {
	b.results = append(b.results, r)
	for _, c := range r.claims {
		b.logf("  %s", c)
	}
}

// write writes the results as Markdown.
func (b *bench) write(path string) error {
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Benchmarks

Written by `+"`make bench`"+` on %s. Every number is from one run on one machine;
compare ratios, not seconds.

- Machine: %s, %d processors, %s of memory, %s
- Server: %s, buffer pool 64 MiB, for all alike and tuned for throwaway data (no doublewrite, log not flushed at each commit)
- Rows: %d of about 450 bytes, random event_ids, primary key and retention index, seed fixed
- Tools: %s
- Method: whole processes, one warm-up, then %d rounds in which all contenders take turns; medians. A ratio is the
  median of the ratios of each round. The directory store, the server and the tools share two cores.

Our figures include everything that the commands do by default. An export reads in cursor order through the retention
index, page by page, hashes, packs, writes, reads back and verifies, and records a receipt and a member for every row,
in batches of the default size where nothing else is said.
A restore verifies the batch, restores it, and reads every row back before the commit. A drill does that and then
compares on its own. The peers check nothing, dump in primary key order, and write no ledger. What the server itself
needs for the rows is shown by a floor: one LOAD DATA of a file that is already sorted. Peak memory is of the largest
process; about 20 MiB is the least that the measurement shows. Why an aim is not reached is in DESIGN.md, "Where the time goes".
`, time.Now().UTC().Format(time.DateOnly), cpu(), runtime.NumCPU(), memory(), runtime.Version(), b.server.Describe(), b.rows,
		strings.Join(versions(), "; "), b.runs)
	if b.rows != defaultRows || b.runs != defaultRuns {
		fmt.Fprintf(&w, "\nThis run was smaller than `make bench` asks for (%d rows, %d rounds), so its ratios are rough.\n", defaultRows, defaultRuns)
	}
	if len(b.left) > 0 {
		fmt.Fprintf(&w, "\nNot measured in this run: %s.\n", strings.Join(b.left, ", "))
	}
	for _, r := range b.results {
		fmt.Fprintf(&w, "\n## %s\n\n", r.title)
		if r.memory != nil {
			b.writeMemory(&w, r.memory)
			continue
		}
		fmt.Fprintf(&w, "%d rows.\n\n| what | seconds | rows a second | peak memory |\n|---|---|---|---|\n", r.unit)
		for i, c := range r.contenders {
			s := median(seconds(r.samples[i]))
			rss := fmt.Sprintf("%.0f MiB", mib(peak(r.samples[i])))
			fmt.Fprintf(&w, "| %s | %.2f | %.0f | %s |\n", cell(c.name), s, float64(r.unit)/s, rss)
		}
		fmt.Fprint(&w, "\n| aim | ratio | wanted | |\n|---|---|---|---|\n")
		for _, c := range r.claims {
			fmt.Fprintln(&w, c)
		}
	}
	return os.WriteFile(path, w.Bytes(), 0o644)
}

func (b *bench) writeMemory(w *bytes.Buffer, rows []memoryRow) {
	fmt.Fprintf(w, "Peak resident memory of one batch. Wanted: under %d MiB, and the same for both.\n\n| command | %d rows | %d rows | |\n|---|---|---|---|\n", memoryAim>>20, b.rows, b.large)
	for _, r := range rows {
		word := "reached"
		switch {
		case r.large.rss >= memoryAim:
			word = "**not reached**"
		case mib(r.large.rss) > memoryGrowth*mib(r.small.rss):
			word = "under the limit, **but not the same**"
		}
		fmt.Fprintf(w, "| %s | %.0f MiB | %.0f MiB | %s |\n", r.command, mib(r.small.rss), mib(r.large.rss), word)
	}
}

// cpu and memory read what Linux says of the machine; "unknown" elsewhere.
func cpu() string    { return field("/proc/cpuinfo", "model name") }
func memory() string { return field("/proc/meminfo", "MemTotal") }

func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// versions asks each peer.
func versions() []string {
	var all []string
	for _, tool := range []string{"mydumper", "mariadb", "pt-archiver", "gzip", "sha256sum"} {
		out, err := exec.Command(tool, "--version").Output()
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err != nil || first == "" {
			first = tool + ", version unknown"
		}
		all = append(all, first)
	}
	return all
}
