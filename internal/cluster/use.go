package cluster

import (
	"context"
	"strings"
)

// Use is how much of a cluster is in use, in units.
type Use struct {
	Cluster string
	Used    int64
	Max     int64            // that may be: what its agent reports, or the operator's limit if that is less
	Types   map[string]int64 // in use, by "<offering>/<instance type>"
}

// Uses tell how full every cluster is, oldest first.
func (s *Service) Uses(ctx context.Context) ([]Use, error) {
	known, err := s.view.look(ctx, s.store)
	if err != nil {
		return nil, err
	}
	var counters map[string]int64
	if store, ok := s.store.(prefixed); ok {
		counters, err = store.Counters(ctx, CapacityCounter(""))
	} else {
		counters, err = s.counters(ctx, &Wanted{}, known.sorted)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Use, len(known.sorted))
	at := make(map[string]int, len(out))
	for i, k := range known.sorted {
		out[i] = Use{Cluster: k.ID, Used: InUse(counters[CapacityCounter(k.ID)]), Max: k.Status.Capacity}
		if limit := k.Spec.Limit; limit != nil {
			out[i].Max = min(out[i].Max, *limit)
		}
		at[k.ID] = i
	}
	for name, units := range counters {
		id, typ, apart := strings.Cut(strings.TrimPrefix(name, CapacityCounter("")), "/")
		i, there := at[id]
		if !apart || !there || units == 0 {
			continue
		}
		if out[i].Types == nil {
			out[i].Types = map[string]int64{}
		}
		out[i].Types[typ] = units
	}
	return out, nil
}

// All returns the clusters as they are now, oldest first. They are shared: nobody
// changes them.
func (s *Service) All(ctx context.Context) ([]*Known, error) {
	found, err := s.view.look(ctx, s.store)
	if err != nil {
		return nil, err
	}
	return found.sorted, nil
}
