package resilience

import "sync"

// most is how many policies a Group remembers.
const most = 1000

// Group is the policies of many of one sort, such as the hosts that tenants name:
// each has a breaker and a bulkhead of its own, so that one that hangs is nobody
// else's trouble, and all have one name, since who they are is a tenant's choice
// and no operator's. It has no goroutines.
type Group struct {
	cfg Config

	mu sync.Mutex
	of map[string]*Policy
}

// NewGroup makes a group; the config is that of each.
func NewGroup(c Config) *Group { return &Group{cfg: c.planned(), of: map[string]*Policy{}} }

// Of returns the policy of one. Where very many were named, all begin anew.
func (g *Group) Of(key string) *Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.of[key]
	if p == nil {
		if len(g.of) >= most {
			for _, old := range g.of {
				old.forget()
			}
			clear(g.of)
		}
		p = New(g.cfg)
		g.of[key] = p
	}
	return p
}

// forget has the observer hear no more of it, and nothing that stays open for ever.
func (p *Policy) forget() {
	if p.forgotten.Swap(true) || p.cfg.Observer == nil {
		return
	}
	if state := p.State(); state != "closed" {
		p.cfg.Observer.Breaker(p.cfg.Name, state, "closed")
	}
}
