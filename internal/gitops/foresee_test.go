package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
)

// Whoever asks for a deployment is told at once why it does not land, and what to do.
func TestWhyADeploymentDoesNotLand(t *testing.T) {
	for _, c := range []struct {
		reason, runtime string
		want            []string
	}{
		{"its agent was never there", "", []string{"waiting for the agent of cluster new", "`drover cluster join new`"}},
		{"its agent cannot", "process", []string{"cluster new runs process", "choose one with Argo CD or Kubernetes"}},
		{"all is well", "argocd", nil},
	} {
		y := newYard(t)
		y.engines.by["new"] = gitops.Engine{ID: "new", Runtime: c.runtime}
		y.workspace("acme", "new", "shop")
		o := shopOrder()
		o.To.Cluster = "new"
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		check := func(when string, d gitops.Deployment) {
			for _, want := range c.want {
				if !strings.Contains(d.Status.Error, want) {
					t.Errorf("%s: %s it says %q", c.reason, when, d.Status.Error)
				}
			}
			if c.want == nil && d.Status.Error != "" {
				t.Errorf("%s: %s it says %q", c.reason, when, d.Status.Error)
			}
		}
		check("at once", d)
		y.work(time.Second)
		check("later", y.get(d.ID))
	}
}

// What a custom resource asks for says who has to name a cluster, and how; and goes on by
// itself once that is done.
func TestNoEngineIsNamed(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Namespace.Engine = ""
	y.apply(in)
	y.work(time.Second)
	if got := y.condition("uid-1", "ErrorOccurred"); !strings.Contains(got, "--gitops-options engines=CLUSTER") {
		t.Errorf("it is told %q", got)
	}
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	if d := y.get("uid-1"); d.Status.Engine != "hub" || d.Status.Error != "" {
		t.Errorf("it is on %q: %s", d.Status.Engine, d.Status.Error)
	}
	other := y.intent("uid-2", 1)
	other.Namespace.UID, other.Namespace.Name, other.Namespace.Engine = "ns-2", "web", "nowhere"
	y.apply(other)
	y.work(time.Second)
	if d := y.get("uid-2"); !strings.Contains(d.Status.Error, "drover cluster register nowhere") {
		t.Errorf("it says %q", d.Status.Error)
	}
}
