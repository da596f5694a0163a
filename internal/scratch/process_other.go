//go:build !linux

package scratch

import (
	"os"
	"os/exec"
)

// setSysProcAttr does nothing here: only Linux ends a child with its parent.
func setSysProcAttr(*exec.Cmd, bool) {}

// terminate asks the process to end. It is no error when it already has.
func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) }

// killGroup ends the process; its children, if any, end with their input.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
