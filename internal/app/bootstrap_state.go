package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/fault"
)

// stateMark is in a state directory that is a bootstrap's.
const stateMark = "bootstrap.mark"

// ours tells whether a bootstrap has made what is in the state directory.
func (b *bootstrap) ours() bool {
	for _, name := range []string{stateMark, "ledger/drover.db", "run/.programs"} { // earlier ones have no mark
		if _, err := os.Lstat(filepath.Join(b.State, filepath.FromSlash(name))); err == nil {
			return true
		}
	}
	return false
}

// begins tells whether there is a ledger of it yet.
func (b *bootstrap) begins() bool {
	_, err := os.Stat(filepath.Join(b.ledgerDir(), "drover.db"))
	return err == nil
}

// settle makes the state's directories. Programs that run as another user have theirs
// below it: they may pass, and read nothing. What is there already stays as it is, and
// is refused where others may write, or have something of theirs.
func (b *bootstrap) settle() error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	ours := b.ours()
	for _, dir := range []string{b.State, b.runDir(), b.ledgerDir()} {
		if err := makeDir(dir, mode); err != nil {
			return err
		}
		if entries, err := os.ReadDir(dir); dir != b.State && !ours && (err != nil || len(entries) > 0) {
			return fault.New(fault.Conflict, "%s is there, and no bootstrap's: choose another directory with --state", dir).Because("state")
		}
	}
	if err := os.WriteFile(filepath.Join(b.State, stateMark), []byte("`drover bootstrap destroy` ends and removes what is in here\n"), 0o600); err != nil {
		return fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	return nil
}

// makeDir makes a directory, and those above it that are missing.
func makeDir(dir string, mode os.FileMode) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fault.New(fault.Invalid, "%s is no directory: choose another one with --state", dir).Because("state")
	case err == nil:
		if info.Mode().Perm()&0o022 != 0 {
			return fault.New(fault.Invalid, "others may write to %s, and so change what runs: choose another directory with --state", dir).Because("state")
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	if above := filepath.Dir(dir); above != dir {
		if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
			if err := makeDir(above, mode); err != nil {
				return err
			}
		}
	}
	// As it is wanted, whatever is masked.
	if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
		return fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	return nil
}

// BootstrapDestroy ends everything that a bootstrap has made on this machine, and
// removes it, data included.
func BootstrapDestroy(ctx context.Context, c BootstrapConfig) error {
	b := &bootstrap{BootstrapConfig: c, began: time.Now()}
	var err error
	if b.where, err = b.locate(); err != nil {
		return err
	}
	if b.where.kind != "local" {
		return fault.New(fault.Invalid, "what runs on Kubernetes is removed there: kubectl delete namespace %s, then the directory %s", b.Namespace, b.State)
	}
	if !b.ours() { // somebody's directory may have such names in it, as / has
		return fault.New(fault.NotFound, "there is no bootstrap in %s", b.State)
	}
	unlock, err := lockState(b.State)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(b.runDir()); err == nil {
		_, at := b.processes(b.runDir(), "")
		if err := process.End(ctx, at, func(name, what string) { b.tell("resource", name, "destroyed", what) }); err != nil {
			return err
		}
	}
	// Only what bootstrap makes there goes; the rest of the directory is somebody's.
	// The lock stays: whoever waits for it must not hold another one than the next.
	// What tells that it is ours goes last.
	for _, name := range []string{"run", "replica", "ledger", stateMark} {
		if err := os.RemoveAll(filepath.Join(b.State, name)); err != nil {
			return fault.New(fault.Unavailable, "the state cannot be removed: %w", err)
		}
	}
	return nil
}
