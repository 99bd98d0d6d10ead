package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/resilience"
)

// A home is where outcomes are shown.
var _ gitops.Mirror = (*Home)(nil)

// attempts at a write that somebody else was in the way of.
const attempts = 5

// step of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Tell implements gitops.Mirror: the status, and as an event what was put right.
func (h *Home) Tell(ctx context.Context, kind, uid string, of gitops.Origin, status any) error {
	ctx = resilience.For(ctx, of.Namespace)
	err := h.tell(ctx, kind, uid, of, status)
	if v, ok := status.(gitops.DeploymentView); ok && err == nil && v.Healed != nil {
		h.healed(ctx, kind, uid, of, v.Healed.At, v.Healed.What)
	}
	return err
}

// tell replaces a status as a whole, or not at all where it says that already.
func (h *Home) tell(ctx context.Context, kind, uid string, of gitops.Origin, status any) error {
	if o := h.recent.get(uid); o != nil && of.Home == h.Name && o.GetNamespace() == of.Namespace && o.GetName() == of.Name {
		sent, err := h.write(ctx, o, status, step{"test", "/metadata/resourceVersion", o.GetResourceVersion()})
		if sent && err == nil {
			return nil
		}
		// It is not as it was, or should say what it said: then somebody may have
		// changed it since.
		h.recent.drop(uid)
	}
	o, err := h.find(ctx, kind, uid, of)
	if err != nil {
		return err
	}
	sent, err := h.write(ctx, o, status)
	if !sent {
		return err
	}
	if apierrors.IsInvalid(err) {
		// The test failed, unless it is what was written: then the next try says so again.
		if _, err := h.find(ctx, kind, uid, of); err != nil {
			return err
		}
	}
	return h.explain(err)
}

// write replaces the status of a custom resource that was read, if what it is asked
// to test is so; false: nothing was sent, because it says that already or cannot
// be written.
func (h *Home) write(ctx context.Context, o client.Object, status any, tests ...step) (sent bool, err error) {
	sound := judge(o) == told
	_, at := statusOf(o)
	was := *at
	if err := h.show(o, status); err != nil {
		return false, err
	}
	digest, err := seal(o)
	if err != nil {
		return false, fault.New(fault.Internal, "the status of %s/%s cannot be written: %w", o.GetNamespace(), o.GetName(), err)
	}
	if sound && digest == was {
		return false, nil
	}
	shown, _ := statusOf(o)
	p := patch(append(tests, step{"test", "/metadata/uid", string(o.GetUID())}, step{"add", "/status", shown})...)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err = h.kube.Status().Patch(ctx, o, p); err == nil {
		h.recent.put(o)
	}
	return true, err
}

// show puts what there is to tell into the custom resource's status.
func (h *Home) show(o client.Object, status any) error {
	now := h.Now()
	switch o := o.(type) {
	case *v1alpha1.GitOpsDeployment:
		if v, ok := status.(gitops.DeploymentView); ok {
			o.Status = deploymentStatus(v, o.Status, now)
			return nil
		}
	case *v1alpha1.GitOpsDeploymentSyncRun:
		if v, ok := status.(gitops.SyncRunView); ok {
			o.Status = syncRunStatus(v)
			return nil
		}
	case *v1alpha1.GitOpsDeploymentRepositoryCredential:
		if v, ok := status.(gitops.RepositoryView); ok {
			o.Status = v1alpha1.GitOpsDeploymentRepositoryCredentialStatus{Conditions: conditions(v.Conditions, now)}
			return nil
		}
	case *v1alpha1.GitOpsDeploymentManagedEnvironment:
		if v, ok := status.(gitops.TargetView); ok {
			o.Status = v1alpha1.GitOpsDeploymentManagedEnvironmentStatus{Conditions: conditions(v.Conditions, now)}
			return nil
		}
	}
	return fault.New(fault.Internal, "a %T cannot be told to a %T", status, o)
}

// Stands implements gitops.Mirror.
func (h *Home) Stands(ctx context.Context, kind, uid string, of gitops.Origin) (int64, error) {
	o, err := h.find(ctx, kind, uid, of)
	if err != nil {
		return 0, err
	}
	if !o.GetDeletionTimestamp().IsZero() {
		return 0, fault.New(fault.NotFound, "%s/%s is on its way out", of.Namespace, of.Name)
	}
	return o.GetGeneration(), nil
}

// Release implements gitops.Mirror.
func (h *Home) Release(ctx context.Context, kind, uid string, of gitops.Origin) error {
	for range attempts {
		o, err := h.find(ctx, kind, uid, of)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		i := slices.Index(o.GetFinalizers(), v1alpha1.Finalizer)
		if i < 0 {
			return nil
		}
		err = h.kube.Patch(ctx, o, patch(
			step{"test", "/metadata/uid", uid}, step{"test", "/metadata/resourceVersion", o.GetResourceVersion()},
			step{"remove", fmt.Sprintf("/metadata/finalizers/%d", i), nil}))
		if err == nil || missing(err) {
			return nil
		}
		if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
			return h.explain(err)
		}
	}
	return fault.New(fault.Unavailable, "%s/%s is changed all the time: its finalizer could not be removed", of.Namespace, of.Name)
}

// patch is steps all of which succeed, or none does.
func patch(steps ...step) client.Patch {
	data, err := json.Marshal(steps)
	if err != nil {
		panic(err) // texts, numbers and a status that was marshalled before
	}
	return client.RawPatch(types.JSONPatchType, data)
}

// find reads the custom resource with that UID.
func (h *Home) find(ctx context.Context, kind, uid string, of gitops.Origin) (client.Object, error) {
	r, ok := resourceOf(kind)
	if !ok {
		return nil, fault.New(fault.Internal, "no custom resource stands for a %s", kind)
	}
	if of.Home != h.Name {
		return nil, fault.New(fault.Unavailable, "this server does not follow the Kubernetes API %q", of.Home)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := r.one()
	if err := h.kube.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, o); err != nil {
		return nil, h.explain(err)
	}
	if string(o.GetUID()) != uid {
		return nil, fault.New(fault.NotFound, "%s/%s is another one now", of.Namespace, of.Name)
	}
	return o, nil
}
