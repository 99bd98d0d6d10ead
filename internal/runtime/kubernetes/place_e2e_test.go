//go:build e2e

package kubernetes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
)

// The namespace that a deployment goes into is made where there is none, and is not the
// deployment's: what others have in it outlives that.
func TestThePlaceOfADeploymentStays(t *testing.T) {
	rt, id, place := open(t, system(t)), unique("d"), unique("place")
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 1, Token: 1, Body: body(t, object{
		"metadata": object{"namespace": place}, "manifests": []object{configMap("a", "1")}, "deployment": object{"uid": id, "namespace": place},
	})})
	await(t, rt, id, is(1, runtime.Ready))
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"k": "kept"}}
	if _, err := client(t).CoreV1().ConfigMaps(place).Create(t.Context(), mine, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 2, Token: 2, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	n, err := client(t).CoreV1().Namespaces().Get(t.Context(), place, metav1.GetOptions{})
	if err != nil || n.DeletionTimestamp != nil {
		t.Fatalf("the namespace: %v, %v", n, err)
	}
	if value(t, place, "a") != "none" || value(t, place, "mine") != "kept" {
		t.Errorf("left are %q of the deployment, and %q of others", value(t, place, "a"), value(t, place, "mine"))
	}
}

// Where nobody wants it made a missing namespace is an error, until somebody makes it.
func TestTheNamespaceOfADeploymentIsNotMade(t *testing.T) {
	rt, place := open(t, system(t)), unique("place")
	var ids []string
	for _, manual := range []bool{false, true} {
		id := unique("d")
		ids = append(ids, id)
		apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 1, Token: 1, Body: body(t, object{
			"metadata": object{"namespace": place}, "manifests": []object{configMap("a", "1")},
			"deployment": object{"uid": id, "namespace": place, "no_namespace": true, "manual": manual},
		})})
		await(t, rt, id, says(runtime.Error, "the namespace "+place+" is not there", "CreateNamespace=true"))
		if _, err := client(t).CoreV1().Namespaces().Get(t.Context(), place, metav1.GetOptions{}); err == nil {
			t.Fatal("it was made")
		}
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: place}}
	if _, err := client(t).CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		await(t, rt, id, is(1, runtime.Ready))
	}
}
