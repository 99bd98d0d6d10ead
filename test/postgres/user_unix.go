//go:build unix

package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// unprivileged lets a command run as another user when we are root, because
// the server refuses root.
func unprivileged(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return
	}
	if uid, gid, err := account(); err == nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
}

// hand gives files to the user that the server runs as.
func hand(paths ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := account()
	if err != nil {
		return err
	}
	for _, p := range paths {
		if err := os.Chown(p, int(uid), int(gid)); err != nil {
			return err
		}
	}
	return nil
}

// share leaves a file to us, and lets the server's group read it.
func share(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	_, gid, err := account()
	if err != nil {
		return err
	}
	return os.Chown(path, 0, int(gid))
}

func account() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		m, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return uint32(n), uint32(m), nil
	}
	return 0, 0, fmt.Errorf("there is no user postgres or nobody to run the server as")
}
