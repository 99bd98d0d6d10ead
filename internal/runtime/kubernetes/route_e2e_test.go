//go:build e2e

package kubernetes_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// define lets the cluster serve a kind whose objects may hold anything.
func define(t *testing.T, group, kind, plural string) schema.GroupVersionResource {
	t.Helper()
	crds := dyn(t).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	name := plural + "." + group
	_, err := crds.Create(t.Context(), &unstructured.Unstructured{Object: object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": name, "annotations": object{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": object{"group": group, "scope": "Namespaced", "names": object{"kind": kind, "plural": plural},
			"versions": []any{object{"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crds.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	eventually(t, kind+" is served", func() bool {
		_, err := dyn(t).Resource(gvr).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	eventually(t, kind+" is told of", func() bool { // which comes later
		groups, err := client(t).Discovery().ServerGroups()
		if err != nil || !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
			return false
		}
		list, err := client(t).Discovery().ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
	})
	return gvr
}

// The first kind that the cluster serves carries hosts, and tells where they lead.
func TestRoutesOfWhatTheClusterHas(t *testing.T) {
	sys := system(t)
	found := func(c *kubernetes.Config) { c.Home, c.Routes, c.Gateway = sys, "", sys+"/front" }
	doc := object{"manifests": []object{{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "web"}, "spec": object{"ports": []object{{"port": 80}}}}},
		"routes": []object{{"host": "a.example.com", "service": "web", "port": 80}}}
	serve := func(rt runtime.Runtime, kind string, gvr schema.GroupVersionResource, status, address string) {
		t.Helper()
		if f, err := rt.Facts(t.Context()); err != nil || f.Routes != kind {
			t.Fatalf("facts: %+v, %v, want %s", f, err, kind)
		}
		id := unique(kind)
		apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, doc)})
		await(t, rt, id, says(runtime.Installing, "a.example.com"))
		all, err := dyn(t).Resource(gvr).Namespace(sys).List(t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/owner=" + id})
		if err != nil || len(all.Items) != 1 {
			t.Fatalf("%d objects carry the host, %v", len(all.Items), err)
		}
		if _, err := dyn(t).Resource(gvr).Namespace(sys).Patch(t.Context(), all.Items[0].GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		if o := await(t, rt, id, is(1, runtime.Ready)); o.Routes["a.example.com"] != address {
			t.Errorf("%s leads to %v", kind, o.Routes)
		}
		apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
		await(t, rt, id, is(2, runtime.Deleted))
	}
	ingresses := schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
	serve(open(t, sys, found), "ingress", ingresses, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`, "192.0.2.7")

	gateways := define(t, "gateway.networking.k8s.io", "Gateway", "gateways")
	routes := define(t, "gateway.networking.k8s.io", "HTTPRoute", "httproutes")
	front := &unstructured.Unstructured{Object: object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": object{"name": "front"}}}
	if _, err := dyn(t).Resource(gateways).Namespace(sys).Create(t.Context(), front, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := dyn(t).Resource(gateways).Namespace(sys).Patch(t.Context(), "front", types.MergePatchType, []byte(`{"status":{"addresses":[{"value":"gw.example.com"}]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	serve(open(t, sys, found), "gateway", routes, `{"status":{"parents":[{"conditions":[{"type":"Accepted","status":"True"}]}]}}`, "gw.example.com")

	openshift := define(t, "route.openshift.io", "Route", "routes")
	serve(open(t, sys, found), "route", openshift, `{"status":{"ingress":[{"host":"a.example.com","routerCanonicalHostname":"router.example.com","conditions":[{"type":"Admitted","status":"True"}]}]}}`, "router.example.com")
}
