package kubernetes_test

import (
	"cmp"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

func TestReserve(t *testing.T) {
	for _, c := range []struct {
		reason  string
		own     string // default "drover-system"
		named   []string
		id      manifest.ID
		refused bool
	}{
		{"its own place", "", nil, manifest.ID{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, false},
		{"the agent's is not given by a pattern", "", []string{"shop"}, manifest.ID{Kind: "ConfigMap", Namespace: "drover-system", Name: "a"}, true},
		{"nor is that of Kubernetes", "", nil, manifest.ID{Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "a"}, true},
		{"nor are the namespaces themselves", "", nil, manifest.ID{Kind: "Namespace", Name: "kube-system"}, true},
		{"whoever is given it by name has it", "", []string{"kube-system"}, manifest.ID{Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "a"}, false},
		{"one name is not the other", "", []string{"kube-system"}, manifest.ID{Kind: "Secret", Namespace: "drover-system", Name: "a"}, true},
		{"nor is another agent's", "drover-far", nil, manifest.ID{Kind: "Pod", Namespace: "drover-system", Name: "a"}, true},
		{"beside one's own", "drover-far", nil, manifest.ID{Kind: "Pod", Namespace: "drover-far", Name: "a"}, true},
		{"what has the name and is none is taken", "", nil, manifest.ID{Group: "example.org", Kind: "Namespace", Namespace: "shop", Name: "kube-system"}, false},
	} {
		err := kubernetes.Reserve(cmp.Or(c.own, "drover-system"), c.named, []string{c.id.String()})
		if (err != nil) != c.refused || c.refused && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
