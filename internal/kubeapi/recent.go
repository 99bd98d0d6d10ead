package kubeapi

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

const (
	maxRecent = 1000 // custom resources
	maxKept   = 20   // in the status of one: those with more are read again
)

// recent are custom resources as they were when this replica last wrote to them, or
// first saw them, so that a status is not read before each write.
// What is in it may be old: a write has to say what it is made of. Losing it costs a
// question.
type recent struct {
	mu    sync.Mutex
	by    map[string]client.Object // by UID
	order []string                 // oldest first; UIDs of what was dropped are among them
}

// get returns one to change; nil: it is not known.
func (r *recent) get(uid string) client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.by[uid]; o != nil {
		return o.DeepCopyObject().(client.Object)
	}
	return nil
}

// meet notes one that was seen with an empty status, unless it is known from a
// write, which is newer.
func (r *recent) meet(o client.Object) {
	r.mu.Lock()
	known := r.by[string(o.GetUID())] != nil
	r.mu.Unlock()
	if !known {
		r.put(o)
	}
}

// put notes one that was just written, and takes it over.
func (r *recent) put(o client.Object) {
	uid := string(o.GetUID())
	if d, ok := o.(*v1alpha1.GitOpsDeployment); ok && len(d.Status.Resources) > maxKept {
		r.drop(uid)
		return
	}
	o.SetManagedFields(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]client.Object{}
	}
	if _, known := r.by[uid]; !known {
		r.order = append(r.order, uid)
	}
	r.by[uid] = o
	for len(r.order) > maxRecent {
		delete(r.by, r.order[0])
		r.order = r.order[1:]
	}
}

func (r *recent) drop(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, uid)
}
