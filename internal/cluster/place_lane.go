package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Shortlist is what an order can choose from.
type Shortlist struct {
	// Best are clusters that can take it, the best first: all of them where the
	// region has few, and the first few where it has many.
	Best []Candidate
	Room int // how many can, listed or not
	// Barred tells of a region where nothing can take the order what is in the
	// way of how many clusters.
	Barred map[Bar]int
}

// Shortlist finds the clusters that an order would go to. What a decision costs
// does not follow from the size of the fleet: in a large region it goes by an
// index of what such an order may be placed on, which is kept up by the log, and
// counts the best choices anew. That there is no room is said only after all
// clusters were counted.
func (s *Service) Shortlist(ctx context.Context, order Order) (Shortlist, error) {
	if !order.All {
		if list, ok, err := s.quick(ctx, &order); ok || err != nil {
			return list, err
		}
	}
	all, err := s.candidates(ctx, order.Wanted, false)
	if err != nil {
		return Shortlist{}, err
	}
	out := Shortlist{Best: Rank(order, all)}
	if out.Room = len(out.Best); out.Room == 0 {
		out.Barred = map[Bar]int{}
		for i := range all {
			out.Barred[order.refuse(&all[i]).Bar]++
		}
	}
	return out, nil
}

// quick finds the best clusters of a large region; false where it cannot tell.
func (s *Service) quick(ctx context.Context, order *Order) (Shortlist, bool, error) {
	var none Shortlist
	store, counts := s.store.(prefixed)
	log, follows := s.store.(ledger.Log)
	w := &order.Wanted
	if !counts || !follows || w.Units <= 0 || w.Cluster != "" || w.Type == "" || w.Offering == "" {
		return none, false, nil
	}
	l, err := s.view.lane(ctx, s.store, log, w)
	if l == nil || err != nil {
		return none, false, err
	}
	known, at, err := s.tallies.recent(ctx, store)
	if err != nil {
		return none, false, err
	}
	var tenant map[string]int64
	if w.Rules.Strategy == offering.Spread && w.Rules.By == offering.ByTenant {
		prefix := tenantPrefix(w.Offering, w.Org)
		found, err := store.Counters(ctx, prefix)
		if err != nil {
			return none, false, err
		}
		tenant = make(map[string]int64, len(found))
		for name, n := range found {
			tenant[strings.TrimPrefix(name, prefix)] = n
		}
	}
	counted := make(map[string]bool, closely)
	for range rounds {
		s.view.mu.Lock()
		l.tally(known, at)
		list := l.best(order, tenant)
		names := l.names(list.Best, w)
		s.view.mu.Unlock()
		if len(list.Best) == 0 {
			return none, false, nil
		}
		if counted[list.Best[0].ID] {
			return list, true, nil
		}
		exact, err := s.named(ctx, names)
		if err != nil {
			return none, false, err
		}
		s.view.mu.Lock()
		l.learn(list.Best, w, exact)
		s.view.mu.Unlock()
		for i := range list.Best {
			counted[list.Best[i].ID] = true
		}
	}
	return none, false, nil
}

// shape is what orders have in common that may be placed on the same clusters,
// room apart.
type shape struct {
	place
	offering, instanceType string
	multiAZ, anyZones      bool
	rules                  string // labels and taints
}

func shapeOf(w *Wanted) shape {
	out := shape{place{w.Provider, w.Region}, w.Offering, w.Type, w.MultiAZ, w.AnyZones, ""}
	if len(w.Rules.Labels)+len(w.Rules.Tolerates) == 0 {
		return out
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(w.Rules.Labels)) {
		b.WriteString(key + "=" + w.Rules.Labels[key] + "\n")
	}
	for _, taint := range slices.Sorted(slices.Values(w.Rules.Tolerates)) {
		b.WriteString(taint + "\n")
	}
	out.rules = b.String()
	return out
}

// maxLanes is how many shapes of orders are remembered.
const maxLanes = 256

// lane are the clusters that orders of one shape may be placed on, with what is
// known to be in use. The view's lock is held by whoever reads or writes it.
type lane struct {
	wanted  Wanted // what the orders have in common
	units   string // key of the type in a cluster's units
	entries []entry
	total   int // clusters at the place, whether orders may go there or not

	at    time.Time        // of the tally that was taken over
	known map[string]int64 // that tally

	zones []string // counters of zones
	peers []int64  // what they stood at when they were last read
}

// entry is a cluster in a lane.
type entry struct {
	k           *Known
	typed       string // TypeCounter
	bound, told int64  // units that may be in use in all, and by the type; told < 0: it is not told
	used, own   int64  // that are, as far as known
	zone        int
	limited     bool
}

// lane returns that of an order, up to date; nil in a region with few clusters.
func (v *view) lane(ctx context.Context, store ledger.Reader, log ledger.Log, w *Wanted) (*lane, error) {
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.follow(ctx, store, log, head); err != nil {
		return nil, err
	}
	key := shapeOf(w)
	l := v.lanes[key]
	if l == nil {
		l = newLane(w, v.byID)
		if v.lanes == nil || len(v.lanes) >= maxLanes {
			v.lanes = map[shape]*lane{}
		}
		v.lanes[key] = l
	}
	if l.total <= few {
		return nil, nil
	}
	return l, nil
}

func newLane(w *Wanted, all map[string]*Known) *lane {
	l := &lane{units: unitsOf(w.Offering, w.Type), wanted: Wanted{
		Provider: w.Provider, Region: w.Region, Offering: w.Offering, Type: w.Type, MultiAZ: w.MultiAZ, AnyZones: w.AnyZones, Rules: w.Rules,
	}}
	for _, k := range all {
		if l.here(k) {
			l.total++
			if k.bar(&l.wanted).Bar == "" {
				l.entries = append(l.entries, l.entry(k))
			}
		}
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return older(a.k, b.k) })
	return l
}

func (l *lane) here(k *Known) bool {
	return k != nil && k.place() == place{l.wanted.Provider, l.wanted.Region}
}

func (l *lane) entry(k *Known) entry {
	e := entry{k: k, typed: k.room + "/" + l.units, told: -1}
	e.bound, e.limited = k.bound()
	if told, ok := k.Status.Units[l.units]; ok {
		e.told = told.Max
	}
	e.used, e.own = l.known[k.room], l.known[e.typed]
	zone := ZoneCounter(l.wanted.Offering, k.Spec.Provider, k.Spec.Region, k.Spec.Zone())
	if e.zone = slices.Index(l.zones, zone); e.zone < 0 {
		e.zone = len(l.zones)
		l.zones, l.peers = append(l.zones, zone), append(l.peers, 0)
	}
	return e
}

func (l *lane) find(k *Known) (int, bool) {
	return slices.BinarySearchFunc(l.entries, k, func(e entry, k *Known) int { return older(e.k, k) })
}

// change takes a cluster as it is now in place of what it was; nil: it is not there.
func (l *lane) change(old, k *Known) {
	var used, own int64
	was := false
	if l.here(old) {
		l.total--
		var i int
		if i, was = l.find(old); was {
			used, own = l.entries[i].used, l.entries[i].own
			if l.here(k) && older(old, k) == 0 && k.bar(&l.wanted).Bar == "" { // as nearly always
				l.total++
				l.entries[i] = l.entry(k)
				l.entries[i].used, l.entries[i].own = used, own
				return
			}
			l.entries = slices.Delete(l.entries, i, i+1)
		}
	}
	if !l.here(k) {
		return
	}
	l.total++
	if k.bar(&l.wanted).Bar != "" {
		return
	}
	e := l.entry(k)
	if was {
		e.used, e.own = used, own
	}
	i, _ := l.find(k)
	l.entries = slices.Insert(l.entries, i, e)
}

// tally takes over what was in use, where that is news.
func (l *lane) tally(known map[string]int64, at time.Time) {
	if !at.After(l.at) {
		return
	}
	l.known, l.at = known, at
	for i := range l.entries {
		e := &l.entries[i]
		e.used, e.own = known[e.k.room], known[e.typed]
	}
}

func (e *entry) free() int64 {
	free := e.bound - e.used
	if e.told >= 0 {
		free = min(free, max(e.told-e.own, 0))
	}
	return free
}

// best are the first few clusters that an order would go to by what is known.
// They stand in the order of their age, so that an older one is before its like.
func (l *lane) best(o *Order, tenant map[string]int64) Shortlist {
	var (
		out    Shortlist
		chosen [closely]int
		keys   [closely]int64
		n      int
	)
	spread := o.Rules.Strategy == offering.Spread
	for i := range l.entries {
		e := &l.entries[i]
		free := e.free()
		if free < o.Units || slices.Contains(o.Rejected, e.k.ID) || slices.Contains(o.Lacking, e.k.ID) {
			continue
		}
		out.Room++
		var key int64
		switch {
		case o.Rules.Strategy == offering.BestFit:
			key = free
		case spread:
			key = l.peersOf(e, o, tenant)
		}
		if n == closely && key >= keys[n-1] {
			continue
		}
		if n < closely {
			n++
		}
		j := n - 1
		for ; j > 0 && key < keys[j-1]; j-- {
			chosen[j], keys[j] = chosen[j-1], keys[j-1]
		}
		chosen[j], keys[j] = i, key
	}
	out.Best = make([]Candidate, n)
	for j := range n {
		e := &l.entries[chosen[j]]
		free := e.free()
		c := Candidate{ID: e.k.ID, Capacity: e.used + free, Used: e.used, limited: e.limited && free == e.bound-e.used, cluster: e.k, wanted: &o.Wanted}
		if spread {
			c.Peers = keys[j]
		}
		out.Best[j] = c
	}
	return out
}

// peersOf is what an order is spread by.
func (l *lane) peersOf(e *entry, o *Order, tenant map[string]int64) int64 {
	if o.Rules.By != offering.ByTenant {
		return l.peers[e.zone]
	}
	return tenant[e.k.ID]
}

// names are the counters to read for some of the clusters: theirs, and those of
// all zones where orders are spread by them.
func (l *lane) names(of []Candidate, w *Wanted) []string {
	out := make([]string, 0, 2*len(of)+len(l.zones))
	for i := range of {
		k := of[i].cluster
		if out = append(out, k.room); k.Status.Units != nil {
			out = append(out, k.room+"/"+l.units)
		}
	}
	if w.Rules.Strategy == offering.Spread && w.Rules.By != offering.ByTenant {
		out = append(out, l.zones...)
	}
	return out
}

// learn takes over what was read.
func (l *lane) learn(of []Candidate, w *Wanted, exact map[string]int64) {
	for i := range of {
		if at, ok := l.find(of[i].cluster); ok {
			e := &l.entries[at]
			e.used, e.own = exact[e.k.room], exact[e.typed]
		}
	}
	if w.Rules.Strategy == offering.Spread && w.Rules.By != offering.ByTenant {
		for i, zone := range l.zones {
			l.peers[i] = exact[zone]
		}
	}
}
