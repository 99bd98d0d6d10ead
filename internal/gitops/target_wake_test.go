package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// soon is how long anything may take here: nobody pushes, edits or waits for a net.
const soon = 5 * time.Second

// An environment that is deleted, and made again much later, has its deployments back:
// both the automated one that had it and the one that never had any.
func TestDeploymentsFollowAnEnvironmentThatComesBack(t *testing.T) {
	d := newDesk(t)
	first := d.environment("t-1", 1, environmentSecret(withToken("first-t0k3n")))
	d.intendTarget(first)
	d.apply(d.onTarget("uid-1"))
	d.work(soon)
	d.report("hub", "uid-1", runtime.Ready, fine("c1"))
	first.Gone = true
	d.intendTarget(first)
	d.work(soon)
	d.report("hub", "uid-1", runtime.Ready, fine("c1"))
	late := d.onTarget("uid-2")
	late.Name = "late"
	d.apply(late)
	d.work(24 * time.Hour)
	if is := d.get("uid-1"); is.Phase != gitops.Failed || !is.Status.Detached {
		t.Fatalf("its environment is gone: %s, %+v", is.Phase, is.Status)
	}
	second := d.environment("t-2", 1, environmentSecret(withToken("second-t0k3n")))
	d.remote.check = fault.New(fault.Unavailable, "no route").Because("UnableToValidateClusterCredentials")
	d.intendTarget(second)
	d.work(soon)
	if got := d.get("uid-1").Status.Error; !strings.HasPrefix(got, "waiting for the managed environment prod to be reached") {
		t.Errorf("it was created again, and says %q", got)
	}
	d.remote.check = nil
	d.work(2 * time.Minute) // the environment is looked at again
	for _, uid := range []string{"uid-1", "uid-2"} {
		if b := d.body("hub", uid); b.Detached || b.Target == nil || b.Target.ID != "t-2" {
			t.Errorf("%s: the agent is told %+v", uid, b)
		}
		if got := d.condition(uid, "ErrorOccurred"); got != "False ErrorOccurredResolved: " {
			t.Errorf("%s says %q", uid, got)
		}
	}
}

// Nothing of an environment is looked for where nobody could tell of it: a deployment
// without it comes back by itself.
func TestADetachedDeploymentLooksAgain(t *testing.T) {
	d := gitops.Deployment{Spec: gitops.Spec{Repository: "https://h/r", Path: "k8s", Automated: true, To: gitops.To{Target: "prod", Namespace: "shop"}}}
	d.Status = gitops.Status{Engine: "hub", Runtime: "argocd", Issued: 1, Target: "t-1", Named: "prod"}
	f := gitops.Facts{Named: true, Wanted: "hub", Engine: &gitops.Engine{ID: "hub", Runtime: "argocd"}, Workspace: &gitops.Workspace{}}
	for _, a := range gitops.Plan(d, f, time.Now()) {
		if _, ok := a.(gitops.Come); ok {
			return
		}
	}
	t.Error("whoever misses its environment coming back waits for ever")
}

// One that comes while its environment is being looked at may be listed by nobody who
// tells that it was reached: it looks again soon, and seldom once that is known.
func TestADeploymentLooksAgainWhileItsEnvironmentIsLookedAt(t *testing.T) {
	d := gitops.Deployment{Spec: gitops.Spec{Repository: "https://h/r", Path: "k8s", Automated: true, To: gitops.To{Target: "prod", Namespace: "shop"}}}
	for reason, c := range map[string]struct {
		status gitops.TargetStatus
		soon   bool
	}{
		"nobody has looked at it as it is now": {gitops.TargetStatus{Seen: 1}, true},
		"it cannot be reached":                 {gitops.TargetStatus{Seen: 1, Unreached: 1}, false},
		"it has a flaw":                        {gitops.TargetStatus{Seen: 2}, false},
	} {
		in := gitops.Target{Status: c.status}
		in.Generation = 2
		f := gitops.Facts{Named: true, Wanted: "hub", Engine: &gitops.Engine{ID: "hub", Runtime: "argocd"}, Workspace: &gitops.Workspace{}, Target: &in}
		found := false
		for _, a := range gitops.Plan(d, f, time.Now()) {
			if come, ok := a.(gitops.Come); ok {
				if found = true; come.After <= soon != c.soon {
					t.Errorf("%s: it looks again after %v", reason, come.After)
				}
			}
		}
		if !found {
			t.Errorf("%s: it never looks again", reason)
		}
	}
}

func TestDeploymentsFollowWhatAnEnvironmentIncludes(t *testing.T) {
	for reason, c := range map[string]struct {
		before func(d *desk) // what is so before
		after  func(d *desk) // what the user mends
		is     string        // id of the target afterwards
	}{
		"a namespace is added": {
			before: func(d *desk) {
				in := d.environment("t-1", 1, environmentSecret(withToken("t0k3n")))
				in.Namespaces = []string{"a"}
				d.intendTarget(in)
				d.apply(d.onTarget("uid-1"))
			},
			after: func(d *desk) {
				in := d.environment("t-1", 2, environmentSecret(withToken("t0k3n")))
				in.Namespaces = []string{"a", "shop"}
				d.intendTarget(in)
			},
			is: "t-1",
		},
		"it is switched to another before that is ready": {
			before: func(d *desk) {
				d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("t0k3n"))))
				d.apply(d.onTarget("uid-1"))
				d.work(soon)
				d.report("hub", "uid-1", runtime.Ready, fine("c1"))
				other := d.environment("t-2", 1, nil) // its Secret comes later
				other.Name = "other"
				d.intendTarget(other)
				in := d.onTarget("uid-1")
				in.Generation, in.Environment = 2, "other"
				d.apply(in)
			},
			after: func(d *desk) {
				other := d.environment("t-2", 1, environmentSecret(withToken("t0k3n-2")))
				other.Name = "other"
				d.intendTarget(other)
			},
			is: "t-2",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			d := newDesk(t)
			c.before(d)
			d.work(30 * time.Second)
			if got := d.get("uid-1").Status.Error; got == "" {
				t.Fatal("nothing is wrong: the test is about something else")
			}
			c.after(d)
			d.work(soon)
			if is := d.get("uid-1"); is.Status.Error != "" || is.Status.Target != c.is {
				t.Errorf("it has %q: %s", is.Status.Target, is.Status.Error)
			}
		})
	}
}
