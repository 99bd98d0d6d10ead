package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what the service needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
}

// Tenants are what waits for room on clusters.
type Tenants interface {
	// Waiting returns the wakes of those who wait for room in a region.
	Waiting(ctx context.Context, provider, region string, limit int) ([]ledger.Wake, error)
}

// Service holds the verbs on clusters.
type Service struct {
	// Tenants are woken when there is room; nil: nobody waits.
	Tenants Tenants

	store Store
	now   func() time.Time

	mu     sync.Mutex
	agents map[string]session // by cluster, of agents that report to this replica
}

// session is an agent process that speaks for a cluster.
type session struct {
	agent  string
	number int64
	seen   time.Time
}

// takeover is how long a silent agent keeps its place before another one may
// speak for the cluster.
const takeover = 30 * time.Second

// NewService makes the service.
func NewService(store Store) *Service {
	return &Service{store: store, now: time.Now, agents: map[string]session{}}
}

// Register makes a cluster known under the id; an existing one is left as it is.
func (s *Service) Register(ctx context.Context, id string, spec Spec) (ledger.Object, error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return ledger.Object{}, err
	}
	actor := access.From(ctx).Actor()
	if actor == "" {
		actor = "system"
	}
	o := ledger.Object{
		Ref: ledger.Ref{Kind: Kind.Name, ID: id}, Name: id, Phase: Waiting, Spec: body,
		Fields: ledger.Fields{"provider": spec.Provider, "region": spec.Region},
	}
	r, err := s.store.Commit(ctx, ledger.Set{
		Actor: actor, Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{{Object: o, Op: "register"}},
	})
	if fault.Reason(err) == "exists" {
		return s.Get(ctx, id)
	}
	if err != nil {
		return ledger.Object{}, fault.New(fault.Of(err), "cannot register cluster %q: %w", id, err)
	}
	return r.Objects[0], nil
}

// Get returns a cluster.
func (s *Service) Get(ctx context.Context, id string) (ledger.Object, error) {
	return s.store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
}

// Report is what an agent says of its cluster.
type Report struct {
	Agent    string // random per agent process
	Number   int64  // counts up per agent process
	Ready    bool
	Capacity int64
}

// Report takes an agent's report. A second agent for the same cluster is
// refused while the first one is alive, and so is a report that comes late.
// The session is kept in memory: it protects against mix-ups, not the ledger's
// truth, which is guarded by versions and generations.
func (s *Service) Report(ctx context.Context, id string, r Report) error {
	if r.Agent == "" || r.Capacity < 0 || r.Number < 0 {
		return fault.New(fault.Invalid, "a report needs the agent's id, a number and a capacity that is not negative")
	}
	o, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := s.enter(id, r); err != nil {
		return err
	}
	spec, status, err := decode(o)
	if err != nil {
		return err
	}
	phase := Waiting
	if r.Ready {
		phase = Ready
	}
	if phase == o.Phase && status.Capacity == r.Capacity {
		return nil
	}
	version := o.Version
	o.Phase, status.Capacity = phase, r.Capacity
	if o.Status, err = json.Marshal(status); err != nil {
		return err
	}
	_, err = s.store.Commit(ctx, ledger.Set{
		Actor: "agent:" + id, Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{{Object: o, Expect: version, Op: "report"}},
	})
	if fault.Reason(err) == "version" {
		return nil // somebody wrote meanwhile; the next report tells the same
	}
	if err != nil || !r.Ready {
		return err
	}
	return s.offerRoom(ctx, id, spec)
}

const wakeLimit = 1000

// offerRoom wakes those who wait, after the news is written: whoever looks from
// now on sees it.
func (s *Service) offerRoom(ctx context.Context, id string, spec Spec) error {
	if s.Tenants == nil {
		return nil
	}
	wakes, err := s.Tenants.Waiting(ctx, spec.Provider, spec.Region, wakeLimit)
	if err != nil || len(wakes) == 0 {
		return err
	}
	_, err = s.store.Commit(ctx, ledger.Set{Actor: "agent:" + id, Cause: ledger.CauseOf(ctx), Wakes: wakes})
	return err
}

func (s *Service) enter(id string, r Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.agents[id]
	if err := s.taken(id, r.Agent); err != nil {
		return err
	}
	if ok && known.agent == r.Agent && r.Number <= known.number {
		return fault.New(fault.Conflict, "report %d of cluster %q came after report %d", r.Number, id, known.number).Because("late")
	}
	s.agents[id] = session{agent: r.Agent, number: r.Number, seen: s.now()}
	return nil
}

// Admit lets an agent speak for the cluster, before it is told anything, and
// refuses it while another one does: it would run everything a second time, and
// nobody would hear of it.
func (s *Service) Admit(id, agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.taken(id, agent); err != nil {
		return err
	}
	known, ok := s.agents[id]
	if !ok || known.agent != agent {
		known = session{agent: agent, number: -1}
	}
	known.seen = s.now()
	s.agents[id] = known
	return nil
}

func (s *Service) taken(id, agent string) error {
	known, ok := s.agents[id]
	if ok && known.agent != agent && s.now().Sub(known.seen) < takeover {
		return fault.New(fault.Conflict, "another agent speaks for cluster %q; stop one of the two", id).Because("agent")
	}
	return nil
}

// Leave ends an agent's session, so that a restarted one need not wait.
func (s *Service) Leave(id, agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents[id].agent == agent {
		delete(s.agents, id)
	}
}

// Candidates lists the ready clusters of a region with what is free on them.
func (s *Service) Candidates(ctx context.Context, provider, region string) ([]Candidate, error) {
	objects, err := s.store.List(ctx, ledger.Query{
		Kind:  Kind.Name,
		Scope: map[string]any{"provider": provider, "region": region, "phase": Ready},
		Order: []ledger.Order{{Column: "created"}},
		Limit: 1000,
	})
	if err != nil {
		return nil, err
	}
	out := make([]Candidate, 0, len(objects))
	for _, o := range objects {
		_, status, err := decode(o)
		if err != nil {
			return nil, err
		}
		used, err := s.store.Counter(ctx, CapacityCounter(o.ID))
		if err != nil {
			return nil, err
		}
		out = append(out, Candidate{ID: o.ID, Capacity: status.Capacity, Used: used})
	}
	return out, nil
}
