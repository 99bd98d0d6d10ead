package program

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// bootID tells start times of this boot from those of another.
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// stat is what /proc/<pid>/stat tells: state, session and start time.
func stat(pid int) (state byte, session int, start string, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, "", false
	}
	// The name in parentheses may hold anything, so count from the last one.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, 0, "", false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return 0, 0, "", false
	}
	session, _ = strconv.Atoi(f[3])
	return f[0][0], session, f[19], true
}

// Birth is the start time in ticks of this boot. A zombie is not alive.
func Birth(pid int) (string, bool) {
	state, _, start, ok := stat(pid)
	return bootID() + "/" + start, ok && state != 'Z' && state != 'X'
}

// carries looks for the nonce in the environment that the process was started
// with, or, because some programs write over it, for its output in our log.
func carries(p Proof) bool {
	if n, _ := splitNonce(nonceOf(p.PID)); n != "" && n == p.Nonce {
		return true
	}
	return p.Log != "" && writes(p.PID, p.Log)
}

// writes reports whether a process has a file for its output.
func writes(pid int, log string) bool {
	for _, fd := range []string{"1", "2"} {
		if to, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + fd); err == nil && to == log {
			return true
		}
	}
	return false
}

func nonceOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(NonceVar+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// Scan finds all living processes that carry a nonce and that we may look at.
func Scan() ([]Found, error) { return scan("", "") }

// Carriers finds all living processes that carry one nonce, or have the file for
// their output: some programs write over their environment.
func Carriers(nonce, log string) ([]Found, error) { return scan(nonce, log) }

func scan(nonce, log string) ([]Found, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []Found
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		v := nonceOf(pid)
		n, run := splitNonce(v)
		if nonce == "" && v == "" || nonce != "" && n != nonce && !writes(pid, log) {
			continue
		}
		state, session, start, ok := stat(pid)
		if !ok || state == 'Z' || state == 'X' {
			continue
		}
		all = append(all, Found{PID: pid, Birth: bootID() + "/" + start, Nonce: n, Run: run, Leader: session == pid})
	}
	return all, nil
}
