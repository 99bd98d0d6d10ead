//go:build e2e

package kubeapi_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/ledger"
)

// forge writes a row as nobody of ours does.
func (p *plane) forge(t *testing.T, ref ledger.Ref, forgery func(o *ledger.Object)) {
	t.Helper()
	until(t, "a forged row is written", func() bool {
		o, err := p.store.Get(context.Background(), ref)
		if err != nil {
			return false
		}
		forgery(&o)
		_, err = p.store.Commit(context.Background(), ledger.Set{
			Actor: "somebody", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}},
		})
		return err == nil
	})
}

// What somebody writes of a namespace is found by the comparison alone, and told there.
func TestForgedWorkspacesArePutRight(t *testing.T) {
	w := enter(t)
	p := w.plane(t, 500*time.Millisecond)
	for what, forgery := range map[string]func(o *ledger.Object, spec map[string]any){
		"of another home": func(_ *ledger.Object, spec map[string]any) { spec["home"] = "other" },
		"another engine":  func(_ *ledger.Object, spec map[string]any) { spec["engine"] = "other" },
		"another's":       func(o *ledger.Object, _ map[string]any) { o.Org = "other" },
		"gone":            func(o *ledger.Object, _ map[string]any) { o.Deleted = time.Now() },
	} {
		d := deployment(w.Namespace(t), "shop")
		w.create(t, d)
		var ns corev1.Namespace
		if err := w.Get(t.Context(), client.ObjectKey{Name: d.Namespace}, &ns); err != nil {
			t.Fatal(err)
		}
		ref := ledger.Ref{Kind: "workspace", ID: string(ns.UID)}
		var right string
		row := func() string {
			o, err := p.store.Get(t.Context(), ref)
			if err != nil || !o.Deleted.IsZero() {
				return ""
			}
			return o.Org + " " + o.Name + " " + string(o.Spec)
		}
		until(t, "the namespace is known", func() bool { right = row(); return right != "" })
		p.forge(t, ref, func(o *ledger.Object) {
			var spec map[string]any
			if err := json.Unmarshal(o.Spec, &spec); err != nil {
				t.Error(err)
			}
			forgery(o, spec)
			o.Spec, _ = json.Marshal(spec)
		})
		until(t, what+" is put right", func() bool { return row() == right })
		until(t, what+" is told", func() bool {
			var list corev1.EventList
			if err := w.List(t.Context(), &list, client.InNamespace(ns.Name)); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Kind == "Namespace" && e.InvolvedObject.UID == ns.UID && e.Reason == "PutRight" &&
					e.Message == "put right: what the ledger has of it was changed by somebody else"
			})
		})
	}
}
