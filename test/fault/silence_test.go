package fault

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// wire is a connection to the database that can go silent without ending: the
// outage that no error tells of.
type wire struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	silent chan struct{} // closed: bytes pass
	open   map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, target: target, silent: make(chan struct{}), open: map[net.Conn]bool{}}
	close(w.silent)
	go w.accept() // ends with the listener
	t.Cleanup(func() { l.Close(); w.resume(); w.cut() })
	return w
}

func (w *wire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.target)
		if err != nil {
			from.Close()
			continue
		}
		w.mu.Lock()
		w.open[from], w.open[to] = true, true
		w.mu.Unlock()
		go w.copy(to, from) // two per connection; each ends with it
		go w.copy(from, to)
	}
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		pass := w.silent
		w.mu.Unlock()
		<-pass
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				from.Close()
			}
			return
		}
	}
}

func (w *wire) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = make(chan struct{})
}

func (w *wire) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.silent:
	default:
		close(w.silent)
	}
}

// cut resets every connection, as a firewall that lost its state does.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		c.Close()
		delete(w.open, c)
	}
}

// The database says nothing any more, and no connection ends: requests are
// given up in time, /readyz says so, and all goes on when it speaks again.
func TestDatabaseFallsSilent(t *testing.T) {
	u, err := url.Parse(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.listener.Addr().String()
	s := drover.Up(t, "--database", u.String())
	l := newLoad(t, s)
	l.until("orders before", func() bool { return l.accepted.Load() >= 5 })

	l.ease()
	w.mute()
	muted := time.Now()
	l.press()
	l.until("/readyz to say so", func() bool { return readyz(s) == http.StatusServiceUnavailable })
	if took := time.Since(muted); took > late {
		t.Errorf("/readyz says so after %s", took)
	}
	l.until("refusals", func() bool { return l.refused.Load() >= 4 && l.unread.Load() >= 1 })
	l.until("somebody to be told why", func() bool { return l.heard("the database does not answer; try again") })
	if got := status(s, "/metrics"); got != http.StatusOK {
		t.Errorf("/metrics answers %d", got)
	}
	if got := alive(s); got != http.StatusOK {
		t.Errorf("/healthz answers %d", got)
	}
	l.ease()
	w.resume()
	l.until("/readyz to come back", func() bool { return readyz(s) == http.StatusOK })
	l.more("after the silence")

	// Every connection is cut at once, with orders under way.
	l.burst(16)
	w.cut()
	l.more("after the cut")
	l.end()
	l.check()
}
