package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// WhatIf asks where orders would go, in a fleet that may differ from the real one.
type WhatIf struct {
	Order
	Count   int            // orders, one after the other; default 1
	Freed   []ledger.Count // given back before: what an instance holds that is asked about
	Without []string       // clusters that are thought away
	With    []Extra        // clusters that are thought to be there
	// Lacks lists those of the clusters that do not offer what is to run there;
	// nil: all do.
	Lacks func(ctx context.Context, ids []string) ([]string, error)
}

// Extra is a cluster that is not there.
type Extra struct {
	Spec
	Units int64
}

// Explain decides where orders would go and why not elsewhere. It writes nothing.
func (s *Service) Explain(ctx context.Context, ask WhatIf) ([]Verdict, error) {
	known, err := s.view.look(ctx, s.store)
	if err != nil {
		return nil, err
	}
	fleet := slices.Clone(known.sorted)
	for _, id := range ask.Without {
		i := slices.IndexFunc(fleet, func(k *Known) bool { return k.ID == id })
		if i < 0 {
			return nil, fault.New(fault.Invalid, "there is no cluster %.64q to do without", id).Because("cluster-id")
		}
		fleet = slices.Delete(fleet, i, i+1)
	}
	real := slices.Clone(fleet)
	now := s.now().UTC()
	for i, extra := range ask.With {
		fleet = append(fleet, &Known{
			ID: fmt.Sprintf("extra-%d", i+1), Phase: Ready, Created: now, Spec: extra.Spec, Status: Status{Capacity: extra.Units},
		})
	}
	counters, err := s.counters(ctx, &ask.Wanted, real)
	if err != nil {
		return nil, err
	}
	counters = maps.Clone(counters)
	if counters == nil {
		counters = map[string]int64{}
	}
	for _, c := range ask.Freed {
		counters[c.Name] = max(counters[c.Name]-c.Delta, 0)
	}
	if ask.Lacks != nil {
		var able []string
		for _, k := range real {
			if k.bar(&ask.Wanted).Bar == "" {
				able = append(able, k.ID)
			}
		}
		if ask.Lacking, err = ask.Lacks(ctx, able); err != nil {
			return nil, err
		}
	}
	out := make([]Verdict, 0, max(ask.Count, 1))
	for range max(ask.Count, 1) {
		candidates := make([]Candidate, len(fleet))
		for i, k := range fleet {
			candidates[i] = Weigh(ask.Wanted, k, counters)
		}
		v := Choose(ask.Order, candidates)
		out = append(out, v)
		if v.Cluster == "" {
			continue
		}
		for _, c := range v.Ranked[0].Take(ask.Units) {
			counters[c.Name] += c.Delta
		}
	}
	return out, nil
}

// Capacity is what a region has of an instance type.
type Capacity struct {
	Provider, Region, Offering, Type string
	Max                              int64 // units of the type that there would be if its clusters were filled with it: Used and Free
	Used                             int64 // by the type, on the clusters that are counted
	Aside                            int64 // by the type, on clusters of the region that take no such orders now
	Free                             int64
	Largest                          int64 // units that fit in one piece
	Clusters                         int   // that are ready and host it
	Slack                            int64 // that is to be free
}

// Capacities tell what every region has of each type that is sold there.
func (s *Service) Capacities(ctx context.Context, sold []*offering.Offering) ([]Capacity, error) {
	known, err := s.view.look(ctx, s.store)
	if err != nil {
		return nil, err
	}
	var out []Capacity
	for _, off := range sold {
		for _, p := range off.Spec.Providers {
			for _, r := range p.Regions {
				wanted := needsOf([]*offering.Offering{off}, &Spec{Provider: p.Name, Region: r.Name}, nil)
				here := known.at[place{p.Name, r.Name}]
				counters, err := s.counters(ctx, &Wanted{}, here)
				if err != nil {
					return nil, err
				}
				for _, w := range wanted {
					c, err := s.capacity(ctx, &w, here, counters)
					if err != nil {
						return nil, err
					}
					out = append(out, c)
				}
			}
		}
	}
	return out, nil
}

func (s *Service) capacity(ctx context.Context, w *want, here []*Known, shared map[string]int64) (Capacity, error) {
	c := Capacity{Provider: w.Provider, Region: w.Region, Offering: w.Need.Offering, Type: w.Need.Type, Slack: w.Slack}
	names := make([]string, len(here))
	for i, k := range here {
		names[i] = TypeCounter(k.ID, c.Offering, c.Type)
	}
	counters, err := s.named(ctx, names)
	if err != nil {
		return c, err
	}
	maps.Copy(counters, shared)
	for i, k := range here {
		one := Weigh(w.Wanted, k, counters)
		if one.Refusal.Bar != "" {
			c.Aside += counters[names[i]]
			continue
		}
		c.Clusters++
		c.Used += counters[names[i]]
		c.Free += max(one.Free(), 0)
		c.Largest = max(c.Largest, one.Free())
	}
	c.Max = c.Used + c.Free
	return c, nil
}
