package kubernetes

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const (
	vigilEach = 30 * time.Second // how often kinds are looked at that cannot be watched
	vigilPage = 500              // objects of one answer
)

// place is where objects of a kind are looked for.
type place struct {
	gk        schema.GroupKind
	namespace string
}

// vigil looks at what no watch tells, because the agent may only watch in some
// namespaces or not at all: the metadata of all objects of a kind in a namespace are
// one list, however many items they are of. It is one goroutine, which ends with ctx.
func (s *shift) vigil(ctx context.Context) {
	seen := map[place]map[string]*metav1.PartialObjectMetadata{}
	tick := time.NewTicker(cmp.Or(s.r.cfg.Vigil, vigilEach))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		places := s.unwatched()
		for p := range seen {
			if places[p] == nil {
				delete(seen, p)
			}
		}
		for p, owners := range places {
			now, err := s.watch.list(ctx, p)
			if err != nil { // what cannot be listed either is compared now and then; nothing is concluded from it
				s.r.cfg.Logger.Debug("what cannot be watched could not be looked at", "kind", p.gk.Kind, "namespace", p.namespace, "error", err)
				continue
			}
			before := seen[p]
			seen[p] = now
			s.watch.compare(before, now, owners)
		}
	}
}

// unwatched are the places where items have objects that no watch tells of, with the
// items by the names of these.
func (s *shift) unwatched() map[place]map[string]string {
	blind, out := s.watch.blind(), map[place]map[string]string{}
	if len(blind) == 0 {
		return out
	}
	for owner, inventory := range s.Listed() {
		for _, line := range inventory {
			id, err := manifest.Parse(line)
			p := place{schema.GroupKind{Group: id.Group, Kind: id.Kind}, id.Namespace}
			if err != nil || !blind[p.gk] {
				continue
			}
			if out[p] == nil {
				out[p] = map[string]string{}
			}
			out[p][id.Name] = owner
		}
	}
	return out
}

// blind are the kinds whose watch has never come about, or failed a moment ago.
func (w *watcher) blind() map[schema.GroupKind]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[schema.GroupKind]bool{}
	for gk, f := range w.seen {
		if !f.synced() || f.failed.within(2*vigilEach, w.s.r.cfg.Now()) {
			out[gk] = true
		}
	}
	return out
}

// list returns the metadata of what has an owner in one place, by name.
func (w *watcher) list(ctx context.Context, p place) (map[string]*metav1.PartialObjectMetadata, error) {
	m, err := w.s.r.cluster.Mapper().RESTMapping(p.gk)
	if err != nil {
		return nil, err
	}
	out, next := map[string]*metav1.PartialObjectMetadata{}, ""
	for {
		call, stop := context.WithTimeout(ctx, keep.CallTimeout)
		page, err := w.client.Resource(m.Resource).Namespace(p.namespace).List(call, metav1.ListOptions{LabelSelector: manifest.OwnerLabel, Limit: vigilPage, Continue: next})
		stop()
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			one := &page.Items[i]
			one.ManagedFields = nil
			out[one.Name] = one
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

// compare wakes the owners of what is not as it was, or is not there.
func (w *watcher) compare(before, now map[string]*metav1.PartialObjectMetadata, owners map[string]string) {
	for name, is := range now {
		if was := before[name]; was == nil || was.UID != is.UID || was.ResourceVersion != is.ResourceVersion {
			w.wake(was, is)
		}
	}
	for name, owner := range owners {
		if now[name] == nil {
			w.s.Touch(owner)
		}
	}
}
