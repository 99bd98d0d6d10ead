package gitops_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
)

// TestWhatIsNamedIsMeant has the agent told which namespaces the operator gave by
// their names: reserved ones of its own it refuses otherwise.
func TestWhatIsNamedIsMeant(t *testing.T) {
	y := newYard(t)
	y.engines.by["plain"] = gitops.Engine{ID: "plain", Runtime: "kubernetes", Ready: true}
	y.hub.heads["main"] = "c1"
	y.hub.files["c1"] = map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}
	y.workspace("acme", "plain", "shop", "team-*", "kube-system")
	for i, ns := range []string{"shop", "kube-system"} {
		o := shopOrder()
		o.Name, o.To = ns, gitops.To{Cluster: "plain", Namespace: ns}
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		y.work(time.Second)
		raw, _, err := y.s.Body(context.Background(), y.get(d.ID).Object, "plain")
		y.must(err)
		var body struct {
			Deployment struct {
				Named []string `json:"named"`
			} `json:"deployment"`
		}
		y.must(json.Unmarshal(raw, &body))
		if got := body.Deployment.Named; len(got) != 2 || got[0] != "kube-system" || got[1] != "shop" {
			t.Errorf("%d: the agent is told %v", i, got)
		}
	}
}

// TestAHomeCalledLikeTheSystem is no leave for the system of the engine.
func TestAHomeCalledLikeTheSystem(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Namespace.Name = "kube-system"
	y.apply(in)
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); len(b.Namespaces) != 0 {
		t.Errorf("the project may deploy into %v", b.Namespaces)
	}
}
