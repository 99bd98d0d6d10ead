package argocd

import (
	"context"
	"encoding/base64"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const (
	patience  = 5 * time.Second        // for a first list of Argo CD's objects
	pause     = 500 * time.Millisecond // between two looks at one Application
	byProject = "project"
)

// shift is the part of a shift that is this runtime's.
type shift struct {
	*keep.Shift
	r       *Runtime
	needs   *needs
	damaged bool
	ready   chan struct{} // closed when the caches are filled, or will not be soon
	caches  map[kind]cache.SharedIndexInformer
	ops     *operations
	diffs   *differences
	hosts   sync.Mutex // held by whoever writes Argo CD's list of host keys

	asks  turns // of Argo CD, about what has failed
	looks turns // for namespaces that are missing

	mu      sync.Mutex
	there   map[string]bool        // objects that were there during this shift
	heals   map[string][]time.Time // when they were put right
	looked  map[string]time.Time   // when an item was last looked at
	fails   map[string]time.Time   // since when it could not be compared what an item asks for
	without map[string]time.Time   // when Argo CD was first missing for what is to go
	left    map[string]bool        // Applications that are nobody's, told once
	homes   map[string]string      // namespaces that are made for items, by id
	// trusting are items that bring host keys.
	trusting map[string]bool
	hosted   string // our part of the list of host keys as we made it last; guarded by hosts
	unhosted bool   // that part was seen to be empty, and nothing was added since; likewise
}

// begin starts the watches: one goroutine per kind of object, one that waits for
// their first lists, one for Operations, one for differences, one that looks after what is not watched, and one
// that looks at settings once.
func (r *Runtime) begin(ctx context.Context, ks *keep.Shift) (keep.Worker, error) {
	s := &shift{Shift: ks, r: r, needs: newNeeds(r.cfg), ready: make(chan struct{}), caches: map[kind]cache.SharedIndexInformer{},
		there: map[string]bool{}, heals: map[string][]time.Time{}, looked: map[string]time.Time{}, fails: map[string]time.Time{}, left: map[string]bool{}, without: map[string]time.Time{}, homes: map[string]string{}, trusting: map[string]bool{}}
	all, damaged := ks.Kept()
	s.damaged = damaged > 0
	for _, rec := range all {
		if rec.Gone {
			continue
		}
		now, last := needOf(rec)
		s.needs.set(rec.ID, now, last, false)
		if last != nil && rec.Settled && !rec.Delete {
			s.recollect(*last)
		}
	}
	for _, k := range kinds {
		s.caches[k] = s.follow(ctx, k)
	}
	s.Go(func() {
		defer close(s.ready)
		wait, stop := context.WithTimeout(ctx, patience)
		defer stop()
		for _, c := range s.caches {
			cache.WaitForCacheSync(wait.Done(), c.HasSynced)
		}
	})
	s.Go(func() { r.warn(ctx) })
	s.Go(func() { s.vigil(ctx) })
	s.diffs = newDifferences(s)
	s.Go(func() { s.diffs.run(ctx) })
	s.ops = newOperations(s)
	for _, rec := range all {
		s.retell(rec)
	}
	s.Go(func() { s.ops.run(ctx) })
	r.shift.Store(s)
	return s, nil
}

func (s *shift) follow(ctx context.Context, k kind) cache.SharedIndexInformer {
	informer := dynamicinformer.NewFilteredDynamicInformer(s.r.objects, k.GroupVersionResource, s.r.cfg.ArgoCD, 0, cache.Indexers{byProject: projectOf, bySharer: sharers},
		func(o *metav1.ListOptions) { o.LabelSelector = managedLabel + "=" + managedBy }).Informer()
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.r.cfg.Logger.Debug("a watch ended", "resource", k.Resource, "error", err)
	})
	_ = informer.SetTransform(func(obj any) (any, error) {
		if o, ok := obj.(*unstructured.Unstructured); ok {
			o.SetManagedFields(nil)
		}
		return obj, nil
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.event(k, nil, as(obj)) },
		UpdateFunc: func(before, after any) { s.event(k, as(before), as(after)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			s.event(k, as(obj), nil)
		},
	})
	s.Go(func() { informer.RunWithContext(ctx) })
	return informer
}

func as(obj any) *unstructured.Unstructured {
	o, _ := obj.(*unstructured.Unstructured)
	return o
}

// projectOf a Secret, for the index.
func projectOf(obj any) ([]string, error) {
	text, _, _ := unstructured.NestedString(as(obj).Object, "data", "project")
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil, nil
	}
	return []string{string(b)}, nil
}

// event wakes the item that an object is of: to look, or to compare where more
// than the status has changed.
func (s *shift) event(k kind, before, after *unstructured.Unstructured) {
	one := after
	if one == nil {
		one = before
	}
	if one == nil {
		return
	}
	if k != applications {
		if before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() {
			return
		}
		if id := s.needs.wronged(k, one.GetName(), after); id != "" {
			s.Touch(id)
		}
		return
	}
	s.pass(before, after)
	id, ours := s.needs.application(one.GetName())
	switch {
	case !ours:
		s.leftover(one, after != nil)
	case before == nil || after == nil || !alike(before, after):
		s.Touch(id)
	default:
		s.lookSoon(id)
	}
}

// alike reports whether only what Argo CD writes has changed.
func alike(before, after *unstructured.Unstructured) bool {
	return reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) && reflect.DeepEqual(before.GetLabels(), after.GetLabels()) &&
		reflect.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) && reflect.DeepEqual(before.GetFinalizers(), after.GetFinalizers()) &&
		(before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil)
}

// lookSoon wakes an item at once, or a little later where it was looked at just
// now: Argo CD writes a status many times while it syncs.
func (s *shift) lookSoon(id string) {
	s.mu.Lock()
	rest := pause - s.r.cfg.Now().Sub(s.looked[id])
	s.mu.Unlock()
	if rest > 0 && rest <= pause {
		s.WakeAfter(id, rest)
		return
	}
	s.Wake(id)
}

// leftover tells about an Application with our label that no item is about. It
// is left alone: that it is not known here does not mean that nobody wants it.
func (s *shift) leftover(o *unstructured.Unstructured, there bool) {
	s.mu.Lock()
	told := s.left[o.GetName()]
	if there {
		s.left[o.GetName()] = true
	} else {
		delete(s.left, o.GetName())
	}
	s.mu.Unlock()
	if there && !told && o.GetDeletionTimestamp() == nil {
		s.r.cfg.Logger.Warn("an Application has our label, and no deployment that is known here: it is left alone", "name", o.GetName())
	}
}

// cached reads an object without asking the cluster, where that is possible; nil:
// there is none.
func (s *shift) cached(ctx context.Context, k kind, name string) (*unstructured.Unstructured, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := s.caches[k]
	if !c.HasSynced() {
		return s.r.live(ctx, k, name)
	}
	obj, there, err := c.GetStore().GetByKey(s.r.cfg.ArgoCD + "/" + name)
	if err != nil || !there {
		return nil, err
	}
	return as(obj), nil
}

// untold adds those that the item itself had and that are not wanted any more, where the
// watch has not told of them yet: nobody would look for them again.
func (s *shift) untold(ctx context.Context, w *writer, project string, there []*unstructured.Unstructured, want *scope) ([]*unstructured.Unstructured, error) {
	last := remember(w.e.Record.Own).last()
	if last == nil || projectName(*last) != project {
		return there, nil
	}
	for name := range derive(s.r.cfg, project, []runtime.Deployment{*last}, nil).secrets {
		if want.secrets[name] != nil || slices.ContainsFunc(there, func(o *unstructured.Unstructured) bool { return o.GetName() == name }) {
			continue
		}
		o, err := s.r.live(ctx, secrets, name)
		if err != nil {
			return nil, err
		}
		if o == nil || o.GetLabels()[managedLabel] != managedBy {
			continue
		}
		if of, _ := projectOf(o); len(of) == 1 && of[0] == project {
			there = append(there, o)
		}
	}
	return there, nil
}

// secretsOf a project that are there; they are ours.
func (s *shift) secretsOf(ctx context.Context, project string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	if c := s.caches[secrets]; c.HasSynced() {
		found, err := c.GetIndexer().ByIndex(byProject, project)
		for _, o := range found {
			all = append(all, as(o))
		}
		return all, err
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	list, err := s.r.in(secrets).List(call, metav1.ListOptions{LabelSelector: managedLabel + "=" + managedBy})
	if err != nil {
		return nil, s.r.explain(err, secrets, "")
	}
	for i := range list.Items {
		if of, _ := projectOf(&list.Items[i]); len(of) == 1 && of[0] == project {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}
