package program

import (
	"slices"
	"strconv"
	"syscall"
)

const (
	queryLimited = 0x1000 // PROCESS_QUERY_LIMITED_INFORMATION
	stillActive  = 259
)

// Birth is the creation time, in units of 100 ns: no two processes of one pid share it.
func Birth(pid int) (string, bool) {
	h, err := syscall.OpenProcess(queryLimited, false, uint32(pid))
	if err != nil {
		return "", false
	}
	defer syscall.CloseHandle(h)
	var code uint32
	if err := syscall.GetExitCodeProcess(h, &code); err != nil || code != stillActive {
		return "", false
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", false
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), true
}

// carries cannot look into another process here; the creation time is exact
// enough to stand alone.
func carries(p Proof) bool { return true }

// Scan cannot see environments here: a process that was started in the instant
// before the agent was killed is found by its recorded pid or not at all.
func Scan() ([]Found, error) { return nil, nil }

// Carriers finds all living processes that carry one nonce. The file of their output
// cannot be seen here.
func Carriers(nonce, _ string) ([]Found, error) {
	all, err := Scan()
	return slices.DeleteFunc(all, func(f Found) bool { return f.Nonce != nonce }), err
}
