package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
)

// obey has the agent of a cluster carry out what it is told, as agents do: what
// it is told no longer to apply goes.
func (f *fleet) obey(t *testing.T, id string, has map[string][]string) {
	t.Helper()
	for range 5 {
		items, err := f.StepItems(t.Context(), f.see(t, id).Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			seen := cluster.StepSeen{ID: item.ID, Generation: item.Generation, State: "ready"}
			if item.Delete {
				delete(has, item.ID)
				seen.State = "deleted"
			} else {
				has[item.ID] = named(item)
				seen.Objects = len(has[item.ID])
			}
			if err := f.ReportSteps(t.Context(), id, []cluster.StepSeen{seen}); err != nil {
				t.Fatal(err)
			}
		}
		f.rest(t, id)
	}
}

func objects(has map[string][]string) (n int) {
	for _, list := range has {
		n += len(list)
	}
	return n
}

// sell brings an offering with these steps to everybody.
func (f *fleet) sell(t *testing.T, steps ...string) {
	t.Helper()
	f.Offerings = shelf{dinosaur(t, "["+strings.Join(steps, ", ")+"]")}
}

// What an agent would take off passes the breaker too: until that is approved,
// the agent is told what it was told before.
func TestAgentsTakeManyObjectsOffByApproval(t *testing.T) {
	for _, c := range []struct {
		reason string
		after  []string
		awaits bool // another body, or none
		left   int
	}{
		{"a body that has shrunk", []string{heap(2), other}, true, 3},
		{"a step that is gone", []string{other}, false, 1},
	} {
		t.Run(c.reason, func(t *testing.T) {
			f, guard := guarded(t)
			f.sell(t, heap(8), other)
			if _, err := f.Register(byOps(), "edge", local); err != nil {
				t.Fatal(err)
			}
			f.rest(t, "edge")
			has := map[string][]string{}
			if f.obey(t, "edge", has); objects(has) != 9 {
				t.Fatalf("there are %v", has)
			}
			before := f.see(t, "edge")
			f.sell(t, c.after...)
			got := f.rest(t, "edge")
			f.obey(t, "edge", has)
			f.clock = f.clock.Add(3 * time.Hour)
			f.rest(t, "edge")
			f.obey(t, "edge", has)
			if got = f.see(t, "edge"); objects(has) != 9 || got.Phase != before.Phase {
				t.Fatalf("%s, and there are %v", got.Phase, has)
			}
			at := slices.IndexFunc(got.Status.Steps, func(s cluster.Step) bool { return s.Name == "dinosaur/maps" })
			held, was := got.Status.Steps[at], before.Status.Steps[0]
			if held.State != cluster.StepReady || held.Digest != was.Digest || held.Generation != was.Generation ||
				!strings.Contains(held.Message, "drover approve "+held.Approval) || (held.Awaits == "none") == c.awaits {
				t.Fatalf("held is %+v, it was %+v", held, was)
			}
			if n, err := f.CountAwaiting(t.Context(), held.Approval); err != nil || n != int64(9-c.left) {
				t.Errorf("%d wait, %v", n, err)
			}
			if _, err := guard.Approve(byOps(), held.Approval, breaker.Allow{}); err != nil {
				t.Fatal(err)
			}
			f.rest(t, "edge")
			if f.obey(t, "edge", has); objects(has) != c.left {
				t.Errorf("approved, there are %v", has)
			}
			for _, s := range f.see(t, "edge").Status.Steps {
				if s.Approval != "" || s.Awaits != "" || len(s.Held) > 0 || s.Message != "" {
					t.Errorf("%s still waits: %+v", s.Name, s)
				}
			}
		})
	}
}

// A handful goes at once, more objects take nobody's away, and a file that is
// mended is no question any more.
func TestWhatAgentsAreToldAtOnce(t *testing.T) {
	f, _ := guarded(t)
	f.sell(t, heap(4), other)
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "edge")
	has := map[string][]string{}
	f.obey(t, "edge", has)
	for _, c := range []struct {
		reason string
		steps  []string
		want   int
		waits  bool
	}{
		{"more", []string{heap(8), other}, 9, false},
		{"two less", []string{heap(6), other}, 7, false},
		{"another one, within the hour", []string{heap(5), other}, 7, true},
		{"much less", []string{heap(1), other}, 7, true},
		{"all of it again", []string{heap(6), other}, 7, false},
	} {
		f.sell(t, c.steps...)
		f.rest(t, "edge")
		f.obey(t, "edge", has)
		s := f.see(t, "edge").Status.Steps[0]
		if objects(has) != c.want || (s.Approval != "") != c.waits || (s.Awaits != "") != c.waits || (s.Message != "") != c.waits {
			t.Errorf("%s: %v, %+v", c.reason, has, s)
		}
	}
}

// One edit is one question, however many clusters it concerns, whoever applies
// the steps there.
func TestOneEditIsOneQuestion(t *testing.T) {
	for _, reached := range []bool{false, true} {
		t.Run(fmt.Sprint("reached ", reached), func(t *testing.T) {
			f, guard := guarded(t)
			f.Makers["standalone"] = there{}
			f.sell(t, heap(2), other)
			all, has := []string{"a", "b", "c"}, map[string]map[string][]string{}
			for _, id := range all {
				has[id] = map[string][]string{}
				request := cluster.Request{ID: id, Provider: "local", Region: "local"}
				if reached {
					request.Kubeconfig = []byte("kubeconfig of " + id)
				}
				if _, err := f.Create(byOps(), request); err != nil {
					t.Fatal(err)
				}
				f.rest(t, id)
				f.obey(t, id, has[id])
			}
			f.sell(t, heap(1), other)
			approvals, waiting := map[string]bool{}, 0
			for _, id := range all {
				f.rest(t, id)
				f.obey(t, id, has[id])
				if s := f.see(t, id).Status.Steps[0]; s.Approval != "" {
					approvals[s.Approval] = true
					waiting += len(s.Held)
				}
			}
			if len(approvals) != 1 || waiting != 1 {
				t.Fatalf("two of three may lose one object: %d wait for %v", waiting, approvals)
			}
			for id := range approvals {
				o, err := f.l.Get(t.Context(), ledger.Ref{Kind: breaker.KindApproval.Name, ID: id})
				if err != nil {
					t.Fatal(err)
				}
				a, err := breaker.Decode(o)
				if err != nil || a.Spec.Scope != "steps/dinosaur" || !strings.Contains(a.Status.Message, "more than 2 of 7 objects of steps") {
					t.Errorf("%+v %+v, %v", a.Spec, a.Status, err)
				}
				if _, err := guard.Approve(byOps(), id, breaker.Allow{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range all {
				f.rest(t, id)
				f.obey(t, id, has[id])
				if s := f.see(t, id).Status.Steps[0]; s.Approval != "" || s.Objects != 1 {
					t.Errorf("approved, %s has %+v", id, s)
				}
			}
		})
	}
}
