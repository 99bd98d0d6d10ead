package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// stopped asks whether all threads of a child have stopped, and takes nothing
// away from whoever waits for its end.
func stopped(pid int) (bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return info.Signo != 0, err
}
