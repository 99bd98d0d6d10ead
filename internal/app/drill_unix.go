//go:build unix

package app

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"github.com/droverhq/drover/internal/fault"
)

// unprivileged has a program run as another user where this one is root, because
// PostgreSQL refuses root.
func unprivileged(cmd *exec.Cmd) {
	if uid, gid, ok := other(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
}

// hand gives a file to that user.
func hand(path string) error {
	if uid, gid, ok := other(); ok {
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			return fault.New(fault.Unavailable, "cannot hand the copy to another user: %w", err)
		}
	}
	return nil
}

func other() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		n, first := strconv.ParseUint(u.Uid, 10, 32)
		m, second := strconv.ParseUint(u.Gid, 10, 32)
		if first == nil && second == nil {
			return uint32(n), uint32(m), true
		}
	}
	return 0, 0, false
}
