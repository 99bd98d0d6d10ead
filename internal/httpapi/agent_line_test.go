package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/offerings"
)

// weather is how a network of pipes treats those who use it.
type weather int

const (
	fair    weather = iota
	refuses         // nobody listens, and connections end
	silent          // nothing gets through, and neither side is told
)

// network joins agents and their server without the system's, whose waiting does
// not count as waiting for the virtual clock.
type network struct {
	mu      sync.Mutex
	weather weather
	accept  chan net.Conn
	wires   map[*wire]bool
	dials   int
}

// wire is the agent's end of a connection.
type wire struct {
	net.Conn // to the server's end
	far      net.Conn
	n        *network
	dead     bool // what is written goes nowhere, and nothing comes
	closed   bool
}

var errNobody = errors.New("connection refused")

func newNetwork() *network { return &network{accept: make(chan net.Conn), wires: map[*wire]bool{}} }

// become changes the weather. What is lost in silence stays lost.
func (n *network) become(w weather) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.weather = w
	for c := range n.wires {
		if w == silent {
			c.dead = true
		}
		if w == refuses {
			_ = c.Conn.Close()
			_ = c.far.Close()
			delete(n.wires, c)
		}
	}
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	now := n.weather
	n.mu.Unlock()
	switch now {
	case refuses:
		return nil, errNobody
	case silent:
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // as the agent's dialer does
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	near, far := net.Pipe()
	c := &wire{Conn: near, far: far, n: n}
	select {
	case n.accept <- far:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[c] = true
	return c, nil
}

func (c *wire) isDead() bool {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.dead && !c.closed
}

func (c *wire) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.isDead() {
			return n, err
		}
	}
}

func (c *wire) Write(b []byte) (int, error) {
	if c.isDead() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close of a dead one is not heard at the other end.
func (c *wire) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed = true; c.dead {
		return c.SetReadDeadline(time.Now())
	}
	delete(c.n.wires, c)
	return c.Conn.Close()
}

// Accept, Close and Addr make it the server's listener, one after the other.
type ear struct {
	*network
	done chan struct{}
	once sync.Once
}

func (e *ear) Accept() (net.Conn, error) {
	select {
	case c := <-e.accept:
		return c, nil
	case <-e.done:
		return nil, net.ErrClosed
	}
}
func (e *ear) Close() error   { e.once.Do(func() { close(e.done) }); return nil }
func (e *ear) Addr() net.Addr { return &net.TCPAddr{} }

// said is one message of an agent with its answer, as they went over the line.
type said struct {
	cluster string
	at      time.Time
	sync    v1.Sync
	status  int
	answer  v1.Synced
}

// agrees says that with this message the server had nothing more to tell or to ask.
func (s said) agrees() bool {
	return s.status == 200 && len(s.answer.Desired)+len(s.answer.Bodies)+len(s.answer.Observed) == 0
}

// ranch is a control plane with real agents, in virtual time.
type ranch struct {
	*world
	dir     string
	skew    atomic.Int64 // nanoseconds of the server's clock before the agents'
	network *network
	issuer  *access.Issuer
	agents  map[string]*member
	stop    func()

	mu   sync.Mutex
	told []said
}

// member is a data plane with its agent.
type member struct {
	rt   *simulated.Runtime
	stop func()
	log  bytes.Buffer // read when it has stopped, or everything waits
}

// virtual runs a test on a ranch of its own.
func virtual(t *testing.T, skew time.Duration, f func(r *ranch)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &ranch{world: &world{T: t}, dir: t.TempDir(), network: newNetwork(), agents: map[string]*member{}}
		r.skew.Store(int64(skew))
		r.begin(0)
		f(r)
		for _, m := range r.agents {
			m.stop()
		}
		r.end()
	})
}

func (r *ranch) clock() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }

// begin starts a server on the ledger that is there, in an epoch if one is declared.
func (r *ranch) begin(epoch int64) {
	r.Helper()
	l, err := sqlledger.Open(r.Context(), sqlledger.Config{
		URL:   filepath.Join(r.dir, "ledger.db"),
		Kinds: append(policy.Kinds(), instance.Kind, cluster.Kind, operation.Kind, operation.AuditKind, offering.Kind, access.SigningKey),
		Key:   bytes.Repeat([]byte{7}, ledger.KeySize), Epoch: epoch,
	})
	if err != nil {
		r.Fatal(err)
	}
	shelf := offering.NewService(offering.Config{Store: l})
	data, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err == nil {
		_, _, err = shelf.Apply(access.With(r.Context(), people["root"]), "dinosaur.yaml", data)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.ledger, r.offerings = l, shelf.Registry()
	r.instances, r.clusters = instance.NewService(instance.Config{Store: l, Offerings: r.offerings}), cluster.NewService(l)
	if r.issuer, err = access.NewIssuer(access.IssuerConfig{Store: l, Clock: r.clock}); err != nil {
		r.Fatal(err)
	}
	auth, err := access.NewAuthenticator(access.AuthenticatorConfig{Builtin: r.issuer, Clock: r.clock})
	if err != nil {
		r.Fatal(err)
	}
	feed := ledger.NewFeed(l)
	ctx, cancel := context.WithCancel(context.Background())
	handler, err := httpapi.New(httpapi.Config{
		Ending: ctx, Ledger: l, Feed: feed, Offerings: r.offerings, Instances: r.instances, Clusters: r.clusters,
		Authenticator: auth, Issuer: r.issuer, Clock: r.clock, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/api/v1/clusters/{id}/sync", r.listening(handler))
	web := &http.Server{Handler: mux}
	running.Go(func() { _ = web.Serve(&ear{network: r.network, done: make(chan struct{})}) })
	r.network.become(fair)
	r.stop = func() {
		r.network.become(refuses)
		cancel()
		_ = web.Close()
		running.Wait()
		synctest.Wait() // what answered nobody has ended
		_ = l.Close()
	}
}

// end stops the server; agents find nobody.
func (r *ranch) end() { r.stop() }

// listening writes down what is said.
func (r *ranch) listening(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s := said{at: time.Now(), cluster: req.PathValue("id")}
		_ = json.Unmarshal(body, &s.sync)
		req.Body = io.NopCloser(bytes.NewReader(body))
		seen := &witness{ResponseWriter: w}
		h.ServeHTTP(seen, req)
		s.status = seen.status
		_ = json.Unmarshal(seen.body.Bytes(), &s.answer)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, s)
	})
}

// heard returns what was said since the last time, by cluster, in the order in
// which it was sent.
func (r *ranch) heard() map[string][]said {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]said{}
	for _, s := range r.told {
		out[s.cluster] = append(out[s.cluster], s)
	}
	r.told = nil
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b said) int { return cmp.Compare(a.sync.Number, b.sync.Number) })
	}
	return out
}

// join registers a cluster and runs its agent, with the token that an
// installation gets. What is called slow there takes hours to become so.
func (r *ranch) join(id string) *member {
	r.Helper()
	r.register(id)
	admin, _, err := r.issuer.Issue(r.Context(), access.Claims{User: "root", Admin: true}, time.Hour)
	if err != nil {
		r.Fatal(err)
	}
	wires := &http.Transport{DialContext: r.network.dial, DisableKeepAlives: true}
	api, err := client.New(client.Config{Server: "http://drover.test", Plaintext: true, Token: admin, HTTPClient: &http.Client{Transport: wires}})
	if err != nil {
		r.Fatal(err)
	}
	token, err := api.Token(r.Context(), v1.TokenRequest{Cluster: id, TTL: "168h"})
	if err != nil {
		r.Fatal(err)
	}
	m := &member{rt: simulated.New(simulated.Config{Delay: func(it runtime.Item) time.Duration {
		if bytes.Contains(it.Body, []byte(`"slow`)) {
			return 3 * time.Hour
		}
		return 0
	}})}
	r.agents[id] = m
	r.run(id, m, token.Token)
	return m
}

func (r *ranch) run(id string, m *member, token string) {
	r.Helper()
	store := agent.Dir(filepath.Join(r.dir, id))
	tokens, err := agent.NewTokens(store, token)
	if err != nil {
		r.Fatal(err)
	}
	wires := &http.Transport{DialContext: r.network.dial, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}
	api, err := client.New(client.Config{Server: "http://drover.test", Plaintext: true, Bearer: tokens.Bearer, HTTPClient: &http.Client{Transport: newer{wires}}})
	if err != nil {
		r.Fatal(err)
	}
	a, err := agent.New(agent.Config{
		Client: api, Cluster: id, Runtime: m.rt, Store: store, Tokens: tokens, Version: "test",
		Logger: slog.New(slog.NewTextHandler(&m.log, nil)),
	})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	m.stop = func() {
		cancel()
		<-done
		wires.CloseIdleConnections()
	}
}

// newer makes answers those of a later server, with fields that agents do not know.
type newer struct{ http.RoundTripper }

func (n newer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.Replace(body, []byte(`{`), []byte(`{"hereafter":{"what":["nobody","knows"]},`), 1)
	body = bytes.ReplaceAll(body, []byte(`{"id":`), []byte(`{"mood":"good","id":`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return resp, nil
}

// pass lets time go by, and everything happen that happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holds is what a data plane has, by generation; what is removed is not there.
func (m *member) holds(t testing.TB) map[string]int64 {
	t.Helper()
	seen, err := m.rt.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, o := range seen {
		if o.State == runtime.Ready {
			out[o.ID] = o.Generation
		}
	}
	return out
}
