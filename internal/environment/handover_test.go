package environment_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// correcting is a template whose resources are corrected.
func correcting() *stencil {
	return &stencil{nodes: func(map[string]any) []template.Node {
		nodes := chain("db", "web<db")
		for i := range nodes {
			nodes[i].Drift = "correct"
		}
		return nodes
	}}
}

// hand makes an environment in one world and lets it go there.
func hand(t *testing.T) (from, to *world, e ledger.Object, b environment.Bundle) {
	t.Helper()
	from, to = begin(t), begin(t)
	from.add("1", correcting())
	to.add("1", correcting())
	e, _, err := from.s.Create(operator, environment.PlanOrder{Environment: "meta", Template: "shop", Parameters: map[string]any{"size": "small"}})
	from.must(err)
	if _, err := from.s.HandOver(operator, "meta", "there"); !fault.Is(err, fault.Conflict) {
		t.Fatalf("what is not made yet is handed over: %v", err)
	}
	from.work(time.Minute)
	b, err = from.s.HandOver(operator, "meta", "there")
	from.must(err)
	to.forge.made, to.forge.saved = from.forge.made, from.forge.saved // the world outside is the same
	return from, to, e, b
}

func TestHandedOverHasOneKeeper(t *testing.T) {
	from, to, e, b := hand(t)
	o, fresh, err := to.s.TakeOver(operator, b)
	to.must(err)
	if !fresh || o.ID != e.ID {
		t.Fatalf("it was taken over as %s, new %v", o.ID, fresh)
	}
	before := to.env(e.ID)
	// The one who handed it over was killed before it could forget: it does it again.
	again, err := from.s.HandOver(operator, "meta", "there")
	from.must(err)
	if _, fresh, err := to.s.TakeOver(operator, again); err != nil || fresh || to.env(e.ID).Version != before.Version {
		t.Errorf("the second time it is new: %v, %v", fresh, err)
	}
	if _, err := from.s.HandOver(operator, "meta", "elsewhere"); fault.Reason(err) != "handed-over" {
		t.Errorf("it is handed over to two: %v", err)
	}

	to.work(time.Minute)
	if now := to.env(e.ID); now.Phase != environment.OK || now.Status.Counts.Ready != 2 || now.Spec.Handed != nil {
		t.Errorf("its new keeper has it as %s, %+v", now.Phase, now.Status.Counts)
	}
	out, err := to.s.Outputs(operator, "meta", true)
	if err != nil || out["token-db"] == nil {
		t.Errorf("its secrets are not with its new keeper: %v, %v", out, err)
	}
	to.hidesSecrets()

	// What somebody takes away comes back by its new keeper's hand alone.
	id := to.resources(e.ID)["db"].ID
	delete(to.forge.made, id)
	from.forge.effects, to.forge.effects = nil, nil
	from.work(time.Hour)
	if len(from.forge.effects) > 0 {
		t.Errorf("the old keeper has done %v", from.forge.effects)
	}
	to.work(time.Hour)
	if _, there := to.forge.made[id]; !there {
		t.Error("its new keeper does not keep it")
	}
}

// An upgrade that was done is no reason to keep it: its new keeper has the template of
// now alone, and nobody can go back there.
func TestHandedOverAfterAnUpgrade(t *testing.T) {
	from, to := begin(t), begin(t)
	from.add("1", correcting())
	e, _, err := from.s.Create(operator, environment.PlanOrder{Environment: "meta", Template: "shop", Parameters: map[string]any{"size": "small"}})
	from.must(err)
	from.work(time.Minute)
	from.add("2", correcting())
	to.add("2", correcting())
	_, _, err = from.s.Change(operator, environment.PlanOrder{Environment: "meta", Template: "shop", Keep: true})
	from.must(err)
	from.work(time.Minute)
	if from.env(e.ID).Spec.Previous == nil {
		t.Fatal("it was not upgraded")
	}
	b, err := from.s.HandOver(operator, "meta", "there")
	from.must(err)
	to.forge.made, to.forge.saved = from.forge.made, from.forge.saved
	_, _, err = to.s.TakeOver(operator, b)
	to.must(err)
	to.work(time.Minute)
	if now := to.env(e.ID); now.Phase != environment.OK || now.Status.Counts.Ready != 2 || now.Spec.Previous != nil {
		t.Errorf("its new keeper has it as %s, %+v, before it was %+v", now.Phase, now.Status.Counts, now.Spec.Previous)
	}
}

func TestHandedOverIsRefusedAtItsOldPlace(t *testing.T) {
	from, _, _, _ := hand(t)
	for name, verb := range map[string]func() error{
		"plan": func() error {
			_, err := from.s.Plan(operator, environment.PlanOrder{Environment: "meta", Parameters: map[string]any{"size": "large"}})
			return err
		},
		"destroy": func() error { _, _, err := from.s.Destroy(operator, "meta", ""); return err },
		"retry":   func() error { _, _, err := from.s.Retry(operator, "meta"); return err },
		"observe": func() error { _, err := from.s.Observe(operator, "meta"); return err },
	} {
		if err := verb(); fault.Reason(err) != "handed-over" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyOperatorsHandOver(t *testing.T) {
	from, to, _, b := hand(t)
	if _, err := from.s.HandOver(alice, "meta", "there"); !fault.Is(err, fault.Denied) {
		t.Errorf("a tenant hands over: %v", err)
	}
	if _, _, err := to.s.TakeOver(alice, b); !fault.Is(err, fault.Denied) {
		t.Errorf("a tenant takes over: %v", err)
	}
}

// Whoever takes over is killed before and after the commit: it is there once, whole.
func TestTakeOverKilled(t *testing.T) {
	for at := range 3 {
		_, to, e, b := hand(t)
		to.store.at = []int{at}
		func() {
			defer func() {
				if v := recover(); v != nil {
					to.start()
				}
			}()
			_, _, err := to.s.TakeOver(operator, b)
			to.must(err)
		}()
		to.store.at = nil
		_, _, err := to.s.TakeOver(operator, b)
		to.must(err)
		to.work(time.Minute)
		if now := to.env(e.ID); now.Phase != environment.OK || len(to.resources(e.ID)) != 2 {
			t.Errorf("killed at %d: %s, %v", at, now.Phase, maps.Keys(to.resources(e.ID)))
		}
		if ref, err := to.store.Ledger.Lookup(context.Background(), ledger.Name{Space: "environment//ops", Name: "meta"}); err != nil || ref.ID != e.ID {
			t.Errorf("killed at %d: its name is %v's, %v", at, ref, err)
		}
	}
}
