package instance_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

// world is a control plane and one data plane, with every source of trouble in
// the test's hands: workers that crash, stall and come back, an agent that is
// late, silent or talks nonsense, a process that dies between any two steps.
type world struct {
	t        judge
	dir      string
	clock    time.Time
	failed   error // what a round ended with last: the loop logs it
	ledger   *sqlledger.Ledger
	registry offerings
	service  *instance.Service
	clusters *cluster.Service
	worker   *instance.Reconciler
	hooks    instance.Hooks           // default: they agree to everything
	ports    func(c *instance.Config) // what is outside; default: nothing
	room     int64                    // units of the data plane; default: capacity
	routed   bool                     // the agent tells where hosts are to point at
	at       string                   // the agent's cluster; default: local

	stalled  []ledger.Work            // claimed by workers that have not come back
	plane    map[string]instance.Item // what the data plane runs
	gone     map[string]bool          // what it has removed
	past     []instance.Observation   // what it once said, for late reports
	ordered  map[string]bool          // ids of acknowledged creations
	unwanted map[string]bool          // ids of acknowledged deletions
}

// judge ends a test: of one case, or of one run of a property.
type judge interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

const capacity = 3

var alice = access.With(context.Background(), access.Principal{User: "alice", Org: "acme"})

type offerings map[string]*offering.Offering

func (o offerings) Get(name string) (*offering.Offering, bool) { off, ok := o[name]; return off, ok }

type silentHooks struct{}

func (silentHooks) Call(context.Context, hook.Call) error { return nil }

func (w *world) open() {
	l, err := sqlledger.Open(context.Background(), sqlledger.Config{
		URL:   filepath.Join(w.dir, "drover.db"),
		Kinds: slices.Concat([]ledger.Kind{instance.Kind, cluster.Kind, operation.Kind}, breaker.Kinds(), policy.Kinds()),
		Key:   bytes.Repeat([]byte{7}, 32),
		Now:   func() time.Time { return w.clock },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ledger = l
	if w.hooks == nil {
		w.hooks = silentHooks{}
	}
	w.clusters = cluster.NewService(l)
	c := instance.Config{
		Store: l, Keeper: l, Offerings: w.registry, Clusters: w.clusters, Hooks: w.hooks,
		Now: func() time.Time { return w.clock },
	}
	if w.ports != nil {
		w.ports(&c)
	}
	w.service, w.worker = instance.NewService(c), instance.NewReconciler(c)
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) instances(deleted bool) []instance.Instance {
	objects, err := w.ledger.List(context.Background(), ledger.Query{Kind: instance.Kind.Name, Deleted: deleted, Limit: 1000})
	w.must(err)
	var out []instance.Instance
	for _, o := range objects {
		in, err := instance.Decode(o)
		w.must(err)
		out = append(out, in)
	}
	return out
}

// claim leases at most one piece of due work.
func (w *world) claim() (ledger.Work, bool) {
	c, err := w.ledger.Claim(context.Background(), ledger.ClaimRequest{Holder: "test", Kinds: []string{instance.Kind.Name}, Limit: 1, Lease: 3 * time.Second})
	w.must(err)
	if len(c.Work) == 0 {
		return ledger.Work{}, false
	}
	return c.Work[0], true
}

// run does one round of a run; it reports whether the work is finished. A
// worker that lost its lease, or whose object moved, writes nothing.
func (w *world) run(work ledger.Work) bool { return w.runWith(work, func() {}) }

// runWith lets something happen before the round's result is written.
func (w *world) runWith(work ledger.Work, meanwhile func()) bool {
	ctx := context.Background()
	res, err := w.worker.Reconcile(ctx, reconcile.Task{Ref: work.Ref, Org: work.Org, Cause: work.Cause, Token: work.Token})
	if meanwhile(); err != nil {
		w.failed = err
	}
	set := res.Write
	if set.Actor == "" {
		set.Actor, set.Cause = "system", work.Cause
	}
	set.Lease = &work.Lease
	switch {
	case err != nil:
		set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: true, After: time.Second, Attempts: work.Attempts + 1}
	case !res.Again:
		set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: res.Next, After: res.After}
	}
	if _, err := w.ledger.Commit(ctx, set); err != nil {
		if k := fault.Of(err); k != fault.Conflict && k != fault.Exhausted {
			w.t.Fatalf("commit of %s: %v", work.Ref, err)
		}
		return fault.Reason(err) == "lease-lost"
	}
	return set.Finish != nil
}

// apply lets the data plane take some of what it is told.
func (w *world) apply(pick func(string) bool) {
	for _, in := range w.instances(false) {
		item, ok := instance.DesiredItem(in.Object)
		if !ok || !pick(item.ID) || item.Token < w.plane[item.ID].Token {
			continue
		}
		if w.gone[item.ID] && !item.Delete {
			w.t.Fatalf("%s comes back after it was removed", item.ID)
		}
		w.plane[item.ID], w.gone[item.ID] = item, item.Delete
	}
}

// report tells what the data plane has.
func (w *world) report(pick func(string) bool) {
	var items []instance.Observation
	for id, item := range w.plane {
		if !pick(id) {
			continue
		}
		state := "ready"
		if item.Delete {
			state = "deleted"
		}
		var body struct{ Suspended bool }
		if json.Unmarshal(item.Body, &body) == nil && body.Suspended && !item.Delete {
			state = "suspended"
		}
		seen := instance.Observation{ID: id, Generation: item.Generation, State: state}
		if w.routed {
			seen.Routes = []instance.RouteReport{{Name: "web", Router: "router.example.org"}, {Name: "api", Prefix: "api", Router: "router.example.org"}}
			seen.Versions, seen.AdminURL = map[string]string{"band": "1.2.0"}, "https://admin.example.org"
		}
		items = append(items, seen)
	}
	w.past = append(w.past, items...)
	w.send(items)
}

func (w *world) send(items []instance.Observation) {
	_, err := w.service.Report(context.Background(), cmp.Or(w.at, "local"), items)
	w.must(err)
}

// check holds after every step, whatever has happened.
func (w *world) check(*rapid.T) {
	ctx := context.Background()
	var used int64
	names, present := map[string]bool{}, map[string]bool{}
	for _, in := range w.instances(true) {
		present[in.ID] = true
		if !in.Object.Deleted.IsZero() {
			if !w.unwanted[in.ID] || w.plane[in.ID].ID != "" && !w.gone[in.ID] {
				w.t.Fatalf("%s is gone, but nobody asked or it still runs", in.ID)
			}
			continue
		}
		if in.Status.Cluster != "" {
			used += in.Status.Units
		}
		if names[in.Name] {
			w.t.Fatalf("two live instances are called %s", in.Name)
		}
		names[in.Name] = true
	}
	for id := range w.ordered {
		if !present[id] {
			w.t.Fatalf("%s was acknowledged and is lost", id)
		}
	}
	if n, err := w.ledger.Counter(ctx, cluster.CapacityCounter("local")); err != nil || n != used || n > capacity {
		w.t.Fatalf("capacity counter %d, in use %d of %d (%v)", n, used, capacity, err)
	}
}

// settled runs everything without trouble until nothing is left to do.
func (w *world) settle() {
	everything := func(string) bool { return true }
	for range 200 {
		for {
			work, ok := w.claim()
			if !ok {
				break
			}
			for !w.run(work) {
			}
		}
		w.apply(everything)
		w.report(everything)
		w.clock = w.clock.Add(4 * time.Second) // leases of the dead run out
		if w.converged() {
			return
		}
	}
	for _, in := range w.instances(false) {
		w.t.Logf("%s %s gen %d rendered %d %+v", in.Name, in.Phase, in.Generation, in.Status.Rendered, in.Status.Observed)
	}
	w.t.Fatal("does not converge")
}

func (w *world) converged() bool {
	waiting := 0
	for _, in := range w.instances(false) {
		switch {
		case w.unwanted[in.ID]:
			return false
		case in.Phase == instance.Accepted:
			waiting++ // no room
		case in.Phase != instance.Ready:
			return false
		}
	}
	free, err := w.ledger.Counter(context.Background(), cluster.CapacityCounter("local"))
	w.must(err)
	return waiting == 0 || free == capacity
}

func dinosaur(t *testing.T) *offering.Offering {
	t.Helper()
	source, err := os.ReadFile("../../offerings/dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	off, err := offering.Parse("dinosaur.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	return off
}

// begin opens the ledger of a world and brings its data plane along.
func (w *world) begin() {
	w.clock = start
	w.plane, w.gone = map[string]instance.Item{}, map[string]bool{}
	w.ordered, w.unwanted = map[string]bool{}, map[string]bool{}
	w.open()
	_, err := w.clusters.Register(context.Background(), "local", cluster.Spec{Provider: "local", Region: "local"})
	w.must(err)
	w.must(w.clusters.Report(context.Background(), "local", cluster.Report{Agent: "a", Number: 1, Ready: true, Capacity: max(w.room, capacity)}))
}

func TestAnyInterleavingConverges(t *testing.T) {
	off := dinosaur(t)
	registry := offerings{"dinosaur": off}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "world")
		if err != nil {
			rt.Fatal(err)
		}
		w := &world{t: rt, dir: dir, registry: registry}
		w.begin()
		defer func() { w.ledger.Close() }()
		made := 0
		pick := func(string) bool { return rapid.Bool().Draw(rt, "this") }
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				name := fmt.Sprintf("rex-%d", rapid.IntRange(0, 4).Draw(t, "name"))
				o, err := w.service.Create(alice, off, instance.Create{Name: name})
				if fault.Reason(err) == "name-taken" {
					return
				}
				w.must(err)
				made++
				w.ordered[o.ID] = true
			},
			"delete": func(t *rapid.T) {
				live := w.instances(false)
				if len(live) == 0 {
					t.Skip("nothing to delete")
				}
				o, err := w.service.Delete(alice, "dinosaur", rapid.SampledFrom(live).Draw(t, "which").ID)
				w.must(err)
				w.unwanted[o.ID] = true
			},
			"work": func(t *rapid.T) {
				work, ok := w.claim()
				if !ok {
					t.Skip("nothing is due")
				}
				for range rapid.IntRange(1, 6).Draw(t, "rounds") { // dies after any round
					if w.run(work) {
						return
					}
				}
				w.stalled = append(w.stalled, work)
			},
			"come back after a stall": func(t *rapid.T) {
				if len(w.stalled) == 0 {
					t.Skip("nobody stalls")
				}
				w.run(rapid.SampledFrom(w.stalled).Draw(t, "who"))
			},
			"apply":  func(*rapid.T) { w.apply(pick) },
			"report": func(*rapid.T) { w.report(pick) },
			"late report": func(t *rapid.T) {
				if len(w.past) == 0 {
					t.Skip("nothing was said")
				}
				w.send([]instance.Observation{rapid.SampledFrom(w.past).Draw(t, "which")})
			},
			"nonsense": func(t *rapid.T) {
				live := w.instances(true)
				if len(live) == 0 {
					t.Skip("nobody to lie about")
				}
				w.send([]instance.Observation{{
					ID:         rapid.SampledFrom(live).Draw(t, "which").ID,
					Generation: rapid.Int64Range(100, 200).Draw(t, "generation"), State: "deleted",
				}, {ID: "nobody", State: "ready"}, {ID: live[0].ID, State: "dancing"}})
			},
			"time passes": func(t *rapid.T) {
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"crash": func(*rapid.T) {
				w.must(w.ledger.Close())
				w.open()
			},
			"": w.check,
		})
		w.settle()
		w.check(rt)
	})
}

func taskOf(work ledger.Work) reconcile.Task {
	return reconcile.Task{Ref: work.Ref, Org: work.Org, Cause: work.Cause, Token: work.Token}
}
