package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// What is known of a deployment whose agent is silent is old, and says so.
func TestSilentAgentsAreTold(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	look := func(quiet string) {
		y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "argocd", Quiet: quiet}
		_, err := y.store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Wakes: []ledger.Wake{{Ref: y.get("uid-1").Ref, Org: y.get("uid-1").Org}}})
		y.must(err)
		y.work(time.Second)
	}
	look("its agent has been silent since 2026-11-15 19:30 UTC")
	if got := y.condition("uid-1", "AgentSilent"); !strings.HasPrefix(got, "True AgentSilent: cluster hub: its agent has been silent since 2026-11-15 19:30 UTC") {
		t.Errorf("a silent agent: %q", got)
	}
	if d := y.get("uid-1"); d.Phase != gitops.Deployed {
		t.Errorf("what runs goes on, and it is %s", d.Phase)
	}
	y.report("hub", "uid-1", runtime.Error, nil) // the last word may be a failure
	y.work(time.Second)
	if got := y.condition("uid-1", "ErrorOccurred"); !strings.HasPrefix(got, "True ErrorOccurred") {
		t.Errorf("its failure is hidden by the silence: %q", got)
	}
	look("")
	if got := y.condition("uid-1", "AgentSilent"); got != "False AgentSilentResolved: " {
		t.Errorf("it is heard again: %q", got)
	}
}
