package drover

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Mood is how a Proxy treats those who come.
type Mood int

const (
	Fair   Mood = iota // lets everything through
	Away               // ends every connection at once
	Asleep             // takes what comes and never answers
	Lossy              // fails some, half of them after the other side has done it
	Lying              // answers nonsense with status 200 (HTTP alone)
)

// Proxy stands before a server, for HTTP or for any TCP.
type Proxy struct {
	Addr   string
	Odds   int // of Lossy: one in so many fails; default 5
	mood   atomic.Int32
	Failed atomic.Int64 // how often it was not fair
	Passed atomic.Int64

	Certificate []byte // PEM, of one with TLS

	meddle atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	twist  atomic.Pointer[func(*http.Response) error]

	mu    sync.Mutex
	wakes chan struct{} // closed when those who were put to sleep may go
}

// Meddle lets a function answer in the place of the server, where it returns
// true; nil: nobody does. HTTP alone.
func (p *Proxy) Meddle(f func(http.ResponseWriter, *http.Request) bool) { set(&p.meddle, f, f == nil) }

// Twist changes the server's answers on their way; nil: nobody does. HTTP alone.
func (p *Proxy) Twist(f func(*http.Response) error) { set(&p.twist, f, f == nil) }

func set[F any](at *atomic.Pointer[F], f F, none bool) {
	if none {
		at.Store(nil)
		return
	}
	at.Store(&f)
}

func newProxy() *Proxy { return &Proxy{Odds: 5, wakes: make(chan struct{})} }

// Feel changes its mood; whoever was kept waiting is let go without an answer.
func (p *Proxy) Feel(m Mood) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mood.Store(int32(m))
	close(p.wakes)
	p.wakes = make(chan struct{})
}

func (p *Proxy) sleep(gone <-chan struct{}) {
	p.mu.Lock()
	wakes := p.wakes
	p.mu.Unlock()
	select {
	case <-wakes:
	case <-gone:
	}
}

// fate of one call: whether it fails, and whether only its answer does.
func (p *Proxy) fate() (m Mood, late bool) {
	m = Mood(p.mood.Load())
	if m == Lossy {
		if rand.IntN(p.Odds) > 0 {
			m = Fair
		} else {
			late = rand.IntN(2) == 0
		}
	}
	if m == Fair {
		p.Passed.Add(1)
	} else {
		p.Failed.Add(1)
	}
	return m, late
}

// HTTPProxy stands before an HTTP server until the test ends.
func HTTPProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return proxy(t, target, &http.Transport{MaxIdleConnsPerHost: 64}, (*httptest.Server).Start)
}

// HTTPSProxy does so for a server with TLS, which the transport reaches. Its own
// certificate is in Certificate.
func HTTPSProxy(t testing.TB, target string, by http.RoundTripper) *Proxy {
	t.Helper()
	return proxy(t, target, by, (*httptest.Server).StartTLS)
}

func proxy(t testing.TB, target string, by http.RoundTripper, start func(*httptest.Server)) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy()
	through := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		Transport: by,
		ModifyResponse: func(r *http.Response) error {
			if Mood(p.mood.Load()) == Asleep { // what was under way is lost as well
				p.Failed.Add(1)
				p.sleep(r.Request.Context().Done())
				return errors.New("its answer was lost")
			}
			if f := p.twist.Load(); f != nil {
				return (*f)(r)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.meddle.Load(); f != nil && (*f)(w, r) {
			p.Failed.Add(1)
			return
		}
		m, late := p.fate()
		switch {
		case m == Fair:
			through.ServeHTTP(w, r)
		case m == Asleep:
			_, _ = io.Copy(io.Discard, r.Body)
			p.sleep(r.Context().Done())
			panic(http.ErrAbortHandler)
		case m == Lying:
			_, _ = io.WriteString(w, `{"status": "success", "data": "moon", "items": 7, "access_token": 1}`)
		case m == Lossy && late:
			through.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case m == Lossy && rand.IntN(2) == 0:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	if c := server.Certificate(); c != nil {
		p.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	p.Addr = server.Listener.Addr().String()
	t.Cleanup(func() {
		p.Feel(Away)
		server.Close()
	})
	return p
}

// TCPProxy stands before any server until the test ends. One connection is one
// call: right for DNS over TCP, of which clients here ask once per connection.
func TCPProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy()
	p.Addr = l.Addr().String()
	var wg sync.WaitGroup
	t.Cleanup(func() {
		p.Feel(Away)
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.carry(c, target) })
		}
	})
	return p
}

func (p *Proxy) carry(c net.Conn, target string) {
	defer c.Close()
	m, late := p.fate()
	switch {
	case m == Asleep:
		p.sleep(nil)
		return
	case m != Fair && !late:
		return
	}
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { // ends with the client's side
		_, _ = io.Copy(up, c)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	if late { // it is done, and nobody is told
		buf := make([]byte, 1)
		_, _ = up.Read(buf)
		return
	}
	_, _ = io.Copy(c, up)
}
