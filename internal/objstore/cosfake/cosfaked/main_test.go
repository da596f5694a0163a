package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-versioning", "Enabled", "-object-lock", "-speed", "60"}, w, io.Discard)
	}()
	lines := bufio.NewScanner(r)
	for range 2 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
	}
	m := regexp.MustCompile(`^# --store 'cos://fake-1250000000/archive\?region=ap-guangzhou&endpoint=(http://127\.0\.0\.1:[0-9]+)'$`).FindStringSubmatch(lines.Text())
	if m == nil {
		t.Fatalf("it prints %q", lines.Text())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[1]+"/key", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || resp.Header.Get("X-Cos-Request-Id") == "" {
		t.Errorf("an unsigned request: %s", resp.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"-addr", "0.0.0.0:0"}, {"-versioning", "maybe"}, {"-speed", "0"}, {"surplus"}, {"-no-such-flag"}} {
		var out strings.Builder
		if err := run(t.Context(), args, &out, io.Discard); err == nil || out.Len() > 0 {
			t.Errorf("run %q = %v, wrote %q", args, err, out.String())
		}
	}
}
