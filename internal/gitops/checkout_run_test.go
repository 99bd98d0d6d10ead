package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// seenRun is what an agent without Argo CD says of a sync run.
func seenRun(y *yard, id, phase string, retries int64) *runtime.Deployed {
	seen := seenAt("Synced", "c1")
	seen.Health.Status = "Progressing"
	seen.Run = &runtime.SyncRun{ID: id, Phase: phase, Message: "as the agent says", Revision: "c1", Retries: retries, Started: y.clock}
	if phase != "Running" {
		seen.Run.Finished = y.clock.Add(time.Second)
		seen.Run.Resources = []runtime.SyncedResource{{Kind: "ConfigMap", Name: "one", Status: "Synced"}}
	}
	return seen
}

func (y *yard) asksNewest(uid string) gitops.SyncRunIntent {
	run := y.runIntent(uid)
	run.Revision = ""
	return run
}

// A sync is over when all is applied, whether or not that ever becomes healthy: the run
// with the mended manifests is behind it.
func TestASyncRunWithoutArgoCDEndsWithWhatItApplied(t *testing.T) {
	y := plain(t)
	y.apply(y.manual())
	y.work(time.Second)
	y.ask(y.asksNewest("r1"))
	y.work(time.Second)
	y.hub.heads["main"] = "c2"
	y.hub.files["c2"] = map[string]string{"one.yaml": configMap}
	y.ask(y.asksNewest("r2"))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Installing, seenRun(y, "r1", "Succeeded", 0))
	y.work(time.Second)
	v := y.runTold("r1")
	if v.Phase != "Succeeded" || v.Run == nil || v.Run.Finished.IsZero() || len(v.Run.Resources) != 1 || v.Run.Revision != "c1" {
		t.Errorf("all is applied, and the run is told as %+v", v)
	}
	if h := y.handed("uid-1"); h.Deployment.Run != "r2" || h.Deployment.Commit != "c2" || h.Deployment.Retries != 5 {
		t.Errorf("the one behind it: the agent is told %+v", h.Deployment)
	}
}

// A failure is no end while the agent tries again; one that is deleted meanwhile is
// not tried any more.
func TestASyncRunWithoutArgoCDIsTriedAgain(t *testing.T) {
	y := plain(t)
	y.apply(y.manual())
	y.work(time.Second)
	run := y.asksNewest("r1")
	y.ask(run)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Error, seenRun(y, "r1", "Running", 2))
	y.work(time.Minute)
	if v := y.runTold("r1"); v.Phase != "Running" || v.Run == nil || v.Run.Retries != 2 || v.Message != "as the agent says" {
		t.Fatalf("it is tried again, and told as %+v", v)
	}
	run.Gone = true
	y.ask(run)
	y.work(time.Second)
	if r := y.syncrun("r1"); r.Phase != gitops.Terminated || !strings.HasPrefix(r.Status.Error, "it was ended") || r.Object.Deleted.IsZero() {
		t.Errorf("it was deleted, and is %s: %s", r.Phase, r.Status.Error)
	}
	if h := y.handed("uid-1"); h.Deployment.Run != "" {
		t.Errorf("the agent goes on to try: %+v", h.Deployment)
	}
	y.operationsEnded()
}

// Whether the namespace is made is said by the sync options, and by nobody else.
func TestTheNamespaceIsMadeWhereThatIsSaid(t *testing.T) {
	for _, c := range []struct {
		reason  string
		options []string
		custom  bool
		none    bool
	}{
		{"the API is not told", nil, false, false},
		{"the API is told to", []string{"CreateNamespace=true"}, false, false},
		{"the API is told not to", []string{"CreateNamespace=false"}, false, true},
		{"a custom resource has to say so", nil, true, true},
		{"a custom resource says so", []string{"CreateNamespace=true"}, true, false},
		{"a custom resource says no", []string{"CreateNamespace=false"}, true, true},
	} {
		y, id := plain(t), "uid-1"
		if c.custom {
			in := y.intent(id, 1)
			in.SyncOptions = c.options
			y.apply(in)
		} else {
			y.workspace("acme", "hub", "shop")
			d, _, err := y.s.Create(chief, gitops.Order{Name: "web", Workspace: "acme", Repository: "https://h/r", Path: "k8s", Revision: "main", SyncOptions: c.options, To: gitops.To{Cluster: "hub", Namespace: "shop"}})
			y.must(err)
			id = d.ID
		}
		y.work(time.Second)
		if h := y.handed(id); h.Deployment.NoNamespace != c.none {
			t.Errorf("%s: the agent is told %+v", c.reason, h.Deployment)
		}
	}
}
