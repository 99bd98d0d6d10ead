package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func in(phase string, edit ...func(*cluster.Cluster)) cluster.Cluster {
	c := cluster.Cluster{Object: ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: "c"}, Phase: phase, Version: 7}}
	c.Status.Since = noon.Add(-time.Hour)
	for _, e := range edit {
		e(&c)
	}
	return c
}

func having(steps ...cluster.Step) func(*cluster.Cluster) {
	return func(c *cluster.Cluster) { c.Status.Steps = steps }
}

func TestPlan(t *testing.T) {
	cloud, other := cluster.Maker{Name: "cloud"}, cluster.Maker{Name: "cloud", Options: map[string]string{"size": "large"}}
	made := func(m cluster.Maker) func(*cluster.Cluster) { return func(c *cluster.Cluster) { c.Status.Maker = &m } }
	begun := func(at time.Time) func(*cluster.Cluster) {
		return func(c *cluster.Cluster) { c.Status.Since = at }
	}
	begunBy := func(c *cluster.Cluster) { c.Status.State = "sealed" }
	spoken := func(c *cluster.Cluster) { c.Status.Session = "replica/agent" }
	leaving := func(c *cluster.Cluster) { c.Status.Leaving = true }
	one := cluster.Step{Name: "profile.p/one", Digest: "1", State: cluster.StepReady, Inventory: []string{"x"}}
	waiting := cluster.Step{Name: "profile.p/one", Digest: "1", State: cluster.StepWaiting, Generation: 7}
	wanted := []cluster.Step{{Name: "profile.p/one", Digest: "1"}}
	read := map[string]bool{"profile.p": true}
	removing := one
	removing.State, removing.Generation = cluster.StepRemoving, 7
	second := cluster.Step{Name: "profile.p/two", Digest: "2", State: cluster.StepWaiting, Generation: 7}
	done := second
	done.State = cluster.StepReady
	two := []cluster.Step{{Name: "profile.p/two", Digest: "2"}}
	kept := one
	kept.Message = "kept as it is: profile.p is gone or cannot be read"
	for _, c := range []struct {
		reason string
		in     cluster.Cluster
		facts  cluster.Facts
		want   []cluster.Action
	}{
		{"what makes it is written down first", in(cluster.Accepted), cluster.Facts{Maker: &cloud}, []cluster.Action{cluster.Begin{Maker: cloud}, cluster.Move{To: cluster.Provisioning}}},
		{"nothing is done on no knowledge", in(cluster.Accepted), cluster.Facts{}, nil},
		{"who cannot be made fails with the reason", in(cluster.Accepted), cluster.Facts{Missing: "no"}, []cluster.Action{cluster.Move{To: cluster.Failed, Reason: "no"}, cluster.Finish{Phase: operation.Failed, Reason: "no"}}},
		{"its maker goes on", in(cluster.Provisioning, made(cloud)), cluster.Facts{Maker: &cloud}, []cluster.Action{cluster.Ensure{}}},
		{"also when its profile is gone", in(cluster.Provisioning, made(cloud)), cluster.Facts{}, []cluster.Action{cluster.Ensure{}}},
		{"a changed profile is written down before it is followed", in(cluster.Provisioning, made(cloud)), cluster.Facts{Maker: &other}, []cluster.Action{cluster.Begin{Maker: other}}},
		{"a mended profile is another try", in(cluster.Failed, made(cloud)), cluster.Facts{Maker: &other}, []cluster.Action{cluster.Begin{Maker: other}, cluster.Move{To: cluster.Provisioning}}},
		{"another maker does not take over what one has begun", in(cluster.Provisioning, made(cloud), begunBy), cluster.Facts{Maker: &cluster.Maker{Name: "else"}}, []cluster.Action{cluster.Ensure{}}},
		{"nor what one has failed with", in(cluster.Failed, made(cloud), begunBy), cluster.Facts{Maker: &cluster.Maker{Name: "else"}}, nil},
		{"it may where nothing has begun", in(cluster.Failed, made(cloud)), cluster.Facts{Maker: &cluster.Maker{Name: "else"}}, []cluster.Action{cluster.Begin{Maker: cluster.Maker{Name: "else"}}, cluster.Move{To: cluster.Provisioning}}},
		{"a failed one rests", in(cluster.Failed), cluster.Facts{}, nil},
		{"no steps: the agent is waited for", in(cluster.Provisioned), cluster.Facts{}, []cluster.Action{cluster.Move{To: cluster.Waiting}}},
		{"accounts come before steps, which name them", in(cluster.Provisioned), cluster.Facts{Accounts: true, Steps: wanted, Read: read}, []cluster.Action{cluster.Account{}}},
		{"wanted steps are written down", in(cluster.Provisioned), cluster.Facts{Steps: wanted, Read: read, Reach: true}, []cluster.Action{cluster.Settle{Steps: []cluster.Step{waiting}}}},
		{"and applied", in(cluster.Provisioned, having(waiting)), cluster.Facts{Steps: wanted, Read: read, Reach: true}, []cluster.Action{cluster.Apply{Steps: []string{"profile.p/one"}}}},
		{"or left to the agent", in(cluster.Provisioned, having(waiting)), cluster.Facts{Steps: wanted, Read: read},
			[]cluster.Action{cluster.Come{After: 10 * time.Minute, Why: "0 of 1 steps are ready: its agent is to apply them"}}},
		{"ready steps lead on", in(cluster.Provisioned, having(one)), cluster.Facts{Steps: wanted, Read: read}, []cluster.Action{cluster.Move{To: cluster.Waiting}}},
		{"not while a source is unknown", in(cluster.Provisioned, having(one)), cluster.Facts{Steps: wanted, Read: read, Unread: []string{"kafka"}}, []cluster.Action{cluster.Come{After: 10 * time.Minute, Why: "kafka"}}},
		{"ready steps are applied again when it is time", in(cluster.Ready, having(one)), cluster.Facts{Steps: wanted, Read: read, Reach: true}, []cluster.Action{cluster.Apply{Steps: []string{"profile.p/one"}}}},
		{"and not before", in(cluster.Ready, having(one)), cluster.Facts{Steps: wanted, Read: read, Reach: true, Applied: true},
			[]cluster.Action{cluster.Come{After: 10 * time.Minute, Why: "its steps are looked at again"}}},
		{"a step goes if its source says so", in(cluster.Ready, having(one)), cluster.Facts{Read: read, Reach: true}, []cluster.Action{cluster.Settle{Steps: []cluster.Step{removing}}}},
		{"and is taken back then", in(cluster.Ready, having(removing)), cluster.Facts{Read: read, Reach: true}, []cluster.Action{cluster.Drop{Steps: []string{"profile.p/one"}}}},
		{"others are applied while it goes, which may take long", in(cluster.Provisioned, having(second, removing)), cluster.Facts{Steps: two, Read: read, Reach: true},
			[]cluster.Action{cluster.Drop{Steps: []string{"profile.p/one"}}, cluster.Apply{Steps: []string{"profile.p/two"}}}},
		{"and the cluster comes on", in(cluster.Provisioned, having(done, removing)), cluster.Facts{Steps: two, Read: read, Reach: true, Applied: true},
			[]cluster.Action{cluster.Drop{Steps: []string{"profile.p/one"}}, cluster.Move{To: cluster.Waiting}}},
		{"it stays if its source is not to be had", in(cluster.Ready, having(one)), cluster.Facts{Reach: true}, []cluster.Action{cluster.Settle{Steps: []cluster.Step{kept}}}},
		{"a cluster without steps has nothing to do", in(cluster.Ready), cluster.Facts{}, nil},
		{"its making has succeeded when it is ready", in(cluster.Ready), cluster.Facts{Verb: "create"}, []cluster.Action{cluster.Finish{Phase: operation.Succeeded}}},
		{"a drain ends when it is empty", in(cluster.Waiting), cluster.Facts{Verb: "drain"}, []cluster.Action{cluster.Finish{Phase: operation.Succeeded}}},
		{"and not before", in(cluster.Ready), cluster.Facts{Verb: "drain", Used: 3}, []cluster.Action{cluster.Evacuate{}}},
		{"orders on their way are waited for", in(cluster.Deprovisioning, func(c *cluster.Cluster) { c.Status.Since = noon }), cluster.Facts{},
			[]cluster.Action{cluster.Come{After: 5 * time.Second, Why: "looking whether instances were being placed"}}},
		{"who has instances stays", in(cluster.Deprovisioning), cluster.Facts{Used: 1}, []cluster.Action{cluster.Keep{}, cluster.Finish{Phase: operation.Failed, Reason: "an instance was placed there meanwhile"}}},
		{"the end is written down before it begins", in(cluster.Deprovisioning, made(cloud)), cluster.Facts{}, []cluster.Action{cluster.Leave{}}},
		{"its maker takes it away", in(cluster.Deprovisioning, made(cloud), leaving), cluster.Facts{}, []cluster.Action{cluster.Withdraw{}}},
		{"nobody made it", in(cluster.Deprovisioning, leaving), cluster.Facts{}, []cluster.Action{cluster.Move{To: cluster.Cleanup}}},
		{"its agent takes off what it has put there", in(cluster.Deprovisioning, leaving, begun(noon), having(one)), cluster.Facts{}, []cluster.Action{cluster.Settle{Steps: []cluster.Step{removing}}}},
		{"that takes a while", in(cluster.Deprovisioning, leaving, begun(noon), having(removing)), cluster.Facts{},
			[]cluster.Action{cluster.Come{After: 5 * time.Second, Why: "its agent takes off what was put there: 1 steps are left"}}},
		{"an absent agent is not waited for for long", in(cluster.Deprovisioning, leaving, begun(noon.Add(-2*time.Minute)), having(one)), cluster.Facts{}, []cluster.Action{cluster.Abandon{}}},
		{"one that is there has longer", in(cluster.Deprovisioning, leaving, begun(noon.Add(-14*time.Minute)), spoken, having(one)), cluster.Facts{}, []cluster.Action{cluster.Settle{Steps: []cluster.Step{removing}}}},
		{"and not for ever", in(cluster.Deprovisioning, leaving, begun(noon.Add(-15*time.Minute)), spoken, having(one)), cluster.Facts{}, []cluster.Action{cluster.Abandon{}}},
		{"with a cluster that goes everything goes", in(cluster.Deprovisioning, leaving, begun(noon), made(cloud), having(one)), cluster.Facts{}, []cluster.Action{cluster.Withdraw{}}},
		{"what was put on one that stays is taken off", in(cluster.Deprovisioning, leaving, made(cluster.Maker{Name: "standalone"}), having(one)), cluster.Facts{Reach: true}, []cluster.Action{cluster.Strip{Last: true}}},
		{"then its accounts go", in(cluster.Cleanup), cluster.Facts{}, []cluster.Action{cluster.Finish{Phase: operation.Succeeded}, cluster.Clean{}}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if diff := cmp.Diff(c.want, cluster.Plan(c.in, c.facts, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// any cluster and any facts.
func drawCluster(t *rapid.T) (cluster.Cluster, cluster.Facts) {
	phases := []string{cluster.Accepted, cluster.Provisioning, cluster.Provisioned, cluster.Waiting, cluster.Ready, cluster.Failed, cluster.Deprovisioning, cluster.Cleanup}
	states := []string{cluster.StepWaiting, cluster.StepApplying, cluster.StepReady, cluster.StepError, cluster.StepRemoving}
	flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
	c := in(rapid.SampledFrom(phases).Draw(t, "phase"))
	c.Status.Since = noon.Add(-rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "since"))
	c.Status.Leaving = flip("leaving")
	if flip("made") || c.Phase == cluster.Provisioning {
		c.Status.Maker = &cluster.Maker{Name: rapid.SampledFrom([]string{"cloud", "standalone"}).Draw(t, "maker")}
	}
	f := cluster.Facts{
		Reach: flip("reach"), Accounts: flip("accounts"), Login: flip("login"), Checked: flip("checked"), Applied: flip("applied"),
		Used: rapid.Int64Range(0, 1).Draw(t, "used"), Verb: rapid.SampledFrom([]string{"", "create", "drain", "delete"}).Draw(t, "verb"),
		Read: map[string]bool{},
	}
	if flip("profile") {
		f.Maker = &cluster.Maker{Name: "cloud", Options: map[string]string{"size": rapid.SampledFrom([]string{"s", "l"}).Draw(t, "size")}}
	}
	if flip("missing") {
		f.Missing = "it is missing"
	}
	for _, source := range []string{"profile.p", "kafka"} {
		f.Read[source] = flip("read " + source)
		for i := range 3 {
			s := cluster.Step{Name: fmt.Sprintf("%s/%d", source, i), Digest: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "digest"), Generation: 3}
			if i > 0 {
				s.Needs = []string{fmt.Sprintf("%s/%d", source, i-1)}
			}
			if f.Read[source] && flip("wanted") {
				f.Steps = append(f.Steps, cluster.Step{Name: s.Name, Needs: s.Needs, Digest: "1"})
			}
			if flip("known") {
				s.State = rapid.SampledFrom(states).Draw(t, "state")
				c.Status.Steps = append(c.Status.Steps, s)
			}
		}
	}
	return c, f
}

// Whatever is known, only moves of the table are made, nothing is taken away
// that something runs on, and no step goes whose source could not be read.
func TestPlanKeepsItsPromises(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			checkPlan(t, seen)
		}
	})
	for _, kind := range []string{"Move", "Begin", "Ensure", "Account", "Settle", "Apply", "Drop", "Finish", "Keep", "Leave", "Strip", "Abandon", "Withdraw", "Clean", "Come"} {
		if seen["cluster."+kind] == 0 {
			t.Errorf("%s never came up: this shows nothing about it", kind)
		}
	}
}

func checkPlan(t *rapid.T, seen map[string]int) {
	c, f := drawCluster(t)
	for range 3 { // what is written down first is done next
		actions := cluster.Plan(c, f, noon)
		if diff := cmp.Diff(actions, cluster.Plan(c, f, noon)); diff != "" {
			t.Fatalf("it changes its mind: %s", diff)
		}
		again := false
		for _, a := range actions {
			seen[fmt.Sprintf("%T", a)]++
			checkAction(t, c, f, a)
			switch a := a.(type) {
			case cluster.Settle:
				c.Status.Steps, again = a.Steps, true
			case cluster.Account:
				c.Status.Client, c.Status.Login, f.Checked, again = "a", "l", true, true
			}
		}
		if !again {
			return
		}
	}
	t.Fatal("it never comes to rest")
}

func checkAction(t *rapid.T, c cluster.Cluster, f cluster.Facts, a cluster.Action) {
	state := map[string]string{}
	for _, s := range c.Status.Steps {
		state[s.Name] = s.State
	}
	switch a := a.(type) {
	case cluster.Move:
		if !cluster.CanMove(c.Phase, a.To) {
			t.Fatalf("no move from %s to %s", c.Phase, a.To)
		}
		for _, s := range f.Steps {
			if a.To == cluster.Waiting && state[s.Name] != cluster.StepReady {
				t.Fatalf("it goes on without %s", s.Name)
			}
		}
	case cluster.Withdraw, cluster.Strip, cluster.Abandon, cluster.Clean:
		if c.Phase != cluster.Cleanup && !c.Status.Leaving {
			t.Fatalf("%T before its end was written down", a)
		}
	case cluster.Leave:
		if f.Used > 0 {
			t.Fatal("its end begins with instances on it")
		}
	case cluster.Ensure:
		if c.Status.Maker == nil {
			t.Fatal("something is made, and nobody would know by whom")
		}
	case cluster.Settle:
		checkSettle(t, c, f, a.Steps)
	case cluster.Apply:
		for _, name := range a.Steps {
			at := slices.IndexFunc(c.Status.Steps, func(s cluster.Step) bool { return s.Name == name })
			for _, need := range c.Status.Steps[at].Needs {
				if s, there := state[need]; there && s != cluster.StepReady {
					t.Fatalf("%s is applied before %s", name, need)
				}
			}
		}
	case cluster.Drop:
		for _, s := range c.Status.Steps {
			if need := slices.IndexFunc(s.Needs, func(n string) bool { return slices.Contains(a.Steps, n) }); need >= 0 {
				t.Fatalf("%s is taken back, and %s needs it", s.Needs[need], s.Name)
			}
		}
	}
}

func checkSettle(t *rapid.T, c cluster.Cluster, f cluster.Facts, after []cluster.Step) {
	now := map[string]cluster.Step{}
	for _, s := range after {
		now[s.Name] = s
	}
	for _, s := range c.Status.Steps {
		got, there := now[s.Name]
		source := s.Name[:len(s.Name)-2]
		if !there {
			t.Fatalf("%s was forgotten", s.Name)
		}
		if got.State == cluster.StepRemoving && s.State != cluster.StepRemoving && !f.Read[source] && !c.Status.Leaving {
			t.Fatalf("%s goes, and nobody has read %s", s.Name, source)
		}
		if got.Generation < s.Generation {
			t.Fatalf("%s goes back in time", s.Name)
		}
	}
	if len(now) != len(after) {
		t.Fatal("a step is there twice")
	}
}
