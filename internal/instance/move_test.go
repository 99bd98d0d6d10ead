package instance_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

func TestPlanOfAMove(t *testing.T) {
	other := func(role string, edit ...func(*instance.Copy)) func(*instance.Instance) {
		return func(in *instance.Instance) {
			c := &instance.Copy{Role: role, Since: start.Add(-time.Minute), Cluster: "c2", Placement: "p2", Desired: []byte(`{}`), Generation: 1, Rendered: 1}
			for _, e := range edit {
				e(c)
			}
			in.Status.Other = c
			in.Status.Operation = ""
		}
	}
	says := func(state string) func(*instance.Copy) {
		return func(c *instance.Copy) {
			c.Observed = &instance.Observed{Generation: 1, State: state, Placement: "p2"}
		}
	}
	bare := func(c *instance.Copy) { c.Desired, c.Rendered = nil, 0 }
	late := func(c *instance.Copy) { c.Since = start.Add(-time.Hour) }
	steady := seen("ready", "")
	look := []instance.Action{instance.Come{After: time.Minute, Why: "it moves: its other copy is looked at again"}}
	for _, c := range []struct {
		reason string
		in     instance.Instance
		facts  instance.Facts
		want   []instance.Action
	}{
		{"a reserved place is furnished", at(instance.Ready, placed, steady, other(instance.Arriving, bare)), instance.Facts{}, []instance.Action{instance.Furnish{}}},
		{"what is not ready is waited for", at(instance.Ready, placed, steady, other(instance.Arriving, says("installing"))), instance.Facts{}, look},
		{"what is ready serves", at(instance.Ready, placed, steady, other(instance.Arriving, says("ready"))), instance.Facts{}, []instance.Action{instance.Swap{}}},
		{"also where the first has failed meanwhile", at(instance.Failed, placed, other(instance.Arriving, says("ready"))), instance.Facts{}, []instance.Action{instance.Swap{}}},
		{"what cannot be made is given up", at(instance.Ready, placed, steady, other(instance.Arriving, says("error"))), instance.Facts{}, []instance.Action{instance.Recall{Rejected: true}}},
		{"so is what takes too long", at(instance.Ready, placed, steady, other(instance.Arriving, late)), instance.Facts{}, []instance.Action{instance.Recall{Rejected: true}}},
		{"what nobody was told of is only forgotten", at(instance.Ready, placed, steady, other(instance.Arriving, bare, late)), instance.Facts{}, []instance.Action{instance.Forget{}}},
		{"the last one goes once the hosts point elsewhere", at(instance.Ready, placed, steady, other(instance.Staying)), instance.Facts{Names: true}, []instance.Action{instance.Recall{}}},
		{"and its room is given back once it is gone", at(instance.Ready, placed, steady, other(instance.Leaving, says("deleted"))), instance.Facts{}, []instance.Action{instance.Forget{}}},
		{"not before", at(instance.Ready, placed, steady, other(instance.Leaving, says("ready"))), instance.Facts{}, look},
		{"unless its cluster is gone for good", at(instance.Ready, placed, steady, other(instance.Leaving)), instance.Facts{OtherLost: true}, []instance.Action{instance.Forget{}}},
		{"a deletion takes the other one along", at(instance.Deprovision, placed, other(instance.Arriving)), instance.Facts{}, []instance.Action{instance.Recall{}}},
		{"and waits for it", at(instance.Deprovision, placed, seen("deleted", ""), other(instance.Leaving)), instance.Facts{}, look},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if diff := cmp.Diff(c.want, instance.Plan(c.in, c.facts, start)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// pair is a world with two data planes.
type pair struct {
	*world
	runs map[string]map[string]instance.Item // by cluster: what is there
	was  map[string]bool                     // instances that were ready once
}

const near, far = "local", "far"

func newPair(t judge, dir string, registry offerings, room int64) *pair {
	w := &world{t: t, dir: dir, registry: registry, room: 4}
	w.begin()
	w.clock = w.clock.Add(time.Second) // the other one is younger
	p := &pair{world: w, runs: map[string]map[string]instance.Item{near: {}, far: {}}, was: map[string]bool{}}
	_, err := w.clusters.Register(context.Background(), far, cluster.Spec{Provider: "local", Region: "local"})
	w.must(err)
	w.must(w.clusters.Report(context.Background(), far, cluster.Report{Agent: "b", Number: 1, Ready: true, Capacity: room}))
	return p
}

// obey lets a data plane take some of what it is told, and say what it has.
func (p *pair) obey(id string, pick func(string) bool) {
	for _, in := range p.instances(false) {
		item, ok := instance.ItemOn(in.Object, id)
		if !ok || !pick(in.Name) {
			continue
		}
		have, there := p.runs[id][in.ID]
		if there && have.Generation > item.Generation {
			p.t.Fatalf("%s goes back from generation %d to %d on %s", in.Name, have.Generation, item.Generation, id)
		}
		if there && have.Delete && !item.Delete && item.Generation <= have.Generation {
			p.t.Fatalf("%s comes back to %s with generation %d", in.Name, id, item.Generation)
		}
		p.runs[id][in.ID] = item
	}
}

func (p *pair) say(id string, pick func(string) bool) {
	var items []instance.Observation
	for of, item := range p.runs[id] {
		if !pick(of) {
			continue
		}
		state := "ready"
		if item.Delete {
			state = "deleted"
		}
		items = append(items, instance.Observation{ID: of, Generation: item.Generation, State: state})
	}
	_, err := p.service.Observe(context.Background(), id, items)
	p.must(err)
}

func (p *pair) holds(*rapid.T) {
	used := map[string]int64{}
	for _, in := range p.instances(false) {
		if in.Status.Cluster != "" {
			used[in.Status.Cluster] += in.Status.Units
		}
		if c := in.Status.Other; c != nil {
			if used[c.Cluster] += c.Units; c.Cluster == in.Status.Cluster {
				p.t.Fatalf("both copies of %s are on %s", in.Name, c.Cluster)
			}
		}
		if in.Phase == instance.Ready {
			p.was[in.ID] = true
		}
		if !p.was[in.ID] || in.Spec.Deleted {
			continue
		}
		running := 0
		for _, id := range []string{near, far} {
			if item, there := p.runs[id][in.ID]; there && !item.Delete {
				running++
			}
		}
		if running == 0 {
			p.t.Fatalf("no copy of %s is left: %+v, other %+v", in.Name, in.Status.Cluster, in.Status.Other)
		}
	}
	for id, most := range map[string]int64{near: 4, far: 3} {
		if n := p.counter(cluster.CapacityCounter(id)); n != used[id] || n > most {
			p.t.Fatalf("%d units are counted on %s, %d are held, of %d", n, id, used[id], most)
		}
	}
}

// Whatever is interleaved with a drain, and wherever it dies: one copy is always
// there, nothing is reserved twice, no cluster is overfilled, and in the end the
// drained one is empty as far as there was room.
func TestMovesLoseNothing(t *testing.T) {
	few(t, "20")
	off := dinosaur(t)
	off.Spec.Placement.Movable = true
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "world")
		if err != nil {
			rt.Fatal(err)
		}
		p := newPair(rt, dir, offerings{"dinosaur": off}, 3)
		defer func() { p.ledger.Close() }()
		some := func(string) bool { return rapid.Bool().Draw(rt, "this") }
		all := func(string) bool { return true }
		drained := ""
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				_, err := p.service.Create(alice, off, instance.Create{Name: fmt.Sprintf("rex-%d", rapid.IntRange(0, 3).Draw(t, "name"))})
				if err != nil && fault.Reason(err) != "name-taken" {
					rt.Fatal(err)
				}
			},
			"delete": func(t *rapid.T) {
				live := p.instances(false)
				if len(live) == 0 || rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					t.Skip("nothing to delete")
				}
				_, err := p.service.Delete(alice, "dinosaur", rapid.SampledFrom(live).Draw(t, "which").ID)
				p.must(err)
			},
			"work": func(t *rapid.T) {
				work, ok := p.claim()
				if !ok {
					t.Skip("nothing is due")
				}
				for range rapid.IntRange(1, 6).Draw(t, "rounds") {
					if p.run(work) {
						return
					}
				}
			},
			"obey": func(t *rapid.T) { p.obey(rapid.SampledFrom([]string{near, far}).Draw(t, "plane"), some) },
			"say":  func(t *rapid.T) { p.say(rapid.SampledFrom([]string{near, far}).Draw(t, "plane"), some) },
			"drain": func(t *rapid.T) {
				p.aside(drained, true)
				drained = rapid.SampledFrom([]string{near, far, ""}).Draw(t, "which")
				p.aside(drained, false)
			},
			"evacuate": func(t *rapid.T) {
				if drained == "" {
					t.Skip("nothing is drained")
				}
				p.must(p.service.Evacuate(context.Background(), drained, rapid.IntRange(1, 2).Draw(t, "at once")))
			},
			"time passes": func(t *rapid.T) {
				p.clock = p.clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"crash": func(*rapid.T) {
				p.must(p.ledger.Close())
				p.open()
			},
			"": p.holds,
		})
		p.aside(drained, true)
		p.aside(near, false)
		for range 60 {
			p.must(p.service.Evacuate(context.Background(), near, 2))
			p.work()
			for _, id := range []string{near, far} {
				p.obey(id, all)
				p.holds(rt) // the other has not heard of it yet
				p.say(id, all)
			}
			p.clock = p.clock.Add(4 * time.Second)
		}
		if p.counter(cluster.CapacityCounter(near)) > 0 && p.counter(cluster.CapacityCounter(far)) < 3 {
			for _, in := range p.instances(false) {
				rt.Logf("%s %s on %s, other %+v, op %q, rendered %d of %d: %s", in.Name, in.Phase, in.Status.Cluster, in.Status.Other, in.Status.Operation, in.Status.Rendered, in.Generation, in.Status.Message)
			}
			rt.Fatal("there is room, and the drained cluster is not empty")
		}
	})
}

// aside sets a cluster aside, or lets it take orders again.
func (p *pair) aside(id string, back bool) {
	if id == "" {
		return
	}
	_, err := p.clusters.Update(alice, id, cluster.Edit{Schedulable: &back})
	p.must(err)
}

// Who cannot move is named, with the reason; and hosts follow before the first
// copy goes.
func TestWhatCannotMoveIsNamed(t *testing.T) {
	off := dinosaur(t)
	p := newPair(t, t.TempDir(), offerings{"dinosaur": off}, 3)
	t.Cleanup(func() { p.ledger.Close() })
	p.order("dinosaur", instance.Create{Name: "rex"})
	for range 5 {
		p.work()
		p.obey(near, func(string) bool { return true })
		p.say(near, func(string) bool { return true })
	}
	names, total, err := p.service.Stuck(t.Context(), near, 10)
	if diff := cmp.Diff([]string{"dinosaur rex: its offering cannot move instances"}, names); err != nil || total != 1 || diff != "" {
		t.Errorf("%d: %v %s", total, err, diff)
	}
	p.must(p.service.Evacuate(t.Context(), near, 5))
	if in := p.one(); in.Status.Other != nil {
		t.Errorf("it moves nevertheless: %+v", in.Status.Other)
	}
	off.Spec.Placement.Movable = true
	if _, total, err = p.service.Stuck(t.Context(), near, 10); err != nil || total != 0 {
		t.Errorf("%d are stuck, %v", total, err)
	}
	p.aside(near, false)
	p.must(p.service.Evacuate(t.Context(), near, 5))
	if in := p.one(); in.Status.Other == nil || in.Status.Other.Cluster != far || p.counter(cluster.CapacityCounter(far)) != 1 {
		t.Fatalf("no place is reserved with the wish: %+v", in.Status.Other)
	}
	changes, err := p.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name})
	if err != nil || changes[len(changes)-1].Op != "move" {
		t.Errorf("the log does not say so: %v", err)
	}
}
