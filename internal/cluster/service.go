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
	Agent        string // random per agent process
	Installation string // kept over the agent's restarts; empty: it has none to tell
	Number       int64  // counts up per agent process
	Unnumbered   bool   // the agent's protocol has no numbers: each report is the newest, by arrival
	Ready        bool
	Capacity     int64
}

// Report takes an agent's report. Another installation than the cluster's is
// refused, so is a second process of the same one while the first is alive, and
// a report that comes late.
func (s *Service) Report(ctx context.Context, id string, r Report) error {
	if r.Agent == "" || r.Capacity < 0 || r.Number < 0 {
		return fault.New(fault.Invalid, "a report needs the agent's id, a number and a capacity that is not negative")
	}
	o, err := s.claim(ctx, id, r.Agent, r.Installation)
	if err != nil {
		return err
	}
	spec, status, err := decode(o)
	if err != nil {
		return err
	}
	if err := s.enter(id, status.Installation, r); err != nil {
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
