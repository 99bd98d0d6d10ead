//go:build e2e

package chart_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// definition makes a kind known, in as far as the API of a Kubernetes without its
// owner can: any content is taken.
func definition(group, version, kind, plural string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
}

// A real API takes everything that the charts render, field by field, as `kubectl
// apply --server-side --dry-run=server` would have it.
func TestARealAPITakesIt(t *testing.T) {
	cluster := kubernetes.Start(t)
	dyn, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	definitions := dyn.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, d := range []*unstructured.Unstructured{
		definition("cert-manager.io", "v1", "Certificate", "certificates"), definition("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
	} {
		if _, err := definitions.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	var mapper meta.RESTMapper
	drover.Until(t, "the definitions", func() bool {
		groups, err := restmapper.GetAPIGroupResources(disco)
		if err != nil {
			return false
		}
		mapper = restmapper.NewDiscoveryRESTMapper(groups)
		_, one := mapper.RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}, "v1")
		_, two := mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}, "v1")
		return one == nil && two == nil
	})
	force := true
	for _, tc := range rendered {
		t.Run(tc.reason, func(t *testing.T) {
			for _, o := range render(t, tc.chart, tc.values) {
				mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
				if err != nil {
					t.Fatal(err)
				}
				var to dynamic.ResourceInterface = dyn.Resource(mapping.Resource)
				if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
					to = dyn.Resource(mapping.Resource).Namespace(o.GetNamespace())
				}
				data, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				_, err = to.Patch(t.Context(), o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
					DryRun: []string{metav1.DryRunAll}, FieldManager: "helm", FieldValidation: metav1.FieldValidationStrict, Force: &force,
				})
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}
