package cluster

import (
	"context"
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Wanted is what an order needs of a cluster.
type Wanted struct {
	Provider, Region string
	Offering, Type   string // empty: any, for those who only look
	Org              string // of whoever orders
	Cluster          string // one of the tenant's own; empty: the fleet's
	MultiAZ          bool
	AnyZones         bool // MultiAZ does not matter, for those who only look
}

// Candidate is a cluster as placement sees it.
type Candidate struct {
	ID       string
	Capacity int64 // units that would be in use if it were filled with the wanted type
	Used     int64 // by all types
	counts   []ledger.Count
}

// Free units.
func (c Candidate) Free() int64 { return c.Capacity - c.Used }

// Take returns the counters to move for units of an order, each with its bound.
// They are given back by the same counters.
func (c Candidate) Take(units int64) []ledger.Count {
	out := slices.Clone(c.counts)
	for i := range out {
		out[i].Delta = units
	}
	return out
}

// Candidates lists the ready clusters that can host an order, oldest first,
// with what is free on them. A tenant's own clusters host only what names them,
// and only what their tenant orders.
func (s *Service) Candidates(ctx context.Context, w Wanted) ([]Candidate, error) {
	objects, err := s.eligible(ctx, w)
	if err != nil {
		return nil, err
	}
	out := make([]Candidate, 0, len(objects))
	for _, o := range objects {
		spec, status, err := Decode(o)
		if err != nil {
			return nil, err
		}
		if !spec.hosts(w) {
			continue
		}
		c, err := s.room(ctx, o.ID, status, w)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// eligible lists the ready clusters that the order may see at all.
func (s *Service) eligible(ctx context.Context, w Wanted) ([]ledger.Object, error) {
	if w.Cluster != "" {
		o, err := s.Get(ctx, w.Cluster)
		if fault.Is(err, fault.NotFound) || err == nil && (o.Phase != Ready || o.Org == "" || o.Org != w.Org) {
			return nil, nil
		}
		return []ledger.Object{o}, err
	}
	return s.store.List(ctx, ledger.Query{
		Kind:  Kind.Name,
		Scope: map[string]any{"provider": w.Provider, "region": w.Region, "phase": Ready, "org": ""},
		Order: []ledger.Order{{Column: "created"}},
		Limit: 1000,
	})
}

func (s Spec) hosts(w Wanted) bool {
	return s.Provider == w.Provider && s.Region == w.Region && !s.Deleted &&
		(s.Offering == "" || w.Offering == "" || s.Offering == w.Offering) &&
		(len(s.Types) == 0 || w.Type == "" || slices.Contains(s.Types, w.Type)) &&
		(s.MultiAZ == nil || w.AnyZones || *s.MultiAZ == w.MultiAZ)
}

// room tells what is free for a type. What all types share is counted beside
// what the type has for itself, so that an agent may begin or cease to tell
// them apart while instances run.
func (s *Service) room(ctx context.Context, id string, status Status, w Wanted) (Candidate, error) {
	used, err := s.store.Counter(ctx, CapacityCounter(id))
	if err != nil {
		return Candidate{}, err
	}
	c := Candidate{ID: id, Capacity: status.Capacity, Used: used}
	c.counts = []ledger.Count{{Name: CapacityCounter(id), Max: status.Capacity}}
	if w.Type == "" || w.Offering == "" {
		return c, nil
	}
	own := ledger.Count{Name: TypeCounter(id, w.Offering, w.Type), Max: -1}
	if units, told := status.Units[unitsOf(w.Offering, w.Type)]; told {
		used, err := s.store.Counter(ctx, own.Name)
		if err != nil {
			return Candidate{}, err
		}
		own.Max = units.Max
		c.Capacity = min(c.Capacity, c.Used+max(units.Max-used, 0))
	}
	c.counts = append(c.counts, own)
	return c, nil
}

// Offers lists the versions of every component that the ready operators of a
// cluster can run for an offering. The last of each list is what the newest
// operator has as its newest, so the last ones of all lists go together.
func (s *Service) Offers(ctx context.Context, id, offeringName string) (map[string][]string, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	_, status, err := Decode(o)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, op := range status.Operators[offeringName] {
		if !op.Ready {
			continue
		}
		for component, versions := range op.Components {
			list := slices.DeleteFunc(out[component], func(v string) bool { return slices.Contains(versions, v) })
			out[component] = append(list, versions...)
		}
	}
	return out, nil
}

// Facts are what the expressions of offerings see of a cluster.
func (s *Service) Facts(ctx context.Context, id string) (offering.ClusterFacts, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return offering.ClusterFacts{}, err
	}
	spec, status, err := Decode(o)
	facts := offering.ClusterFacts{ID: o.ID, Domain: spec.Domain, Client: status.Client, Private: spec.Private}
	if spec.Nodes > 0 && len(spec.Types) > 0 {
		facts.Nodes = map[string]int64{}
		for _, t := range spec.Types {
			facts.Nodes[t] = spec.Nodes
		}
	}
	return facts, err
}
