package ledger

import (
	"slices"
	"strings"
	"time"
)

// State is what a store has loaded, and on PostgreSQL locked, for a batch.
type State struct {
	Now time.Time
	// Logged is the time of the newest change. When the clock is set back, times
	// in the log wait for it, so that they never fall; work does not wait.
	Logged   time.Time
	Objects  map[Ref]Object
	Names    map[Name]Ref
	Counters map[string]int64
	Work     map[Ref]WorkRow
	// Tokens are for what sets take: greater than any before, and as many as
	// Takes counts.
	Tokens []int64
	// Lost are blobs that were erased, of those that Naming lists.
	Lost map[string]bool
}

// Takes is how many leases a batch of sets may take at most.
func Takes(sets []Set) (n int) {
	for _, s := range sets {
		if s.Take != nil {
			n += max(0, min(s.Take.Limit, len(s.Wakes)))
		}
	}
	return n
}

// WorkRow is one object's due work as it is stored.
type WorkRow struct {
	Ref
	Org      string
	Dirty    int64
	Attempts int
	Due      time.Time
	Turn     time.Time // order of claims; see Lanes
	Token    int64     // of the lease; 0 = not leased
	Until    time.Time // end of the lease
	Cause    Cause
	Trace    string
	Note     string
}

// Need lists what Decide must find in the State, sorted, so that stores lock
// rows in one order and never deadlock.
type Need struct {
	Objects  []Ref
	Names    []Name
	Counters []string
	Work     []Ref
}

// Needs collects what a batch of sets touches. What no database could look up
// (a zero byte, a megabyte of name) is left out: it is not there, and Decide
// refuses the set that asks for it without harm to the others.
func Needs(sets []Set) Need {
	var n Need
	for _, s := range sets {
		for _, p := range s.Puts {
			n.Objects = appendRef(n.Objects, p.Object.Ref)
		}
		for _, c := range slices.Concat(s.Claims, s.Frees) {
			if plain(c.Space) && plain(c.Name.Name) {
				n.Names = append(n.Names, c.Name)
			}
		}
		for _, c := range s.Counts {
			if plain(c.Name) {
				n.Counters = append(n.Counters, c.Name)
			}
		}
		for _, w := range s.Wakes {
			n.Work = appendRef(n.Work, w.Ref)
		}
		if s.Lease != nil {
			n.Work = appendRef(n.Work, s.Lease.Ref)
		}
	}
	n.Objects, n.Work = sorted(n.Objects, compareRef), sorted(n.Work, compareRef)
	n.Counters = sorted(n.Counters, strings.Compare)
	n.Names = sorted(n.Names, func(a, b Name) int {
		if c := strings.Compare(a.Space, b.Space); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return n
}

func appendRef(refs []Ref, r Ref) []Ref {
	if !plain(r.Kind) || !plain(r.ID) {
		return refs
	}
	return append(refs, r)
}

func compareRef(a, b Ref) int {
	if c := strings.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

func sorted[T comparable](s []T, compare func(a, b T) int) []T {
	slices.SortFunc(s, compare)
	return slices.Compact(s)
}
