package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB

func birth(pid int) (string, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid || k.Proc.P_stat == zombie {
		return "", false
	}
	return fmt.Sprintf("%d.%06d", k.Proc.P_starttime.Sec, k.Proc.P_starttime.Usec), true
}

// carries asks ps, which shows the environment of our own processes.
func carries(p proof) bool {
	out, err := exec.Command("/bin/ps", "-E", "-ww", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
	if err != nil {
		return false
	}
	n, _ := splitNonce(nonceIn(string(out)))
	return n != "" && n == p.nonce
}

func nonceIn(line string) string {
	for _, w := range strings.Fields(line) {
		if v, ok := strings.CutPrefix(w, nonceVar+"="); ok {
			return v
		}
	}
	return ""
}

func scan() ([]found, error) {
	out, err := exec.Command("/bin/ps", "-E", "-ww", "-ax", "-o", "pid=,pgid=,command=").Output()
	if err != nil {
		return nil, err
	}
	var all []found
	for line := range strings.SplitSeq(string(out), "\n") {
		v := nonceIn(line)
		f := strings.Fields(line)
		if v == "" || len(f) < 3 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		b, alive := birth(pid)
		if !alive {
			continue
		}
		n, run := splitNonce(v)
		all = append(all, found{pid: pid, birth: b, nonce: n, run: run, leader: f[0] == f[1]})
	}
	return all, nil
}
