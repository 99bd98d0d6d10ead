package cluster

import "time"

// SetClock lets tests say what time it is.
func (s *Service) SetClock(now func() time.Time) { s.now = now }

// SetGlance says how often it is looked whether a cluster is still wanted.
func (s *Service) SetGlance(d time.Duration) { s.glance = d }

// Index is the index of one shape of orders, for tests that compare it with a
// look at everything.
type Index struct {
	lane *lane
	all  map[string]*Known
}

// NewIndex makes the index of what such an order may be placed on.
func NewIndex(w Wanted, fleet []*Known) *Index {
	x := &Index{all: map[string]*Known{}}
	for _, k := range fleet {
		x.all[k.ID] = named(k)
	}
	x.lane = newLane(&w, x.all)
	return x
}

func named(k *Known) *Known {
	c := *k
	c.room = CapacityCounter(k.ID)
	return &c
}

// Change puts a cluster in place of that of the same id; gone takes it away.
func (x *Index) Change(k *Known, gone bool) {
	old, now := x.all[k.ID], named(k)
	if gone {
		now = nil
		delete(x.all, k.ID)
	} else {
		x.all[k.ID] = now
	}
	x.lane.change(old, now)
}

// Best is what the index says, by these counters.
func (x *Index) Best(o Order, counters map[string]int64) Shortlist {
	x.lane.tally(counters, x.lane.at.Add(1))
	for i, zone := range x.lane.zones {
		x.lane.peers[i] = counters[zone]
	}
	tenant := map[string]int64{}
	for id := range x.all {
		tenant[id] = counters[TenantCounter(o.Offering, o.Org, id)]
	}
	return x.lane.best(&o, tenant)
}

// Total is how many clusters the index counts at its place.
func (x *Index) Total() int { return x.lane.total }
