package app

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// inward is a listener without an address: what runs in this process, such as the
// agent of `drover up`, reaches the API through it. Nobody else can, so nobody there
// has to show who it is by a certificate.
type inward struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInward() *inward { return &inward{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (l *inward) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inward) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *inward) Addr() net.Addr { return inwardAddr{} }

type inwardAddr struct{}

func (inwardAddr) Network() string { return "pipe" }
func (inwardAddr) String() string  { return "pipe" }

// dial is for transports; whom they ask for does not matter.
func (l *inward) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- inside{far}:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// client speaks to the API from inside.
func (l *inward) client() *http.Client {
	c := patient(2)
	c.Transport.(*http.Transport).DialContext, c.Transport.(*http.Transport).Proxy = l.dial, nil
	return c
}

// inside is a connection out of this process.
type inside struct{ net.Conn }

// RemoteAddr is what the record of calls shows.
func (inside) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type insideKey struct{}

// mark tells the handlers which connections came from inside.
func mark(ctx context.Context, c net.Conn) context.Context {
	if _, ok := c.(inside); ok {
		return context.WithValue(ctx, insideKey{}, true)
	}
	return ctx
}
