package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/sqlledger"
)

// guarded is a fleet whose steps pass a real breaker: two objects an hour.
func guarded(t *testing.T) (*fleet, *breaker.Service) {
	t.Helper()
	f := newFleet(t)
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: t.TempDir() + "/l.db", Key: make([]byte, 32),
		Kinds: append(breaker.Kinds(), cluster.Kind, cluster.KindProfile, operation.Kind, offering.Kind)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f.l, f.Service = l, cluster.NewService(l)
	f.Keeper, f.Makers, f.Terraformer = l, map[string]provider.Provider{"cloud": f.cloud}, hands{f.cloud}
	f.SetClock(func() time.Time { return f.clock })
	guard := breaker.NewService(breaker.Config{Store: l, Limit: breaker.Limit{Objects: 2}, Now: func() time.Time { return f.clock }})
	f.Guard = guard
	return f, guard
}

// heap is one step with so many objects.
func heap(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: m%d}}", i))
	}
	return "{name: maps, manifests: [" + strings.Join(out, ", ") + "]}"
}

const other = "{name: other, manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}]}"

func (f *fleet) profile(t *testing.T, steps ...string) cluster.Cluster {
	t.Helper()
	if _, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", "["+strings.Join(steps, ", ")+"]")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "edge"); err != nil {
		if _, err := f.Create(byOps(), cluster.Request{ID: "edge", Profile: "small"}); err != nil {
			t.Fatal(err)
		}
	}
	return f.rest(t, "edge")
}

// A file that lacks much takes nothing off before somebody has approved, whether
// a step has shrunk or is gone.
func TestManyObjectsOfStepsGoByApproval(t *testing.T) {
	for _, c := range []struct {
		reason string
		after  []string
		left   int // objects in the end
	}{
		{"a step that has shrunk", []string{heap(2), other}, 3},
		{"a step that is gone", []string{other}, 1},
	} {
		t.Run(c.reason, func(t *testing.T) {
			f, guard := guarded(t)
			if f.profile(t, heap(8), other); len(f.cloud.objects) != 9 {
				t.Fatalf("there are %v", f.cloud.objects)
			}
			got := f.profile(t, c.after...)
			var held cluster.Step
			for _, s := range got.Status.Steps {
				if s.Approval != "" {
					held = s
				}
			}
			if len(f.cloud.objects) != 9 || len(held.Held) < 6 || !strings.Contains(held.Message, "drover approve "+held.Approval) {
				t.Fatalf("%d objects are left, held is %+v", len(f.cloud.objects), held)
			}
			if got.Phase != cluster.Waiting || c.left == 3 && held.State != cluster.StepReady {
				t.Errorf("the rest of it is %s: %s", held.State, got.Phase)
			}
			f.clock = f.clock.Add(30 * time.Minute)
			if f.rest(t, "edge"); len(f.cloud.objects) != 9 {
				t.Errorf("looked at again, %d objects are left", len(f.cloud.objects))
			}
			if n, err := f.CountAwaiting(t.Context(), held.Approval); err != nil || n != int64(len(held.Held)) {
				t.Errorf("%d wait, %v", n, err)
			}
			if wakes, _, err := f.Awaiting(t.Context(), held.Approval, "", 10); err != nil || len(wakes) != 1 || wakes[0].Ref != (ledger.Ref{Kind: "cluster", ID: "edge"}) {
				t.Errorf("woken are %v, %v", wakes, err)
			}
			if _, err := guard.Approve(byOps(), held.Approval, breaker.Allow{}); err != nil {
				t.Fatal(err)
			}
			got = f.rest(t, "edge")
			if len(f.cloud.objects) != c.left {
				t.Errorf("approved, %d objects are left of %d", len(f.cloud.objects), c.left)
			}
			for _, s := range got.Status.Steps {
				if s.Approval != "" || len(s.Held) > 0 {
					t.Errorf("%s still waits: %+v", s.Name, s)
				}
			}
		})
	}
}

func TestAHandfulOfObjectsGoesAtOnce(t *testing.T) {
	f, _ := guarded(t)
	f.profile(t, heap(8), other)
	if c := f.profile(t, heap(6), other); len(f.cloud.objects) != 7 || c.Status.Steps[0].Approval != "" {
		t.Errorf("there are %v", f.cloud.objects)
	}
}

// What was refused stays; a file that has it again is no question any more.
func TestARefusalHolds(t *testing.T) {
	f, guard := guarded(t)
	f.profile(t, heap(8), other)
	c := f.profile(t, heap(1), other)
	if _, err := guard.Refuse(byOps(), c.Status.Steps[0].Approval); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Hour)
	if f.rest(t, "edge"); len(f.cloud.objects) != 9 {
		t.Errorf("refused, %d objects are left", len(f.cloud.objects))
	}
	if c = f.profile(t, heap(8), other); c.Status.Steps[0].Approval != "" || len(f.cloud.objects) != 9 {
		t.Errorf("wanted again: %+v", c.Status.Steps[0])
	}
}
