package instance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
)

// guarded is a world whose rules pass the breaker.
type guarded struct {
	*world
	out   *outside
	off   *offering.Offering
	guard *breaker.Service
	lists *policy.Service
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{out: newOutside(), off: band(t)}
	g.off.Spec.Providers[0].Regions[0].Limits = nil
	g.world = &world{t: t, dir: t.TempDir(), registry: offerings{"band": g.off}, room: 200, routed: true}
	g.ports = func(c *instance.Config) {
		g.out.ports(c)
		g.guard = breaker.NewService(breaker.Config{Store: c.Store, Limit: breaker.Limit{Objects: 5, Percent: 5}, Now: c.Now})
		g.lists = policy.NewService(policy.Config{Store: g.ledger, Now: c.Now})
		g.must(g.lists.Load(context.Background()))
		c.Breaker, c.Policy = g.guard, g.lists
	}
	g.begin()
	t.Cleanup(func() { g.ledger.Close() })
	return g
}

// restart is what becomes of everything that a process remembers.
func (g *guarded) restart() {
	g.must(g.ledger.Close())
	g.open()
}

// everybody works until nothing is due: lists, approvals, instances and agent.
func (g *guarded) everybody() {
	ctx := context.Background()
	kinds := []string{breaker.KindApproval.Name, policy.KindDenyList.Name}
	for range 4 {
		for {
			c, err := g.ledger.Claim(ctx, ledger.ClaimRequest{Holder: "test", Kinds: kinds, Limit: 1, Lease: time.Second})
			g.must(err)
			if len(c.Work) == 0 {
				break
			}
			g.once(c.Work[0])
		}
		g.work()
		g.apply(func(string) bool { return true })
		g.report(func(string) bool { return true })
		g.work()
	}
}

func (g *guarded) once(work ledger.Work) {
	ctx := context.Background()
	var r reconcile.Reconciler = &policy.Reconciler{Store: g.ledger, Tenants: g.service}
	if work.Kind == breaker.KindApproval.Name {
		g.guard.Waiters = map[string]breaker.Waiters{instance.Kind.Name: g.service}
		r = &breaker.Reconciler{Service: g.guard}
	}
	result, err := r.Reconcile(ctx, reconcile.Task{Ref: work.Ref, Token: work.Token})
	g.must(err)
	set := result.Write
	if set.Actor == "" {
		set.Actor, set.Cause = "system", "schedule:test"
	}
	set.Lease = &work.Lease
	set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: result.Next || result.Again, After: result.After}
	_, err = g.ledger.Commit(ctx, set)
	g.must(err)
}

// later lets time pass.
func (g *guarded) later(d time.Duration) { g.clock = g.clock.Add(d); g.everybody() }

func (g *guarded) trials(n int) {
	for i := range n {
		_, err := g.service.Create(user(fmt.Sprintf("u%d", i)), g.off, instance.Create{Name: fmt.Sprintf("b-%d", i)})
		g.must(err)
	}
	g.everybody()
}

func (g *guarded) deny(n int) {
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("u%d", i)
	}
	_, err := g.lists.Apply(context.Background(), "request", fmt.Appendf(nil,
		"apiVersion: drover.dev/v1\nkind: DenyList\nmetadata: {name: abuse}\nspec: {users: [%s]}\n", strings.Join(users, ", ")))
	g.must(err)
}

// want counts: those that are left, those of them that run, and those that wait.
func (g *guarded) want(reason string, left, waiting int) {
	all, waits := g.instances(false), 0
	for _, in := range all {
		if in.Phase != instance.Ready {
			g.t.Fatalf("%s: %s is %s", reason, in.Name, in.Phase)
		}
		message := strings.HasPrefix(in.Status.Message, "waiting for approval "+in.Status.Approval)
		if (in.Status.Approval != "") != message || in.Fields["approval"] != nil && in.Fields["approval"] != in.Status.Approval {
			g.t.Fatalf("%s: %q while it waits for %q", reason, in.Status.Message, in.Status.Approval)
		}
		if message {
			waits++
		}
	}
	if len(all) != left || waits != waiting {
		g.t.Fatalf("%s: %d are left, of which %d wait; want %d and %d", reason, len(all), waits, left, waiting)
	}
}

func (g *guarded) approval(phase string) breaker.Approval {
	all, err := g.ledger.List(context.Background(), ledger.Query{Kind: breaker.KindApproval.Name})
	g.must(err)
	if len(all) != 1 {
		g.t.Fatalf("%d approvals", len(all))
	}
	a, err := breaker.Decode(all[0])
	g.must(err)
	if a.Phase != phase {
		g.t.Fatalf("the approval is %s, want %s: %s", a.Phase, phase, a.Status.Message)
	}
	return a
}

var office = access.With(context.Background(), access.Principal{User: "root", Admin: true})

// A list that names everybody takes five, and the others wait for a yes.
func TestAListOfEverybody(t *testing.T) {
	g := newGuarded(t)
	g.trials(100)
	g.later(time.Minute)
	g.deny(100)
	g.later(10 * time.Second)
	g.want("the list is long", 95, 95)
	g.later(10 * time.Second)
	a := g.approval(breaker.Open)
	if a.Status.Waiting != 95 || !strings.Contains(a.Status.Message, `because of the deny list "abuse"`) {
		t.Errorf("%+v", a.Status)
	}
	g.restart()
	g.later(3 * time.Hour)
	g.want("another process knows as much, and time approves nothing", 95, 95)

	on := true
	in := g.instances(false)[0]
	if _, err := g.service.Update(office, "band", in.ID, instance.Update{Suspended: &on}); err != nil {
		t.Fatal(err)
	}
	g.everybody()
	if in = g.instances(false)[0]; in.Phase != instance.Suspended || in.Status.Approval != a.ID {
		t.Errorf("what waits is looked after: %s, waits for %q", in.Phase, in.Status.Approval)
	}
	if _, err := g.service.Delete(office, "band", in.ID); err != nil {
		t.Fatal(err)
	}
	g.everybody()
	g.want("a user's delete needs no approval", 94, 94)

	if _, err := g.guard.Approve(office, a.ID, breaker.Allow{Count: 10}); err != nil {
		t.Fatal(err)
	}
	g.everybody()
	g.want("ten were approved", 84, 84)
	g.restart()
	if _, err := g.guard.Refuse(office, a.ID); err != nil {
		t.Fatal(err)
	}
	g.everybody()
	g.want("refused", 84, 84)
	if m := g.instances(false)[0].Status.Message; !strings.Contains(m, "refused") {
		t.Errorf("nobody is told of the no: %q", m)
	}
	if _, err := g.guard.Approve(office, a.ID, breaker.Allow{}); err != nil {
		t.Fatal(err)
	}
	g.everybody()
	g.want("everything was approved", 0, 0)
	g.later(time.Hour)
	g.approval(breaker.Expired)
	if _, err := g.guard.Approve(office, a.ID, breaker.Allow{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("approved what nobody waits for: %v", err)
	}
}

// A mistake that is mended harms nobody else.
func TestAListThatWasMended(t *testing.T) {
	for reason, mend := range map[string]func(g *guarded){
		"emptied": func(g *guarded) { g.deny(0) },
		"removed": func(g *guarded) {
			_, err := g.lists.Delete(office, policy.KindDenyList.Name, "abuse")
			g.must(err)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			g := newGuarded(t)
			g.trials(20)
			g.later(time.Minute)
			g.deny(20)
			g.later(time.Minute)
			g.want("the list is long", 15, 15)
			mend(g)
			g.later(time.Minute)
			g.want("the list is mended", 15, 0)
			g.later(15 * time.Minute)
			g.approval(breaker.Expired)
		})
	}
}

// Who waits for an approval ends at its own end without one.
func TestOwnEndsNeedNoApproval(t *testing.T) {
	g := newGuarded(t)
	g.trials(20)
	g.later(time.Minute)
	g.deny(20)
	g.later(time.Minute)
	g.want("the list is long", 15, 15)
	g.clock = start.Add(48 * time.Hour)
	g.everybody()
	g.want("its lifespan is over", 0, 0)
}

// What was ordered keeps the lifespan that it was ordered with: a file that
// shortens it ends nothing, and the old end needs no approval.
func TestAShorterLifespanInAFile(t *testing.T) {
	g := newGuarded(t)
	g.trials(30)
	short := band(t)
	short.Spec.Providers[0].Regions[0].Limits = nil
	short.Spec.Types[1].Sizes[0].Lifespan = offering.Duration(time.Hour)
	g.registry["band"], g.off = short, short
	g.restart()
	g.later(3 * time.Hour)
	g.want("the lifespan was shortened", 30, 0)
	g.clock = start.Add(48 * time.Hour)
	g.everybody()
	g.want("the end that they were given", 0, 0)
}

// A grant that ends when it was to end takes all that stand on it; one that is
// cut short takes five.
func TestAGrantCutShort(t *testing.T) {
	ends := start.Add(30 * 24 * time.Hour)
	begin := func(t *testing.T) *guarded {
		g := newGuarded(t)
		g.out.grants["stage/cash"] = entitlement.Grant{Units: 100, Holder: "org/acme", Expires: ends}
		for i := range 20 {
			g.order("band", instance.Create{Name: fmt.Sprintf("b-%d", i), Billing: instance.Billing{Model: "cash"}})
		}
		g.later(time.Minute)
		g.want("ordered", 20, 0)
		return g
	}
	t.Run("it ends in its own time", func(t *testing.T) {
		g := begin(t)
		g.clock = ends
		g.later(time.Hour)
		g.want("the end", 0, 0)
	})
	t.Run("cut short", func(t *testing.T) {
		g := begin(t)
		g.out.grants["stage/cash"] = entitlement.Grant{Units: 100, Holder: "org/acme", Expires: g.clock}
		g.later(time.Hour)
		g.want("brought forward", 15, 15)
		a := g.approval(breaker.Open)
		g.out.grants["stage/cash"] = entitlement.Grant{Units: 100, Holder: "org/acme", Expires: ends}
		if _, err := g.guard.Approve(office, a.ID, breaker.Allow{}); err != nil {
			t.Fatal(err)
		}
		g.later(2 * time.Hour)
		g.want("who is entitled again stays, approved or not", 15, 0)
	})
	t.Run("nobody can tell whether it was", func(t *testing.T) {
		g := begin(t)
		g.out.grants["stage/cash"] = entitlement.Grant{Units: 100, Holder: "org/acme", Expires: g.clock}
		g.later(time.Hour)
		g.want("brought forward", 15, 15)
		if _, err := g.guard.Approve(office, g.approval(breaker.Open).ID, breaker.Allow{}); err != nil {
			t.Fatal(err)
		}
		g.out.down["quota"] = away
		g.later(30 * time.Minute)
		g.want("its source cannot be asked, approved or not", 15, 0)
		delete(g.out.down, "quota")
		g.later(3 * time.Hour)
		g.want("it says no again, and the approval has run out", 10, 10)
	})
	t.Run("extended, then cut short", func(t *testing.T) {
		g := begin(t)
		g.out.grants["stage/cash"] = entitlement.Grant{Units: 100, Holder: "org/acme"}
		g.later(time.Hour)
		g.clock = ends
		g.later(time.Hour)
		g.want("extended for ever", 20, 0)
		g.out.grants["stage/cash"] = entitlement.Grant{Holder: "org/acme"}
		g.later(time.Hour)
		g.want("taken away", 15, 15)
	})
}
