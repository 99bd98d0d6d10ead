package drover

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// process is one run of the binary after another.
type process struct {
	under []string
	cmd   *exec.Cmd
	log   *syncBuffer // of all runs
	done  chan struct{}
}

func (p *process) launch(args, env []string) error {
	if p.log == nil {
		p.log = &syncBuffer{}
	}
	line := append(append(slices.Clone(p.under), Binary()), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.Env = append(append(os.Environ(), "DROVER_CONFIG="), env...)
	// Instances inherit what the process prints to: nobody waits for them.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() { // one per start; ends with the process
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

// Kill ends the process at once, as a power cut would, and waits for its end.
func (p *process) Kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Stop asks the process to end, waits, and returns its exit code; -1 where it
// had to be killed.
func (p *process) Stop() int {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.Kill()
	}
	return p.ExitCode()
}

// ExitCode of the process that has ended; -1 where a signal ended it.
func (p *process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Done closes when the process has ended.
func (p *process) Done() <-chan struct{} { return p.done }

// PID of the process.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Log is what the process has printed so far.
func (p *process) Log() string {
	if p.log == nil {
		return ""
	}
	return p.log.String()
}

// tail keeps a failed test's output readable.
func tail(s string) string {
	const most = 16 << 10
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
