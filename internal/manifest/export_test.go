package manifest

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Prepare is prepare, for kinds of which only Namespace, ClusterRole and
// CustomResourceDefinition are in no namespace.
func Prepare(set Set) ([]*unstructured.Unstructured, error) {
	return prepare(set, func(gvk schema.GroupVersionKind) (bool, error) {
		return gvk.Kind != "Namespace" && gvk.Kind != "ClusterRole" && gvk.Kind != "CustomResourceDefinition", nil
	})
}

// Candidates is candidates.
func Candidates(p Pruning) ([]ID, []string, error) { return p.candidates() }

// Valueless is valueless.
func Valueless(s string) string { return valueless(s) }

// Assess is assess.
func Assess(id ID, o map[string]any) Object {
	if o == nil {
		return assess(id, nil)
	}
	return assess(id, &unstructured.Unstructured{Object: o})
}

// Judge is judge.
func Judge(ctx context.Context, objects []Object, ready string) (Health, error) {
	return judge(ctx, objects, ready)
}

// Renewing is the transport of watches.
func Renewing(next http.RoundTripper, life time.Duration) http.RoundTripper {
	return renewing{next, life}
}

// Mine is mine, of an object that is there.
func Mine(set Set, there *unstructured.Unstructured) error {
	return (&attempt{set: set, there: there, id: idOf(there)}).mine()
}

// Free is free.
func Free(o *unstructured.Unstructured, owner string) { free(o, owner) }
