//go:build !unix

package process

import "syscall"

// account: programs run as we do here.
func account(string) (uid, gid int, err error) { return -1, -1, nil }

func become(*syscall.SysProcAttr, int, int) {}
