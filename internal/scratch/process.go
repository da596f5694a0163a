package scratch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// killTimeout is from SIGKILL to giving up.
const killTimeout = 10 * time.Second

// stopTimeout is from SIGTERM to SIGKILL. Only a test changes it.
var stopTimeout = 10 * time.Second

// childEnv is the environment of the servers. It leaves out all that could
// steer them (MYSQL_HOME, NOTIFY_SOCKET) and all secrets of this process.
func childEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// process is a started child. Its err may be read once done is closed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// startProcess starts cmd in a process group of its own, so that a Ctrl-C at
// the terminal reaches this program only, which then stops the server in its
// own time. With dieWithParent the child does not outlive this process.
func startProcess(cmd *exec.Cmd, dieWithParent bool) (*process, error) {
	setSysProcAttr(cmd, dieWithParent)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux sends the parent-death signal when the thread that started the
		// child ends, so that thread is held for as long as the child runs
		// (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop ends the process, with force when it does not heed SIGTERM in time.
func (p *process) stop(ctx context.Context) error {
	terminate(p.cmd)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-time.After(stopTimeout):
	}
	p.kill()
	select {
	case <-p.done:
		return nil
	case <-time.After(killTimeout):
		return fmt.Errorf("process %d is still there %s after it was killed", p.cmd.Process.Pid, killTimeout)
	}
}

// kill ends the process and its children at once.
func (p *process) kill() {
	select {
	case <-p.done:
	default:
		killGroup(p.cmd)
	}
}
