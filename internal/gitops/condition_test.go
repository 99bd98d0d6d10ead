package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// Every condition that Argo CD has of an Application is told under its own name, and
// resolved once it is gone. Errors stand in the way, warnings do not.
func TestConditionsOfArgoCDAreTold(t *testing.T) {
	for _, kind := range []string{
		"ComparisonError", "SyncError", "InvalidSpecError", "DeletionError", "UnknownError",
		"SharedResourceWarning", "RepeatedResourceWarning", "ExcludedResourceWarning", "OrphanedResourceWarning",
	} {
		t.Run(kind, func(t *testing.T) {
			y := newYard(t)
			y.apply(y.intent("uid-1", 1))
			y.work(time.Second)
			seen := fine("c1")
			seen.Conditions = []runtime.DeployedCondition{{Type: kind, Message: "ConfigMap/a is " + kind}, {Type: kind, Message: "ConfigMap/b is too"}}
			y.report("hub", "uid-1", runtime.Ready, seen)
			y.work(time.Second)
			if got, want := y.condition("uid-1", kind), "True "+kind+": ConfigMap/a is "+kind+"; ConfigMap/b is too"; got != want {
				t.Errorf("while it is so: %q, want %q", got, want)
			}
			want := gitops.Deployed
			if strings.HasSuffix(kind, "Error") {
				want = gitops.Failed
			}
			if got := y.get("uid-1").Phase; got != want {
				t.Errorf("the deployment is %s, want %s", got, want)
			}
			y.report("hub", "uid-1", runtime.Ready, fine("c1"))
			y.work(time.Second)
			if got, want := y.condition("uid-1", kind), "False "+kind+"Resolved: "; got != want {
				t.Errorf("once it is gone: %q, want %q", got, want)
			}
		})
	}
}
