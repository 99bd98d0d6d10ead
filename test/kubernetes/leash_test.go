//go:build e2e && unix

package kubernetes_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/test/kubernetes"
)

// A test process that is killed leaves neither servers nor files behind.
func TestServersEndWithTheProcess(t *testing.T) {
	const child = "DROVER_TEST_CHILD"
	if os.Getenv(child) != "" {
		c := kubernetes.Start(t)
		fmt.Println("running", c.URL)
		select {} // until it is killed
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersEndWithTheProcess$")
	cmd.Env = append(os.Environ(), child+"=1", "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at := ""
	for lines := bufio.NewScanner(out); at == "" && lines.Scan(); {
		at, _ = strings.CutPrefix(lines.Text(), "running https://")
	}
	if _, err := net.Dial("tcp", at); err != nil {
		t.Fatalf("the server at %q does not run: %v", at, err)
	}
	cmd.Process.Kill()
	cmd.Wait() //nolint:errcheck // it was killed
	for range 2400 {
		left, err := os.ReadDir(temp)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
		} else if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // nobody is left who could tell
	}
	t.Error("four minutes later the server or its files are still there")
}
