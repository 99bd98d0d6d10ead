//go:build unix

package action

import (
	"os/exec"
	"syscall"
)

// group puts a program and all that it starts into a group of its own.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end asks a group to end, or ends it.
func end(cmd *exec.Cmd, now bool) {
	signal := syscall.SIGTERM
	if now {
		signal = syscall.SIGKILL
	}
	// That there is nobody any more is what is wanted.
	_ = syscall.Kill(-cmd.Process.Pid, signal)
}
