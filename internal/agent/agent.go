package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// Client speaks to the control plane.
type Client interface {
	// Desired streams the full desired state over one connection and ends with
	// the error that ended it. agent and installation are those of the reports.
	Desired(ctx context.Context, cluster, agent, installation string) iter.Seq2[v1.Desired, error]
	Observe(ctx context.Context, cluster string, r v1.Report) (v1.Acknowledged, error)
}

// Config of an Agent. Client, Cluster, Runtime and Dir have no default.
type Config struct {
	Client    Client
	Cluster   string
	Runtime   runtime.Runtime
	Dir       string        // holds the installation and the highest epoch that was seen
	Heartbeat time.Duration // between reports when nothing changes; default 10 s
	Coalesce  time.Duration // waited for more changes before a report; default 2 ms
	Parallel  int           // items applied at a time; default 8
	Logger    *slog.Logger  // default: none
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Agent is one agent process's life.
type Agent struct {
	cfg  Config
	id   string        // of this process
	home string        // the installation
	kick chan struct{} // something to report beside the runtime's changes
	work *queue

	mu     sync.Mutex
	mark   mark
	frozen string                     // why nothing is applied; empty: it is
	told   bool                       // a desired state came in this life
	full   bool                       // the next report tells everything
	seq    int64                      // of the desired state that is worked on
	bodies map[string]json.RawMessage // by digest, of the listed items
	listed map[string]key
	failed map[string]v1.ObservedItem // what the runtime refused

	number int64                      // of the last report; the reporter's alone
	acked  map[string]v1.ObservedItem // what the server knows; the reporter's alone
	sent   v1.Report                  // the last acknowledged, without items
}

// New reads what an earlier life has left in Dir.
func New(cfg Config) (*Agent, error) {
	if cfg.Client == nil || cfg.Runtime == nil || cfg.Cluster == "" || cfg.Dir == "" {
		return nil, fault.New(fault.Invalid, "an agent needs a client, a cluster, a runtime and a directory")
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	if cfg.Coalesce <= 0 {
		cfg.Coalesce = 2 * time.Millisecond
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 8
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the agent's directory: %w", err)
	}
	m, err := readMark(cfg.Dir)
	if err != nil {
		return nil, err
	}
	home, err := installation(cfg.Dir)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, id: random(), home: home, kick: make(chan struct{}, 1), mark: m, full: true,
		bodies: map[string]json.RawMessage{}, listed: map[string]key{}, failed: map[string]v1.ObservedItem{},
		acked: map[string]v1.ObservedItem{},
	}
	a.work = newQueue(a.applyOne)
	return a, nil
}

// Run works until ctx ends, which is not an error; what runs keeps running.
func (a *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { a.receive(ctx) })
	wg.Go(func() { a.report(ctx) })
	for range a.cfg.Parallel {
		wg.Go(func() { a.work.run(ctx) })
	}
	wg.Wait()
	return nil
}

func (a *Agent) nudge() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// pause before the next attempt, with jitter so that a fleet does not come back at once.
func pause(failures int) time.Duration {
	d := firstPause << min(max(failures-1, 0), 10)
	d = min(d, lastPause)
	return d/2 + mathrand.N(d/2+1)
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
