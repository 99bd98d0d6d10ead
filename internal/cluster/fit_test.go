package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/sqlledger"
)

// shelf is a registry of offerings.
type shelf []*offering.Offering

func (s shelf) List() []*offering.Offering { return s }
func (s shelf) Get(name string) (*offering.Offering, bool) {
	for _, o := range s {
		if o.Metadata.Name == name {
			return o, true
		}
	}
	return nil, false
}

// dinosaur is the shipped offering with steps.
func dinosaur(t *testing.T, steps string) *offering.Offering {
	t.Helper()
	file, err := os.ReadFile("../../offerings/dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if steps != "" {
		file = append(file, []byte("\n  steps: "+steps+"\n")...)
	}
	o, err := offering.Parse("dinosaur.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// fleet is a service that makes clusters in a cloud, and the time that it has.
type fleet struct {
	*cluster.Service
	l     *sqlledger.Ledger
	cloud *cloud
	clock time.Time
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	l := openAll(t)
	f := &fleet{l: l, cloud: &cloud{fate: &fate{}, made: map[string]int{}, objects: map[string]bool{}}, clock: time.Now()}
	f.Service = cluster.NewService(l)
	f.Keeper, f.Makers, f.Terraformer = l, map[string]provider.Provider{"cloud": f.cloud}, hands{f.cloud}
	f.SetClock(func() time.Time { return f.clock })
	return f
}

// rest works on a cluster until it has nothing to do for a while.
func (f *fleet) rest(t *testing.T, id string) cluster.Cluster {
	t.Helper()
	for range 50 {
		r, err := runOn(t, f.Service, f.l, id)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Next || r.After > time.Minute {
			break
		}
		f.clock = f.clock.Add(r.After)
	}
	return f.see(t, id)
}

func (f *fleet) see(t *testing.T, id string) (c cluster.Cluster) {
	t.Helper()
	var err error
	if c.Object, err = f.l.Get(t.Context(), ledger.Ref{Kind: "cluster", ID: id}); err != nil {
		t.Fatal(err)
	}
	if c.Spec, c.Status, err = cluster.Decode(c.Object); err != nil {
		t.Fatal(err)
	}
	return c
}

func byOps() context.Context { return access.With(context.Background(), operator) }

var local = cluster.Spec{Provider: "local", Region: "local"}

// Steps of a cluster that only its agent reaches are given to the agent, in
// their order, and what it says leads on.
func TestAgentCarriesStepsOut(t *testing.T) {
	f := newFleet(t)
	f.Accounts = &desk{}
	f.Offerings = shelf{dinosaur(t, steps("one", "two"))}
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	c := f.rest(t, "edge")
	if c.Phase != cluster.Provisioned || c.Status.Message != "0 of 2 steps are ready: its agent is to apply them" {
		t.Fatalf("it is %s: %s", c.Phase, c.Status.Message)
	}
	items, err := f.StepItems(t.Context(), c.Object)
	if err != nil || len(items) != 1 || items[0].ID != "dinosaur.one" || !strings.Contains(string(items[0].Body), `"name":"one"`) {
		t.Fatalf("the agent is told %+v, %v", items, err)
	}
	before := head(t, f.l)
	for reason, seen := range map[string]cluster.StepSeen{
		"of another generation": {ID: "dinosaur.one", Generation: items[0].Generation - 1, State: "ready"},
		"of nothing known":      {ID: "dinosaur.three", Generation: 1, State: "ready"},
	} {
		if err := f.ReportSteps(t.Context(), "edge", []cluster.StepSeen{seen}); err != nil || head(t, f.l) != before {
			t.Errorf("%s: %v", reason, err)
		}
	}
	tell := func(id, state, message string) {
		t.Helper()
		items, err := f.StepItems(t.Context(), f.see(t, "edge").Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if item.ID == id {
				if err := f.ReportSteps(t.Context(), "edge", []cluster.StepSeen{{ID: id, Generation: item.Generation, State: state, Message: message, Objects: 1}}); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("the agent was not told of %s", id)
	}
	tell("dinosaur.one", "error", "no such kind")
	if c := f.rest(t, "edge"); c.Status.Message != "0 of 2 steps are ready: its agent is to apply them; dinosaur/one: no such kind" {
		t.Errorf("its message is %q", c.Status.Message)
	}
	tell("dinosaur.one", "ready", "")
	before = head(t, f.l)
	tell("dinosaur.one", "ready", "")
	if head(t, f.l) != before {
		t.Error("the same again was written")
	}
	if c = f.rest(t, "edge"); c.Phase != cluster.Provisioned || c.Status.Fit("dinosaur") {
		t.Errorf("with one of two it is %s", c.Phase)
	}
	tell("dinosaur.two", "ready", "")
	if c = f.rest(t, "edge"); c.Phase != cluster.Waiting || !c.Status.Fit("dinosaur") {
		t.Errorf("with all of them it is %s", c.Phase)
	}
	if err := f.Report(t.Context(), "edge", cluster.Report{Agent: "a", Ready: true, Capacity: 5}); err != nil {
		t.Fatal(err)
	}
	if c = f.rest(t, "edge"); c.Phase != cluster.Ready {
		t.Errorf("its agent is ready, and it is %s", c.Phase)
	}

	// A file that lacks a step takes it back; no file takes nothing back.
	f.Offerings = shelf{}
	c = f.rest(t, "edge")
	if len(c.Status.Steps) != 2 || c.Status.Steps[0].Message != "kept as it is: dinosaur is gone or cannot be read" {
		t.Errorf("without the offering there are %+v", c.Status.Steps)
	}
	f.Offerings = shelf{dinosaur(t, steps("one"))}
	c = f.rest(t, "edge")
	items, err = f.StepItems(t.Context(), c.Object)
	if err != nil || len(items) != 2 || items[0].Delete || !items[1].Delete || items[1].Body != nil {
		t.Fatalf("the agent is told %+v, %v", items, err)
	}
	tell("dinosaur.two", "installing", "still there")
	tell("dinosaur.two", "deleted", "")
	if c = f.rest(t, "edge"); len(c.Status.Steps) != 1 || c.Phase != cluster.Ready {
		t.Errorf("in the end there are %+v", c.Status.Steps)
	}
}

// An agent takes off what it has put on a cluster that leaves the fleet, the
// last first; what it does not is told.
func TestAgentTakesStepsOffWhenItsClusterLeaves(t *testing.T) {
	for _, c := range []struct {
		reason  string
		obeys   bool
		outcome string
	}{
		{"an agent that is there", true, ""},
		{"an agent that has gone", false, "What these steps have put there could not be removed and is left on the cluster: dinosaur/one, dinosaur/two"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			f := newFleet(t)
			f.Offerings = shelf{dinosaur(t, steps("one", "two"))}
			if _, err := f.Register(byOps(), "edge", local); err != nil {
				t.Fatal(err)
			}
			f.rest(t, "edge")
			told := func(state string) (out []string) {
				t.Helper()
				items, err := f.StepItems(t.Context(), f.see(t, "edge").Object)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					out = append(out, fmt.Sprintf("%s %v", item.ID, item.Delete))
					if err := f.ReportSteps(t.Context(), "edge", []cluster.StepSeen{{ID: item.ID, Generation: item.Generation, State: state}}); err != nil {
						t.Fatal(err)
					}
				}
				return out
			}
			told("ready")
			told("ready")
			if done := f.rest(t, "edge"); done.Phase != cluster.Waiting {
				t.Fatalf("it is %s", done.Phase)
			}
			if err := f.Report(t.Context(), "edge", cluster.Report{Agent: "a", Ready: true, Capacity: 5}); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Delete(byOps(), "edge"); err != nil {
				t.Fatal(err)
			}
			op := f.see(t, "edge").Status.Operation
			f.clock = f.clock.Add(10 * time.Second)
			for range 3 { // it leaves, settles, and waits
				if _, err := runOn(t, f.Service, f.l, "edge"); err != nil {
					t.Fatal(err)
				}
			}
			if c.obeys {
				if got := told("deleted"); len(got) != 1 || got[0] != "dinosaur.two true" {
					t.Fatalf("the agent is told %v", got)
				}
				if got := told("deleted"); len(got) != 1 || got[0] != "dinosaur.one true" {
					t.Fatalf("then the agent is told %v", got)
				}
			} else {
				f.clock = f.clock.Add(15 * time.Minute)
			}
			f.rest(t, "edge")
			if gone := f.see(t, "edge"); gone.Deleted.IsZero() {
				t.Fatalf("it is %s: %s", gone.Phase, gone.Status.Message)
			}
			o, err := f.l.Get(t.Context(), ledger.Ref{Kind: "operation", ID: op})
			if err != nil || o.Phase != operation.Succeeded || !strings.Contains(string(o.Status), `"reason":"`+c.outcome) && c.outcome != "" || c.outcome == "" && strings.Contains(string(o.Status), "left") {
				t.Errorf("the operation is %s %s, %v", o.Phase, o.Status, err)
			}
		})
	}
}

func TestNoStepsNoDetour(t *testing.T) {
	f := newFleet(t)
	f.Offerings = shelf{dinosaur(t, "")}
	o, err := f.Register(byOps(), "edge", local)
	if err != nil || o.Phase != cluster.Waiting {
		t.Errorf("it is %s, %v", o.Phase, err)
	}
	if items, err := f.StepItems(t.Context(), o); items != nil || err != nil {
		t.Errorf("%v, %v", items, err)
	}
	f.Offerings = shelf{dinosaur(t, steps("one"))}
	if o, err := f.Register(byOps(), "far", cluster.Spec{Provider: "aws", Region: "nowhere"}); err != nil || o.Phase != cluster.Waiting {
		t.Errorf("where no dinosaur is sold it is %s, %v", o.Phase, err)
	}
}

// A cluster that is made goes all the way, and secrets only on their way to it.
func TestClusterIsMade(t *testing.T) {
	f := newFleet(t)
	f.Accounts = &desk{}
	secretive := `[{name: pull, manifests: [{apiVersion: v1, kind: Secret, metadata: {name: pull}, stringData: {p: "${secret('agent')}", id: "${cluster.client}"}}]}]`
	if _, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", secretive)); err != nil {
		t.Fatal(err)
	}
	o, err := f.Create(byOps(), cluster.Request{ID: "c", Profile: "small", Labels: map[string]string{"zone": "a"}})
	if err != nil || o.Phase != cluster.Accepted {
		t.Fatal(o.Phase, err)
	}
	c := f.rest(t, "c")
	if c.Phase != cluster.Waiting || c.Spec.Domain != "c-1.example.org" || c.Spec.Provider != "aws" || c.Spec.Region != "east" || c.Spec.Zone() != "a" {
		t.Fatalf("%s: %+v", c.Phase, c.Spec)
	}
	want := []cluster.Step{{Name: "profile.small/pull", State: cluster.StepReady, Objects: 1, Inventory: []string{"pull"}}}
	if diff := cmp.Diff(want, c.Status.Steps, cmpopts.IgnoreFields(cluster.Step{}, "Digest", "Generation", "Token")); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(c.Object.Status), "secret-c") {
		t.Error("a secret is in the status")
	}
	body, err := f.l.Blob(t.Context(), "sha256:"+c.Status.Steps[0].Digest)
	if err != nil || strings.Contains(string(body), "secret-c") || !strings.Contains(string(body), "client-c") {
		t.Errorf("kept is %s, %v", body, err)
	}
	if err := f.Report(t.Context(), "c", cluster.Report{Agent: "a", Ready: true, Capacity: 5}); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "c")
	op, err := f.l.Get(t.Context(), ledger.Ref{Kind: "operation", ID: c.Status.Operation})
	if err != nil || op.Phase != operation.Succeeded {
		t.Errorf("its operation is %s, %v", op.Phase, err)
	}

	// What somebody removes by hand comes back within ten minutes.
	clear(f.cloud.objects)
	f.clock = f.clock.Add(11 * time.Minute)
	f.rest(t, "c")
	if !f.cloud.objects["pull"] {
		t.Error("what was removed by hand is still away")
	}

	// Without its profile it keeps what it has, and says so.
	if _, err := f.DeleteProfile(byOps(), "small"); err != nil {
		t.Fatal(err)
	}
	if c = f.rest(t, "c"); c.Phase != cluster.Ready || len(c.Status.Steps) != 1 || !strings.HasPrefix(c.Status.Steps[0].Message, "kept as it is") {
		t.Errorf("%s: %+v", c.Phase, c.Status.Steps)
	}
	if _, err := f.Delete(byOps(), "c"); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "c")
	if _, err := f.Get(t.Context(), "c"); !fault.Is(err, fault.NotFound) || len(f.cloud.made) > 0 {
		t.Errorf("it is not gone: %v, %v", err, f.cloud.made)
	}
}
