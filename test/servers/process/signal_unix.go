//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// group gives the command a process group of its own, so that an interrupt from
// the keyboard reaches the test alone.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func pause(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
