package kubernetes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// watchdog outlives the test process, however that ends, by the moment that it
// takes to end the servers and to remove their data. Its standard input tells
// it the ids of processes as they come (+) and go (-).
const watchdog = `dir=$1; pids=
while read -r op pid; do
	keep=; for p in $pids; do [ "$p" = "$pid" ] || keep="$keep $p"; done
	[ "$op" = + ] && keep="$keep $pid"
	pids=$keep
done
[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }`

// leash ties processes and a directory to the life of the test process.
type leash struct {
	shell *exec.Cmd
	in    io.WriteCloser
}

func newLeash(dir string) (*leash, error) {
	l := &leash{shell: exec.Command("/bin/sh", "-c", watchdog, "sh", dir)}
	group(l.shell)
	var err error
	if l.in, err = l.shell.StdinPipe(); err != nil {
		return nil, err
	}
	return l, l.shell.Start()
}

func (l *leash) note(op string, pid int) { fmt.Fprintln(l.in, op, pid) }

// release ends what is still tied.
func (l *leash) release() {
	l.in.Close()
	l.shell.Wait() //nolint:errcheck // there is nothing left to do about it
}

// Process is one server of a cluster. Its methods may be called in any order;
// what is so already stays so.
type Process struct {
	name, path, dir string
	args            []string
	leash           *leash

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
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, logs, logs
	cmd.Env = []string{"HOME=" + p.dir, "TMPDIR=" + p.dir, "PATH=" + os.Getenv("PATH")}
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
		return fmt.Errorf("%s does not run", p.name)
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

func (p *Process) logFile() string { return filepath.Join(p.dir, p.name+".log") }
