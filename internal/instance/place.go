package instance

import (
	"cmp"
	"context"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// wants is what the instance needs of a cluster.
func (in *Instance) wants(off *offering.Offering, units int64) cluster.Wanted {
	return cluster.Wanted{
		Provider: in.Spec.Provider, Region: in.Spec.Region, Offering: in.Spec.Offering, Type: in.Spec.Type,
		MultiAZ: in.Spec.MultiAZ, Org: in.Org, Cluster: in.Spec.Cluster, Units: units, Rules: off.Spec.Placement,
	}
}

// order is what is to be placed. Clusters that had no room after all are not
// asked at once again.
func (f *Facts) order(in Instance, waited time.Duration) cluster.Order {
	o := cluster.Order{Wanted: cluster.Wanted{Cluster: in.Spec.Cluster, Rules: f.Rules, Units: f.Units}, Unlisted: f.Unlisted}
	if waited < rejectedFor {
		o.Rejected = in.Status.Rejected
	}
	return o
}

// verdict chooses among the candidates those that offer what is to run there.
func (f *Facts) verdict(in Instance, waited time.Duration) cluster.Verdict {
	if f.Unsold != "" {
		return cluster.Verdict{}
	}
	order := f.order(in, waited)
	if len(f.Open) > 0 {
		for _, c := range f.Candidates {
			if _, offered := f.Offers[c.ID]; !offered {
				order.Lacking = append(order.Lacking, c.ID)
			}
		}
	}
	return cluster.Choose(order, f.Candidates)
}

// Fleet tells where orders would go. Clusters that know implement it.
type Fleet interface {
	Explain(ctx context.Context, ask cluster.WhatIf) ([]cluster.Verdict, error)
}

// Question asks where orders would go.
type Question struct {
	Provider, Region string // default: the offering's first
	Type, Size       string // default: the first
	MultiAZ          bool
	Org              string
	Cluster          string // one of the tenant's own
	Count            int
	Without          []string
	With             []cluster.Extra
}

// Explanation is where orders would go, or why they would not be taken.
type Explanation struct {
	Provider, Region string
	Plan             string
	Units            int64 // of one order
	Limited          bool  // the region has a limit for the type
	Limit, Taken     int64
	Verdicts         []cluster.Verdict
}

// MaxOrders is how many orders one question may be about.
const MaxOrders = 100

// Explain tells where orders of an offering would go now. It writes nothing.
func (s *Service) Explain(ctx context.Context, off *offering.Offering, q Question) (Explanation, error) {
	own, err := s.ownCluster(ctx, access.Principal{Org: q.Org}, q.Cluster)
	if err != nil {
		return Explanation{}, err
	}
	provider, region := offering.Provider{Name: own.Provider}, offering.Region{Name: own.Region}
	if q.Cluster == "" {
		if provider, region, err = off.Place(q.Provider, q.Region); err != nil {
			return Explanation{}, err
		}
	}
	typ := off.Spec.Types[0]
	if q.Type != "" {
		var ok bool
		if typ, ok = off.TypeOf(q.Type); !ok {
			return Explanation{}, fault.New(fault.Invalid, "%s has no instance type %.64q", off.Metadata.Name, q.Type).Because("type")
		}
	}
	if q.Size == "" {
		q.Size = typ.Sizes[0].Name
	}
	_, size, err := off.Plan(typ.Name + "." + q.Size)
	if err != nil {
		return Explanation{}, err
	}
	if typ.MultiAZ != nil {
		q.MultiAZ = *typ.MultiAZ
	}
	if own.MultiAZ != nil {
		q.MultiAZ = *own.MultiAZ
	}
	in := Instance{Spec: Spec{
		Offering: off.Metadata.Name, Provider: provider.Name, Region: region.Name, Type: typ.Name, Size: size.Name,
		MultiAZ: q.MultiAZ, Cluster: q.Cluster,
	}}
	in.Org = q.Org
	if in.Spec.Versions, err = versionsOf(off, ""); err != nil {
		return Explanation{}, err
	}
	for i := range q.With {
		e := &q.With[i].Spec
		e.Provider, e.Region = cmp.Or(e.Provider, provider.Name), cmp.Or(e.Region, region.Name)
	}
	return s.explain(ctx, off, &in, cluster.WhatIf{
		Order: cluster.Order{Wanted: in.wants(off, size.Capacity)}, Count: q.Count, Without: q.Without, With: q.With,
	})
}

// ExplainPlaced tells where an instance would go if it were placed now, what it
// holds given back before.
func (s *Service) ExplainPlaced(ctx context.Context, off *offering.Offering, in Instance) (Explanation, error) {
	units := in.Status.Units
	if _, size, err := off.Plan(in.Spec.Type + "." + in.Spec.Size); err == nil && in.Status.Cluster == "" {
		units = size.Capacity
	}
	ask := cluster.WhatIf{Order: cluster.Order{Wanted: in.wants(off, units), Rejected: in.Status.Rejected}}
	for _, h := range in.Status.Room {
		ask.Freed = append(ask.Freed, ledger.Count{Name: h.Counter, Delta: h.Units})
	}
	return s.explain(ctx, off, &in, ask)
}

func (s *Service) explain(ctx context.Context, off *offering.Offering, in *Instance, ask cluster.WhatIf) (Explanation, error) {
	out := Explanation{
		Provider: in.Spec.Provider, Region: in.Spec.Region, Plan: in.Spec.Type + "." + in.Spec.Size, Units: ask.Units,
	}
	fleet, ok := s.Clusters.(Fleet)
	if !ok {
		return out, fault.New(fault.Unavailable, "the fleet cannot be asked")
	}
	if _, region, err := off.Place(in.Spec.Provider, in.Spec.Region); err == nil && in.Spec.Cluster == "" {
		out.Limit, out.Limited = region.Limits[in.Spec.Type]
	}
	var err error
	if out.Limited {
		counter := RegionCounter(in.Spec.Offering, in.Spec.Provider, in.Spec.Region, in.Spec.Type)
		if out.Taken, err = s.Store.Counter(ctx, counter); err != nil {
			return out, err
		}
	}
	ask.Lacks = s.lacks(off, in)
	out.Verdicts, err = fleet.Explain(ctx, ask)
	return out, err
}

// lacks tells which clusters lack a version; nil where the file has them all.
func (s *Service) lacks(off *offering.Offering, in *Instance) func(context.Context, []string) ([]string, error) {
	open := map[string]string{}
	for _, c := range off.Spec.Components {
		if len(c.Versions) == 0 {
			open[c.Name] = in.Spec.Versions[c.Name]
		}
	}
	if len(open) == 0 {
		return nil
	}
	r := Reconciler{Config: s.Config}
	return func(ctx context.Context, ids []string) (lacking []string, err error) {
		for _, id := range ids {
			chosen, err := r.offers(ctx, id, off.Metadata.Name, open)
			if err != nil {
				return nil, err
			}
			if chosen == nil {
				lacking = append(lacking, id)
			}
		}
		return lacking, nil
	}
}

const maxQueued = 1000

// Demand tells what is asked of a region, for those who make clusters.
func (s *Service) Demand(ctx context.Context, provider, region string) ([]cluster.Demanded, error) {
	all, ok := s.Offerings.(cluster.Sold)
	if !ok {
		return nil, nil
	}
	found, err := s.Store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"parent": waitingRoom(provider, region)}, Limit: maxQueued,
	})
	if err != nil {
		return nil, err
	}
	queued := map[[2]string][]int64{}
	for _, o := range found {
		in, err := Decode(o)
		if err != nil || in.Spec.Cluster != "" || in.Status.Cluster != "" {
			continue // those who wait for their own cluster need none of the fleet's
		}
		if off, ok := s.Offerings.Get(in.Spec.Offering); ok {
			if _, size, err := off.Plan(in.Spec.Type + "." + in.Spec.Size); err == nil {
				key := [2]string{in.Spec.Offering, in.Spec.Type}
				queued[key] = append(queued[key], size.Capacity)
			}
		}
	}
	var out []cluster.Demanded
	for _, off := range all.List() {
		_, rg, err := off.Place(provider, region)
		if err != nil {
			continue
		}
		for _, t := range off.Spec.Types {
			d := cluster.Demanded{Offering: off.Metadata.Name, Type: t.Name, Queued: queued[[2]string{off.Metadata.Name, t.Name}]}
			if _, limited := rg.Limits[t.Name]; limited {
				if d.Taken, err = s.Store.Counter(ctx, RegionCounter(off.Metadata.Name, provider, region, t.Name)); err != nil {
					return nil, err
				}
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// Scalers wakes what makes clusters. Clusters that know implement it.
type Scalers interface {
	Scalers(ctx context.Context) ([]ledger.Wake, error)
}

// scale wakes those who could make room, once per wait. That they cannot be
// found is not in the way of waiting: they look by themselves every minute.
func (r *run) scale(ctx context.Context) {
	s, ok := r.Clusters.(Scalers)
	if !ok || r.in.Spec.Cluster != "" {
		return
	}
	if wakes, err := s.Scalers(ctx); err == nil {
		r.set.Wakes = append(r.set.Wakes, wakes...)
	}
}
