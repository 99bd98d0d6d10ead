package consul

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
)

// Consul bounds the connections of a client, so resources do not watch one by
// one: those whose keys begin alike share a blocking query, and all services
// another.
type group struct {
	members map[*member]bool
	leave   context.CancelFunc // of the query, once nobody is left
	watches bool               // the first answer is there
}

type member struct {
	keys    []string // nil: all changes concern it
	changed func()
	failed  chan error
}

// pause between two queries: a busy prefix is not asked without end.
const pause = 100 * time.Millisecond

// Watch implements executor.Watcher.
func (e *Executor) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	c, err := e.pool.Get(r.Connection)
	if err != nil {
		return err
	}
	m := &member{changed: changed, failed: make(chan error, 1)}
	name := "" // of services
	if !r.Input("service").Given {
		k, err := newKeys(c, r)
		if err != nil {
			return err
		}
		if m.keys = k.all(); len(m.keys) == 0 {
			return nil // it is not known yet what there is to watch
		}
		name, _, _ = strings.Cut(m.keys[0], "/")
		if strings.Contains(m.keys[0], "/") {
			name += "/"
		}
	}
	c.join(name, m)
	defer c.part(name, m)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-m.failed:
		return err
	}
}

// join adds one who is told; the first starts the query. There is one goroutine
// per group, which ends with its last member.
func (c *client) join(name string, m *member) {
	c.mu.Lock()
	g := c.groups[name]
	if g == nil {
		ctx, cancel := context.WithCancel(context.Background())
		g = &group{members: map[*member]bool{}, leave: cancel}
		c.groups[name] = g
		go c.follow(ctx, name, g)
	}
	g.members[m] = true
	ready := g.watches
	c.mu.Unlock()
	if ready {
		m.changed()
	}
}

func (c *client) part(name string, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	if g == nil || !g.members[m] {
		return
	}
	if delete(g.members, m); len(g.members) == 0 {
		g.leave()
		delete(c.groups, name)
	}
}

// follow asks again and again what has changed, until it fails.
func (c *client) follow(ctx context.Context, name string, g *group) {
	defer g.leave()
	seen := map[string]uint64{}
	var index uint64
	for first := true; ; first = false {
		now, at, err := c.wait(ctx, name, index)
		if err != nil {
			c.fail(name, g, err)
			return
		}
		if at < index {
			at = 0 // Consul was restored: begin again
		}
		index = at
		c.tell(g, func(m *member) bool {
			return first || m.keys == nil && !maps.Equal(seen, now) ||
				slices.ContainsFunc(m.keys, func(key string) bool { return seen[key] != now[key] })
		})
		seen = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// wait asks for everything of a group with the index at which it was changed. The
// first question is answered at once and goes through the policy; the others are
// held by Consul, which no policy would bear.
func (c *client) wait(ctx context.Context, name string, index uint64) (now map[string]uint64, at uint64, err error) {
	ask := func(q *api.QueryOptions) error {
		now = map[string]uint64{}
		if name == "" {
			_, meta, err := c.api.Catalog().Services(q)
			if err != nil {
				return err
			}
			at = meta.LastIndex
			now[""] = at
			return nil
		}
		pairs, meta, err := c.api.KV().List(name, q)
		if err != nil {
			return err
		}
		at = meta.LastIndex
		for _, p := range pairs {
			now[p.Key] = p.ModifyIndex
		}
		return nil
	}
	if index == 0 {
		return now, at, c.do(ctx, ask)
	}
	q := (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx)
	err = c.explain(ctx, ask(q))
	return now, at, err
}

func (c *client) tell(g *group, concerns func(*member) bool) {
	c.mu.Lock()
	g.watches = true
	members := slices.Collect(maps.Keys(g.members))
	c.mu.Unlock()
	for _, m := range members {
		if concerns(m) {
			m.changed()
		}
	}
}

func (c *client) fail(name string, g *group, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := range g.members {
		m.failed <- err // it has room, and is used once
	}
	if c.groups[name] == g {
		delete(c.groups, name)
	}
}
