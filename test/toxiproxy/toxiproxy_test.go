//go:build e2e

package toxiproxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/test/toxiproxy"
)

func TestToxics(t *testing.T) {
	s := toxiproxy.Start(t)
	p := s.Proxy(t, echo(t))
	for _, c := range []struct {
		reason   string
		bad      func()
		want     func(error) bool // of what is said on a connection that was open before
		patience time.Duration
	}{
		{"nothing", func() {}, func(err error) bool { return err == nil }, long},
		{"answers are late", func() { p.Add(t, toxiproxy.Latency(time.Hour, 0).On(toxiproxy.Answers)) }, late, short},
		{"what is said is lost", func() { p.Add(t, toxiproxy.Silence().On(toxiproxy.Requests)) }, late, short},
		{"the connection is half open", func() { p.Add(t, toxiproxy.Silence()) }, late, short},
		{"it times out", func() { p.Add(t, toxiproxy.Timeout(time.Millisecond)) }, gone, long},
		{"it is reset", func() { p.Add(t, toxiproxy.Reset()) }, gone, long},
		{"it is cut in the middle", func() { p.Add(t, toxiproxy.Cut(3).On(toxiproxy.Answers)) }, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, long},
		{"pieces are pieces of the whole", func() { p.Add(t, toxiproxy.Crumbs(1, time.Millisecond)) }, func(err error) bool { return err == nil }, long},
		{"a toxic for nobody", func() { p.Add(t, toxiproxy.Silence().For(0.0001)) }, func(err error) bool { return err == nil }, long},
		{"nobody listens", func() { p.Down(t) }, gone, long},
		{"what is removed is gone", func() { p.Add(t, toxiproxy.Silence())() }, gone, long},
	} {
		before, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatalf("%s: %v", c.reason, err)
		}
		if err := say(before, long); err != nil {
			t.Fatalf("before %s: %v", c.reason, err)
		}
		c.bad()
		if err := say(before, c.patience); !c.want(err) {
			t.Errorf("%s: %v", c.reason, err)
		}
		before.Close()
		p.Heal(t)
		after, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatalf("after %s: %v", c.reason, err)
		}
		if err := say(after, long); err != nil {
			t.Errorf("after %s: %v", c.reason, err)
		}
		after.Close()
	}
}

func TestDownRefuses(t *testing.T) {
	p := toxiproxy.Start(t).Proxy(t, echo(t))
	p.Down(t)
	if _, err := net.Dial("tcp", p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connected: %v", err)
	}
}

func TestPause(t *testing.T) {
	s := toxiproxy.Start(t)
	c, err := net.Dial("tcp", s.Proxy(t, echo(t)).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := say(c, short); !late(err) {
		t.Errorf("while it is paused: %v", err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	// What was said meanwhile is not lost.
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != text {
		t.Errorf("afterwards: %q, %v", line, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := say(c, long); !gone(err) {
		t.Errorf("after it has ended: %v", err)
	}
}

func late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func gone(err error) bool { return err != nil && !late(err) }

const (
	text = "a whole line\n"
	// Of what never comes, and of what does.
	short, long = 300 * time.Millisecond, time.Minute
)

// say wants back what it says.
func say(c net.Conn, patience time.Duration) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("%q came back", strings.TrimSpace(string(got)))
	}
	return nil
}

// echo is a server that answers what it hears.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	// Ends with the listener; one more per connection, which ends with that.
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}
