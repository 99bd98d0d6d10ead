//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// group gives the command a process group of its own, so that an interrupt from
// the keyboard reaches the test alone.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// pause waits until the process stands still: on a busy machine its threads go
// on for a while after the signal was sent, and may answer.
func pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		still, err := stopped(p.Pid)
		if err != nil || still {
			return err
		}
		time.Sleep(time.Millisecond) // nobody tells
	}
	return fmt.Errorf("process %d does not stand still", p.Pid)
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
