package argocd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

func TestFigures(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	app := func(name, at string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: object{"metadata": object{"name": name, "namespace": "argocd"}}}
		if at != "" {
			o.Object["status"] = object{"reconciledAt": at}
		}
		return o
	}
	settings := func(data object) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "argocd-cm", "namespace": "argocd"}, "data": data}}
	}
	apps := []*unstructured.Unstructured{app("lately", "2026-01-02T11:58:00Z"), app("long-ago", "2026-01-02T11:56:00Z"), app("never", "")}
	for _, tc := range []struct {
		reason string
		has    []kruntime.Object
		apps   []*unstructured.Unstructured
		want   runtime.Engine
	}{
		{"Jsonnet is on unless it is off", []kruntime.Object{settings(object{})}, apps, runtime.Engine{Applications: 3, Reconciled: 1, Operations: 5, Jsonnet: true}},
		{"it is off", []kruntime.Object{settings(object{"jsonnet.enable": "false"})}, apps, runtime.Engine{Applications: 3, Reconciled: 1, Operations: 5}},
		{"the health of resources is elsewhere", nil, []*unstructured.Unstructured{apps[0], {Object: object{"status": object{"resourceHealthSource": "appTree"}}}}, runtime.Engine{Applications: 2, Reconciled: 1, Operations: 5, NoHealth: true}},
		{"what cannot be read is not told", nil, nil, runtime.Engine{Operations: 5}},
	} {
		client := fake.NewSimpleDynamicClient(kruntime.NewScheme(), tc.has...)
		if d := cmp.Diff(tc.want, argocd.Count(t.Context(), client, tc.apps, 5, now)); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
}

func TestLeftovers(t *testing.T) {
	apps := func(names ...string) (out []*unstructured.Unstructured) {
		for _, name := range names {
			out = append(out, &unstructured.Unstructured{Object: object{"metadata": object{"name": name, "namespace": "argocd"}}})
		}
		return out
	}
	going := apps("going")
	going[0].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	for _, c := range []struct {
		reason      string
		apps        []*unstructured.Unstructured
		ours, since []string
		want        string
	}{
		{"all are somebody's", apps("a", "b"), []string{"a", "b"}, nil, ""},
		{"some are nobody's", apps("c", "a", "b"), []string{"a"}, nil, "b, c"},
		{"one was heard of before its deployment", apps("a", "b"), nil, []string{"a"}, "b"},
		{"one is on its way out", append(going, apps("a")...), nil, nil, "a"},
		{"many", apps("a", "b", "c", "d", "e", "f", "g"), nil, nil, "a, b, c, d, e, and 2 more"},
	} {
		if got := argocd.Leftovers(c.apps, c.ours, c.since, true); got != c.want {
			t.Errorf("%s: %q", c.reason, got)
		}
		if got := argocd.Leftovers(c.apps, c.ours, c.since, false); got != "" {
			t.Errorf("%s, and not everything was told: %q", c.reason, got)
		}
	}
}
