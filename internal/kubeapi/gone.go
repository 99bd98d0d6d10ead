package kubeapi

import (
	"slices"
	"sync"
)

// parting is a custom resource that is not there any more, as far as is known.
type parting struct {
	uid       string
	namespace string // UID of its namespace; empty: not known
}

// departed remembers who left until that was handed over. It is lost with the
// process: then the sweep finds them.
type departed struct {
	mu  sync.Mutex
	who map[key][]parting // oldest first
}

func newDeparted() *departed { return &departed{who: map[key][]parting{}} }

func (d *departed) add(k key, p parting) {
	k.mend = false
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.who[k], func(known parting) bool { return known.uid == p.uid }) {
		d.who[k] = append(d.who[k], p)
	}
}

func (d *departed) of(k key) []parting {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.who[k])
}

func (d *departed) drop(k key, uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.who[k] = slices.DeleteFunc(d.who[k], func(p parting) bool { return p.uid == uid })
	if len(d.who[k]) == 0 {
		delete(d.who, k)
	}
}
