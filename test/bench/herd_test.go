//go:build bench

package bench

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/test/drover"
)

// setting is a number that an environment variable may change.
func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// herd is very many agents in this process, with a server in another one. Their
// runtimes and what they keep outlive them, as those of real agents do.
type herd struct {
	s      *drover.Server
	web    *http.Client
	agents []*herdsman

	messages, failed, bytes, applied atomic.Int64

	mu     sync.Mutex
	waited map[string]chan time.Time // by instance: who wants to know that it was applied
	errors map[string]int
	has    map[string]version // what the data planes were made to be, by item
}

type version struct {
	generation int64
	gone       bool
}

// herdsman is one of them.
type herdsman struct {
	h        *herd
	name     string
	token    string
	rt       watched
	kept     memory
	cancel   context.CancelFunc
	done     chan struct{}
	mu       sync.Mutex
	sent, at time.Time // of the first message that was answered since the mark
}

// watched is a simulated data plane that tells what is applied.
type watched struct {
	*simulated.Runtime
	h *herd
}

func (w watched) Apply(ctx context.Context, it runtime.Item) error {
	w.h.mu.Lock()
	if at := (version{it.Generation, it.Delete}); w.h.has[it.ID] != at { // what an agent makes sure of again is no change
		w.h.has[it.ID] = at
		w.h.applied.Add(1)
	}
	if c := w.h.waited[it.ID]; c != nil {
		delete(w.h.waited, it.ID)
		c <- time.Now()
	}
	w.h.mu.Unlock()
	return w.Runtime.Apply(ctx, it)
}

// memory is a store that outlives an agent, but not the bench.
type memory struct{ m *sync.Map }

func (m memory) Load(name string) ([]byte, error) {
	if data, ok := m.m.Load(name); ok {
		return data.([]byte), nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Save(name string, data []byte) error { m.m.Store(name, data); return nil }
func (m memory) Delete(name string) error            { m.m.Delete(name); return nil }

// metered counts the bytes of a connection.
type metered struct {
	net.Conn
	n *atomic.Int64
}

func (m metered) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.n.Add(int64(n))
	return n, err
}

func (m metered) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.n.Add(int64(n))
	return n, err
}

// newHerd makes agents for clusters that are registered already.
func newHerd(t *testing.T, s *drover.Server, names []string) *herd {
	t.Helper()
	h := &herd{s: s, waited: map[string]chan time.Time{}, errors: map[string]int{}, has: map[string]version{}, agents: make([]*herdsman, len(names))}
	dial := net.Dialer{Timeout: 10 * time.Second}
	h.web = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return metered{c, &h.bytes}, nil
		},
		MaxIdleConnsPerHost: 2 * len(names), IdleConnTimeout: 2 * time.Second, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10,
	}}
	admin := s.Client(t)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) || t.Failed() {
					return
				}
				token, err := admin.Token(context.Background(), v1.TokenRequest{Cluster: names[i]})
				if err != nil {
					t.Errorf("no token for %s: %v", names[i], err)
					return
				}
				h.agents[i] = &herdsman{h: h, name: names[i], token: token.Token, kept: memory{&sync.Map{}},
					rt: watched{simulated.New(simulated.Config{Capacity: 1_000_000}), h}}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(h.stop)
	return h
}

// sync sends a message and notes what came of it.
func (m *herdsman) sync(ctx context.Context, api *client.Client, cluster string, s v1.Sync) (v1.Synced, error) {
	sent := time.Now()
	out, err := api.Sync(ctx, cluster, s)
	if ctx.Err() != nil {
		return out, err
	}
	m.h.messages.Add(1)
	if err != nil {
		m.h.failed.Add(1)
		text := fmt.Sprintf("%d %.60s", client.Status(err), strings.ReplaceAll(err.Error(), m.name, "<cluster>"))
		m.h.mu.Lock()
		m.h.errors[text]++
		m.h.mu.Unlock()
	} else if len(out.Desired)+len(out.Bodies)+len(out.Observed) == 0 {
		m.mu.Lock()
		if m.at.IsZero() {
			m.sent, m.at = sent, time.Now()
		}
		m.mu.Unlock()
	}
	return out, err
}

type speaker struct {
	m   *herdsman
	api *client.Client
}

func (s speaker) Sync(ctx context.Context, cluster string, q v1.Sync) (v1.Synced, error) {
	return s.m.sync(ctx, s.api, cluster, q)
}

// start starts every agent, so many per second; 0: all at once.
func (h *herd) start(t *testing.T, perSecond int) {
	t.Helper()
	began := time.Now()
	for i, m := range h.agents {
		if perSecond > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		}
		api, err := client.New(client.Config{Server: h.s.URL(), Token: m.token, HTTPClient: h.web})
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New(agent.Config{Client: speaker{m, api}, Cluster: m.name, Runtime: m.rt, Store: m.kept, Version: "bench", Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		var ctx context.Context
		ctx, m.cancel = context.WithCancel(context.Background())
		m.done = make(chan struct{})
		go func() { defer close(m.done); _ = a.Run(ctx) }() // ended by stop
	}
}

// stop ends every agent; their runtimes stay.
func (h *herd) stop() {
	for _, m := range h.agents {
		if m.cancel != nil {
			m.cancel()
		}
	}
	for _, m := range h.agents {
		if m.done != nil {
			<-m.done
		}
	}
	h.web.CloseIdleConnections()
}

// mark forgets who has agreed with the server.
func (h *herd) mark() {
	for _, m := range h.agents {
		m.mu.Lock()
		m.sent, m.at = time.Time{}, time.Time{}
		m.mu.Unlock()
	}
	h.mu.Lock()
	clear(h.errors)
	h.mu.Unlock()
}

// agreed waits until each agent has agreed with the server since the mark, and
// returns when the last message with which one did was sent, and answered.
func (h *herd) agreed(t *testing.T, most time.Duration) (sent, answered time.Time) {
	t.Helper()
	for end := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
		left := 0
		sent, answered = time.Time{}, time.Time{}
		for _, m := range h.agents {
			m.mu.Lock()
			if m.at.IsZero() {
				left++
			} else if m.at.After(answered) {
				answered = m.at
			}
			if m.sent.After(sent) {
				sent = m.sent
			}
			m.mu.Unlock()
		}
		if left == 0 {
			return sent, answered
		}
		if time.Now().After(end) {
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("%d of %d agents do not agree after %s: %v", left, len(h.agents), most, h.errors)
		}
	}
}

// window is what happened in a while.
type window struct {
	took             time.Duration
	cpu              time.Duration // of the server
	messages, failed int64
	bytes            int64
}

// watch measures for a while.
func (h *herd) watch(d time.Duration) window {
	before := window{cpu: cpu(h.s.PID()), messages: h.messages.Load(), failed: h.failed.Load(), bytes: h.bytes.Load()}
	began := time.Now()
	time.Sleep(d) // what is measured is what happens meanwhile
	return window{
		took: time.Since(began), cpu: cpu(h.s.PID()) - before.cpu, messages: h.messages.Load() - before.messages,
		failed: h.failed.Load() - before.failed, bytes: h.bytes.Load() - before.bytes,
	}
}

func (w window) cores() float64 { return w.cpu.Seconds() / w.took.Seconds() }

// each is the number of messages and bytes per agent in an interval of 10 s.
func (w window) each(agents int) (messages, bytes float64) {
	intervals := w.took.Seconds() / 10 * float64(agents)
	return float64(w.messages) / intervals, float64(w.bytes) / intervals
}

// resident is the memory of a process that is not swapped out, in MiB.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()) >> 20
}
