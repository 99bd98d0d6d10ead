// Package runtimetest is what every runtime must do, as a suite that each
// runtime's own test runs.
//
// It must not know any runtime: all it needs is how to open one and a body
// that becomes ready.
package runtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// Config tells the suite about a runtime.
type Config struct {
	// Open makes a runtime over a directory. It ends with the test, or with close.
	Open func(t *testing.T, dir string) (rt runtime.Runtime, close func())
	// Body makes a document that becomes ready under the host and shows the word
	// as the version of "app"; where suspended is set it becomes suspended.
	Body func(host, word string, suspended bool) json.RawMessage
	// Kind of the items; default instances.
	Kind string
	// Bare items have no versions and no routes, and are never suspended.
	Bare bool
	// Durable runtimes know everything again after a restart over the directory.
	Durable bool
}

// Run runs the suite.
func Run(t *testing.T, cfg Config) {
	cases := []struct {
		name   string
		reason string
		run    func(*bench)
	}{
		{"Ready", "An item becomes ready and tells its generation, versions and routes.", ready},
		{"Idempotent", "The same item again changes nothing.", idempotent},
		{"Update", "A newer item replaces the older one.", update},
		{"Fence", "An item with a lower token is refused and changes nothing.", fence},
		{"Epoch", "An item of a lower epoch is refused, whatever its token; one of a higher epoch is not.", epoch},
		{"Tombstone", "What was removed is not brought back by an older item.", tombstone},
		{"Step", "A step of what makes the cluster fit becomes ready and tells its kind.", aStep},
		{"Suspend", "A suspended item stops and comes back.", suspend},
		{"Delete", "A removed item is shown until it is forgotten.", remove},
		{"DeleteUnknown", "The removal of what is not there is done.", removeUnknown},
		{"ForgetLiving", "Forget never removes.", forgetLiving},
		{"Absence", "Items that are not applied again stay as they are.", absence},
		{"Many", "Items applied at the same time do not disturb each other.", many},
		{"Invalid", "A body that is not JSON is refused as such.", invalid},
		{"Cancelled", "A call whose context has ended does nothing.", cancelled},
	}
	for _, c := range cases {
		if c.name == "Step" && cfg.Kind != "" || c.name == "Suspend" && cfg.Bare {
			continue // there is no such item
		}
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.run(newBench(t, cfg))
		})
	}
	if cfg.Durable {
		t.Run("Restart", func(t *testing.T) { restart(newBench(t, cfg)) })
	}
}

type bench struct {
	*testing.T
	cfg   Config
	dir   string
	rt    runtime.Runtime
	close func()
}

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{T: t, cfg: cfg, dir: t.TempDir()}
	b.rt, b.close = cfg.Open(t, b.dir)
	t.Cleanup(func() { b.close() })
	return b
}

func (b *bench) item(id string, generation, token int64) runtime.Item {
	return runtime.Item{ID: id, Kind: b.cfg.Kind, Generation: generation, Token: token,
		Body: b.cfg.Body(id+".test", fmt.Sprint(generation), false)}
}

func (b *bench) apply(it runtime.Item) {
	b.Helper()
	if err := b.rt.Apply(b.Context(), it); err != nil {
		b.Fatalf("Apply(%s): %v", it.ID, err)
	}
}

func (b *bench) observe() map[string]runtime.Observed {
	b.Helper()
	all, err := b.rt.Observe(b.Context())
	if err != nil {
		b.Fatalf("Observe: %v", err)
	}
	seen := map[string]runtime.Observed{}
	for _, o := range all {
		if _, twice := seen[o.ID]; twice {
			b.Fatalf("Observe lists %s twice", o.ID)
		}
		seen[o.ID] = o
	}
	return seen
}

// await follows Changed until the item is in the state at the generation: a
// change that is not signalled ends in a failure.
func (b *bench) await(id string, generation int64, state runtime.State) runtime.Observed {
	b.Helper()
	limit := time.After(3 * time.Minute) // a bound for failures, never a measure
	for {
		o, ok := b.observe()[id]
		if ok && o.Generation == generation && o.State == state {
			return o
		}
		select {
		case <-b.rt.Changed():
		case <-limit:
			b.Fatalf("%s is %+v, want generation %d %s", id, o, generation, state)
		}
	}
}

func (b *bench) clean(ids ...string) {
	for _, id := range ids {
		b.apply(runtime.Item{ID: id, Generation: 1000, Token: 1000, Delete: true})
	}
	for _, id := range ids {
		b.await(id, 1000, runtime.Deleted)
	}
}

func ready(b *bench) {
	b.apply(b.item("a", 1, 1))
	got := b.await("a", 1, runtime.Ready)
	if diff := cmp.Diff(map[string]string{"app": "1"}, got.Versions); diff != "" && !b.cfg.Bare {
		b.Errorf("versions: %s", diff)
	}
	if !b.cfg.Bare && (got.Routes["a.test"] == "" || len(got.Routes) != 1) {
		b.Errorf("routes: got %v, want one of a.test", got.Routes)
	}
	if got.Message != "" {
		b.Errorf("a ready item has the message %q", got.Message)
	}
	if facts, err := b.rt.Facts(b.Context()); err != nil || facts.Capacity <= 0 {
		b.Errorf("facts: %+v, %v", facts, err)
	}
	b.clean("a")
}

func idempotent(b *bench) {
	b.apply(b.item("a", 1, 1))
	before := b.await("a", 1, runtime.Ready)
	for range 3 {
		b.apply(b.item("a", 1, 1))
		if diff := cmp.Diff(before, b.observe()["a"]); diff != "" {
			b.Errorf("the same item changed what is: %s", diff)
		}
	}
	b.clean("a")
}

func update(b *bench) {
	b.apply(b.item("a", 1, 1))
	b.await("a", 1, runtime.Ready)
	b.apply(b.item("a", 2, 2))
	if got := b.await("a", 2, runtime.Ready); got.Versions["app"] != "2" && !b.cfg.Bare {
		b.Errorf("versions after the update: %v", got.Versions)
	}
	next := b.item("a", 3, 2)
	next.Body = b.cfg.Body("b.test", "3", false)
	b.apply(next)
	if got := b.await("a", 3, runtime.Ready); !b.cfg.Bare && (got.Routes["b.test"] == "" || len(got.Routes) != 1) {
		b.Errorf("routes after the host changed: %v", got.Routes)
	}
	b.clean("a")
}

func suspend(b *bench) {
	b.apply(b.item("a", 1, 1))
	b.await("a", 1, runtime.Ready)
	off := b.item("a", 2, 1)
	off.Body = b.cfg.Body("a.test", "2", true)
	b.apply(off)
	if got := b.await("a", 2, runtime.Suspended); len(got.Routes) != 0 {
		b.Errorf("a suspended item has routes: %v", got.Routes)
	}
	b.apply(b.item("a", 3, 1))
	b.await("a", 3, runtime.Ready)
	b.clean("a")
}

func remove(b *bench) {
	b.apply(b.item("a", 1, 1))
	b.apply(b.item("b", 1, 1))
	b.await("a", 1, runtime.Ready)
	b.await("b", 1, runtime.Ready)
	gone := runtime.Item{ID: "a", Generation: 2, Token: 2, Delete: true}
	b.apply(gone)
	b.await("a", 2, runtime.Deleted)
	b.apply(gone)
	if got := b.observe()["a"]; got.State != runtime.Deleted {
		b.Errorf("the removal again: %v", got)
	}
	for range 2 {
		if err := b.rt.Forget(b.Context(), "a"); err != nil {
			b.Errorf("Forget: %v", err)
		}
	}
	seen := b.observe()
	if _, ok := seen["a"]; ok || seen["b"].State != runtime.Ready {
		b.Errorf("after Forget: %v", seen)
	}
	b.apply(b.item("a", 3, 3))
	b.await("a", 3, runtime.Ready)
	b.clean("a", "b")
}

func removeUnknown(b *bench) {
	b.apply(runtime.Item{ID: "a", Generation: 4, Token: 2, Delete: true})
	b.await("a", 4, runtime.Deleted)
	if err := b.rt.Forget(b.Context(), "a"); err != nil {
		b.Errorf("Forget: %v", err)
	}
	if seen := b.observe(); len(seen) != 0 {
		b.Errorf("after Forget: %v", seen)
	}
}

func forgetLiving(b *bench) {
	b.apply(b.item("a", 1, 1))
	before := b.await("a", 1, runtime.Ready)
	for _, id := range []string{"a", "unknown"} {
		if err := b.rt.Forget(b.Context(), id); err != nil {
			b.Errorf("Forget(%s): %v", id, err)
		}
	}
	if diff := cmp.Diff(map[string]runtime.Observed{"a": before}, b.observe()); diff != "" {
		b.Errorf("Forget changed what is: %s", diff)
	}
	b.clean("a")
}

func absence(b *bench) {
	b.apply(b.item("a", 1, 1))
	b.apply(b.item("b", 1, 1))
	before := b.await("a", 1, runtime.Ready)
	b.await("b", 1, runtime.Ready)
	b.apply(b.item("b", 2, 2))
	b.await("b", 2, runtime.Ready)
	if diff := cmp.Diff(before, b.observe()["a"]); diff != "" {
		b.Errorf("an item that was not mentioned changed: %s", diff)
	}
	b.clean("a", "b")
}

func many(b *bench) {
	const n = 8
	var ids []string
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		ids = append(ids, fmt.Sprintf("i%d", i))
		wg.Go(func() { errs[i] = b.rt.Apply(b.Context(), b.item(fmt.Sprintf("i%d", i), 1, 1)) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		b.Fatal(errs[i])
	}
	routes := map[string]bool{}
	for _, id := range ids {
		b.await(id, 1, runtime.Ready)
	}
	for _, o := range b.observe() {
		for host := range o.Routes {
			routes[host] = true
		}
	}
	if len(routes) != n && !b.cfg.Bare {
		b.Errorf("%d items have %d routes", n, len(routes))
	}
	b.clean(ids...)
}

func invalid(b *bench) {
	for _, it := range []runtime.Item{{ID: "a", Kind: b.cfg.Kind, Token: 1, Body: json.RawMessage(`{"spec":`)}, {ID: "", Kind: b.cfg.Kind, Token: 1, Body: json.RawMessage(`{}`)}} {
		if err := b.rt.Apply(b.Context(), it); !fault.Is(err, fault.Invalid) {
			b.Errorf("Apply of %q: got %v, want invalid", it.ID, err)
		}
	}
	if seen := b.observe(); len(seen) != 0 {
		b.Errorf("a refused item is there: %v", seen)
	}
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.rt.Apply(ctx, b.item("a", 1, 1)); err == nil {
		b.Error("Apply went on after its context had ended")
	}
	if seen := b.observe(); len(seen) != 0 {
		b.Errorf("a cancelled item is there: %v", seen)
	}
}

func restart(b *bench) {
	b.apply(b.item("kept", 2, 9))
	b.apply(b.item("gone", 1, 1))
	b.apply(b.item("off", 1, 1))
	before := b.await("kept", 2, runtime.Ready)
	b.await("gone", 1, runtime.Ready)
	b.await("off", 1, runtime.Ready)
	b.apply(runtime.Item{ID: "gone", Generation: 2, Token: 2, Delete: true})
	b.await("gone", 2, runtime.Deleted)
	off, resting := b.item("off", 2, 1), runtime.Suspended
	if off.Body = b.cfg.Body("off.test", "2", true); b.cfg.Bare {
		resting = runtime.Ready
	}
	b.apply(off)
	b.await("off", 2, resting)
	b.close()
	b.rt, b.close = b.cfg.Open(b.T, b.dir)
	seen := b.observe()
	if diff := cmp.Diff(before, seen["kept"]); diff != "" {
		b.Errorf("the restart changed what is: %s", diff)
	}
	if seen["gone"].State != runtime.Deleted || seen["off"].State != resting {
		b.Errorf("after the restart: %v", seen)
	}
	if err := b.rt.Apply(b.Context(), b.item("kept", 3, 8)); fault.Reason(err) != "fenced" {
		b.Errorf("the fence was lost: %v", err)
	}
	b.apply(b.item("kept", 2, 9))
	if diff := cmp.Diff(before, b.observe()["kept"]); diff != "" {
		b.Errorf("the same item after a restart changed what is: %s", diff)
	}
	if err := b.rt.Forget(b.Context(), "gone"); err != nil {
		b.Error(err)
	}
	b.close()
	b.rt, b.close = b.cfg.Open(b.T, b.dir)
	if _, ok := b.observe()["gone"]; ok {
		b.Error("a forgotten item came back")
	}
	b.clean("kept", "off")
}
