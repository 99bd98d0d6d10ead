package queue

// Fair is a line in which tenants take turns: whoever brings thousands at once waits
// for them alone. Of one tenant those of a higher rank come first, and among equals
// those that came first. Adding and taking cost the same however many wait.
//
// It is the order of a work queue (workqueue.Queue of client-go) and has no lock of
// its own: whoever uses it has one. A key is pushed once until it is popped.
type Fair[K comparable] struct {
	// Of names the tenant that a key is of, as it is pushed.
	Of func(K) string
	// Rank of a key as it is pushed or touched; nil: all are equal.
	Rank func(K) int

	turns   line[string] // tenants with something to do, the next one first
	lanes   map[string]*lane[K]
	places  map[K]place // of those that wait
	tickets uint64
}

// place of a key that waits.
type place struct {
	tenant string
	rank   int
	ticket uint64 // of the spot that counts
}

// lane is what one tenant has to do.
type lane[K comparable] struct {
	ranks map[int]*line[spot[K]]
	n     int // keys that wait
	spots int // and those that were left
}

// spot in a lane. A key that has risen leaves its old one behind, with a ticket that
// does not count any more.
type spot[K comparable] struct {
	key    K
	ticket uint64
}

// NewFair makes one; rank may be nil.
func NewFair[K comparable](of func(K) string, rank func(K) int) *Fair[K] {
	return &Fair[K]{Of: of, Rank: rank, lanes: map[string]*lane[K]{}, places: map[K]place{}}
}

func (f *Fair[K]) rank(k K) int {
	if f.Rank == nil {
		return 0
	}
	return f.Rank(k)
}

// Push adds a key that does not wait yet.
func (f *Fair[K]) Push(k K) {
	tenant := f.Of(k)
	l := f.lanes[tenant]
	if l == nil {
		l = &lane[K]{ranks: map[int]*line[spot[K]]{}}
		f.lanes[tenant] = l
		f.turns.add(tenant)
	}
	l.n++
	f.stand(l, k, place{tenant: tenant, rank: f.rank(k)})
}

// Touch is told that a key that waits was added again: it may have risen.
func (f *Fair[K]) Touch(k K) {
	at, waits := f.places[k]
	if !waits {
		return
	}
	if rank := f.rank(k); rank > at.rank {
		f.stand(f.lanes[at.tenant], k, place{tenant: at.tenant, rank: rank})
	}
}

// stand gives a key a spot.
func (f *Fair[K]) stand(l *lane[K], k K, at place) {
	f.tickets++
	at.ticket = f.tickets
	f.places[k] = at
	of := l.ranks[at.rank]
	if of == nil {
		of = &line[spot[K]]{}
		l.ranks[at.rank] = of
	}
	of.add(spot[K]{k, at.ticket})
	if l.spots++; l.spots > 2*l.n+64 {
		f.tidy(l)
	}
}

// tidy drops the spots that were left.
func (f *Fair[K]) tidy(l *lane[K]) {
	l.spots = 0
	for rank, of := range l.ranks {
		kept := &line[spot[K]]{}
		for of.len() > 0 {
			if s := of.take(); f.counts(s) {
				kept.add(s)
			}
		}
		l.spots += kept.len()
		l.ranks[rank] = kept
	}
}

func (f *Fair[K]) counts(s spot[K]) bool {
	at, waits := f.places[s.key]
	return waits && at.ticket == s.ticket
}

// Len is how many wait.
func (f *Fair[K]) Len() int { return len(f.places) }

// Pop takes the next one. Somebody has to wait.
func (f *Fair[K]) Pop() K {
	tenant := f.turns.take()
	l := f.lanes[tenant]
	s := l.take()
	for !f.counts(s) {
		s = l.take()
	}
	delete(f.places, s.key)
	if l.n--; l.n > 0 {
		f.turns.add(tenant)
	} else {
		delete(f.lanes, tenant)
	}
	return s.key
}

// take returns the first spot of the highest rank.
func (l *lane[K]) take() spot[K] {
	first, best := true, 0
	for rank := range l.ranks { // a few
		if first || rank > best {
			first, best = false, rank
		}
	}
	of := l.ranks[best]
	l.spots--
	s := of.take()
	if of.len() == 0 {
		delete(l.ranks, best)
	}
	return s
}

// line is added to at its end and taken from at its beginning, in memory of its
// present length.
type line[T any] struct {
	all  []T
	from int
}

func (l *line[T]) len() int { return len(l.all) - l.from }

func (l *line[T]) add(v T) { l.all = append(l.all, v) }

func (l *line[T]) take() T {
	v := l.all[l.from]
	var none T
	l.all[l.from] = none // for the collector
	if l.from++; l.from*2 > len(l.all) {
		l.all = append(l.all[:0:0], l.all[l.from:]...)
		l.from = 0
	}
	return v
}
