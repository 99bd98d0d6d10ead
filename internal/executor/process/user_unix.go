//go:build unix

package process

import (
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/droverhq/drover/internal/fault"
)

// account is that of a user where we may choose; -1: as we are.
func account(name string) (uid, gid int, err error) {
	if name == "" || os.Geteuid() != 0 {
		return -1, -1, nil
	}
	u, err := user.Lookup(name)
	if err == nil {
		if uid, err = strconv.Atoi(u.Uid); err == nil {
			gid, err = strconv.Atoi(u.Gid)
		}
	}
	if err != nil {
		return -1, -1, fault.New(fault.Invalid, "there is no user %.64q on this machine", name)
	}
	return uid, gid, nil
}

func become(attr *syscall.SysProcAttr, uid, gid int) {
	if uid >= 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}
