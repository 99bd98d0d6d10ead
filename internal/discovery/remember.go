package discovery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

const (
	// patience is how long one who has an older answer waits for a newer one.
	patience = time.Second
	// remembered bounds the names. Settings hold a few.
	remembered = 1000
)

// Memory is a finder that has its last answers when nobody can be asked, or knows of
// any that is healthy: no address is worse than an old one.
type Memory struct {
	finder Finder

	mu    sync.Mutex
	known map[Name]Answer
}

// Remember makes one of a finder.
func Remember(f Finder) *Memory { return &Memory{finder: f, known: map[Name]Answer{}} }

// Find implements Finder. What it fails with is what the finder does, of a name that
// was never found.
func (m *Memory) Find(ctx context.Context, name Name) (Answer, error) {
	m.mu.Lock()
	old, ok := m.known[name]
	m.mu.Unlock()
	asking := ctx
	if ok {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	now, err := m.finder.Find(asking, name)
	if err == nil && len(now.Endpoints) == 0 {
		err = fault.New(fault.NotFound, "nobody healthy is known as %s", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		if len(m.known) >= remembered {
			clear(m.known)
		}
		m.known[name] = now
		return copied(now), nil
	}
	if !ok || ctx.Err() != nil {
		return Answer{}, err
	}
	if newer, there := m.known[name]; there { // somebody may have had an answer meanwhile
		old = newer
	}
	old.Stale = err
	m.known[name] = old
	return copied(old), nil
}

// Stale are the names whose answers are old, with why. It is for operators, and asks
// again first: whoever has a connection asks for no address, be it back or not.
func (m *Memory) Stale(ctx context.Context) map[Name]Answer {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for n := range m.stale() {
		_, _ = m.Find(ctx, n) // what comes of it is kept
	}
	return m.stale()
}

func (m *Memory) stale() map[Name]Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[Name]Answer{}
	for n, a := range m.known {
		if a.Stale != nil {
			out[n] = copied(a)
		}
	}
	return out
}

func copied(a Answer) Answer {
	a.Endpoints = slices.Clone(a.Endpoints)
	for i, e := range a.Endpoints {
		a.Endpoints[i].Tags, a.Endpoints[i].Meta = slices.Clone(e.Tags), maps.Clone(e.Meta)
	}
	return a
}
