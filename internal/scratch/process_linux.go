package scratch

import (
	"os/exec"
	"syscall"
)

// setSysProcAttr gives the child a process group, and when dieWithParent a
// SIGKILL once the thread that starts it ends. Otherwise the child gets a
// session of its own, so that it outlives the terminal.
func setSysProcAttr(cmd *exec.Cmd, dieWithParent bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if !dieWithParent {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
}

// terminate asks the process to end. It is no error when it already has.
func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

// killGroup ends the process group of a child that was not waited for yet.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
