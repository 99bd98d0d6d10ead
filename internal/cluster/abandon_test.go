package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// bereft is who hosts on clusters and hears that they are lost.
type bereft struct {
	told []string
	err  error
}

func (b *bereft) Waiting(context.Context, string, string, int) ([]ledger.Wake, error) {
	return nil, nil
}

func (b *bereft) Lose(_ context.Context, id, why string) error {
	if b.err == nil {
		b.told = append(b.told, id+": "+why)
	}
	return b.err
}

func TestPlanOfWhatIsAbandoned(t *testing.T) {
	made := &cluster.Maker{Name: "cloud"}
	in := func(phase string, destroy bool, maker *cluster.Maker) cluster.Cluster {
		return cluster.Cluster{Object: ledger.Object{Phase: phase}, Spec: cluster.Spec{Abandoned: "fire", Destroy: destroy}, Status: cluster.Status{Maker: maker}}
	}
	for _, c := range []struct {
		reason string
		in     cluster.Cluster
		facts  cluster.Facts
		want   []cluster.Action
	}{
		{"what ran there is told before the operation ends", in(cluster.Abandoned, false, made), cluster.Facts{Verb: "abandon"},
			[]cluster.Action{cluster.Lose{}, cluster.Finish{Phase: operation.Succeeded}}},
		{"then it stays as it is", in(cluster.Abandoned, false, made), cluster.Facts{}, nil},
		{"its maker is asked where that is wanted", in(cluster.Abandoned, true, made), cluster.Facts{}, []cluster.Action{cluster.Move{To: cluster.Deprovisioning}}},
		{"but not before all is told", in(cluster.Abandoned, true, made), cluster.Facts{Verb: "abandon"},
			[]cluster.Action{cluster.Lose{}, cluster.Finish{Phase: operation.Succeeded}}},
		{"one that nobody made stays", in(cluster.Abandoned, true, nil), cluster.Facts{}, nil},
		{"its maker takes it away, whatever the counters say", in(cluster.Deprovisioning, true, made), cluster.Facts{Used: 3}, []cluster.Action{cluster.Withdraw{}}},
		{"its maker is not called", in(cluster.Deprovisioning, false, made), cluster.Facts{}, []cluster.Action{cluster.Move{To: cluster.Cleanup}}},
	} {
		if diff := cmp.Diff(c.want, cluster.Plan(c.in, c.facts, time.Now())); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}
}

func TestAClusterIsAbandoned(t *testing.T) {
	f := newFleet(t)
	lost := &bereft{err: errors.New("away")}
	f.Tenants = lost
	ready(t, f.Service, "edge", local)
	place := func(units int64) error {
		_, err := f.l.Commit(t.Context(), ledger.Set{
			Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: units, Max: 5}},
		})
		return err
	}
	if err := place(2); err != nil {
		t.Fatal(err)
	}
	before := head(t, f.l)
	if _, err := f.Abandon(byOps(), "edge", "fire", false); fault.Reason(err) != "connected" || head(t, f.l) != before {
		t.Fatalf("while its agent is connected: %v", err)
	}
	silent(t, f, "edge")
	before = head(t, f.l)
	for reason, why := range map[string]string{"no reason": " ", "two lines": "a\nb", "too much": strings.Repeat("x", 600)} {
		if _, err := f.Abandon(byOps(), "edge", why, false); !fault.Is(err, fault.Invalid) || head(t, f.l) != before {
			t.Errorf("%s: %v", reason, err)
		}
	}
	o, err := f.Abandon(byOps(), "edge", "the site burnt down.", false)
	if err != nil || o.Phase != cluster.Abandoned {
		t.Fatal(o.Phase, err)
	}
	before = head(t, f.l)
	if _, err := f.Abandon(byOps(), "edge", "again", false); err != nil || head(t, f.l) != before {
		t.Errorf("again: %v", err)
	}
	if err := place(1); !fault.Is(err, fault.Exhausted) {
		t.Errorf("whoever chose it before places something there: %v", err)
	}
	running := f.see(t, "edge").Status.Operation
	if _, err := runOn(t, f.Service, f.l, "edge"); err == nil {
		t.Error("nobody could be told, and that is no trouble")
	}
	if c := f.see(t, "edge"); c.Status.Operation != running || !strings.Contains(c.Status.Message, "away") {
		t.Errorf("it says %q, and its operation is %q", c.Status.Message, c.Status.Operation)
	}
	lost.err = nil
	c := f.rest(t, "edge")
	if diff := cmp.Diff([]string{"edge: the site burnt down"}, lost.told); diff != "" || c.Phase != cluster.Abandoned || c.Status.Operation != "" {
		t.Errorf("%s it is %s, operation %q", diff, c.Phase, c.Status.Operation)
	}
	if op, err := f.l.Get(t.Context(), ledger.Ref{Kind: "operation", ID: running}); err != nil || op.Phase != operation.Succeeded {
		t.Errorf("the operation is %s, %v", op.Phase, err)
	}
	refusals(t, f)
	if err := f.Report(t.Context(), "edge", cluster.Report{Agent: "edge", Number: 9, Ready: true, Capacity: 5}); err != nil || f.see(t, "edge").Phase != cluster.Abandoned {
		t.Errorf("a word of its agent makes it %s: %v", f.see(t, "edge").Phase, err)
	}
	if err := place(-2); err != nil { // what ran there is deleted
		t.Fatal(err)
	}
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "edge")
	if _, err := f.Get(t.Context(), "edge"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("it is not gone: %v", err)
	}
	if _, err := f.Register(byOps(), "edge", local); err != nil || place(5) != nil {
		t.Errorf("another one of its name takes nothing (%v)", err)
	}
}

// refusals are what cannot be done to a cluster that was given up.
func refusals(t *testing.T, f *fleet) {
	t.Helper()
	yes := true
	for verb, do := range map[string]func() error{
		"uncordon": func() error { _, err := f.Update(byOps(), "edge", cluster.Edit{Schedulable: &yes}); return err },
		"drain":    func() error { _, err := f.Drain(byOps(), "edge", true); return err },
		"register": func() error {
			_, err := f.Enlist(byOps(), cluster.Request{ID: "edge", Provider: local.Provider, Region: local.Region})
			return err
		},
		"delete": func() error { _, err := f.Delete(byOps(), "edge"); return err }, // something is counted there
		"poll": func() error {
			return f.Admit(t.Context(), "edge", cluster.Caller{Agent: "edge", Polls: true})
		},
	} {
		before := head(t, f.l)
		if err := do(); !fault.Is(err, fault.Conflict) || head(t, f.l) != before {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// silent lets the agent of a cluster be gone, as its replica would write it.
func silent(t *testing.T, f *fleet, id string) {
	t.Helper()
	o := f.see(t, id).Object
	o.Phase, o.Status = cluster.Waiting, []byte(strings.Replace(string(o.Status), `"session"`, `"was"`, 1))
	if _, err := f.l.Commit(t.Context(), ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "silent"}},
	}); err != nil {
		t.Fatal(err)
	}
}

// What made a cluster takes away what is left of it only if somebody says so.
func TestWhatMadeAClusterIsAskedOnlyIfWanted(t *testing.T) {
	for _, destroy := range []bool{false, true} {
		f := newFleet(t)
		f.Tenants = &bereft{}
		if _, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", "[]")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Create(byOps(), cluster.Request{ID: "c1", Profile: "small"}); err != nil {
			t.Fatal(err)
		}
		if c := f.rest(t, "c1"); c.Phase != cluster.Waiting || len(f.cloud.made) != 1 {
			t.Fatalf("it is %s", c.Phase)
		}
		if _, err := f.Abandon(byOps(), "c1", "account closed", destroy); err != nil {
			t.Fatal(err)
		}
		c := f.rest(t, "c1")
		if gone := !c.Deleted.IsZero(); gone != destroy || (len(f.cloud.made) == 0) != destroy {
			t.Errorf("destroy %v: it is %s, deleted %v, and the cloud has %v", destroy, c.Phase, c.Deleted, f.cloud.made)
		}
	}
}
