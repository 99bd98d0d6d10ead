package argocd

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// vigilEach is how often what no watch tells is looked at.
const vigilEach = 30 * time.Second

// vigil looks after what is not watched, because there is one of it, or because it is
// not Argo CD's: the list of host keys, and namespaces that were made for deployments.
// It costs two requests, however many deployments there are, and none where no
// deployment has to do with them. It is one goroutine, which ends with ctx.
func (s *shift) vigil(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(s.r.cfg.Renew, vigilEach))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, look := range []func(context.Context) error{s.lookHosts, s.lookHomes} {
			if err := look(ctx); err != nil && ctx.Err() == nil {
				s.r.cfg.Logger.Debug("what is not watched could not be looked at; nothing was changed", "error", err)
			}
		}
	}
}

// lookHosts has an item put the list of host keys right. Where none brings any, what is
// left of those that did is taken off it.
func (s *shift) lookHosts(ctx context.Context) error {
	id := ""
	s.mu.Lock()
	for id = range s.trusting {
		break // one is enough
	}
	s.mu.Unlock()
	if id == "" {
		return s.distrust(ctx)
	}
	now, err := s.r.live(ctx, settings, hostsName)
	if err != nil {
		return err
	}
	before := ""
	if now != nil {
		before, _, _ = unstructured.NestedString(now.Object, "data", hostsKey)
	}
	if now == nil || !sameHosts(before, trust(before, s.needs.all(), s.r.told.whole())) {
		s.Touch(id)
	}
	return nil
}

// lookHomes has items make namespaces again that somebody removed.
func (s *shift) lookHomes(ctx context.Context) error {
	s.mu.Lock()
	homes := maps.Clone(s.homes)
	s.mu.Unlock()
	if len(homes) == 0 {
		return nil
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := s.r.cluster.Kube().List(call, list); err != nil {
		return manifest.Explain(err, manifest.ID{Kind: "Namespace"})
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = true
	}
	for id, namespace := range homes {
		if !there[namespace] {
			s.Touch(id)
		}
	}
	return nil
}

// makesHome reports whether the namespace of a deployment is made for it.
func (c Config) makesHome(d runtime.Deployment) bool {
	return own(d) && !wide(d) && c.covered(d) && slices.Contains(d.SyncOptions, "CreateNamespace=true")
}

// attend remembers what an item has to do with what is not watched; d is nil for one
// that goes.
func (s *shift) attend(id string, d *runtime.Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.homes, id)
	delete(s.trusting, id)
	if d != nil && s.r.cfg.makesHome(*d) {
		s.homes[id] = d.Namespace
	}
	if d != nil && bringsHosts(*d) {
		s.trusting[id] = true
	}
}
