package process_test

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
