package environment

import (
	"context"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// parents keeps environments as they were last read, with their layouts: each of
// thousands of resources asks for its own. They are found by the version that was
// just read, so that nobody works with an older one.
type parents struct {
	mu sync.Mutex
	of map[string]*parent
}

// parent is an environment at a version. Nothing of it is changed by whoever has it.
type parent struct {
	Environment
	mu  sync.Mutex
	lay *sheet // nil: nobody has asked yet
}

// maxParents is how many are kept.
const maxParents = 64

// parent decodes an environment, or finds it decoded.
func (s *Service) parent(o ledger.Object) (*parent, error) {
	s.parents.mu.Lock()
	defer s.parents.mu.Unlock()
	if p := s.parents.of[o.ID]; p != nil && p.Version == o.Version {
		return p, nil
	}
	e, err := Decode(o)
	if err != nil {
		return nil, err
	}
	if s.parents.of == nil || len(s.parents.of) >= maxParents {
		s.parents.of = make(map[string]*parent, maxParents)
	}
	p := &parent{Environment: e}
	s.parents.of[o.ID] = p
	return p, nil
}

// layout is the environment's.
func (n *run) layout(ctx context.Context) (*sheet, error) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.of.lay != nil {
		return n.of.lay, nil
	}
	sh, err := n.sheet(ctx, n.e.Spec.Version, n.e.Spec.Parameters, n.e.facts())
	n.of.lay = sh
	return sh, err
}

// tally is how many resources of an environment waited in a phase when they were
// last counted, less those that have ended here since.
type tally struct {
	phase string
	n     int64
	at    time.Time
}

// left is how many resources wait in a phase. While they are many it is counted
// down from what was read a moment ago: it only tells how soon the environment
// looks again.
func (n *run) left(ctx context.Context, phase string) (int64, error) {
	now := n.Now()
	n.mu.Lock()
	t := n.tallies[n.e.ID]
	many := t.phase == phase && t.n > 4*fewLeft
	known := many && now.Sub(t.at) < glanceEvery/4
	if many {
		if t.n--; !known {
			t.at = now // others need not count at the same time
		}
		n.tallies[n.e.ID] = t
	}
	n.mu.Unlock()
	if known {
		return t.n, nil
	}
	left, err := n.Store.Total(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": n.e.ID, "phase": phase}})
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(n.tallies, n.e.ID); err == nil && left > 4*fewLeft {
		n.tallies[n.e.ID] = tally{phase: phase, n: left, at: now}
	}
	return left, err
}
