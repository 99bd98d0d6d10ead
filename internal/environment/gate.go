package environment

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// gates bound how many resources of one environment are worked on at a time. What
// finds no room is parked in memory and woken by whoever leaves, so that thousands
// that wait cost nothing. What is lost with the process is found again by the
// environment, which looks when nothing moves.
type gates struct {
	mu sync.Mutex
	of map[string]*gate
	// paces outlive gates, which come and go with each piece of quick work.
	paces map[string]pace
}

// pace is when work of an environment was last left under way here, and when
// nothing of it was under way elsewhere. Until the first has long been over, what
// is under way is counted each time.
type pace struct{ lasting, calm time.Time }

type gate struct {
	running int
	told    int // of those running: their phase says so in the ledger
	parked  []ledger.Ref
	at      map[string]time.Time // of those parked: when they were last woken
}

const (
	calmFor    = 100 * time.Millisecond
	lastingFor = time.Minute
)

// rewake is after how long one that was woken and has not come is woken again.
const rewake = time.Second

func (g *gates) gate(environment string) *gate {
	if g.of == nil {
		g.of = map[string]*gate{}
	}
	if g.of[environment] == nil {
		g.of[environment] = &gate{at: map[string]time.Time{}}
	}
	return g.of[environment]
}

// enter takes a place, or parks. Elsewhere is how many are worked on that no
// worker of this process holds.
func (g *gates) enter(environment string, ref ledger.Ref, limit, elsewhere int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.gate(environment)
	if at.running+elsewhere >= limit {
		at.park(ref)
		return false
	}
	at.running++
	at.unpark(ref.ID)
	return true
}

// park lets some wait for their turn without work of their own.
func (g *gates) park(environment string, refs []ledger.Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ref := range refs {
		g.gate(environment).park(ref)
	}
}

func (g *gate) park(ref ledger.Ref) {
	if _, is := g.at[ref.ID]; !is {
		g.parked = append(g.parked, ref)
	}
	g.at[ref.ID] = time.Time{}
	if len(g.parked) > 2*len(g.at)+16 { // most of it are places that were given up
		seen := make(map[string]bool, len(g.at))
		g.parked = slices.DeleteFunc(g.parked, func(ref ledger.Ref) bool {
			_, waits := g.at[ref.ID]
			gone := !waits || seen[ref.ID]
			seen[ref.ID] = true
			return gone
		})
	}
}

// come takes a resource off the queue that is being looked at: if it does not enter
// after all, others must not wait behind it.
func (g *gates) come(environment, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.of[environment]; at != nil {
		at.unpark(id)
	}
}

func (g *gate) unpark(id string) {
	delete(g.at, id) // its place in the queue is dropped when that is reached
}

// leave gives a place back and tells whom to wake.
func (g *gates) leave(environment string, limit int, now time.Time) []ledger.Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.gate(environment)
	at.running--
	out := at.due(limit-at.running, now)
	if at.running == 0 && len(at.parked) == 0 {
		delete(g.of, environment)
	}
	return out
}

// due returns those who may try next.
func (g *gates) due(environment string, room int, now time.Time) []ledger.Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[environment] == nil {
		return nil
	}
	return g.of[environment].due(room, now)
}

func (g *gate) due(room int, now time.Time) (out []ledger.Ref) {
	passed := 0
	for i := 0; i < len(g.parked) && len(out) < room; i++ {
		ref := g.parked[i]
		woken, waits := g.at[ref.ID]
		if !waits {
			if i == passed {
				passed++ // the head of the queue has gone
			}
			continue
		}
		if now.Sub(woken) < rewake {
			continue
		}
		g.at[ref.ID] = now
		out = append(out, ref)
	}
	g.parked = g.parked[passed:]
	return out
}

// lasting notes that work is left under way.
func (g *gates) lasting(environment string, now time.Time) {
	g.keep(environment, now, func(p *pace) { p.lasting = now })
}

// counted notes how much is under way elsewhere.
func (g *gates) counted(environment string, n int64, now time.Time) {
	g.keep(environment, now, func(p *pace) {
		if p.calm = now; n > 0 {
			p.calm = time.Time{}
		}
	})
}

func (g *gates) keep(environment string, now time.Time, change func(*pace)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paces == nil {
		g.paces = map[string]pace{}
	}
	p, known := g.paces[environment]
	if change(&p); !known && len(g.paces)%100 == 99 {
		maps.DeleteFunc(g.paces, func(_ string, p pace) bool { return now.Sub(p.lasting) >= lastingFor && now.Sub(p.calm) >= calmFor })
	}
	g.paces[environment] = p
}

// calm reports whether nothing was under way elsewhere a moment ago, and nothing
// of this environment takes long here. Whoever is told otherwise counts; others
// need not count at the same time.
func (g *gates) calm(environment string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.paces[environment]
	if at := g.of[environment]; at != nil && at.told > 0 || p.calm.IsZero() || now.Sub(p.lasting) < lastingFor {
		return false
	}
	if now.Sub(p.calm) < calmFor {
		return true
	}
	p.calm = now
	g.paces[environment] = p
	return false
}

// tell counts those running whose phase says so.
func (g *gates) tell(environment string, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate(environment).told += by
}

func (g *gates) told(environment string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[environment] == nil {
		return 0
	}
	return g.of[environment].told
}
