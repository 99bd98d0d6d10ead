//go:build e2e

package kubeapi_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/ledger"
)

// everyKind is a custom resource of each kind.
func everyKind(ns string) map[string]client.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	return map[string]client.Object{
		"deployment": deployment(ns, "shop"),
		"syncrun":    &v1alpha1.GitOpsDeploymentSyncRun{ObjectMeta: named("run"), Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "none"}},
		"repository": &v1alpha1.GitOpsDeploymentRepositoryCredential{ObjectMeta: named("git"), Spec: v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://a/b"}},
		"target":     &v1alpha1.GitOpsDeploymentManagedEnvironment{ObjectMeta: named("prod"), Spec: v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://a"}},
	}
}

// Rows that somebody has set to be deleted, to a later generation or to nobody's are put
// right by the next comparison, and told, of every kind.
func TestForgedRowsArePutRight(t *testing.T) {
	w := enter(t)
	p, ns := w.plane(t, 500*time.Millisecond), w.Namespace(t)
	all := everyKind(ns)
	row := func(kind string) (o ledger.Object, deleted bool, of *gitops.Origin) {
		o, err := p.store.Get(t.Context(), ledger.Ref{Kind: kind, ID: string(all[kind].GetUID())})
		var spec struct {
			Deleted bool
			Origin  *gitops.Origin
		}
		if err != nil || json.Unmarshal(o.Spec, &spec) != nil {
			return o, true, nil
		}
		return o, spec.Deleted || !o.Deleted.IsZero(), spec.Origin
	}
	right := func(kind string) func() bool {
		return func() bool {
			_, deleted, of := row(kind)
			return !deleted && of != nil && of.Home == "home" && of.Generation == all[kind].GetGeneration()
		}
	}
	for kind, o := range all {
		w.create(t, o)
		until(t, kind+" is known", right(kind))
	}
	for what, forgery := range map[string]func(o *ledger.Object, spec map[string]any){
		"deleted":           func(_ *ledger.Object, spec map[string]any) { spec["deleted"] = true },
		"a later one":       func(_ *ledger.Object, spec map[string]any) { spec["origin"].(map[string]any)["generation"] = 7 },
		"nobody's":          func(_ *ledger.Object, spec map[string]any) { delete(spec, "origin") },
		"a row that is not": func(o *ledger.Object, _ map[string]any) { o.Deleted = time.Now() },
	} {
		for kind := range all {
			until(t, what+" is written to "+kind, func() bool {
				o, _, _ := row(kind)
				var spec map[string]any
				if json.Unmarshal(o.Spec, &spec) != nil {
					return false
				}
				forgery(&o, spec)
				o.Spec, _ = json.Marshal(spec)
				_, err := p.store.Commit(context.Background(), ledger.Set{
					Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}, Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}},
				})
				return err == nil
			})
			until(t, kind+" that was made "+what+" is put right", right(kind))
		}
	}
	for kind, o := range all {
		until(t, kind+" is told", func() bool {
			got := w.eventsOf(t, o)
			return len(got) > 0 && got[0] == "put right: what the ledger has of it was changed by somebody else"
		})
	}
}

// Statuses that somebody has garbled are found by the comparison alone, put right and told,
// of every kind.
func TestGarbledRowsArePutRight(t *testing.T) {
	w := enter(t)
	p, ns := w.plane(t, 500*time.Millisecond), w.Namespace(t)
	all := everyKind(ns)
	status := func(kind string) (out struct{ Mirrored string }, legible bool) {
		o, err := p.store.Get(t.Context(), ledger.Ref{Kind: kind, ID: string(all[kind].GetUID())})
		return out, err == nil && len(o.Status) > 0 && json.Unmarshal(o.Status, &out) == nil
	}
	for kind, o := range all {
		w.create(t, o)
		until(t, kind+" is told of", func() bool { s, ok := status(kind); return ok && s.Mirrored != "" })
	}
	for kind, o := range all {
		p.forge(t, ledger.Ref{Kind: kind, ID: string(o.GetUID())}, func(o *ledger.Object) { o.Status = json.RawMessage(`{"mirrored":7}`) })
	}
	for kind, o := range all {
		until(t, kind+" is put right", func() bool { s, ok := status(kind); return ok && s.Mirrored != "" })
		until(t, kind+" is told", func() bool {
			return slices.Contains(w.eventsOf(t, o), "put right: what the ledger has of it was changed by somebody else")
		})
	}
}

// A resource that is deleted while its row says that it is nobody's is gone, of every kind.
func TestForgedRowsOfDeletedResources(t *testing.T) {
	w := enter(t)
	p, ns := w.plane(t, 0), w.Namespace(t)
	for kind, o := range everyKind(ns) {
		w.create(t, o)
		ref := ledger.Ref{Kind: kind, ID: string(o.GetUID())}
		until(t, kind+" is known", func() bool { _, err := p.store.Get(t.Context(), ref); return err == nil })
		p.forge(t, ref, func(o *ledger.Object) {
			var spec map[string]any
			_ = json.Unmarshal(o.Spec, &spec)
			delete(spec, "origin")
			o.Spec, _ = json.Marshal(spec)
		})
		w.delete(t, o)
		until(t, kind+" is to go", func() bool {
			o, err := p.store.Get(t.Context(), ref)
			return err == nil && (!o.Deleted.IsZero() || o.Phase == gitops.Deleting)
		})
	}
}
