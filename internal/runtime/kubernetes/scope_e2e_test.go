//go:build e2e

package kubernetes_test

import (
	"context"
	"encoding/json"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/runtime"
)

// What a workspace deploys has a namespace, unless an operator says otherwise. The
// cluster alone knows of kinds that others have brought.
func TestDeploymentsAreNotForTheWholeCluster(t *testing.T) {
	rt, d, c := open(t, system(t)), dyn(t), client(t)
	group := unique("g") + ".example.com"
	define := func(kind, plural, scope string) object {
		return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": plural + "." + group},
			"spec": object{"group": group, "scope": scope, "names": object{"kind": kind, "plural": plural},
				"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}
	}
	step := unique("kinds")
	apply(t, rt, runtime.Item{ID: step, Kind: "step", Generation: 1, Token: 1, Body: manifests(t, define("Range", "ranges", "Cluster"))})
	await(t, rt, step, is(1, runtime.Ready))
	t.Cleanup(func() {
		_ = d.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
			Delete(context.Background(), "ranges."+group, metav1.DeleteOptions{})
	})
	ns := unique("team")
	deploy := func(wide bool, all ...object) json.RawMessage {
		return body(t, object{"metadata": object{"namespace": ns}, "deployment": object{"uid": "u", "namespace": ns, "cluster_resources": wide}, "manifests": all})
	}
	wild := func(name string) object {
		return object{"apiVersion": group + "/v1", "kind": "Range", "metadata": object{"name": name, "namespace": ns}}
	}
	role := func(name string) object {
		return object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": name, "namespace": ns}, "rules": []any{}}
	}
	for _, tc := range []struct {
		reason string
		all    []object
	}{
		{"a kind that only this cluster knows, with a namespace to look harmless", []object{configMap("a", "1"), wild("one")}},
		{"a kind that everybody knows", []object{configMap("a", "1"), role(ns)}},
		{"in a list", []object{configMap("a", "1"), {"apiVersion": "v1", "kind": "List", "items": []any{wild("one")}}}},
		{"beside a definition that says that its kind has namespaces", []object{configMap("a", "1"), define("Range", "ranges", "Namespaced"), wild("one")}},
	} {
		id := unique("shop")
		apply(t, rt, runtime.Item{ID: id, Kind: "deployment", Generation: 1, Token: 1, Body: deploy(false, tc.all...)})
		o := await(t, rt, id, says(runtime.Error, "whole cluster"))
		t.Logf("%s: %s", tc.reason, o.Message)
		if _, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: a part of it is there: %v", tc.reason, err)
		}
		apply(t, rt, runtime.Item{ID: id, Kind: "deployment", Generation: 2, Token: 1, Delete: true})
		await(t, rt, id, is(2, runtime.Deleted))
	}
	ranges := d.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "ranges"})
	if list, err := ranges.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("what is for the whole cluster: %v, %v", list, err)
	}
	// Whoever may, may; and what is taken back later stays as it is, and says so.
	id := unique("ops")
	apply(t, rt, runtime.Item{ID: id, Kind: "deployment", Generation: 1, Token: 1, Body: deploy(true, configMap("a", "1"), wild("one"))})
	await(t, rt, id, is(1, runtime.Ready))
	if _, err := ranges.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	apply(t, rt, runtime.Item{ID: id, Kind: "deployment", Generation: 2, Token: 1, Body: deploy(false, configMap("a", "2"), wild("one"))})
	await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 2 && says(runtime.Error, "whole cluster")(o) })
	if _, err := ranges.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	apply(t, rt, runtime.Item{ID: id, Kind: "deployment", Generation: 3, Token: 1, Delete: true})
	await(t, rt, id, is(3, runtime.Deleted))
	if _, err := ranges.Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
