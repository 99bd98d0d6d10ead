package kubeapi

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// handed are the sync runs that this replica has handed over. Losing it costs
// another handing over, which changes nothing.
type handed struct {
	mu   sync.Mutex
	uids map[string]bool
}

func (h *handed) has(uid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.uids[uid]
}

func (h *handed) note(uid string, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !there {
		delete(h.uids, uid)
		return
	}
	if h.uids == nil {
		h.uids = map[string]bool{}
	}
	h.uids[uid] = true
}

// elders hands over the sync runs of the same deployment that were made before one
// and that nobody has taken up yet. Workers are several, and the one that comes
// first in the ledger is carried out first.
func (c *Controllers) elders(ctx context.Context, r resource, ns gitops.Namespace, o client.Object) error {
	run, ok := o.(*v1alpha1.GitOpsDeploymentSyncRun)
	if !ok || verdictOf(o) != empty || c.handed.has(string(o.GetUID())) {
		return nil
	}
	if err := c.parent(ctx, ns, run); err != nil {
		return err
	}
	var before []client.Object
	err := c.each(ctx, r, func(found client.Object) {
		other, ok := found.(*v1alpha1.GitOpsDeploymentSyncRun)
		if ok && other.Spec.GitopsDeploymentName == run.Spec.GitopsDeploymentName && older(other, run) < 0 &&
			verdictOf(other) == empty && other.DeletionTimestamp.IsZero() && !c.handed.has(string(other.UID)) {
			before = append(before, other)
		}
	}, client.InNamespace(run.Namespace))
	if err != nil {
		return err
	}
	slices.SortFunc(before, older)
	for _, e := range before {
		if err := settled(r.send(ctx, c.Service, intentOf(ns, e), e, nil)); err != nil {
			return err
		}
		c.handed.note(string(e.GetUID()), true)
	}
	return nil
}

// parent hands over the deployment of a sync run as it is now. Whoever changes a
// deployment and then asks for a sync means the changed one, and the word of the
// change may come later than that of the sync, or have to be handed over again. What
// is refused of it is told there.
func (c *Controllers) parent(ctx context.Context, ns gitops.Namespace, run *v1alpha1.GitOpsDeploymentSyncRun) error {
	r, ok := resourceOf(gitops.KindDeployment.Name)
	if !ok || run.Spec.GitopsDeploymentName == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := r.one()
	err := c.Home.kube.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.GitopsDeploymentName}, d)
	if missing(err) {
		return nil
	}
	if err != nil {
		return c.Home.explain(err)
	}
	in := intentOf(ns, d)
	if in.Gone {
		return nil
	}
	if err := r.send(ctx, c.Service, in, d, nil); fault.Is(err, fault.Unavailable) {
		return err
	}
	return nil
}

// older compares by what the API knows of the order: times have whole seconds, and
// of what nobody has written to since, the version tells more.
func older(a, b client.Object) int {
	x, y := a.GetResourceVersion(), b.GetResourceVersion()
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
}
