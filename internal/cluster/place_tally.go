package cluster

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/offering"
)

// few clusters are all counted at each look. Beyond that, what is in use is
// known from a look that may be a moment old, and only the best choices are
// counted anew: a choice that was wrong nevertheless costs another try, since
// the commit's bounds decide, and nobody is told that there is no room before
// everything was counted.
const (
	few       = 64
	closely   = 16               // choices that are counted anew at once,
	rounds    = 4                // until the best of all is among them
	tallyAge  = time.Second      // after which the next look has everything counted again, behind its back
	tallyLate = 10 * time.Second // after which a look waits for that
	tallyTime = 5 * time.Second
)

// tallies remember what is in use on all clusters. There is at most one
// goroutine, which ends with its query.
type tallies struct {
	mu      sync.Mutex
	at      time.Time
	known   map[string]int64 // nobody changes it
	running bool
}

// prefixed is a ledger that lists counters.
type prefixed interface {
	Counters(ctx context.Context, prefix string) (map[string]int64, error)
}

// recent returns what was in use a moment ago.
func (t *tallies) recent(ctx context.Context, store prefixed) (map[string]int64, error) {
	t.mu.Lock()
	age, known := time.Since(t.at), t.known
	begin := age > tallyAge && !t.running
	if begin {
		t.running = true
	}
	t.mu.Unlock()
	if known == nil || age > tallyLate {
		return t.read(ctx, store, begin)
	}
	if begin {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tallyTime)
			defer cancel()
			_, _ = t.read(ctx, store, true) // what could not be read is read at the next look
		}()
	}
	return known, nil
}

func (t *tallies) read(ctx context.Context, store prefixed, last bool) (map[string]int64, error) {
	began := time.Now()
	all, err := store.Counters(ctx, CapacityCounter(""))
	t.mu.Lock()
	defer t.mu.Unlock()
	if last {
		t.running = false
	}
	if err == nil && began.After(t.at) {
		t.at, t.known = began, all
	}
	return all, err
}

// weighAll makes candidates of many clusters without counting everything; false
// where it cannot tell that way.
func (s *Service) weighAll(ctx context.Context, w *Wanted, clusters []*Known) ([]Candidate, bool, error) {
	store, ok := s.store.(prefixed)
	if !ok || len(clusters) <= few || w.Units <= 0 {
		return nil, false, nil
	}
	known, err := s.tallies.recent(ctx, store)
	if err != nil {
		return nil, false, err
	}
	counters := func(name string) int64 { return known[name] }
	if spread, err := s.spreads(ctx, store, w, clusters); err != nil {
		return nil, false, err
	} else if spread != nil {
		counters = func(name string) int64 { return known[name] + spread[name] }
	}
	out := make([]Candidate, len(clusters))
	scales := newScales(w, counters)
	for i, k := range clusters {
		out[i] = scales.weigh(k)
	}
	counted := make(map[string]bool, closely)
	for range rounds {
		best := (&Order{Wanted: *w}).best(out, closely)
		if len(best) == 0 {
			return nil, false, nil
		}
		if counted[best[0].ID] {
			return out, true, nil
		}
		again := make([]*Known, len(best))
		for i, c := range best {
			again[i] = c.cluster
		}
		exact, err := s.counters(ctx, w, again)
		if err != nil {
			return nil, false, err
		}
		scales := newScales(w, func(name string) int64 { return exact[name] })
		for i, k := range again {
			*best[i], counted[k.ID] = scales.weigh(k), true
		}
	}
	return nil, false, nil
}

// spreads reads what an order is spread by: a few zones, or what the tenant has.
func (s *Service) spreads(ctx context.Context, store prefixed, w *Wanted, clusters []*Known) (map[string]int64, error) {
	switch {
	case w.Rules.Strategy != offering.Spread || w.Cluster != "":
		return nil, nil
	case w.Rules.By == offering.ByTenant:
		return store.Counters(ctx, tenantPrefix(w.Offering, w.Org))
	}
	names := map[string]bool{}
	for _, k := range clusters {
		names[w.spread(k)] = true
	}
	list := make([]string, 0, len(names))
	for name := range maps.Keys(names) {
		list = append(list, name)
	}
	return s.named(ctx, list)
}
