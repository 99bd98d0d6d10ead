//go:build unix

package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/test/servers/process"
)

// This test program is the server too.
const serve = "DROVER_TEST_SERVE"

func TestMain(m *testing.M) {
	if at := os.Getenv(serve); at != "" {
		l, err := net.Listen("tcp", at)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				os.Exit(1)
			}
			c.Write([]byte("hello\n"))
			c.Close()
		}
	}
	os.Exit(m.Run())
}

func server(t *testing.T, l *process.Leash) (*process.Process, string) {
	t.Helper()
	ports, err := l.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + ports[0]
	p := l.Process("server", os.Args[0])
	p.Env = []string{serve + "=" + at}
	return p, at
}

func leash(t *testing.T) *process.Leash {
	t.Helper()
	l, err := process.NewLeash("process")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

// hear says whether the server greets.
func hear(patience time.Duration, at string) error {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	_, err = bufio.NewReader(c).ReadString('\n')
	return err
}

func TestLife(t *testing.T) {
	p, at := server(t, leash(t))
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return p.Ready(ctx, func(context.Context) error { return hear(time.Minute, at) })
	}
	for _, c := range []struct {
		reason     string
		fail, heal func() error
	}{
		{"it is stopped", p.Stop, ready},
		{"it is killed", p.Kill, ready},
		{"it is stopped again", p.Stop, p.Start},
		{"it is paused", p.Pause, p.Resume},
		{"it is paused and killed", func() error { return errors.Join(p.Pause(), p.Kill()) }, p.Start},
		{"it is paused and stopped", func() error { return errors.Join(p.Pause(), p.Stop(), p.Stop()) }, p.Start},
	} {
		if err := ready(); err != nil {
			t.Fatalf("before %s: %v", c.reason, err)
		}
		if err := c.fail(); err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
		if err := hear(200*time.Millisecond, at); err == nil {
			t.Errorf("%s, and it answers", c.reason)
		}
		if err := c.heal(); err != nil {
			t.Errorf("after %s: %v", c.reason, err)
		}
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(); err == nil {
		t.Error("what does not run was paused")
	}
}

func TestWhatDoesNotStartSaysWhy(t *testing.T) {
	p, at := server(t, leash(t))
	other, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = p.Ready(t.Context(), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

func TestPortsAreGivenOnce(t *testing.T) {
	one, two := leash(t), leash(t)
	first, err := one.Ports(60)
	if err != nil {
		t.Fatal(err)
	}
	second, err := two.Ports(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, port := range append(first, second...) {
		if seen[port] {
			t.Errorf("%s was given twice", port)
		}
		seen[port] = true
	}
	if _, err := two.Ports(60); err == nil {
		t.Error("there are more ports than there are")
	}
	one.Release()
	two.Release()
	if _, err := leash(t).Ports(60); err != nil {
		t.Errorf("they were not given back: %v", err)
	}
}

// A test process that is killed leaves neither servers nor files behind.
func TestServersEndWithTheProcess(t *testing.T) {
	const child = "DROVER_TEST_CHILD"
	if os.Getenv(child) != "" {
		p, at := server(t, leash(t))
		if err := p.Ready(t.Context(), func(context.Context) error { return hear(time.Minute, at) }); err != nil {
			t.Fatal(err)
		}
		fmt.Println("running", at)
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
		at, _ = strings.CutPrefix(lines.Text(), "running ")
	}
	if err := hear(time.Minute, at); err != nil {
		t.Fatalf("the server at %q does not run: %v", at, err)
	}
	cmd.Process.Kill()
	cmd.Wait() //nolint:errcheck // it was killed
	for range 600 {
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
	t.Error("a minute later the server or its files are still there")
}
