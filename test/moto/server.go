package moto

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// watchdog ends the server with its input, which ends with this process.
const watchdog = `"$@" </dev/null & pid=$!
read -r how
kill -TERM $pid 2>/dev/null
wait $pid`

var listening = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// Start runs an emulator and returns its URL; it ends with the test.
func Start(t testing.TB) string {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", watchdog, "sh", find(t), "-H", "127.0.0.1", "-p", "0")
	leash, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	shell.Stdout, shell.Stderr = in, in
	if err := shell.Start(); err != nil {
		t.Fatalf("cannot start moto_server: %v", err)
	}
	var stop sync.WaitGroup
	t.Cleanup(func() {
		leash.Close()
		shell.Wait() //nolint:errcheck // it ends by a signal
		in.Close()
		stop.Wait()
	})
	found := make(chan string, 1)
	var said strings.Builder
	stop.Go(func() { // one, which ends with the server's output
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				io.Copy(io.Discard, out) //nolint:errcheck // it only must not block
				return
			}
			said.WriteString(lines.Text() + "\n")
		}
	})
	select {
	case url, ok := <-found:
		if !ok {
			t.Fatalf("moto_server ended: %s", said.String())
		}
		return url
	case <-time.After(3 * time.Minute):
		t.Fatal("moto_server does not say where it listens")
		return ""
	}
}

func find(t testing.TB) string {
	t.Helper()
	const missing = "moto is not there: run the tests by test/with-dns.sh, or name a moto_server in DROVER_TEST_MOTO"
	if os.Getenv("DROVER_TEST_NO_MOTO") == "1" {
		t.Skip(missing)
	}
	path := os.Getenv("DROVER_TEST_MOTO")
	if path == "" {
		// What the script has brought, of whatever version.
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		if all, _ := filepath.Glob(filepath.Join(cache, "drover", "moto-*", "bin", "moto_server")); len(all) > 0 {
			path = all[len(all)-1]
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(missing)
	}
	return path
}
