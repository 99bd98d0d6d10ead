package program

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Listens reports whether the process, or one that carries its nonce, listens
// on the port. It is true when that cannot be found out.
func Listens(p Proof, port int) bool {
	sockets := listeners(port)
	if len(sockets) == 0 || holds(p.PID, sockets) {
		return true
	}
	all, err := Scan()
	if err != nil {
		return true
	}
	for _, f := range all {
		if f.Nonce == p.Nonce && holds(f.PID, sockets) {
			return true
		}
	}
	return false
}

// listeners returns the sockets that listen on the port.
func listeners(port int) map[string]bool {
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		suffix := fmt.Sprintf(":%04X", port)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], suffix) && f[3] == "0A" {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	return sockets
}

func holds(pid int, sockets map[string]bool) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && sockets[to] {
			return true
		}
	}
	return false
}
