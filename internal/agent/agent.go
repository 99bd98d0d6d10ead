package agent

import (
	"context"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/trace"
)

// Client speaks to the control plane.
type Client interface {
	// Sync sends one message and returns the answer, which may be held back
	// until ctx ends. Its errors are those of api/client.
	Sync(ctx context.Context, cluster string, s v1.Sync) (v1.Synced, error)
}

// Config of an Agent. Client, Cluster and Runtime have no default, and one of
// Dir and Store must be given.
type Config struct {
	Client       Client
	Cluster      string
	Runtime      runtime.Runtime
	Dir          string        // of the files that the agent keeps, where Store is nil
	Store        Store         // default: files in Dir
	Tokens       *Tokens       // that Client uses; nil: the token is never renewed
	Installation string        // default: made once, and kept in the store
	Version      string        // of the program, for people
	Heartbeat    time.Duration // between messages until the control plane says another; default 10 s
	Grace        time.Duration // beyond the interval, and a fifth of it, before a held answer is taken for lost; default 5 s
	Coalesce     time.Duration // waited for more changes before they are told; default 2 ms
	Parallel     int           // items applied at a time; default 8
	Logger       *slog.Logger  // default: none
	Tracer       *trace.Tracer // of items that are wanted in a trace; default: none is followed
	Resting      func() string // names what the runtime calls and gives a rest; default: nothing
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
	kick chan struct{} // something to tell beside the runtime's changes
	work *line
	wg   sync.WaitGroup // of all goroutines of Run

	mu       sync.Mutex
	mark     mark
	keys     *keySet // nil: the control plane has told none
	book     *book
	resumed  bool                       // what was kept has been compared with the runtime
	frozen   string                     // why nothing is applied; empty: it is
	followed bool                       // an answer was followed in this life
	agreed   bool                       // likewise: both sides knew the same of all items
	seq      int64                      // of the answer that is worked on
	floor    int64                      // of this life: what is older is not followed
	saving   bool                       // a goroutine keeps what has changed
	failed   map[string]v1.ObservedItem // what the runtime refused
	traced   map[string]traced          // what is applied in a trace, by id
}

// New reads what an earlier life has left in the store.
func New(cfg Config) (*Agent, error) {
	if cfg.Store == nil && cfg.Dir != "" {
		cfg.Store = Dir(cfg.Dir)
	}
	if cfg.Client == nil || cfg.Runtime == nil || cfg.Cluster == "" || cfg.Store == nil {
		return nil, fault.New(fault.Invalid, "an agent needs a client, a cluster, a runtime and a directory")
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.Coalesce <= 0 {
		cfg.Coalesce = 2 * time.Millisecond
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 8
	}
	if cfg.Resting == nil {
		cfg.Resting = func() string { return "" }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := readMark(cfg.Store)
	if err != nil {
		return nil, err
	}
	home := cfg.Installation
	if home == "" {
		if home, err = Installation(cfg.Store); err != nil {
			return nil, err
		}
	}
	a := &Agent{
		cfg: cfg, id: random(), home: home, kick: make(chan struct{}, 1), mark: m,
		book: newBook(cfg.Cluster), failed: map[string]v1.ObservedItem{}, traced: map[string]traced{},
	}
	a.load()
	return a, nil
}

// Run works until ctx ends, which is not an error; what runs keeps running. At
// rest it has one goroutine and one held request; workers, messages and what
// keeps state come and go, and have ended when it returns.
func (a *Agent) Run(ctx context.Context) error {
	a.work = newLine(a.cfg.Parallel, a.wg.Go, func(e entry) { a.applyOne(ctx, e) })
	newLoop(a).run(ctx)
	a.work.close()
	a.wg.Wait()
	return nil
}

// Ready reports whether the agent does its work: it follows the control plane,
// or goes on without it from what was signed; why says what is missing.
func (a *Agent) Ready() (ready bool, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.frozen != "":
		return false, a.frozen
	case a.followed:
		return true, ""
	case a.resumed && a.keys != nil:
		return true, "" // offline
	}
	return false, "the control plane has not answered yet, and nothing was kept to go on with"
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
