package cluster

import (
	"context"
	"net/url"
	"slices"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Candidate is a cluster as placement sees it.
type Candidate struct {
	ID       string
	Capacity int64   // units that would be in use if it were filled with the wanted type
	Used     int64   // by all types
	Peers    int64   // what an order is spread by: instances in its zone, or of the tenant there
	Refusal  Refusal // what keeps the order from it, room apart
	limited  bool    // an operator's limit is what bounds it
	cluster  *Known  // nil: it was made up, and there is nothing to count in
	wanted   *Wanted
}

// Free units.
func (c Candidate) Free() int64 { return c.Capacity - c.Used }

// Take returns the counters to move for units of an order, each with its bound.
// They are given back by the same counters.
func (c Candidate) Take(units int64) []ledger.Count {
	k, w := c.cluster, c.wanted
	if k == nil {
		return nil
	}
	bound, _ := k.bound()
	out := []ledger.Count{{Name: k.counter(), Delta: units, Max: bound}}
	if w.Type == "" || w.Offering == "" {
		return out
	}
	own := ledger.Count{Name: TypeCounter(k.ID, w.Offering, w.Type), Delta: units, Max: -1}
	if told, ok := k.Status.Units[unitsOf(w.Offering, w.Type)]; ok {
		own.Max = told.Max
	}
	out = append(out, own)
	if spread := w.spread(k); spread != "" {
		out = append(out, ledger.Count{Name: spread, Delta: 1, Max: c.Peers + 1 + skew})
	}
	return out
}

// bound is how many units may be in use on a cluster, and whether that is an
// operator's limit.
func (k *Known) bound() (units int64, limited bool) {
	if limit := k.Spec.Limit; limit != nil && *limit < k.Status.Capacity {
		return *limit, true
	}
	return k.Status.Capacity, false
}

// counter is CapacityCounter of the cluster, made once.
func (k *Known) counter() string {
	if k.room == "" {
		return CapacityCounter(k.ID)
	}
	return k.room
}

// skew is how many others may go to a zone between the look and the commit: a
// burst that all saw the same numbers is spread nevertheless, because the rest
// of it has to look again.
const skew = 8

// ZoneCounter counts the instances of an offering in a failure domain.
func ZoneCounter(offeringName, provider, region, zone string) string {
	return zonePrefix(offeringName, provider, region) + url.PathEscape(zone)
}

func zonePrefix(offeringName, provider, region string) string {
	return "spread/" + offeringName + "/zone/" + url.PathEscape(provider) + "/" + url.PathEscape(region) + "/"
}

// TenantCounter counts the instances of an offering that a tenant has on a cluster.
func TenantCounter(offeringName, org, id string) string {
	return tenantPrefix(offeringName, org) + id
}

func tenantPrefix(offeringName, org string) string {
	return "spread/" + offeringName + "/tenant/" + url.PathEscape(org) + "/"
}

// Zone is the failure domain of a cluster; empty: it is not told.
func (s Spec) Zone() string { return s.Labels[zoneLabel] }

const zoneLabel = "zone"

// Weigh makes a candidate of a cluster: pure. What all types share is counted
// beside what the type has for itself, so that an agent may begin or cease to
// tell them apart while instances run.
func Weigh(w Wanted, k *Known, counters map[string]int64) Candidate {
	return newScales(&w, func(name string) int64 { return counters[name] }).weigh(k)
}

// scales weigh many clusters for one order. What is the same for all of them is
// made once.
type scales struct {
	wanted  *Wanted
	counter func(name string) int64
	units   string            // key of the type in a cluster's units; empty: any type
	zones   map[string]string // counters of zones
}

func newScales(w *Wanted, counter func(name string) int64) *scales {
	s := &scales{wanted: w, counter: counter, zones: map[string]string{}}
	if w.Type != "" && w.Offering != "" {
		s.units = unitsOf(w.Offering, w.Type)
	}
	return s
}

func (s *scales) weigh(k *Known) Candidate {
	w, name := s.wanted, k.counter()
	c := Candidate{ID: k.ID, Used: s.counter(name), Refusal: k.bar(w), cluster: k, wanted: w}
	c.Capacity, c.limited = k.bound()
	if s.units == "" {
		return c
	}
	if told, ok := k.Status.Units[s.units]; ok {
		if bound := c.Used + max(told.Max-s.counter(name+"/"+s.units), 0); bound < c.Capacity {
			c.Capacity, c.limited = bound, false
		}
	}
	if spread := s.spread(k); spread != "" {
		c.Peers = s.counter(spread)
	}
	return c
}

func (s *scales) spread(k *Known) string {
	if s.wanted.Rules.By == offering.ByTenant {
		return s.wanted.spread(k)
	}
	zone := k.Spec.Provider + "/" + k.Spec.Region + "/" + k.Spec.Zone()
	name, ok := s.zones[zone]
	if !ok {
		name = s.wanted.spread(k)
		s.zones[zone] = name
	}
	return name
}

// spread is the counter that an order is spread by; empty: it is not.
func (w *Wanted) spread(k *Known) string {
	switch {
	case w.Rules.Strategy != offering.Spread || w.Cluster != "":
		return ""
	case w.Rules.By == offering.ByTenant:
		return TenantCounter(w.Offering, w.Org, k.ID)
	}
	return ZoneCounter(w.Offering, k.Spec.Provider, k.Spec.Region, k.Spec.Zone())
}

// Candidates lists all ready clusters that can host an order, oldest first,
// with what is free on them; Shortlist is for those who place one. A tenant's own clusters host only what names them,
// and only what their tenant orders.
func (s *Service) Candidates(ctx context.Context, w Wanted) ([]Candidate, error) {
	all, err := s.candidates(ctx, w, false)
	return slices.DeleteFunc(all, func(c Candidate) bool { return c.Refusal.Bar != "" }), err
}

// Survey lists all clusters that there are, whether they can host an order or not.
func (s *Service) Survey(ctx context.Context, w Wanted) ([]Candidate, error) {
	return s.candidates(ctx, w, true)
}

func (s *Service) candidates(ctx context.Context, w Wanted, everywhere bool) ([]Candidate, error) {
	known, err := s.view.look(ctx, s.store)
	if err != nil {
		return nil, err
	}
	var found []*Known
	switch {
	case everywhere:
		found = known.sorted
	case w.Cluster != "":
		if k := known.byID[w.Cluster]; k != nil {
			found = []*Known{k}
		}
	default:
		found = known.at[place{w.Provider, w.Region}]
	}
	counters, err := s.counters(ctx, &w, found)
	if err != nil {
		return nil, err
	}
	out := make([]Candidate, len(found))
	scales := newScales(&w, func(name string) int64 { return counters[name] })
	for i, k := range found {
		out[i] = scales.weigh(k)
	}
	return out, nil
}

// counters reads what the clusters' orders are counted in, at one look.
func (s *Service) counters(ctx context.Context, w *Wanted, clusters []*Known) (map[string]int64, error) {
	if len(clusters) == 0 {
		return nil, nil
	}
	typed := w.Type != "" && w.Offering != ""
	names := make([]string, 0, 3*len(clusters))
	for _, k := range clusters {
		names = append(names, CapacityCounter(k.ID))
		if _, told := k.Status.Units[unitsOf(w.Offering, w.Type)]; told && typed {
			names = append(names, TypeCounter(k.ID, w.Offering, w.Type))
		}
		if spread := w.spread(k); spread != "" && typed {
			names = append(names, spread)
		}
	}
	return s.named(ctx, names)
}

// named reads counters by their names.
func (s *Service) named(ctx context.Context, names []string) (map[string]int64, error) {
	if t, ok := s.store.(tally); ok {
		return t.CountersOf(ctx, names)
	}
	out := make(map[string]int64, len(names))
	for _, name := range names {
		n, err := s.store.Counter(ctx, name)
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, nil
}

// tally is a ledger that answers for many counters at once.
type tally interface {
	CountersOf(ctx context.Context, names []string) (map[string]int64, error)
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
	facts := offering.ClusterFacts{
		ID: o.ID, Provider: spec.Provider, Region: spec.Region, Domain: spec.Domain, Client: status.Client, Login: status.Login, Private: spec.Private,
	}
	if spec.Nodes > 0 && len(spec.Types) > 0 {
		facts.Nodes = map[string]int64{}
		for _, t := range spec.Types {
			facts.Nodes[t] = spec.Nodes
		}
	}
	return facts, err
}

// Outside reports whether an agent of the fleet managers' protocol speaks for
// the cluster: it removes whatever it is not told of.
func (c Candidate) Outside() bool {
	return c.cluster != nil && c.cluster.Status.Installation == outside
}

// outside is the installation of all agents of that protocol.
const outside = "outside"
