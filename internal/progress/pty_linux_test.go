package progress

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY returns both ends of a new pseudo-terminal.
func openPTY(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

func TestAutoOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, terminal := openPTY(t)
	if got := Auto.resolve(terminal); got != Lines {
		t.Errorf("on a terminal without a size: %v, want lines", got)
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
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
