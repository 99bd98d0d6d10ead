package kubeapi

import (
	"cmp"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Stray is a namespace whose label names a cluster that carries out no custom resources
// here.
type Stray struct {
	Namespace string
	Label     string
	Engine    string // that carries them out instead; empty: none does
}

// strays are those of the namespaces that were seen.
type strays struct {
	mu sync.Mutex
	by map[string]Stray
}

// note looks at a namespace; gone: it is not there any more.
func (c *Controllers) note(o client.Object, gone bool) {
	c.strays.mu.Lock()
	defer c.strays.mu.Unlock()
	label := o.GetLabels()[EngineLabel]
	engine := c.Engine(label)
	if gone || label == "" || label == engine || !o.GetDeletionTimestamp().IsZero() {
		delete(c.strays.by, o.GetName())
		return
	}
	c.strays.by[o.GetName()] = Stray{Namespace: o.GetName(), Label: label, Engine: engine}
}

// forget is for a start: all are seen anew.
func (s *strays) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = map[string]Stray{}
}

// Strays lists them, by name, as far as the home is followed.
func (c *Controllers) Strays() []Stray {
	c.strays.mu.Lock()
	defer c.strays.mu.Unlock()
	out := make([]Stray, 0, len(c.strays.by))
	for _, s := range c.strays.by {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Stray) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return out
}
