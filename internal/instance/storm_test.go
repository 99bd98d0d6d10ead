package instance_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

// balanced holds after every step: the counters say exactly what instances hold.
func (w *world) balanced(counters []string) {
	sums := map[string]int64{}
	for _, in := range w.instances(false) {
		for _, h := range append(in.Status.Held, in.Status.Room...) {
			sums[h.Counter] += h.Units
		}
		if in.Status.Promotion != instance.Promoting && in.Status.Paid != in.Spec.Billing {
			w.t.Fatalf("%s is paid %+v, wanted %+v, and nobody does anything about it", in.Name, in.Status.Paid, in.Spec.Billing)
		}
	}
	for _, name := range counters {
		if n := w.counter(name); n != sums[name] {
			w.t.Fatalf("counter %s is %d, instances hold %d", name, n, sums[name])
		}
	}
}

// Whatever is asked for, granted, taken away, damaged, down or dead, in any
// order: everything is counted exactly once, and once it is over everything is
// as it should be, or gone without a trace.
func TestAnyInterleavingWithEverythingOutside(t *testing.T) {
	off := band(t)
	models := []string{"cash", "taste"}
	counters := []string{
		"quota/band/org/acme/stage/cash", "quota/band/org/acme/stage/taste", "instances/band/org/acme", "trial/band/acme/alice",
		instance.RegionCounter("band", "local", "local", "stage"), instance.RegionCounter("band", "local", "local", "street"), "capacity/local",
	}
	operator := access.With(context.Background(), access.Principal{User: "op", Admin: true})
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "storm")
		if err != nil {
			rt.Fatal(err)
		}
		out := newOutside()
		full := entitlement.Grant{Units: 3, Holder: "org/acme"}
		for _, m := range models {
			out.grants["stage/"+m] = full
		}
		w := &world{t: rt, dir: dir, registry: offerings{"band": off}, ports: out.ports, room: 5, routed: true}
		w.begin()
		defer func() { w.ledger.Close() }()
		some := func(t *rapid.T) instance.Instance {
			live := w.instances(false)
			if len(live) == 0 {
				t.Skip("nothing is there")
			}
			return rapid.SampledFrom(live).Draw(t, "which")
		}
		refusedOnly := func(err error) {
			if k := fault.Of(err); err != nil && (k == fault.Internal || k == fault.NotFound) {
				rt.Fatal(err)
			}
		}
		pick := func(string) bool { return rapid.Bool().Draw(rt, "this") }
		rt.Repeat(map[string]func(*rapid.T){
			"order": func(t *rapid.T) {
				_, err := w.service.Create(alice, off, instance.Create{
					Name:    fmt.Sprintf("b-%d", rapid.IntRange(0, 5).Draw(t, "name")),
					Billing: instance.Billing{Model: rapid.SampledFrom([]string{"", "cash", "taste"}).Draw(t, "model")},
				})
				refusedOnly(err)
			},
			"delete": func(t *rapid.T) {
				_, err := w.service.Delete(alice, "band", some(t).ID)
				refusedOnly(err)
			},
			"promote": func(t *rapid.T) {
				_, err := w.service.Promote(alice, "band", some(t).ID, instance.Billing{Model: "cash"})
				refusedOnly(err)
			},
			"suspend or resume": func(t *rapid.T) {
				_, err := w.service.UpdateAdmin(operator, "band", some(t).ID, body(fmt.Sprintf(`{"suspended":%v}`, rapid.Bool().Draw(t, "on"))))
				refusedOnly(err)
			},
			"grant": func(t *rapid.T) {
				g := full
				g.Units = rapid.Int64Range(0, 3).Draw(t, "units")
				out.grants["stage/"+rapid.SampledFrom(models).Draw(t, "model")] = g
			},
			"trouble": func(t *rapid.T) {
				who := rapid.SampledFrom([]string{"sso", "dns", "quota", "certificate", "reserve"}).Draw(t, "who")
				if out.down[who] = away; rapid.Bool().Draw(t, "over") {
					delete(out.down, who)
				}
				out.rate = rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, "rate")
			},
			"damage": func(t *rapid.T) {
				clear(out.clients)
				clear(out.records)
			},
			"work": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "pieces") {
					work, ok := w.claim()
					if !ok {
						return
					}
					for range rapid.IntRange(1, 6).Draw(t, "rounds") { // dies after any round
						if w.run(work) {
							break
						}
					}
				}
			},
			"the data plane": func(*rapid.T) { w.apply(pick); w.report(pick) },
			"time passes": func(t *rapid.T) {
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 20*60).Draw(t, "s")) * time.Second)
			},
			"crash": func(*rapid.T) {
				w.must(w.ledger.Close())
				w.open()
			},
			"": func(*rapid.T) { w.balanced(counters) },
		})
		out.down, out.rate = map[string]error{}, 0
		for _, m := range models {
			out.grants["stage/"+m] = entitlement.Grant{Units: -1, Holder: "org/acme"}
		}
		everything := func(string) bool { return true }
		calm := func(d time.Duration) {
			for range 40 {
				w.work()
				w.apply(everything)
				w.report(everything)
				w.clock = w.clock.Add(d / 40)
			}
		}
		calm(40 * time.Minute)
		for _, in := range w.instances(false) {
			switch {
			case in.Phase == instance.Ready || in.Phase == instance.Suspended && in.Spec.Suspended:
				if out.clients[in.Status.Client].ID == "" || out.records[in.Status.Routes[0].Host].Target == "" && len(in.Status.Published) > 0 {
					rt.Fatalf("%s, %s: its account or host is not there", in.Name, in.Phase)
				}
				if in.Status.Promotion == instance.Promoting || in.Status.Message != "" || len(in.Status.Tickets) > 1 {
					rt.Fatalf("%s: still %q, %q, %v", in.Name, in.Status.Promotion, in.Status.Message, in.Status.Tickets)
				}
			case in.Phase == instance.Failed:
			default:
				rt.Fatalf("%s stays %s: %q", in.Name, in.Phase, in.Status.Message)
			}
		}
		w.balanced(counters)
		for _, in := range w.instances(false) {
			_, err := w.service.Delete(alice, "band", in.ID)
			refusedOnly(err)
		}
		calm(5 * time.Minute)
		if n := len(w.instances(false)); n > 0 {
			rt.Fatalf("%d do not go: %+v", n, w.instances(false)[0].Status)
		}
		out.kept = map[string]bool{} // a worker that died may have sealed a secret that nobody ever heard of
		out.nothingLeft(w)
	})
}
