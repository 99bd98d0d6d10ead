package program

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB

func Birth(pid int) (string, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid || k.Proc.P_stat == zombie {
		return "", false
	}
	return fmt.Sprintf("%d.%06d", k.Proc.P_starttime.Sec, k.Proc.P_starttime.Usec), true
}

// psTimeout bounds ps, which reads tables of the kernel.
const psTimeout = 10 * time.Second

func ps(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	return exec.CommandContext(ctx, "/bin/ps", append([]string{"-E", "-ww"}, args...)...).Output()
}

// carries asks ps, which shows the environment of our own processes.
func carries(p Proof) bool {
	out, err := ps("-o", "command=", "-p", strconv.Itoa(p.PID))
	if err != nil {
		return false
	}
	n, _ := splitNonce(nonceIn(string(out)))
	return n != "" && n == p.Nonce
}

func nonceIn(line string) string {
	for _, w := range strings.Fields(line) {
		if v, ok := strings.CutPrefix(w, NonceVar+"="); ok {
			return v
		}
	}
	return ""
}

func Scan() ([]Found, error) {
	out, err := ps("-ax", "-o", "pid=,pgid=,command=")
	if err != nil {
		return nil, err
	}
	var all []Found
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
		b, alive := Birth(pid)
		if !alive {
			continue
		}
		n, run := splitNonce(v)
		all = append(all, Found{PID: pid, Birth: b, Nonce: n, Run: run, Leader: f[0] == f[1]})
	}
	return all, nil
}

// Carriers finds all living processes that carry one nonce. The file of their output
// cannot be seen here.
func Carriers(nonce, _ string) ([]Found, error) {
	all, err := Scan()
	return slices.DeleteFunc(all, func(f Found) bool { return f.Nonce != nonce }), err
}
