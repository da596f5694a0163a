package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/ptytest"
)

func TestAutoOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, terminal := ptytest.Open(t)
	if got := Auto.resolve(terminal); got != Lines {
		t.Errorf("on a terminal without a size: %v, want lines", got)
	}
	ptytest.Resize(t, terminal, 24, 100)
	if got := Auto.resolve(terminal); got != Bars {
		t.Errorf("on a terminal: %v, want bars", got)
	}
	out := NewOutput(terminal)
	r := New(out, Options{})
	task := r.Task("verify", Counts{Rows: 4})
	task.Add(Counts{Rows: 1})
	time.Sleep(400 * time.Millisecond) // mpb draws every 150 ms of real time
	r.Close()
	fmt.Fprintln(out, "the end")
	text := make([]byte, 0, 4096)
	for buf := make([]byte, 4096); !strings.Contains(string(text), "the end"); {
		n, err := master.Read(buf)
		text = append(text, buf[:n]...)
		if err != nil {
			t.Fatalf("read %q, then %v", text, err)
		}
	}
	if !strings.Contains(string(text), " 25%") || !strings.Contains(string(text), "1 / 4 rows") {
		t.Errorf("the terminal was sent %q, without a bar", text)
	}
	t.Setenv("TERM", "dumb")
	if got := Auto.resolve(terminal); got != Lines {
		t.Errorf("on a dumb terminal: %v, want lines", got)
	}
}
