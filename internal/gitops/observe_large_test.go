package gitops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// TestNothingIsKeptForStrangers has a cluster tell much of a deployment that it has
// nothing of, and of one that there is not.
func TestNothingIsKeptForStrangers(t *testing.T) {
	y := newYard(t)
	y.engines.by["other"] = gitops.Engine{ID: "other", Runtime: "argocd", Ready: true}
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	seen := fine("c1")
	for range 100 {
		seen.Resources = append(seen.Resources, runtime.DeployedResource{Kind: "ConfigMap", Name: strings.Repeat("x", 1000)})
	}
	detail, err := json.Marshal(seen)
	y.must(err)
	kept := func() int {
		out, err := y.store.Sweep(context.Background(), ledger.Sweep{})
		y.must(err)
		return out.Blobs
	}
	before := kept()
	for _, id := range []string{"uid-1", "nobody"} {
		out, err := y.s.Observe(context.Background(), "other", []gitops.Observation{{ID: id, State: "ready", Detail: detail}})
		y.must(err)
		if len(out.Strangers) != 1 {
			t.Errorf("%s: %+v", id, out)
		}
	}
	y.clock = y.clock.Add(time.Second)
	if after := kept(); after > before {
		t.Errorf("%d blobs, and %d before", after, before)
	}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.clock = y.clock.Add(time.Second)
	if after := kept(); after != before+1 {
		t.Errorf("what its own cluster tells is kept: %d blobs, and %d before", after, before)
	}
}
