package httpapi

import (
	"context"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// deploymentBodies puts the bodies of deployments into the parts that are about
// them. One whose secrets cannot be had is left out: the agent asks again, and the
// others need not wait.
func (x *exchange) deploymentBodies(ctx context.Context, need []*part) error {
	byID := map[string][]*part{}
	var ids []any
	for _, p := range need {
		if p.it.sort == ofDeployment {
			if byID[p.ID] == nil {
				ids = append(ids, p.ID)
			}
			byID[p.ID] = append(byID[p.ID], p)
		}
	}
	for size := 0; len(ids) > 0 && size < maxBodies; {
		n := min(len(ids), bodyPage)
		objects, err := x.Ledger.List(ctx, ledger.Query{
			Kind: gitops.KindDeployment.Name, Where: ledger.Compare{Column: "id", Op: ledger.In, Values: ids[:n]}, Limit: n,
		})
		if err != nil {
			return err
		}
		ids = ids[n:]
		for _, o := range objects {
			if size += x.deploymentBody(ctx, o, byID[o.ID]); size >= maxBodies {
				break
			}
		}
	}
	return nil
}

// deploymentBody returns the size of the body.
func (x *exchange) deploymentBody(ctx context.Context, o ledger.Object, parts []*part) int {
	var src gitops.Item
	for _, it := range gitops.DesiredItems(o) {
		if it.Cluster == x.id {
			src = it
		}
	}
	if src.ID == "" {
		return 0
	}
	if src.Delete {
		body := gitops.Farewell(o, x.id)
		for _, p := range parts {
			if p.Generation == src.Generation && p.Delete && len(body) > 0 {
				p.Body, p.Filled, p.Org = body, true, o.Org // it is not the one of the digest
			}
		}
		return len(body)
	}
	body, filled, err := x.Deployments.Body(ctx, o, x.id)
	if err != nil {
		if x.grumble(x.p) {
			x.Log.WarnContext(ctx, "cannot make the body of a deployment; its agent is not told of it", "deployment", o.ID, "error", err)
		}
		return 0
	}
	for _, p := range parts {
		if p.Digest == src.Digest && p.Generation == src.Generation && !p.Delete {
			p.Body, p.Filled, p.Org = body, filled, o.Org
		}
	}
	return len(body)
}

// observeDeployments hands what an agent says of deployments over.
func (o *own) observeDeployments(ctx context.Context, clusterID string, items []v1.ObservedItem, h *heard) error {
	if len(items) == 0 || o.Deployments == nil {
		return nil
	}
	seen := make([]gitops.Observation, len(items))
	states := map[string]string{}
	for i, it := range items {
		states[it.ID] = it.State
		seen[i] = gitops.Observation{ID: it.ID, Generation: it.Generation, State: it.State, Message: it.Message, Detail: it.Detail, Leaf: it.Leaf(), Trace: it.Trace}
	}
	out, err := o.Deployments.Observe(ctx, clusterID, seen)
	if err != nil {
		return err
	}
	for _, w := range out.Written {
		h.written = append(h.written, written{w.Object, w.Seq})
	}
	h.known = append(h.known, out.Known...)
	for _, id := range out.Strangers {
		if states[id] != stateDeleted {
			h.stray(id)
		}
	}
	h.refused = append(h.refused, out.Refused...)
	return nil
}

// told is what one data plane must have of an object.
type told struct {
	v1.Item
	cluster string
	seen    uint64
}

// tell says what data planes must have of an instance or a deployment.
func (n *news) tell() {
	if n.object.Kind == gitops.KindDeployment.Name {
		n.sort = ofDeployment
		for _, it := range gitops.DesiredItems(*n.object) {
			n.items = append(n.items, told{v1.Item{ID: it.ID, Generation: it.Generation, Token: it.Token, Digest: it.Digest, Delete: it.Delete, Cause: n.cause, Trace: n.trace}, it.Cluster, it.Seen})
		}
		return
	}
	for _, it := range instance.DesiredItems(*n.object) {
		n.items = append(n.items, told{v1.Item{ID: it.ID, Generation: it.Generation, Token: it.Token, Digest: it.Digest, Delete: it.Delete, Cause: n.cause, Trace: n.trace}, it.Cluster, it.Seen})
	}
}
