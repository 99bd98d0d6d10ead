//go:build !windows

package program

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Detached gives the child a session of its own: it survives who has started it and
// the terminal, and its whole group can be stopped.
func Detached() *syscall.SysProcAttr {
	hear()
	return &syscall.SysProcAttr{Setsid: true}
}

// hear has children begin with signals that do something. Whoever is started by nohup, or in
// the background, ignores some, and so would all that he starts: what is caught, and
// dropped, is not handed down.
func hear() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// BareEnv is what every program may expect.
func BareEnv(home string) map[string]string {
	return map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home}
}

// StopGroup asks the group of a proven leader to end. Pids are handed out in
// turn, so the one that was proven a moment ago is not somebody else's yet.
func StopGroup(p Proof) error { return signalGroup(p, syscall.SIGTERM) }

// KillGroup ends it without a word.
func KillGroup(p Proof) error { return signalGroup(p, syscall.SIGKILL) }

// signals that a program may be asked to end with.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// SignalGroup asks as StopGroup does, with a signal by name; one that is not known is
// TERM.
func SignalGroup(p Proof, name string) error {
	sig, ok := signals[name]
	if !ok {
		sig = syscall.SIGTERM
	}
	return signalGroup(p, sig)
}

// TellGroup sends a signal that has to arrive: an error says that it has reached nobody.
func TellGroup(p Proof, name string) error {
	if p.Verdict() != Match {
		return errors.New("its process is not to be seen just now")
	}
	return syscall.Kill(-p.PID, signals[name])
}

func signalGroup(p Proof, sig syscall.Signal) error {
	if p.Verdict() != Match {
		return nil
	}
	return ignoreGone(syscall.Kill(-p.PID, sig))
}

// KillOne ends one process. The handle is taken before the proof: where the
// system has handles, what is signalled is what was proven.
func KillOne(p Proof) error {
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer h.Release()
	if p.Verdict() != Match {
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

// SyncDir makes what was renamed in a directory survive a power cut.
func SyncDir(dir string) error {
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
