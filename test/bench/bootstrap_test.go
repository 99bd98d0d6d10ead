//go:build bench && linux

package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

// TestBootstrap goes from nothing but programs to a control plane that works and
// keeps itself.
func TestBootstrap(t *testing.T) {
	for _, b := range []servers.Built{built.Consul, built.OpenBao} {
		if _, err := servers.Build(t.Context(), b, os.Stderr); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "drover-bench-") // PostgreSQL passes as another user where this is root
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	port := 0
	for range 100 { // twelve in a row
		_, text, _ := net.SplitHostPort(drover.FreeAddress(t))
		from, _ := strconv.Atoi(text)
		free := true
		for p := from; p < from+12 && free; p++ {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			port = from
			break
		}
	}
	defer func() {
		if out, err := exec.Command(drover.Binary(), "bootstrap", "destroy", "--yes", "--state", state).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	began := time.Now()
	out, err := exec.Command(drover.Binary(), "bootstrap", "--location", "local", "--state", state, "--port", strconv.Itoa(port)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(began)
	report("bootstrap --location local, from cached servers to handed over", "PostgreSQL", fmt.Sprintf("%.1f s; load %s", took.Seconds(), load1()), "< 90 s")
}
