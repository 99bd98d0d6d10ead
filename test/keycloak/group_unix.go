//go:build unix

package keycloak

import (
	"os/exec"
	"syscall"
)

// group gives the command and its children a process group of their own.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
