package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// contender is one way to do a job, run as whole processes.
type contender struct {
	name string
	// reset makes every run start from the same state; it is not timed.
	reset func(ctx context.Context) error
	// command is what is timed.
	command func() *exec.Cmd
	// after, when not nil, checks what a run left behind and may give back a
	// part of its time that does not count.
	after func(ctx context.Context, out []byte) (time.Duration, error)
}

// sample is one timed run.
type sample struct {
	took time.Duration
	rss  int64 // bytes at the peak, of the largest process
}

// shell returns a command of several programs; pipefail makes a failure in the
// middle one of the whole.
func shell(env []string, script string, args ...string) *exec.Cmd {
	cmd := exec.Command("bash", append([]string{"-c", "set -eo pipefail; " + script, "bench"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func program(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// run times one run of c.
func (b *bench) run(ctx context.Context, c contender) (sample, error) {
	if c.reset != nil {
		if err := c.reset(ctx); err != nil {
			return sample{}, fmt.Errorf("reset %s: %w", c.name, err)
		}
	}
	cmd := c.command()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return sample{}, fmt.Errorf("start %s: %w", c.name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	took := time.Since(began)
	stop()
	if err != nil {
		return sample{}, fmt.Errorf("run %s: %w: %s", c.name, err, tail(errs.String()+out.String()))
	}
	s := sample{took: took}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.rss = u.Maxrss << 10
	}
	if c.after != nil {
		free, err := c.after(ctx, out.Bytes())
		if err != nil {
			return sample{}, fmt.Errorf("check %s: %w", c.name, err)
		}
		s.took -= free
	}
	return s, nil
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 600 {
		s = "…" + s[len(s)-600:]
	}
	return s
}

// race runs all contenders once to warm up and then in turn, so that a noisy
// moment hits all of them, and returns the samples of each.
func (b *bench) race(ctx context.Context, all ...contender) ([][]sample, error) {
	samples := make([][]sample, len(all))
	for round := range b.runs + 1 {
		for i, c := range all {
			s, err := b.run(ctx, c)
			if err != nil {
				return nil, err
			}
			b.logf("  %-44s %8.2f s %6.1f MiB%s", c.name, s.took.Seconds(), mib(s.rss), map[bool]string{true: "  (warm-up)"}[round == 0])
			if round > 0 {
				samples[i] = append(samples[i], s)
			}
		}
	}
	return samples, nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func seconds(all []sample) []float64 {
	s := make([]float64, len(all))
	for i, x := range all {
		s[i] = x.took.Seconds()
	}
	return s
}

// ratios returns a/b of each round.
func ratios(a, b []sample) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i].took.Seconds() / b[i].took.Seconds()
	}
	return r
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func peak(all []sample) int64 {
	var most int64
	for _, s := range all {
		most = max(most, s.rss)
	}
	return most
}
