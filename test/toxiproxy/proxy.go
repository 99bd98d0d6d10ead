package toxiproxy

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"
)

// Proxy listens on loopback and passes on to its upstream.
type Proxy struct {
	Addr string // host and port that clients are told

	name   string
	server *Server
}

// Proxy makes one before an upstream, which is a host and a port. It ends with
// the server.
func (s *Server) Proxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{name: rand.Text(), server: s}
	var err error
	for range 3 { // a port that was free may be taken
		var ports []string
		if ports, err = s.leash.Ports(1); err != nil {
			break
		}
		p.Addr = "127.0.0.1:" + ports[0]
		in := map[string]any{"name": p.name, "listen": p.Addr, "upstream": upstream, "enabled": true}
		if err = s.api.Ask(t.Context(), http.MethodPost, "/proxies", in, nil); err == nil {
			return p
		}
	}
	t.Fatalf("cannot make a proxy before %s: %v", upstream, err)
	return nil
}

func (p *Proxy) ask(t testing.TB, method, path string, in, out any) {
	t.Helper()
	// A test's cleanup may heal, when the test's own context has ended.
	if err := p.server.api.Ask(context.WithoutCancel(t.Context()), method, "/proxies/"+p.name+path, in, out); err != nil {
		t.Fatalf("cannot change the proxy: %v", err)
	}
}

// Down ends all connections and refuses new ones.
func (p *Proxy) Down(t testing.TB) { t.Helper(); p.enable(t, false) }

// Up takes connections again, at the same address.
func (p *Proxy) Up(t testing.TB) { t.Helper(); p.enable(t, true) }

func (p *Proxy) enable(t testing.TB, enabled bool) {
	t.Helper()
	p.ask(t, http.MethodPost, "", map[string]any{"enabled": enabled}, nil)
}

// Stream is a direction.
type Stream string

// The directions.
const (
	Both     Stream = ""
	Requests Stream = "upstream"   // what the client says
	Answers  Stream = "downstream" // what the server says
)

// Toxic is something bad that happens to what goes through.
type Toxic struct {
	Kind       string
	Stream     Stream         // default: Both
	Share      float64        // of connections that it happens to; default: 1, all
	Attributes map[string]int // of the kind
}

// Latency holds everything back for a while, give or take the jitter, once in
// each direction of its stream.
func Latency(d, jitter time.Duration) Toxic {
	return Toxic{Kind: "latency", Attributes: map[string]int{"latency": int(d.Milliseconds()), "jitter": int(jitter.Milliseconds())}}
}

// Silence loses everything and closes nothing: a connection that is half open.
// Connections that went through it are closed when it is removed, because what
// they lost is lost.
func Silence() Toxic {
	return Toxic{Kind: "timeout", Attributes: map[string]int{"timeout": 0}}
}

// Timeout loses everything, and closes after a while.
func Timeout(d time.Duration) Toxic {
	return Toxic{Kind: "timeout", Attributes: map[string]int{"timeout": int(d.Milliseconds())}}
}

// Reset breaks connections off as soon as something is said, by TCP's reset.
func Reset() Toxic {
	return Toxic{Kind: "reset_peer", Attributes: map[string]int{"timeout": 0}}
}

// Slow passes so many kilobytes per second.
func Slow(rate int) Toxic {
	return Toxic{Kind: "bandwidth", Attributes: map[string]int{"rate": rate}}
}

// Cut closes a connection once so many bytes went through.
func Cut(bytes int) Toxic {
	return Toxic{Kind: "limit_data", Attributes: map[string]int{"bytes": bytes}}
}

// Crumbs passes on pieces of so many bytes, with a pause between them.
func Crumbs(bytes int, pause time.Duration) Toxic {
	return Toxic{Kind: "slicer", Attributes: map[string]int{"average_size": bytes, "size_variation": 0, "delay": int(pause.Microseconds())}}
}

// On is the same toxic in one direction.
func (x Toxic) On(s Stream) Toxic { x.Stream = s; return x }

// For is the same toxic for a share of the connections.
func (x Toxic) For(share float64) Toxic { x.Share = share; return x }

// Add lets something bad happen, also to connections that are open, until the
// returned function is called or the proxy is healed.
func (p *Proxy) Add(t testing.TB, x Toxic) (remove func()) {
	t.Helper()
	streams := []Stream{x.Stream}
	if x.Stream == Both {
		streams = []Stream{Requests, Answers}
	}
	if x.Share == 0 {
		x.Share = 1
	}
	var names []string
	for _, s := range streams {
		name := x.Kind + "-" + rand.Text()
		p.ask(t, http.MethodPost, "/toxics", map[string]any{
			"name": name, "type": x.Kind, "stream": s, "toxicity": x.Share, "attributes": x.Attributes,
		}, nil)
		names = append(names, name)
	}
	return func() {
		t.Helper()
		for _, name := range names {
			p.ask(t, http.MethodDelete, "/toxics/"+name, nil, nil)
		}
	}
}

// Heal removes all that is bad, and takes connections.
func (p *Proxy) Heal(t testing.TB) {
	t.Helper()
	var toxics []struct{ Name string }
	p.ask(t, http.MethodGet, "/toxics", nil, &toxics)
	for _, x := range toxics {
		p.ask(t, http.MethodDelete, "/toxics/"+x.Name, nil, nil)
	}
	p.Up(t)
}
