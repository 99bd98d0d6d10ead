//go:build !windows

package process_test

import "syscall"

// apart lets a child leave the group that is stopped with its parent.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
