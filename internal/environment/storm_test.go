package environment_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/template"
)

// draw makes up a template: a few resources that need some of those before them,
// and as many more as a parameter says.
func drawGraph(t *rapid.T, label string) *stencil {
	n := rapid.IntRange(1, 6).Draw(t, label+" resources")
	var texts []string
	for i := range n {
		text := fmt.Sprintf("r%d", i)
		var needs string
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, label+" edge") == 0 {
				needs += fmt.Sprintf(",r%d", j)
			}
		}
		if needs != "" {
			text += "<" + needs[1:]
		}
		texts = append(texts, text)
	}
	fan := rapid.Bool().Draw(t, label+" fan in")
	atOnce := rapid.IntRange(1, 4).Draw(t, label+" at once")
	return &stencil{spec: template.Spec{AtOnce: atOnce}, nodes: func(params map[string]any) []template.Node {
		all := slices.Clone(texts)
		count := number(params["count"])
		last := "last"
		for i := range count {
			all = append(all, fmt.Sprintf("web[%d]<r0", i))
			if fan {
				last += map[bool]string{true: "<", false: ","}[last == "last"] + fmt.Sprintf("web[%d]", i)
			}
		}
		if fan {
			all = append(all, last)
		}
		return chain(all...)
	}}
}

func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}

// refusedOnly lets through what a user is told no for.
func (w *world) refusedOnly(err error) {
	if k := fault.Of(err); err != nil && (k == fault.Internal || k == fault.Unavailable) {
		w.t.Fatal(err)
	}
}

func (w *world) environments() (out []environment.Environment) {
	found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: "environment", Scope: map[string]any{"org": w.org}, Limit: 100})
	w.must(err)
	for _, o := range found {
		e, err := environment.Decode(o)
		w.must(err)
		out = append(out, e)
	}
	return out
}

// atRest: every environment has come to a state that says what to do, and a failure
// has stopped only what depends on it.
func (w *world) atRest() {
	w.t.Helper()
	for _, e := range w.environments() {
		if e.Phase == environment.Deploying && e.Spec.Next == nil || e.Status.Operation != "" {
			for a, r := range w.resources(e.ID) {
				w.t.Logf("%s %s turn %d/%d absent %v needs %v needed %v %s", a, r.Phase, r.Status.Turn, r.Spec.Turn, r.Spec.Absent, r.Spec.Needs, r.Spec.Needed, r.Status.Message)
			}
			w.t.Fatalf("%s stays %s with operation %s: %s", e.Name, e.Phase, e.Status.Operation, e.Status.Message)
		}
		if e.Phase != environment.OK && e.Status.Message == "" {
			w.t.Fatalf("%s is %s and says nothing", e.Name, e.Phase)
		}
		all := w.resources(e.ID)
		byID := map[string]environment.Resource{}
		for _, r := range all {
			byID[r.ID] = r
		}
		for a, r := range all {
			others := r.Spec.Needs
			if r.Spec.Absent {
				others = r.Spec.Needed
			}
			stopped := slices.ContainsFunc(others, func(id string) bool {
				o := byID[id]
				return o.Phase == environment.Failed || o.Phase == environment.Blocked
			})
			switch {
			case r.Phase == environment.Blocked && !stopped:
				w.t.Fatalf("%s/%s is stopped by nothing: %s", e.Name, a, r.Status.Message)
			case stopped && r.Spec.Absent && r.Phase != environment.Blocked && r.Phase != environment.Failed:
				w.t.Fatalf("%s/%s is %s", e.Name, a, r.Phase)
			case !stopped && r.Phase != environment.Ready && r.Phase != environment.Failed:
				w.t.Fatalf("%s/%s is %s, and nothing stops it", e.Name, a, r.Phase)
			case (r.Phase == environment.Failed || r.Phase == environment.Blocked) && r.Status.Message == "":
				w.t.Fatalf("%s/%s is %s and says nothing", e.Name, a, r.Phase)
			}
		}
	}
}

// asWanted: what is made is what the environments' templates say.
func (w *world) asWanted() {
	w.t.Helper()
	want := map[string]bool{}
	for _, e := range w.environments() {
		if e.Spec.Turn == 0 {
			continue
		}
		all := w.resources(e.ID)
		nodes := w.plans[e.Spec.Version].nodes(e.Spec.Parameters)
		if len(all) != len(nodes) {
			w.t.Fatalf("%s has %d resources, its template says %d", e.Name, len(all), len(nodes))
		}
		for _, n := range nodes {
			r, ok := all[n.Address]
			if !ok || r.Phase != environment.Ready {
				w.t.Fatalf("%s/%s is %s", e.Name, n.Address, r.Phase)
			}
			if _, ok := w.forge.made[r.ID]; !ok {
				w.t.Fatalf("%s/%s is ready and was not made", e.Name, n.Address)
			}
			want[r.ID] = true
		}
	}
	for id := range w.forge.made {
		if !want[id] {
			w.t.Fatalf("%s was made and nobody wants it", id)
		}
	}
}

// Whatever is asked for in whatever order, whatever fails, moves or takes long, and
// wherever the process is killed: nothing is made too early, nothing is lost, and
// in the end everything is as it was wanted last, or gone without a trace.
func TestAnyInterleaving(t *testing.T) {
	few(t, "40")
	kills, n := 0, 0
	var last *world // whose ledger goes on to be used: to open one takes long
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := newWorld(rt, "")
		w.org = fmt.Sprint("org", n)
		alice := access.With(context.Background(), access.Principal{User: "alice", Org: w.org})
		for i := range 3 {
			w.add(fmt.Sprint(i), drawGraph(rt, fmt.Sprint("version ", i)))
		}
		if last == nil {
			w.dir = t.TempDir()
			w.open()
			t.Cleanup(func() { w.store.Close() })
		} else {
			w.clock, w.store.Ledger = last.clock, last.store.Ledger
			*last.now = func() time.Time { return w.clock }
			w.now = last.now
			w.start()
		}
		last = nil // a check that fails leaves nothing to go on with
		head, err := w.store.Head(t.Context())
		w.must(err)
		w.since = head.Seq
		w.forge.trouble, w.forge.slow = map[string]string{}, map[string]int{}
		names := []string{"one", "two"}
		var plans []string
		spare := w.store.at
		verb := func(f func()) { // users are not killed
			spare, w.store.at = w.store.at, nil
			f()
			w.store.at = spare
		}
		order := func(t *rapid.T) environment.PlanOrder {
			return environment.PlanOrder{
				Environment: rapid.SampledFrom(names).Draw(t, "environment"),
				Template:    fmt.Sprintf("shop@%d", rapid.IntRange(0, 2).Draw(t, "version")),
				Parameters: map[string]any{"size": rapid.SampledFrom([]string{"small", "large"}).Draw(t, "size"),
					"count": rapid.IntRange(0, 3).Draw(t, "count")},
				TTL: time.Duration(rapid.IntRange(0, 2).Draw(t, "ttl")) * time.Hour,
			}
		}
		address := rapid.SampledFrom([]string{"r0", "r1", "r2", "r3", "web[0]", "web[1]", "last"})
		rt.Repeat(map[string]func(*rapid.T){
			"plan": func(t *rapid.T) {
				verb(func() {
					o := order(t)
					o.Destroy = rapid.IntRange(0, 5).Draw(t, "destroy") == 0
					p, err := w.s.Plan(alice, o)
					w.refusedOnly(err)
					if err == nil {
						plans = append(plans, p.ID)
					}
				})
			},
			"apply": func(t *rapid.T) {
				if len(plans) == 0 {
					t.Skip("there is no plan")
				}
				verb(func() {
					_, _, err := w.s.Apply(alice, environment.ApplyOrder{Plan: plans[rapid.IntRange(0, len(plans)-1).Draw(t, "plan")]})
					w.refusedOnly(err)
				})
			},
			"create": func(t *rapid.T) {
				verb(func() { _, _, err := w.s.Create(alice, order(t)); w.refusedOnly(err) })
			},
			"change": func(t *rapid.T) {
				verb(func() { _, _, err := w.s.Change(alice, order(t)); w.refusedOnly(err) })
			},
			"destroy": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "rather not") {
					return
				}
				verb(func() {
					_, _, err := w.s.Destroy(alice, rapid.SampledFrom(names).Draw(t, "environment"), "")
					w.refusedOnly(err)
				})
			},
			"retry": func(t *rapid.T) {
				verb(func() {
					_, _, err := w.s.Retry(alice, rapid.SampledFrom(names).Draw(t, "environment"))
					w.refusedOnly(err)
				})
			},
			"trouble": func(t *rapid.T) {
				w.forge.trouble[address.Draw(t, "where")] = rapid.SampledFrom([]string{"", "", "away", "invalid", "broken", "denied"}).Draw(t, "trouble")
			},
			"slow": func(t *rapid.T) {
				w.forge.slow[address.Draw(t, "where")] = rapid.IntRange(0, 4).Draw(t, "calls")
			},
			"moved": func(t *rapid.T) {
				if len(w.forge.made) == 0 {
					t.Skip("nothing is made")
				}
				at := address.Draw(t, "which")
				for _, e := range w.environments() {
					if r, ok := w.resources(e.ID)[at]; ok && w.forge.made[r.ID].inputs != "" {
						w.forge.made[r.ID] = thing{byHand, w.forge.made[r.ID].rev + 1}
					}
				}
			},
			"meanwhile": func(t *rapid.T) {
				what, o := rapid.IntRange(0, 3).Draw(t, "what"), order(t)
				w.forge.meanwhile = append(w.forge.meanwhile, func() {
					verb(func() {
						var err error
						switch what {
						case 0:
							_, _, err = w.s.Change(alice, o)
						case 1:
							_, _, err = w.s.Destroy(alice, o.Environment, "")
						case 2:
							_, _, err = w.s.Retry(alice, o.Environment)
						}
						w.refusedOnly(err)
					})
					for range 3 { // the plan is made, taken up, and laid out
						for _, piece := range w.claim(4) {
							w.run(piece)
						}
					}
				})
			},
			"kill": func(t *rapid.T) {
				w.store.at = append(w.store.at, rapid.IntRange(0, 40).Draw(t, "after"))
			},
			"work": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "pieces") {
					for _, piece := range w.claim(rapid.IntRange(1, 3).Draw(t, "at once")) {
						w.run(piece)
					}
				}
			},
			"time passes": func(t *rapid.T) {
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			},
		})
		w.work(3 * time.Minute)
		w.store.at = nil
		w.work(3 * time.Minute)
		w.atRest()
		clear(w.forge.trouble)
		w.forge.meanwhile = nil
		w.mend(alice)
		w.work(3 * time.Minute)
		w.atRest()
		w.asWanted()
		w.hidesSecrets()
		w.moves()
		for _, e := range w.environments() {
			_, _, err := w.s.Destroy(alice, e.ID, "")
			w.must(err)
		}
		w.work(3 * time.Minute)
		if left := w.environments(); len(left) > 0 || len(w.forge.made) > 0 {
			rt.Fatalf("%v are left, and %v", left, w.forge.made)
		}
		w.operationsEnded()
		kills += w.store.crashes
		last = w
	})
	if kills == 0 {
		t.Error("nobody was killed: this shows nothing")
	}
}

// mend does what the messages say.
func (w *world) mend(alice context.Context) {
	for _, e := range w.environments() {
		_, _, err := w.s.Retry(alice, e.ID)
		w.must(err)
	}
	w.work(3 * time.Minute)
	for _, e := range w.environments() {
		if e.Spec.Destroy {
			continue
		}
		_, _, err := w.s.Change(alice, environment.PlanOrder{Environment: e.ID, Keep: true})
		w.must(err)
	}
}

func (w *world) operationsEnded() {
	found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: operation.Kind.Name, Scope: map[string]any{"org": w.org}, Limit: 10_000})
	w.must(err)
	for _, o := range found {
		if o.Phase == operation.Running {
			w.t.Fatalf("operation %s still runs", o.Name)
		}
	}
}
