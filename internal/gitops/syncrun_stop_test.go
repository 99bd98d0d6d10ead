package gitops_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// A sync run that is deleted is ended, whatever keeps its deployment from being handed
// over anew; nothing else of what was handed over changes.
func TestADeletedSyncRunEndsWhileItsDeploymentIsHeld(t *testing.T) {
	invalid := func(y *yard) {
		in := y.manual()
		in.Generation, in.Path = 2, "../other"
		y.apply(in)
	}
	for _, c := range []struct {
		reason, engine string
		hold           func(y *yard)
	}{
		{"an invalid spec", "argocd", invalid},
		{"no workspace reaches it any more", "argocd", func(y *yard) {
			in := y.manual()
			in.Generation, in.Environment, in.ToNamespace = 2, "nowhere", "live"
			y.apply(in)
		}},
		{"its cluster cannot be seen", "argocd", func(y *yard) {
			delete(y.engines.by, "hub")
			y.must(y.s.Resync(t.Context(), "deployment", "uid-1"))
		}},
		{"an invalid spec", "kubernetes", invalid},
		{"a branch that is gone", "kubernetes", func(y *yard) {
			delete(y.hub.heads, "main")
			y.must(y.s.Refresh(chief, "uid-1"))
		}},
		{"Git is away", "kubernetes", func(y *yard) {
			y.hub.err = fault.New(fault.Unavailable, "the Git server is away")
			y.must(y.s.Refresh(chief, "uid-1"))
		}},
	} {
		t.Run(c.engine+" "+c.reason, func(t *testing.T) {
			y := plain(t)
			y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: c.engine, Ready: true}
			y.apply(y.manual())
			y.work(time.Second)
			run := y.asksNewest("r1")
			y.ask(run)
			y.work(time.Second)
			y.report("hub", "uid-1", runtime.Error, seenRun(y, "r1", "Running", 2))
			y.work(time.Second)
			c.hold(y)
			y.work(2 * time.Second)
			was := y.body("hub", "uid-1")
			run.Gone = true
			y.ask(run)
			y.work(2 * time.Second)
			if c.engine == "kubernetes" {
				if h := y.handed("uid-1"); h.Deployment.Run != "" || h.names() != "shop/one shop/two" {
					t.Errorf("the agent is told %+v", h)
				}
			} else {
				is := y.body("hub", "uid-1")
				if is.Sync == nil || is.Sync.ID != "r1" || !is.Sync.Terminate || is.Path != was.Path || is.Namespace != was.Namespace {
					t.Fatalf("the agent is told %+v, %+v", is, is.Sync)
				}
				y.report("hub", "uid-1", runtime.Error, seenRun(y, "r1", "Terminated", 2))
				y.work(time.Second)
			}
			if r := y.syncrun("r1"); r.Phase != gitops.Terminated || r.Object.Deleted.IsZero() {
				t.Errorf("it is %s: %s", r.Phase, r.Status.Error)
			}
			issued := y.get("uid-1").Status.Issued
			y.work(time.Hour)
			if again := y.get("uid-1").Status.Issued; again != issued {
				t.Errorf("it is told %d times more", again-issued)
			}
		})
	}
}

// A run of a deployment that became automated meanwhile comes to an end, too.
func TestASyncRunWhoseDeploymentBecomesAutomated(t *testing.T) {
	y := plain(t)
	y.apply(y.manual())
	y.work(time.Second)
	y.ask(y.asksNewest("r1"))
	y.work(time.Second)
	in := y.intent("uid-1", 2)
	y.apply(in)
	y.work(2 * time.Second)
	y.report("hub", "uid-1", runtime.Ready, seenAt("Synced", "c1"))
	y.work(2 * time.Second)
	if v := y.runTold("r1"); v.Phase != "Failed" {
		t.Errorf("it is told as %+v", v)
	}
	y.operationsEnded()
}
