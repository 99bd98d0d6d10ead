// Package process runs servers for tests: each in a directory of its own, on
// ports of loopback that no other test process takes, and never for longer than
// the process that started it.
//
// It owns starting, stopping and pausing. It must not know any server.
package process

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

// watchdog outlives the test process, however that ends, by the moment that it
// takes to end the servers and to remove their data. Its standard input tells
// it the ids of processes as they come (+) and go (-).
const watchdog = `dir=$1; pids=
while read -r op pid; do
	keep=; for p in $pids; do [ "$p" = "$pid" ] || keep="$keep $p"; done
	[ "$op" = + ] && keep="$keep $pid"
	pids=$keep
done
[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }`

// Leash ties servers, their directory and their ports to the life of the test process.
type Leash struct {
	Dir string

	shell *exec.Cmd
	in    io.WriteCloser

	mu     sync.Mutex
	ports  []string
	tied   []*Process
	closed bool
}

// NewLeash makes a directory, which begins with the name. Whoever asks for it
// releases it; the end of the process does so too.
func NewLeash(name string) (*Leash, error) {
	dir, err := os.MkdirTemp("", "drover-"+name+"-")
	if err != nil {
		return nil, err
	}
	l := &Leash{Dir: dir, shell: exec.Command("/bin/sh", "-c", watchdog, "sh", dir)}
	group(l.shell)
	if l.in, err = l.shell.StdinPipe(); err == nil {
		err = l.shell.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

func (l *Leash) note(op string, pid int) { fmt.Fprintln(l.in, op, pid) }

// File is the path of a file in the directory.
func (l *Leash) File(name string) string { return filepath.Join(l.Dir, name) }

// Process is a server that can be started.
func (l *Leash) Process(name, path string, args ...string) *Process {
	p := &Process{Name: name, path: path, args: args, leash: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tied = append(l.tied, p)
	return p
}

// Release ends the servers, removes the directory and gives the ports back. A
// second one does nothing.
func (l *Leash) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, p := range l.tied {
		p.Kill() //nolint:errcheck // the watchdog is next
	}
	l.in.Close()
	l.shell.Wait() //nolint:errcheck // there is nothing left to do about it
	for _, port := range l.ports {
		given.Delete(port)
	}
}

// given are the ports that this process uses, or will use again once the server
// that has one is back.
var given sync.Map

// The ports are below those of test/kubernetes and test/drover, and below those
// that the system gives to outgoing connections. Each process has some of its
// own, so that a server which is away for a moment finds its port again.
const firstPort, slices, slice = 8200, 18, 100

// Ports are free ones. Nobody listens there now, which may change before the
// server does: be ready to ask again.
func (l *Leash) Ports(n int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ports []string
	for range n {
		port, err := Port()
		if err != nil {
			return nil, err
		}
		ports, l.ports = append(ports, port), append(l.ports, port)
	}
	return ports, nil
}

// Port is one for a server on no leash, for as long as this process lives. One that
// the system chooses would go to any outgoing connection while the server is away,
// or takes its time to start.
func Port() (string, error) {
	for range 20 * slice {
		b := make([]byte, 2)
		rand.Read(b)
		port := strconv.Itoa(firstPort + os.Getpid()%slices*slice + (int(b[0])<<8|int(b[1]))%slice)
		if _, is := given.LoadOrStore(port, true); is {
			continue
		}
		if free(port) {
			return port, nil
		}
		given.Delete(port)
	}
	return "", errors.New("there are no free ports left for servers of tests")
}

// free says whether both TCP and UDP are: some servers want the same port of both.
func free(port string) bool {
	stream, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	packets.Close()
	return true
}
