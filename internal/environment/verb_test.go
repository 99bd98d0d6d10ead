package environment_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// up creates an environment and works until it rests.
func (w *world) up(name string, params map[string]any) environment.Environment {
	w.t.Helper()
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: name, Template: "shop", Parameters: params})
	w.must(err)
	w.work(time.Minute)
	return w.env(o.ID)
}

func TestDenied(t *testing.T) {
	w := begin(t)
	st := shop("db", "web<db")
	st.spec.Permissions.Plan = &template.Who{Users: []string{"alice"}}
	w.add("1", st)
	w.up("staging", nil)
	planned, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging"})
	w.must(err)
	ruin, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Destroy: true})
	w.must(err)
	w.work(time.Second)
	text := "x"
	verbs := map[string]func(ctx context.Context) error{
		"plan": func(ctx context.Context) error {
			_, err := w.s.Plan(ctx, environment.PlanOrder{Environment: "staging"})
			return err
		},
		"plan a new one": func(ctx context.Context) error {
			_, err := w.s.Plan(ctx, environment.PlanOrder{Environment: "other", Template: "shop"})
			return err
		},
		"create": func(ctx context.Context) error {
			_, _, err := w.s.Create(ctx, environment.PlanOrder{Environment: "third", Template: "shop"})
			return err
		},
		"extend": func(ctx context.Context) error {
			_, err := w.s.Extend(ctx, "staging", w.clock.Add(time.Hour))
			return err
		},
		"protect": func(ctx context.Context) error { _, err := w.s.Protect(ctx, "staging", false); return err },
		"observe": func(ctx context.Context) error { _, err := w.s.Observe(ctx, "staging"); return err },
		"describe": func(ctx context.Context) error {
			_, err := w.s.Describe(ctx, "staging", &text, nil)
			return err
		},
		"reveal": func(ctx context.Context) error { _, err := w.s.Outputs(ctx, "staging", true); return err },
		"retry":  func(ctx context.Context) error { _, _, err := w.s.Retry(ctx, "staging"); return err },
		"change": func(ctx context.Context) error {
			_, _, err := w.s.Change(ctx, environment.PlanOrder{Environment: "staging"})
			return err
		},
		"apply": func(ctx context.Context) error {
			_, _, err := w.s.Apply(ctx, environment.ApplyOrder{Plan: planned.ID})
			return err
		},
		"destroy": func(ctx context.Context) error { _, _, err := w.s.Destroy(ctx, "staging", ""); return err },
		"destroy by a plan": func(ctx context.Context) error {
			_, _, err := w.s.Destroy(ctx, "staging", ruin.ID)
			return err
		},
	}
	stranger := access.With(context.Background(), access.Principal{User: "alice", Org: "other"})
	made := len(w.forge.effects)
	for name, verb := range verbs {
		if err := verb(bob); !fault.Is(err, fault.Denied) {
			t.Errorf("%s by one whom the template does not name: %v", name, err)
		}
		if err := verb(context.Background()); err == nil {
			t.Errorf("%s by nobody", name)
		}
		if strings.Contains(name, "new one") || name == "create" {
			continue // it would be their own
		}
		if err := verb(stranger); !fault.Is(err, fault.NotFound) && fault.Reason(err) != "template" {
			t.Errorf("%s by one of another organisation: %v", name, err)
		}
	}
	w.work(time.Minute)
	if len(w.forge.effects) != made {
		t.Errorf("what was denied did something: %v", w.forge.effects[made:])
	}
	for _, name := range []string{"plan", "extend", "protect", "observe", "describe", "reveal", "retry", "destroy by a plan"} {
		if err := verbs[name](operator); err != nil {
			t.Errorf("%s by an operator: %v", name, err)
		}
	}
	boss := access.With(context.Background(), access.Principal{User: "boss", Org: "acme", OrgAdmin: true})
	if err := verbs["extend"](boss); err != nil {
		t.Errorf("by the administrator of the organisation: %v", err)
	}
}

// What somebody looked at is what is done, or nothing.
func TestMoved(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db", "web<db"))
	e := w.up("staging", map[string]any{"size": "small"})
	planned, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Parameters: map[string]any{"size": "large"}})
	w.must(err)
	w.work(time.Second)
	db := w.resources(e.ID)["db"].ID
	w.forge.made[db] = thing{byHand, 7}
	made := len(w.forge.effects)
	_, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: planned.ID})
	w.must(err)
	w.work(time.Minute)
	phase, reason := w.operation(op)
	if phase != "failed" || !strings.Contains(reason, "db has changed") || !strings.Contains(reason, "plan again") {
		t.Errorf("%s %q", phase, reason)
	}
	if now := w.env(e.ID); now.Phase != environment.OK || now.Spec.Parameters["size"] != "small" || len(w.forge.effects) != made {
		t.Errorf("%s %v, effects %v", now.Phase, now.Spec.Parameters, w.forge.effects[made:])
	}
	if p := w.plan(planned); p.Phase != environment.Superseded {
		t.Errorf("the plan is %s", p.Phase)
	}
	if _, _, err := w.s.Apply(alice, environment.ApplyOrder{Plan: planned.ID}); !fault.Is(err, fault.Conflict) {
		t.Errorf("once more: %v", err)
	}
}

func TestTwoAppliesAtOnce(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db", "web<db"))
	var ops []string
	var plans []ledger.Object
	for _, size := range []string{"small", "large"} {
		p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: map[string]any{"size": size}})
		w.must(err)
		plans = append(plans, p)
	}
	w.work(time.Second)
	if _, _, err := w.s.Apply(alice, environment.ApplyOrder{Plan: plans[0].ID}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.s.Apply(alice, environment.ApplyOrder{Plan: plans[1].ID}); fault.Reason(err) != "name-taken" {
		t.Errorf("another environment of that name: %v", err)
	}
	w.work(time.Minute)
	plans = nil
	for _, size := range []string{"medium", "large"} {
		p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Parameters: map[string]any{"size": size}})
		w.must(err)
		plans = append(plans, p)
	}
	w.work(time.Second)
	for _, p := range plans {
		_, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
		w.must(err)
		ops = append(ops, op)
	}
	w.work(time.Minute)
	first, _ := w.operation(ops[0])
	second, _ := w.operation(ops[1])
	if first != "superseded" || second != "succeeded" {
		t.Errorf("%s, %s", first, second)
	}
	o, err := w.s.Get(alice, "staging")
	w.must(err)
	if e := w.env(o.ID); e.Phase != environment.OK || e.Spec.Parameters["size"] != "large" {
		t.Errorf("%s %v", e.Phase, e.Spec.Parameters)
	}
}

// A plan that another one was taken up before is refused, also while nothing of
// that can be seen outside yet; the other one goes on.
func TestApplyInTheMiddle(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db", "web<db"))
	_, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: map[string]any{"size": "small"}})
	w.must(err)
	w.work(time.Minute)
	var plans []ledger.Object
	for _, size := range []string{"medium", "large"} {
		p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Parameters: map[string]any{"size": size}})
		w.must(err)
		plans = append(plans, p)
	}
	w.work(time.Second)
	o, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: plans[0].ID})
	w.must(err)
	for w.env(o.ID).Spec.Turn < 2 { // taken up, and nothing made yet
		for _, piece := range w.claim(1) {
			w.run(piece)
		}
	}
	_, late, err := w.s.Apply(alice, environment.ApplyOrder{Plan: plans[1].ID})
	w.must(err)
	w.work(time.Minute)
	if phase, why := w.operation(late); phase != "failed" || !strings.Contains(why, "plan again") {
		t.Errorf("the later one: %s, %s", phase, why)
	}
	if phase, why := w.operation(op); phase != "succeeded" {
		t.Errorf("the first one: %s, %s", phase, why)
	}
	if e := w.env(o.ID); e.Phase != environment.OK || e.Spec.Parameters["size"] != "medium" {
		t.Errorf("%s %v", e.Phase, e.Spec.Parameters)
	}
}

func TestPolicies(t *testing.T) {
	w := begin(t)
	effect := "approve"
	st := shop("db", "web<db")
	st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
		for _, c := range changes {
			if c.Action == executor.Remove && c.Address == "db" {
				out = append(out, environment.Verdict{Policy: "keep-data", Address: c.Address, Effect: effect, Message: "db holds data"})
			}
		}
		return out
	}
	w.add("1", st)
	e := w.up("staging", nil)
	_, op, err := w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(time.Minute)
	if len(w.forge.made) != 2 {
		t.Fatalf("nobody has approved, and %v is left", w.forge.made)
	}
	all, err := w.store.List(t.Context(), ledger.Query{Kind: breaker.KindApproval.Name})
	w.must(err)
	a, err := breaker.Decode(all[0])
	w.must(err)
	if len(all) != 1 || a.Phase != breaker.Open || !strings.Contains(a.Status.Message, "db holds data") || !strings.Contains(a.Status.Message, "drover approve "+a.ID) {
		t.Fatalf("%s %+v", a.Phase, a.Status)
	}
	if _, err := w.guard.Approve(alice, a.ID, breaker.Allow{}); !fault.Is(err, fault.Denied) {
		t.Errorf("by the one who asks: %v", err)
	}
	if _, err := w.guard.Refuse(operator, a.ID); err != nil {
		t.Fatal(err)
	}
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "refused") {
		t.Errorf("%s %q", phase, reason)
	}
	_, op, err = w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "drover approve "+a.ID) {
		t.Errorf("what was refused stays so: %s %q", phase, reason)
	}
	if _, err := w.guard.Approve(operator, a.ID, breaker.Allow{}); err != nil {
		t.Fatal(err)
	}
	_, op, err = w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "succeeded" || w.env(e.ID).Deleted.IsZero() {
		t.Errorf("it was approved: %s %q", phase, reason)
	}
	effect = "deny"
	e = w.up("other", nil)
	_, op, err = w.s.Destroy(alice, "other", "")
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "db holds data") {
		t.Errorf("%s %q", phase, reason)
	}
	if now := w.env(e.ID); now.Phase != environment.OK {
		t.Errorf("it was denied, and is %s", now.Phase)
	}
}

// What was planned while nobody minded is not carried out once somebody denies it.
func TestDeniedMeanwhile(t *testing.T) {
	w := begin(t)
	strict := false
	st := shop("db", "web<db")
	st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
		if strict {
			out = append(out, environment.Verdict{Policy: "freeze", Address: "db", Effect: "deny", Message: "nothing changes this week"})
		}
		return out
	}
	w.add("1", st)
	e := w.up("staging", nil)
	p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Parameters: map[string]any{"size": "large"}})
	w.must(err)
	w.work(time.Second)
	strict = true
	_, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "nothing changes this week") {
		t.Errorf("%s %q", phase, reason)
	}
	if now := w.env(e.ID); now.Phase != environment.OK || now.Spec.Parameters["size"] == "large" {
		t.Errorf("%s %v", now.Phase, now.Spec.Parameters)
	}
}

func TestFailureAndRetry(t *testing.T) {
	w := begin(t)
	w.add("1", shop("a", "b", "c<a", "d<c", "e<b"))
	w.forge.trouble = map[string]string{"a": "broken"}
	o, op, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(time.Minute)
	got := map[string]string{}
	for a, r := range w.resources(o.ID) {
		got[a] = r.Phase
	}
	want := map[string]string{"a": "failed", "b": "ready", "c": "blocked", "d": "blocked", "e": "ready"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	e := w.env(o.ID)
	if phase, reason := w.operation(op); phase != "failed" || e.Phase != environment.Fail || !strings.Contains(reason, "drover env retry staging") {
		t.Errorf("%s, %s %q", e.Phase, phase, reason)
	}
	if m := w.resources(o.ID)["d"].Status.Message; !strings.Contains(m, "waits for a, which has failed") {
		t.Errorf("c waits, too, and a has failed: %q", m)
	}
	if n := strings.Count(e.Status.Message, "drover env retry"); n != 1 {
		t.Errorf("what helps is said %d times: %q", n, e.Status.Message)
	}
	delete(w.forge.trouble, "a")
	made := len(w.forge.effects)
	_, op, err = w.s.Retry(alice, "staging")
	w.must(err)
	w.work(time.Minute)
	if phase, _ := w.operation(op); phase != "succeeded" {
		t.Errorf("%s", phase)
	}
	if diff := cmp.Diff([]string{"make a", "make c", "make d"}, w.forge.effects[made:]); diff != "" {
		t.Errorf("it goes on where it stopped: %s", diff)
	}
	w.hidesSecrets()
}

// Shrinking removes the highest, after what used it has learned to do without.
func TestShrinkUpgradeRollback(t *testing.T) {
	w := begin(t)
	layout := func(more ...string) *stencil {
		return &stencil{nodes: func(p map[string]any) []template.Node {
			web := []string{"web[0]", "web[1]", "web[2]"}[:number(p["count"])]
			return chain(slices.Concat(web, []string{"lb<" + strings.Join(web, ",")}, more)...)
		}}
	}
	w.add("1", layout())
	e := w.up("staging", map[string]any{"count": 3})
	made := len(w.forge.effects)
	_, _, err := w.s.Change(alice, environment.PlanOrder{Environment: "staging", Parameters: map[string]any{"count": 1}})
	w.must(err)
	w.work(time.Minute)
	got := slices.Clone(w.forge.effects[made:])
	slices.Sort(got[1:])
	if diff := cmp.Diff([]string{"make lb", "unmake web[1]", "unmake web[2]"}, got); diff != "" {
		t.Error(diff)
	}
	w.add("2", layout("extra<lb"))
	p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Keep: true})
	w.must(err)
	w.work(time.Second)
	if s := w.plan(p).Status; s.Creates != 1 || s.Same != 2 {
		t.Errorf("%+v", s)
	}
	_, _, err = w.s.Apply(alice, environment.ApplyOrder{Environment: "staging", Plan: w.plan(p).Status.Hash})
	w.must(err)
	w.work(time.Minute)
	if now := w.env(e.ID); now.Spec.Version != "shop@2" || now.Spec.Previous.Version != "shop@1" || now.Phase != environment.OK {
		t.Errorf("%s %+v", now.Phase, now.Spec)
	}
	p, err = w.s.Rollback(alice, "staging")
	w.must(err)
	w.work(time.Second)
	if s := w.plan(p).Status; s.Destroys != 1 || s.Same != 2 {
		t.Errorf("%+v", s)
	}
	_, _, err = w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
	w.must(err)
	w.work(time.Minute)
	if now := w.env(e.ID); now.Spec.Version != "shop@1" || w.forge.effects[len(w.forge.effects)-1] != "unmake extra" || now.Phase != environment.OK {
		t.Errorf("%s %+v", now.Phase, now.Spec)
	}
}
