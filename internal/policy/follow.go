package policy

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// tables are the policies in force, as decisions need them. They are replaced,
// never changed: readers do not wait.
type tables struct {
	quotas map[string]*Quota // by holder
	denied map[string]denial // by user
	barred map[string]bool   // organisations that a deny list names
	closed bool              // an access list is enabled
	let    map[string]bool   // organisations that it lets in
	terms  map[string]*Terms
}

// denial is the list that denies a user: the first by name, if several do.
type denial struct {
	list       string
	generation int64
}

// known is what was last seen of an object.
type known struct {
	version    int64
	generation int64
	value      any // nil: gone, or not to be read
}

// settle brings the tables to the objects' state, unless later ones were seen.
// What this binary cannot read leaves the last good version in force.
func (s *Service) settle(ctx context.Context, objects ...ledger.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := map[string]bool{}
	for _, o := range objects {
		before := s.known[o.Ref]
		if blank(o.Kind) == nil || o.Version <= before.version {
			continue
		}
		if o.Generation == before.generation && o.Deleted.IsZero() == (before.value != nil) {
			before.version = o.Version // only those whom it is about were told
			s.known[o.Ref] = before
			continue
		}
		value := decode(o)
		if value == nil && o.Deleted.IsZero() {
			s.Log.ErrorContext(ctx, "policy not understood; the last good version stays in force", "kind", o.Kind, "name", o.ID)
			value = before.value
		}
		s.known[o.Ref] = known{version: o.Version, generation: o.Generation, value: value}
		touched[o.Kind] = true
	}
	if len(touched) == 0 {
		return
	}
	next := *s.tables.Load()
	if touched[KindQuota.Name] {
		next.quotas = map[string]*Quota{}
	}
	if touched[KindDenyList.Name] {
		next.denied, next.barred = map[string]denial{}, map[string]bool{}
	}
	if touched[KindAccessList.Name] {
		next.closed, next.let = false, map[string]bool{}
	}
	if touched[KindTerms.Name] {
		next.terms = map[string]*Terms{}
	}
	for ref, k := range s.known {
		if touched[ref.Kind] {
			next.add(ref.ID, k)
		}
	}
	s.tables.Store(&next)
}

func (t *tables) add(name string, k known) {
	switch x := k.value.(type) {
	case *Quota:
		t.quotas[x.holder()] = x
	case *DenyList:
		for _, u := range x.Users {
			if by, ok := t.denied[u]; !ok || name < by.list {
				t.denied[u] = denial{list: name, generation: k.generation}
			}
		}
		for _, o := range x.Organisations {
			t.barred[o] = true
		}
	case *AccessList:
		if x.Enabled {
			t.closed = true
			for _, o := range x.Organisations {
				t.let[o] = true
			}
		}
	case *Terms:
		t.terms[name] = x
	}
}

// Load brings all policies of the ledger into force.
func (s *Service) Load(ctx context.Context) error {
	return s.follower.Load(ctx, s.Store, func(all []ledger.Object) { s.settle(ctx, all...) })
}

// Follow keeps the policies in force as fresh as the log, whoever writes it,
// until ctx ends. It is one goroutine, the caller's, and starts where Load has
// read.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	return s.follower.Keep(ctx, s.Store, feed, func(changed []ledger.Object) { s.settle(ctx, changed...) })
}
