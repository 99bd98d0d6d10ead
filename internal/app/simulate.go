package app

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/internal/trace"
)

const (
	registrars = 16 // clusters registered at a time
	telling    = 10 * time.Second
)

// pretend is how the simulated data plane of a cluster behaves. What happens to
// an item depends on the seed, the cluster, the item and its generation alone,
// so that a run can be repeated.
func pretend(c AgentSettings, cluster string) simulated.Config {
	out := simulated.Config{Capacity: c.Capacity}
	if c.Latency > 0 { // from half of it to half as much again
		out.Delay = func(it runtime.Item) time.Duration {
			return time.Duration(float64(c.Latency) * (0.5 + lot(c.Seed, "latency", cluster, it)))
		}
	}
	if c.FailRate > 0 {
		out.Fail = func(it runtime.Item) string {
			if lot(c.Seed, "failure", cluster, it) < c.FailRate {
				return "a simulated failure"
			}
			return ""
		}
	}
	return out
}

// lot is a number from 0 up to 1.
func lot(seed int64, what, cluster string, it runtime.Item) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s/%s/%d", seed, what, cluster, it.ID, it.Generation))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// herd is a fleet of simulated clusters in one process.
type herd struct {
	tracer *trace.Tracer
	c      AgentConfig
	out    io.Writer
	web    *http.Client // of all agents
	admin  *client.Client
	home   string // the installations are made of it

	mu     sync.Mutex
	planes []*simulated.Runtime

	messages, failures atomic.Int64
}

// simulateFleet registers clusters and runs the agent of each until ctx ends.
func simulateFleet(ctx context.Context, c AgentConfig, tracer *trace.Tracer) error {
	if c.Runtime != "simulated" {
		return fault.New(fault.Invalid, "--clusters is for --runtime simulated: an agent of %s is one cluster's", c.Runtime)
	}
	if c.Server == "" || c.Token == "" {
		return fault.New(fault.Invalid, "a simulated fleet needs --server and the token of an admin, to register its clusters")
	}
	orText(&c.Prefix, "sim-")
	orText(&c.Provider, "local")
	orText(&c.Region, "local")
	h := &herd{c: c, out: c.Out, tracer: tracer}
	// Thousands of agents are mostly connections: small buffers, and none kept
	// beside the one that waits.
	var err error
	if h.web, err = c.web(2*c.Clusters, func(wires *http.Transport) {
		wires.ReadBufferSize, wires.WriteBufferSize, wires.IdleConnTimeout = 1<<10, 1<<10, 15*time.Second
	}); err != nil {
		return err
	}
	debug.SetGCPercent(50)
	if h.out == nil {
		h.out = io.Discard
	}
	// The same directory is the same fleet: its clusters know it again.
	if h.home, err = agent.Installation(agent.Dir(filepath.Join(c.DataDir, "simulated"))); err != nil {
		return err
	}
	if h.admin, err = client.New(client.Config{Server: c.Server, Token: c.Token, UserAgent: "drover-simulated/" + c.Version, HTTPClient: h.web, Plaintext: true}); err != nil {
		return fault.New(fault.Invalid, "%w", err)
	}
	fmt.Fprintf(h.out, "simulates %d clusters, %s to %s, in %s/%s for %s (latency %v, fail rate %v, seed %d)\n",
		c.Clusters, h.name(0), h.name(c.Clusters-1), c.Provider, c.Region, c.Server, c.Latency, c.FailRate, c.Seed)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var agents, registering sync.WaitGroup // one goroutine per agent, ended by ctx
	began, next := time.Now(), make(chan int)
	for range registrars {
		registering.Go(func() {
			for i := range next {
				a, err := h.join(ctx, h.name(i))
				if err != nil {
					cancel(err)
					return
				}
				agents.Go(func() { _ = a.Run(ctx) }) // ends with ctx, and never with an error
			}
		})
	}
	for i := 0; i < c.Clusters && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	registering.Wait()
	if ctx.Err() == nil {
		fmt.Fprintf(h.out, "%d agents joined in %.1f s\n", c.Clusters, time.Since(began).Seconds())
	}
	h.tell(ctx)
	agents.Wait()
	if err := context.Cause(ctx); err != context.Canceled {
		return err
	}
	return nil
}

func (h *herd) name(i int) string { return fmt.Sprintf("%s%05d", h.c.Prefix, i+1) }

// join makes a cluster known and its agent ready to run.
func (h *herd) join(ctx context.Context, name string) (*agent.Agent, error) {
	var token v1.Token
	err := h.insist(ctx, func() error {
		_, err := h.admin.Create(ctx, "clusters", v1.CreateCluster{Name: name, Provider: h.c.Provider, Region: h.c.Region})
		if client.Status(err) == http.StatusConflict {
			err = nil // of an earlier run
		}
		return err
	})
	if err == nil {
		err = h.insist(ctx, func() (err error) {
			token, err = h.admin.Token(ctx, v1.TokenRequest{Cluster: name})
			return err
		})
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot register cluster %s: %w", name, err)
	}
	tokens, err := agent.NewTokens(agent.Nowhere(), token.Token)
	if err != nil {
		return nil, err
	}
	api, err := client.New(client.Config{Server: h.c.Server, Bearer: tokens.Bearer, UserAgent: "drover-simulated/" + h.c.Version, HTTPClient: h.web, Plaintext: true})
	if err != nil {
		return nil, err
	}
	rt := simulated.New(pretend(h.c.AgentSettings, name))
	h.mu.Lock()
	h.planes = append(h.planes, rt)
	h.mu.Unlock()
	sum := sha256.Sum256([]byte(h.home + "/" + name))
	return agent.New(agent.Config{
		Client: counted{api, h}, Cluster: name, Runtime: rt, Store: agent.Nowhere(), Tokens: tokens,
		Installation: "i" + hex.EncodeToString(sum[:16]), Version: h.c.Version, Heartbeat: h.c.Heartbeat, Parallel: 1, Tracer: h.tracer,
	})
}

// insist repeats a call while the server is busy.
func (h *herd) insist(ctx context.Context, call func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := call()
		if err == nil || !client.Away(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// counted counts what the agents say.
type counted struct {
	agent.Client
	h *herd
}

func (c counted) Sync(ctx context.Context, cluster string, s v1.Sync) (v1.Synced, error) {
	out, err := c.Client.Sync(ctx, cluster, s)
	if c.h.messages.Add(1); err != nil && ctx.Err() == nil {
		c.h.failures.Add(1)
	}
	return out, err
}

// tell prints what the fleet does, until ctx ends.
func (h *herd) tell(ctx context.Context) {
	tick := time.NewTicker(telling)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		states := map[runtime.State]int{}
		all := 0
		h.mu.Lock()
		for _, rt := range h.planes {
			seen, _ := rt.Observe(ctx)
			for _, o := range seen {
				states[o.State]++
				all++
			}
		}
		h.mu.Unlock()
		fmt.Fprintf(h.out, "%s  %d messages, %d failed; %d items: %d ready, %d installing, %d failed, %d without room\n",
			time.Now().Format(time.TimeOnly), h.messages.Swap(0), h.failures.Swap(0), all,
			states[runtime.Ready], states[runtime.Installing], states[runtime.Error], states[runtime.Rejected])
	}
}
