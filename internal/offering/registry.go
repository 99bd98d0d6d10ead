package offering

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Registry holds the offerings in force. Readers never wait: they see the
// table before a change or the one after it.
type Registry struct {
	mu    sync.Mutex // one writer at a time
	table atomic.Pointer[table]
}

type table struct {
	names  map[string]*Offering
	groups map[[2]string]*Offering
	list   []*Offering // by name
}

func (r *Registry) load() *table {
	if t := r.table.Load(); t != nil {
		return t
	}
	return &table{}
}

// Get returns an offering by name.
func (r *Registry) Get(name string) (*Offering, bool) {
	o, ok := r.load().names[name]
	return o, ok
}

// ByGroup returns the offering behind /api/<group>/<version>.
func (r *Registry) ByGroup(group, version string) (*Offering, bool) {
	o, ok := r.load().groups[[2]string{group, version}]
	return o, ok
}

// List returns all offerings by name. It must not be changed.
func (r *Registry) List() []*Offering { return r.load().list }

// put brings offerings into force, each in place of the one of its name.
func (r *Registry) put(offerings ...*Offering) {
	r.change(func(names map[string]*Offering) {
		for _, o := range offerings {
			names[o.Metadata.Name] = o
		}
	})
}

// drop takes an offering out of force.
func (r *Registry) drop(name string) {
	r.change(func(names map[string]*Offering) { delete(names, name) })
}

func (r *Registry) change(edit func(names map[string]*Offering)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &table{names: maps.Clone(r.load().names), groups: map[[2]string]*Offering{}}
	if t.names == nil {
		t.names = map[string]*Offering{}
	}
	edit(t.names)
	t.list = slices.SortedFunc(maps.Values(t.names), func(a, b *Offering) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	for _, o := range t.list {
		t.groups[[2]string{o.Spec.API.Group, o.Spec.API.Version}] = o
	}
	r.table.Store(t)
}
