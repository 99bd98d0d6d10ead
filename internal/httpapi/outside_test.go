package httpapi_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// Outside agents number nothing, so nothing of theirs is late: neither after
// the server's clock was set back, nor beside another report.
func TestOutsideReportsAreNeverLate(t *testing.T) {
	var back atomic.Int64
	start := time.Now()
	r := newRig(t, func(c *httpapi.Config) {
		c.Clock = func() time.Time { return start.Add(-time.Duration(back.Add(1)) * time.Second) }
	})
	ctx := ledger.WithCause(access.With(t.Context(), access.Principal{User: "root", Admin: true}), ledger.ByRequest("test"))
	if _, err := r.clusters.Register(ctx, "c1", cluster.Spec{Provider: "local", Region: "local"}); err != nil {
		t.Fatal(err)
	}
	token := r.token(t, access.Claims{Cluster: "c1"})
	put := func() int {
		return r.do(t, token, "PUT", api+"/agent-clusters/c1/status", `{"conditions": [{"type": "Ready", "status": "True"}]}`).Code
	}
	for i := range 3 {
		if got := put(); got != 200 {
			t.Fatalf("report %d with the clock set back answers %d", i, got)
		}
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got := put(); got != 200 {
				t.Errorf("one of several reports at once answers %d", got)
			}
		})
	}
	wg.Wait()
}

// A status that was made before the agent heard of a change says nothing about
// the change.
func TestAnOutsideStatusIsAboutWhatTheAgentWasGiven(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	two := w.replica()
	rex := w.place(w.create("alice", "rex").ID, "c1")
	const list = api + "/agent-clusters/c1/dinosaurs"
	ready := fmt.Sprintf(`{%q: {"conditions": [{"type": "Ready", "status": "True"}]}}`, rex.ID)
	generation := func() int64 {
		t.Helper()
		o := w.observed(rex.ID)
		if o == nil {
			t.Fatal("nothing is known of rex")
		}
		return o.Generation
	}
	w.want(200, "agent-c1", "GET", list, "", nil)
	second := w.edit(rex.ID, func(in *instance.Instance) {
		in.Spec.Suspended = !in.Spec.Suspended
		in.Status.Rendered = in.Generation + 1
	})
	if second.Generation != rex.Generation+1 {
		t.Fatalf("the change is of generation %d", second.Generation)
	}
	w.want(200, "root", "GET", list, "", nil) // an operator looks; the agent knows nothing of it
	w.want(200, "agent-c1", "PUT", list+"/status", ready, nil)
	if got := generation(); got != rex.Generation {
		t.Errorf("before the agent was told, it is taken to speak of generation %d", got)
	}
	w.want(200, "agent-c1", "GET", list, "", nil)
	w.want(200, "agent-c1", "PUT", list+"/status", ready, nil)
	if got := generation(); got != second.Generation {
		t.Errorf("once the agent was told, it is taken to speak of generation %d", got)
	}
	w.edit(rex.ID, func(in *instance.Instance) { in.Status.Observed = nil })
	two.want(200, "agent-c1", "PUT", list+"/status", ready, nil)
	if got := generation(); got != second.Generation {
		t.Errorf("a replica that gave nothing takes it for generation %d, not the rendered one", got)
	}
}

// What the agent was given long ago, perhaps before it asked another replica,
// does not hold up what it says now.
func TestWhatAnOutsideAgentWasGivenIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	var minutes atomic.Int64
	start := time.Now()
	two := w.replica(func(c *httpapi.Config) {
		c.Clock = func() time.Time { return start.Add(time.Duration(minutes.Load()) * time.Minute) }
	})
	rex := w.place(w.create("alice", "rex").ID, "c1")
	const list = api + "/agent-clusters/c1/dinosaurs"
	two.want(200, "agent-c1", "GET", list, "", nil)
	second := w.edit(rex.ID, func(in *instance.Instance) {
		in.Spec.Suspended = !in.Spec.Suspended
		in.Status.Rendered = in.Generation + 1
	})
	minutes.Store(2)
	two.want(200, "agent-c1", "PUT", list+"/status", fmt.Sprintf(`{%q: {"conditions": [{"type": "Ready", "status": "True"}]}}`, rex.ID), nil)
	if o := w.observed(rex.ID); o == nil || o.Generation != second.Generation {
		t.Errorf("known of rex is %+v, want generation %d", o, second.Generation)
	}
}
