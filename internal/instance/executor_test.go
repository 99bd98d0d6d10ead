package instance_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/sqlledger"
)

// fleet is a control plane with a data plane that works by themselves, at the
// pace of the clock on the wall. One goroutine is both; it ends with the test.
type fleet struct {
	*world
	feed *ledger.Feed
	x    *instance.Executor
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	off := dinosaur(t)
	w := &world{t: t, dir: t.TempDir(), registry: offerings{"dinosaur": off}, hooks: silentHooks{}, at: "local"}
	w.plane, w.gone = map[string]instance.Item{}, map[string]bool{}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(w.dir, "drover.db"), Key: bytes.Repeat([]byte{7}, 32),
		Kinds: slices.Concat([]ledger.Kind{instance.Kind, cluster.Kind, operation.Kind}, breaker.Kinds(), policy.Kinds()),
	})
	w.must(err)
	t.Cleanup(func() { l.Close() })
	w.ledger, w.clusters = l, cluster.NewService(l)
	c := instance.Config{Store: l, Keeper: l, Offerings: w.registry, Clusters: w.clusters, Hooks: w.hooks, Now: time.Now}
	w.service, w.worker = instance.NewService(c), instance.NewReconciler(c)
	_, err = w.clusters.Register(t.Context(), "local", cluster.Spec{Provider: "local", Region: "local"})
	w.must(err)
	w.must(w.clusters.Report(t.Context(), "local", cluster.Report{Agent: "a", Number: 1, Ready: true, Capacity: 1000}))
	f := &fleet{world: w, feed: ledger.NewFeed(l)}
	f.x = instance.NewExecutor(instance.ExecutorConfig{Service: w.service, Feed: f.feed, Log: l, URL: func(host string) string { return "http://" + host + ":8080" }})
	return f
}

// start lets the fleet work.
func (f *fleet) start(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	ended, fed := make(chan struct{}), make(chan struct{})
	go func() { defer close(fed); f.feed.Run(ctx) }()
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			f.turn()
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended; <-fed })
}

// work does what is due on the control plane.
func (f *fleet) work() {
	for {
		work, ok := f.claim()
		if !ok {
			return
		}
		for !f.run(work) {
		}
	}
}

// turn does everything that is due, and the agent is heard (a cluster falls silent after half a minute).
func (f *fleet) turn() {
	f.clusters.Alive("local", "a")
	f.work()
	all := func(string) bool { return true }
	f.apply(all)
	f.report(all)
}

var ann = access.With(context.Background(), access.Principal{User: "ann", Org: "acme"})

func (f *fleet) look(t testing.TB) map[string]string {
	out := map[string]string{}
	for _, in := range f.instances(false) {
		out[in.Name] = fmt.Sprint(in.Phase, in.Spec.Parameters, in.Owner)
	}
	return out
}

func (f *fleet) await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come to be", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestExecutorContract(t *testing.T) {
	f := newFleet(t)
	f.start(t)
	off := f.registry["dinosaur"]
	name := func(n int) string { return fmt.Sprint("rex-", n) }
	edits := 0
	executortest.Run(t, executortest.Config{
		Executor: f.x, Crowd: 25, Lives: 10, Patience: time.Minute,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := map[string]any{"offering": "dinosaur", "name": name(n), "type": "standard", "parameters": map[string]any{"species": "Allosaurus"}}
			switch s {
			case executortest.Changed:
				in["parameters"] = map[string]any{"species": "Diplodocus"}
			case executortest.Moved:
				in["name"] = name(n) + "-moved"
			case executortest.Later:
				in["parameters"] = map[string]any{"species": executor.Unknown{}}
			case executortest.Veiled:
				return nil // everybody who sees an instance sees its parameters
			}
			return in
		},
		Look: f.look,
		Take: func(t testing.TB, n int) {
			_, err := f.service.Create(ann, off, instance.Create{Name: name(n)})
			f.must(err)
			f.await(t, "theirs", func() bool { return strings.HasPrefix(f.look(t)[name(n)], instance.Ready) })
		},
		Edit: func(t testing.TB, n int) {
			edits++
			_, err := f.service.Update(ann, "dinosaur", name(n), instance.Update{Parameters: map[string]any{"species": fmt.Sprint("edit ", edits)}})
			f.must(err)
		},
		Delete: func(t testing.TB, n int) {
			_, err := f.service.Delete(ann, "dinosaur", name(n))
			f.must(err)
			f.await(t, "the end", func() bool { return f.look(t)[name(n)] == "" })
		},
	})
}

// kept is one resource from call to call.
func kept(in map[string]any) *executor.Resource {
	r := &executor.Resource{ID: "res-1", Address: "db", Environment: "shop", Org: "acme", Owner: "ann", Inputs: in, Log: &bytes.Buffer{}}
	r.Save = func(_ context.Context, s []byte) error { r.State = s; return nil }
	return r
}

// until applies until it is done, with the fleet at work in between.
func (f *fleet) until(t *testing.T, call func(context.Context, executor.Resource) (executor.Result, error), r *executor.Resource) (executor.Result, error) {
	t.Helper()
	for range 50 {
		res, err := call(t.Context(), *r)
		if err != nil || res.Done {
			return res, err
		}
		if res.Message == "" || res.After == 0 {
			t.Fatalf("it does not say what it waits for: %+v", res)
		}
		f.turn()
	}
	t.Fatal("it is never done")
	return executor.Result{}, nil
}

func TestExecutorOutputs(t *testing.T) {
	f := newFleet(t)
	r := kept(map[string]any{"offering": "dinosaur"})
	res, err := f.until(t, f.x.Apply, r)
	if err != nil {
		t.Fatal(err)
	}
	in := f.instances(false)[0]
	if in.Owner != "ann" || in.Org != "acme" || in.Name != "shop-db" {
		t.Errorf("it is %s of %s in %s", in.Name, in.Owner, in.Org)
	}
	out := res.Outputs
	if out["id"] != in.ID || out["host"] != "shop-db.dinosaurs.localhost" || out["url"] != "http://shop-db.dinosaurs.localhost:8080" ||
		out["phase"] != "ready" || out["version"] != "1.0.0" || out["hosts"].(map[string]any)["web"] != out["host"] || out["view"].(map[string]any)["version"] != "1.0.0" {
		t.Errorf("%+v", out)
	}
	if want := (executor.Link{Rel: "object", URL: "instance/" + in.ID}); len(res.Links) != 1 || res.Links[0] != want {
		t.Errorf("links %v", res.Links)
	}
	if _, err := f.until(t, f.x.Destroy, r); err != nil || len(r.State) > 0 || len(f.instances(false)) > 0 {
		t.Errorf("%d are left, %v", len(f.instances(false)), err)
	}
}

// An order whose caller dies at any moment is one order.
func TestExecutorOrdersOnce(t *testing.T) {
	f := newFleet(t)
	r := kept(map[string]any{"offering": "dinosaur"})
	save := r.Save
	r.Save = func(ctx context.Context, s []byte) error {
		_ = save(ctx, s)
		return context.Canceled // dead, with the note written
	}
	if _, err := f.x.Apply(t.Context(), *r); err == nil || len(f.instances(true)) > 0 {
		t.Fatalf("ordered without a note: %v", err)
	}
	r.Save = save
	if _, err := f.x.Apply(t.Context(), *r); err != nil { // and dead again, before anything is recorded
		t.Fatal(err)
	}
	if _, err := f.until(t, f.x.Apply, r); err != nil || len(f.instances(true)) != 1 {
		t.Errorf("%d were ordered, %v", len(f.instances(true)), err)
	}
}

// An order that was refused for sure leaves nothing to be found; one that may have been
// taken keeps its note.
func TestExecutorForgetsWhatWasRefused(t *testing.T) {
	f := newFleet(t)
	other := access.With(t.Context(), access.Principal{User: "eve", Org: "other"})
	if _, err := f.service.Create(other, f.registry["dinosaur"], instance.Create{Name: "shop-db"}); err != nil {
		t.Fatal(err)
	}
	r := kept(map[string]any{"offering": "dinosaur"})
	for range 2 {
		if _, err := f.x.Apply(t.Context(), *r); fault.Reason(err) != "not-ours" || len(r.State) > 0 || !strings.HasSuffix(err.Error(), "remove it if it is yours") {
			t.Errorf("it remembers %q: %v", r.State, err)
		}
	}
	save := r.Save
	r.Save = func(ctx context.Context, s []byte) error {
		_ = save(ctx, s)
		return context.Canceled // dead, with the note written
	}
	_, _ = f.x.Apply(t.Context(), *r)
	r.Save = save
	if _, err := f.x.Apply(t.Context(), *r); fault.Reason(err) != "not-ours" || len(r.State) == 0 {
		t.Errorf("it has forgotten an order that may have been taken: %v", err)
	}
}

// A plan that replaces what somebody has deleted is carried out once that is gone.
func TestExecutorReplacesDeleted(t *testing.T) {
	f := newFleet(t)
	r := kept(map[string]any{"offering": "dinosaur"})
	first, err := f.until(t, f.x.Apply, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Outputs = first.Outputs
	if _, err := f.service.Delete(ann, "dinosaur", first.Outputs["id"].(string)); err != nil {
		t.Fatal(err)
	}
	c, err := f.x.Plan(t.Context(), *r)
	if err != nil || c.Action != executor.Replace {
		t.Fatalf("%s %v", c.Action, err)
	}
	r.Mark = c.Mark
	again, err := f.until(t, f.x.Apply, r)
	if err != nil || again.Outputs["id"] == first.Outputs["id"] {
		t.Errorf("%v %v", again.Outputs, err)
	}
}

func TestExecutorSees(t *testing.T) {
	f := newFleet(t)
	r := kept(map[string]any{"offering": "dinosaur"})
	if o, err := f.x.Observe(t.Context(), *r); err != nil || o.Exists {
		t.Fatalf("%+v, %v", o, err)
	}
	if _, err := f.until(t, f.x.Apply, r); err != nil {
		t.Fatal(err)
	}
	id := f.instances(false)[0].ID
	operator := access.With(context.Background(), access.Principal{User: "root", Admin: true})
	yes, no := true, false
	says := func(state, message string) func() {
		return func() {
			f.send([]instance.Observation{{ID: id, Generation: f.instances(false)[0].Generation, State: state, Message: message}})
			f.work()
		}
	}
	quiet := func() {}
	if _, err := f.service.Update(operator, "dinosaur", id, instance.Update{Parameters: map[string]any{"species": "Dodo"}}); err != nil {
		t.Fatal(err)
	}
	f.turn()
	want := []executor.Field{{Path: "parameters.species", Before: "Tyrannosaurus", After: "Dodo"}}
	if o, err := f.x.Observe(t.Context(), *r); err != nil || o.By != "root" || !slices.Equal(o.Drift, want) {
		t.Errorf("somebody has changed it: %+v, %v", o, err)
	}
	if _, err := f.until(t, f.x.Apply, r); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		reason  string
		do      func() error
		last    func() // what the data plane says in the end
		unready string
		exists  bool
		applies string // what Apply says; empty: it is done
		fails   bool
	}{
		{"nothing has happened", func() error { return nil }, quiet, "", true, "", false},
		{"it is suspended", func() error {
			_, err := f.service.Update(operator, "dinosaur", id, instance.Update{Suspended: &yes})
			return err
		}, says("suspended", ""), "suspended", true, "an operator must resume it", false},
		{"it is resumed", func() error {
			_, err := f.service.Update(operator, "dinosaur", id, instance.Update{Suspended: &no})
			return err
		}, quiet, "", true, "", false},
		{"it fails", func() error { return nil }, says("error", "out of eggs"), "out of eggs", true, "out of eggs", true},
		{"it is deleted", func() error { _, err := f.service.Delete(ann, "dinosaur", id); return err }, quiet, "", false, "", false},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.reason, err)
		}
		for range 5 {
			f.turn()
		}
		s.last()
		o, err := f.x.Observe(t.Context(), *r)
		if err != nil || o.Exists != s.exists || !strings.Contains(o.Unready, s.unready) || s.unready == "" && o.Unready != "" {
			t.Errorf("%s: %+v, %v", s.reason, o, err)
		}
		if !s.exists {
			continue
		}
		res, err := f.x.Apply(t.Context(), *r)
		switch {
		case s.fails && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), s.applies)):
			t.Errorf("%s: applied %+v, %v", s.reason, res, err)
		case !s.fails && (err != nil || res.Done != (s.applies == "") || !strings.Contains(res.Message, s.applies)):
			t.Errorf("%s: applied %+v, %v", s.reason, res, err)
		}
	}
}

func TestExecutorRefuses(t *testing.T) {
	f := newFleet(t)
	cases := []struct {
		reason string
		in     map[string]any
		says   string
	}{
		{"no such offering", map[string]any{"offering": "unicorn"}, "no offering"},
		{"a bad name", map[string]any{"offering": "dinosaur", "name": "Rex!"}, "name"},
		{"no such type", map[string]any{"offering": "dinosaur", "type": "huge"}, "plan"},
		{"no such size", map[string]any{"offering": "dinosaur", "type": "standard", "size": "x9"}, "x9"},
		{"a size alone", map[string]any{"offering": "dinosaur", "size": "x1"}, "needs its type"},
		{"no such region", map[string]any{"offering": "dinosaur", "region": "moon"}, "moon"},
		{"no such version", map[string]any{"offering": "dinosaur", "version": "9"}, "version"},
		{"no such parameter", map[string]any{"offering": "dinosaur", "parameters": map[string]any{"wings": true}}, "wings"},
		{"a secret", map[string]any{"offering": "dinosaur", "parameters": map[string]any{"species": executor.NewSecret("x")}}, "secret"},
	}
	for _, c := range cases {
		r := kept(c.in)
		_, planned := f.x.Plan(t.Context(), *r)
		_, applied := f.x.Apply(t.Context(), *r)
		for _, err := range []error{planned, applied} {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v (%v)", c.reason, err, fault.Of(err))
			}
		}
	}
	if n := len(f.instances(true)); n > 0 {
		t.Errorf("%d were made", n)
	}
	// Somebody else's of the same name stays theirs.
	r := kept(map[string]any{"offering": "dinosaur", "name": "rex"})
	_, err := f.service.Create(ann, f.registry["dinosaur"], instance.Create{Name: "rex"})
	f.must(err)
	for _, call := range []func() error{
		func() error { _, err := f.x.Plan(t.Context(), *r); return err },
		func() error { _, err := f.x.Apply(t.Context(), *r); return err },
	} {
		if err := call(); fault.Reason(err) != "not-ours" {
			t.Errorf("an instance of the same name: %v", err)
		}
	}
}

// Quota and the operators' lists hold for environments as for everybody.
func TestExecutorIsBounded(t *testing.T) {
	w, out, off := newStage(t)
	out.denied["ann"] = true
	x := instance.NewExecutor(instance.ExecutorConfig{Service: w.service})
	r := kept(map[string]any{"offering": off.Metadata.Name})
	if _, err := x.Apply(t.Context(), *r); !fault.Is(err, fault.Denied) {
		t.Errorf("a denied owner: %v", err)
	}
	out.denied = map[string]bool{}
	out.grants, off.Spec.Types = nil, off.Spec.Types[:1] // the other is for those who try
	if _, err := x.Apply(t.Context(), *r); fault.Reason(err) != "quota" {
		t.Errorf("an owner without quota: %v", err)
	}
	if n := len(w.instances(true)); n > 0 {
		t.Errorf("%d were made", n)
	}
}

// Whatever environments and resources are called, the name is a good one, and
// two of them have two names.
func TestExecutorNames(t *testing.T) {
	f := newFleet(t)
	for address, want := range map[string]string{"db": "shop-db", "web[0]": "shop-web-0", "front.api[12]": "shop-front-api-12", "Größe": "shop-gr-e"} {
		r := kept(map[string]any{"offering": "dinosaur"})
		r.Address = address
		if c, err := f.x.Plan(t.Context(), *r); err != nil || c.Outputs["name"] != want {
			t.Errorf("%s: %v, %v", address, c.Outputs["name"], err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[a-zA-Z0-9\[\]._-]{1,50}`)
		r := kept(map[string]any{"offering": "dinosaur"})
		r.Environment, r.Address = text.Draw(rt, "environment"), text.Draw(rt, "address")
		c, err := f.x.Plan(context.Background(), *r)
		if err != nil {
			rt.Fatal(err)
		}
		if err := instance.ValidateName(c.Outputs["name"].(string)); err != nil {
			rt.Fatalf("%v: %v", c.Outputs["name"], err)
		}
	})
}
