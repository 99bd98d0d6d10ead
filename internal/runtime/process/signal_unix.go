//go:build !windows

package process

import (
	"os"
	"syscall"
)

// detached gives the child a session of its own: it survives the agent and
// its terminal, and its whole group can be stopped.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// bareEnv is what every program may expect.
func bareEnv(home string) map[string]string {
	return map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home}
}

// stopGroup asks the group of a proven leader to end. Pids are handed out in
// turn, so the one that was proven a moment ago is not somebody else's yet.
func stopGroup(p proof) error { return signalGroup(p, syscall.SIGTERM) }

func killGroup(p proof) error { return signalGroup(p, syscall.SIGKILL) }

func signalGroup(p proof, sig syscall.Signal) error {
	if p.verdict() != match {
		return nil
	}
	return ignoreGone(syscall.Kill(-p.pid, sig))
}

// killOne ends one process. The handle is taken before the proof: where the
// system has handles, what is signalled is what was proven.
func killOne(p proof) error {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	defer h.Release()
	if p.verdict() != match {
		return nil
	}
	if err := h.Signal(syscall.SIGKILL); err != nil && err != os.ErrProcessDone {
		return ignoreGone(err)
	}
	return nil
}

func ignoreGone(err error) error {
	if err == syscall.ESRCH {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
