package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// running is a process: a child of ours, or one that an earlier agent started.
type running struct {
	child
	proof      program.Proof
	started    time.Time // zero: adopted
	readySince time.Time
	done       chan struct{} // closed after the end; nil: adopted, must be looked at
	exit       string        // how it ended, once done
}

// gone reports whether the process has ended.
func (p *running) gone() bool {
	if p.done != nil {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	}
	if p.proof.Verdict() != program.Gone {
		return false
	}
	p.exit = "nobody saw how"
	return true
}

// wait for the end, at most d.
func (p *running) wait(ctx context.Context, d time.Duration) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		if p.gone() {
			return true
		}
		var look <-chan time.Time
		if p.done == nil {
			look = time.After(delay)
		}
		select {
		case <-ctx.Done():
			return false
		case <-deadline.C:
			return p.gone()
		case <-p.done:
		case <-look:
		}
	}
}

// spawn writes down what it is about to do, starts the process in a session of
// its own, and writes down which one it is.
func (in *instance) spawn(c command) error {
	port, err := in.r.freePort()
	if err != nil {
		return err
	}
	started := false
	defer func() {
		if !started {
			in.r.releasePort(port)
		}
	}()
	in.run++
	next := child{Run: in.run, Port: port, Digest: c.digest()}
	if err := in.keep(next); err != nil {
		return fault.New(fault.Internal, "its directory cannot be written")
	}
	in.r.cfg.step("intent")
	cmd, err := in.command(c, port)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(in.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.New(fault.Internal, "its log cannot be written")
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out // files, not pipes: nothing of the agent is needed to go on
	p := &running{child: next, started: time.Now(), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return startError(err)
	}
	started = true
	in.r.cfg.step("started")
	p.PID = cmd.Process.Pid
	// It cannot be reaped before Wait, so this is the child even if it has ended.
	p.Birth, _ = program.Birth(p.PID)
	p.proof = program.Proof{PID: p.PID, Birth: p.Birth, Nonce: in.nonce, Log: in.logPath(), Own: true}
	in.proc = p
	in.keep(p.child)
	in.r.cfg.step("process")
	// Ends with the process; the agent does not wait for it.
	go func() {
		p.exit = describe(cmd.Wait())
		close(p.done)
	}()
	in.r.cfg.Logger.InfoContext(in.about(), "an instance was started", "instance", in.id, "pid", p.PID, "port", port)
	return nil
}

// command prepares the start, with nothing of the agent's environment.
func (in *instance) command(c command, port int) (*exec.Cmd, error) {
	name := c.Command[0]
	if name == "drover" {
		name = in.r.cfg.Self
	}
	cmd := exec.Command(name, c.Command[1:]...)
	if cmd.Err != nil {
		return nil, startError(cmd.Err)
	}
	cmd.Dir = filepath.Join(in.home(), "data")
	cmd.SysProcAttr = program.Detached()
	env := program.BareEnv(cmd.Dir)
	for k, v := range c.Env {
		env[k] = v
	}
	env["PORT"] = strconv.Itoa(port)
	env["DROVER_INSTANCE"] = in.id
	env[program.NonceVar] = in.nonce + "." + strconv.FormatInt(in.run, 10)
	cmd.Env = make([]string, 0, len(env))
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	sort.Strings(cmd.Env)
	return cmd, nil
}

// startError says why in words for users: no paths of this machine.
func startError(err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "its command is not on this machine")
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Invalid, "its command may not be run on this machine")
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without the path
	}
	return fault.New(fault.Unavailable, "the machine refused to run it: %w", err)
}

func describe(err error) string {
	var ee *exec.ExitError
	switch {
	case err == nil:
		return "exit status 0"
	case errors.As(err, &ee):
		return ee.String()
	}
	return "nobody saw how"
}

func (in *instance) keep(c child) error {
	err := writeJSON(filepath.Join(in.home(), "process.json"), c, false)
	if err != nil {
		in.r.cfg.Logger.WarnContext(in.about(), "cannot write down an instance's process", "instance", in.id, "error", err)
	}
	return err
}

// freePort asks the system for a port that nobody listens on and that no other
// instance was given. Somebody else may still take it first; the instance then
// ends or is not the one that answers, and is started again on another.
func (r *Runtime) freePort() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fault.New(fault.Unavailable, "this machine has no free port")
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		r.mu.Lock()
		taken := r.ports[port]
		r.ports[port] = true
		r.mu.Unlock()
		if !taken {
			return port, nil
		}
	}
	return 0, fault.New(fault.Unavailable, "this machine has no free port")
}

func (r *Runtime) releasePort(port int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ports, port)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
