package rabbitmq_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a bus and its broker, and cuts or falls silent.
type proxy struct {
	addr, upstream string

	mu    sync.Mutex
	conns map[net.Conn]bool // false: nothing gets there any more
	limit int64             // bytes that a connection passes in each direction; 0: all
	cuts  int
	made  int           // connections that came
	held  chan struct{} // until it ends, clients hear nothing; nil: they hear everything
}

func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), upstream: upstream, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		serving.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	limit := p.limit
	p.made++
	p.mu.Unlock()
	pass := func(to, from net.Conn) {
		if limit == 0 {
			io.Copy(mouth{to, p, to == client}, from) //nolint:errcheck // it is over
		} else if n, _ := io.CopyN(mouth{to, p, to == client}, from, limit); n == limit {
			p.mu.Lock()
			p.cuts++
			p.mu.Unlock()
		}
		if to == server || p.talks(to) { // who is met with silence does not hear of the end, either
			to.Close()
		}
		from.Close()
	}
	var both sync.WaitGroup
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// cutAfter has each new connection end after so many bytes, wherever in a frame
// that is.
func (p *proxy) cutAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = bytes
}

// mouth says nothing any more once its proxy has fallen silent.
type mouth struct {
	net.Conn
	p        *proxy
	toClient bool
}

func (m mouth) Write(b []byte) (int, error) {
	if held := m.p.holds(); held != nil && m.toClient {
		<-held
	}
	if !m.p.talks(m.Conn) {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// hold keeps from clients what the broker says, until it is released.
func (p *proxy) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return sync.OnceFunc(func() { close(held) })
}

func (p *proxy) holds() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *proxy) talks(to net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[to]
}

// hush has all connections stay open and say nothing any more. Those that are made
// afterwards are as ever.
func (p *proxy) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = false
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// came is how many connections there were so far.
func (p *proxy) came() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

func (p *proxy) counted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}
