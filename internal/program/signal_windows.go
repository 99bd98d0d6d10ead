package program

import (
	"errors"
	"os"
	"syscall"
)

const (
	newProcessGroup = 0x200 // CREATE_NEW_PROCESS_GROUP
	detachedProcess = 0x8   // DETACHED_PROCESS
)

// Detached lets the child survive who has started it.
func Detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: newProcessGroup | detachedProcess, HideWindow: true}
}

// BareEnv is what every program may expect.
func BareEnv(home string) map[string]string {
	return map[string]string{"PATH": os.Getenv("PATH"), "SYSTEMROOT": os.Getenv("SYSTEMROOT"), "USERPROFILE": home, "TEMP": home}
}

// StopGroup: a Detached process can be sent no polite request here.
func StopGroup(p Proof) error { return KillOne(p) }

// SignalGroup likewise.
func SignalGroup(p Proof, _ string) error { return KillOne(p) }

// TellGroup refuses: what cannot be told is not ended instead.
func TellGroup(Proof, string) error { return errors.New("there are no signals on Windows") }

// KillGroup ends it, as StopGroup does.
func KillGroup(p Proof) error { return KillOne(p) }

// KillOne ends one process.
func KillOne(p Proof) error {
	h, err := os.FindProcess(p.PID) // the open handle keeps the pid from being given away
	if err != nil {
		return nil
	}
	defer h.Release()
	if p.Verdict() != Match {
		return nil
	}
	if err := h.Kill(); err != nil && err != os.ErrProcessDone {
		return err
	}
	return nil
}

// SyncDir: directories cannot be flushed here; the file system journals the rename.
func SyncDir(string) error { return nil }
