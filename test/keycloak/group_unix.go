//go:build unix

package keycloak

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// group gives the command and its children a process group of their own.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// members are the processes of a leader's group, without the leader: the watchdog
// must hear when its owner ends.
func members(leader int) (pids []int, err error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "pgid=").Output()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(leader) {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil && pid != leader {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// tell stops processes, or lets them go on. One that has ended is not there any more.
func tell(pids []int, goOn bool) {
	signal := syscall.SIGSTOP
	if goOn {
		signal = syscall.SIGCONT
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}
