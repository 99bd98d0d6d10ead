//go:build unix

package app

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// lockState lets one bootstrap at a time work in a state directory. The lock ends
// with the process.
func lockState(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "bootstrap.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	for end := time.Now().Add(handover); ; time.Sleep(10 * time.Millisecond) {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { _ = f.Close() }, nil
		}
		if time.Now().After(end) {
			_ = f.Close()
			return nil, fault.New(fault.Conflict, "another bootstrap works in %s: wait for it, or name another directory with --state", dir).Because("locked")
		}
	}
}
