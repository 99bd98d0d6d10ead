package argocd

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// told is what the agent and the control plane agreed on when this process began. An
// agent that was installed anew knows nothing of what it made before: until it was told
// of everything, and has looked at all of it, nothing that items share is taken away.
type told struct {
	mu   sync.Mutex
	all  bool
	met  map[string]bool // that were looked at, until all were
	left map[string]bool // that were told and not looked at yet
}

var _ runtime.Listener = (*Runtime)(nil)

// Told implements runtime.Listener.
func (r *Runtime) Told(all []runtime.Item) {
	if next, ok := r.beside.(runtime.Listener); ok {
		next.Told(all)
	}
	var ids []string
	for _, it := range all {
		if it.Kind == runtime.KindDeployment && !it.Delete { // what is removed needs nothing of others
			ids = append(ids, it.ID)
		}
	}
	if r.told.hear(ids) {
		r.tidy()
	}
}

// hear takes what was told; true: all of it was looked at before.
func (t *told) hear(ids []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.left = true, map[string]bool{}
	for _, id := range ids {
		if !t.met[id] {
			t.left[id] = true
		}
	}
	t.met = nil
	return len(t.left) == 0
}

// meet notes that an item was looked at; true: it was the last one.
func (t *told) meet(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.all {
		if t.met == nil {
			t.met = map[string]bool{}
		}
		t.met[id] = true
		return false
	}
	if !t.left[id] {
		return false
	}
	delete(t.left, id)
	return len(t.left) == 0
}

// whole reports whether all that there is was told, and was looked at.
func (t *told) whole() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all && len(t.left) == 0
}

// tidy has an item of every project look whether there is more than is needed.
func (r *Runtime) tidy() {
	s := r.shift.Load()
	if s == nil {
		return
	}
	for _, id := range s.needs.oneOfEach() {
		s.Touch(id)
	}
}

// oneOfEach project that can be woken.
func (n *needs) oneOfEach() (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.projects {
		for id := range s.ids {
			if x := n.items[id]; x != nil && x.live {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

// met notes that an item was looked at. One that could not be, and of which it is not
// known what it needs, was not.
func (s *shift) met(id string, err error) {
	if err != nil && !fault.Is(err, fault.Invalid) && !s.needs.has(id) {
		return
	}
	if s.r.told.meet(id) {
		s.r.tidy()
	}
}

func (n *needs) has(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.items[id] != nil
}

// besidesThose is a project that allows what is wanted besides all that it allows now:
// items that are still to be told need that, and without it Argo CD would leave
// behind what it is to remove.
func (s *shift) besidesThose(ctx context.Context, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	now, err := s.cached(ctx, projects, want.GetName())
	if err != nil || now == nil {
		return want, err
	}
	is, _, _ := unstructured.NestedMap(now.Object, "spec")
	return projects.make(s.r.cfg.ArgoCD, want.GetName(), nil, object{"spec": broaden(is, want.Object["spec"].(object))}), nil
}

// broaden returns what a project allows that allows either. It is pure.
func broaden(is, want object) object {
	out := maps.Clone(want)
	for _, list := range []string{"sourceRepos", "destinations", "clusterResourceWhitelist"} {
		both, _ := want[list].([]any)
		both = slices.Clone(both)
		more, _ := is[list].([]any)
		for _, x := range more {
			if !slices.ContainsFunc(both, func(y any) bool { return reflect.DeepEqual(x, y) }) {
				both = append(both, x)
			}
		}
		if both != nil {
			out[list] = both
		}
	}
	if only, _ := is["permitOnlyProjectScopedClusters"].(bool); !only {
		delete(out, "permitOnlyProjectScopedClusters")
	}
	if out["namespaceResourceBlacklist"] == nil && is["namespaceResourceBlacklist"] != nil {
		out["namespaceResourceBlacklist"] = is["namespaceResourceBlacklist"]
	}
	return out
}
