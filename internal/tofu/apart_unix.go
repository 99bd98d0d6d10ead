//go:build unix

package tofu

import (
	"os/exec"
	"syscall"
)

// apart lets a program outlive this one: signals to this one's group do not
// reach it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
