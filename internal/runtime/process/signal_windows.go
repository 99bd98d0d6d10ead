package process

import (
	"os"
	"syscall"
)

const (
	newProcessGroup = 0x200 // CREATE_NEW_PROCESS_GROUP
	detachedProcess = 0x8   // DETACHED_PROCESS
)

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: newProcessGroup | detachedProcess, HideWindow: true}
}

// bareEnv is what every program may expect.
func bareEnv(home string) map[string]string {
	return map[string]string{"PATH": os.Getenv("PATH"), "SYSTEMROOT": os.Getenv("SYSTEMROOT"), "USERPROFILE": home, "TEMP": home}
}

// stopGroup: a detached process can be sent no polite request here.
func stopGroup(p proof) error { return killOne(p) }

func killGroup(p proof) error { return killOne(p) }

func killOne(p proof) error {
	h, err := os.FindProcess(p.pid) // the open handle keeps the pid from being given away
	if err != nil {
		return nil
	}
	defer h.Release()
	if p.verdict() != match {
		return nil
	}
	if err := h.Kill(); err != nil && err != os.ErrProcessDone {
		return err
	}
	return nil
}

// Directories cannot be flushed here; the file system journals the rename.
func syncDir(string) error { return nil }
