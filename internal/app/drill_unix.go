//go:build unix

package app

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// unprivileged has a program run as another user where this one is root, because
// PostgreSQL refuses root.
func unprivileged(cmd *exec.Cmd) {
	if uid, gid, ok := other(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}
}

// hand gives a directory of ours to that user.
func hand(dir, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, ok := other()
	if !ok {
		return hasUser("postgres")
	}
	return os.Lchown(filepath.Join(dir, name), int(uid), int(gid))
}

// handOpen gives a file that we have made to that user.
func handOpen(f *os.File) error {
	if uid, gid, ok := other(); ok {
		return f.Chown(int(uid), int(gid))
	}
	return nil
}

// other is the user of PostgreSQL. It is never `nobody`: others' programs run as that
// one too, and would read the copy.
func other() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	if u, err := user.Lookup("postgres"); err == nil {
		n, first := strconv.ParseUint(u.Uid, 10, 32)
		m, second := strconv.ParseUint(u.Gid, 10, 32)
		if first == nil && second == nil {
			return uint32(n), uint32(m), true
		}
	}
	return 0, 0, false
}
