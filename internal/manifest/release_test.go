package manifest_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// Objects are their owner's, until it lets go of them: then they are the next one's.
func TestMine(t *testing.T) {
	thing := func(owner string, let bool) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "a"}}}
		if owner != "" {
			o.SetLabels(map[string]string{manifest.OwnerLabel: manifest.Mark(owner), "app": "shop"})
			o.SetAnnotations(map[string]string{manifest.OwnerAnnotation: owner})
		}
		if let {
			manifest.Free(o, owner)
		}
		return o
	}
	taken := thing("a", true)
	taken.SetLabels(map[string]string{manifest.OwnerLabel: manifest.Mark("c")})
	for _, c := range []struct {
		reason string
		set    manifest.Set
		there  *unstructured.Unstructured
		ours   bool
	}{
		{"its owner's", manifest.Set{Owner: "a"}, thing("a", false), true},
		{"another's", manifest.Set{Owner: "b"}, thing("a", false), false},
		{"another's, whoever takes what is nobody's", manifest.Set{Owner: "b", Adopt: true}, thing("a", false), false},
		{"nobody's", manifest.Set{Owner: "b"}, thing("", false), false},
		{"nobody's, for who takes that", manifest.Set{Owner: "b", Adopt: true}, thing("", false), true},
		{"what was let go of", manifest.Set{Owner: "b"}, thing("a", true), true},
		{"what was let go of, and taken since", manifest.Set{Owner: "b"}, taken, false},
	} {
		if err := manifest.Mine(c.set, c.there); (err == nil) != c.ours || err != nil && fault.Reason(err) != "not-ours" {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if o := thing("a", true); o.GetLabels()["app"] != "shop" || o.GetAnnotations()[manifest.OwnerAnnotation] != "" {
		t.Errorf("what was let go of is %v", o)
	}
}
