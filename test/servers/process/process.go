package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is one server. Its methods may be called in any order; what is so
// already stays so.
type Process struct {
	Name string
	Env  []string // besides HOME, TMPDIR and PATH

	path  string
	args  []string
	leash *Leash

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed once the command was waited for
	paused bool
}

// Start runs the server, with the same address and data as before.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	logs, err := os.OpenFile(p.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.leash.Dir, logs, logs
	cmd.Env = append([]string{"HOME=" + p.leash.Dir, "TMPDIR=" + p.leash.Dir, "PATH=" + os.Getenv("PATH")}, p.Env...)
	group(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.leash.note("+", cmd.Process.Pid)
	p.cmd, p.ended, p.paused = cmd, make(chan struct{}), false
	// One goroutine per run, which ends with the process.
	go func(ended chan struct{}) {
		cmd.Wait() //nolint:errcheck // it ends by a signal
		p.leash.note("-", cmd.Process.Pid)
		close(ended)
	}(p.ended)
	return nil
}

// Ready starts the server and waits until look finds nothing wrong with it.
func (p *Process) Ready(ctx context.Context, look func(context.Context) error) error {
	if err := p.Start(); err != nil {
		return err
	}
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := look(once)
		cancel()
		if err == nil {
			return nil
		}
		if !p.Running() {
			return fmt.Errorf("%s has ended; its log: %s", p.Name, p.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log: %s", p.Name, err, p.Log())
		case <-time.After(20 * time.Millisecond): // servers offer no signal to wait for
		}
	}
}

// running is asked under the lock.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Running reports whether the process is there, paused or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// Stop asks the server to end, and waits for it.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the server without a word, and waits until it is gone.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Process) end(how syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	err := p.cmd.Process.Signal(how)
	if p.paused { // it hears nothing else meanwhile
		err = errors.Join(err, resume(p.cmd.Process))
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	p.paused = false
	return err
}

// Pause freezes the server: connections stay open and nothing is answered.
func (p *Process) Pause() error { return p.freeze(true) }

// Resume lets a paused server go on.
func (p *Process) Resume() error { return p.freeze(false) }

func (p *Process) freeze(frozen bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s does not run", p.Name)
	}
	p.paused = frozen
	if frozen {
		return pause(p.cmd.Process)
	}
	return resume(p.cmd.Process)
}

// Log is what the server said last, for failures that it may explain.
func (p *Process) Log() string {
	data, _ := os.ReadFile(p.logFile())
	return string(data[max(0, len(data)-4000):])
}

func (p *Process) logFile() string { return p.leash.File(p.Name + ".log") }
