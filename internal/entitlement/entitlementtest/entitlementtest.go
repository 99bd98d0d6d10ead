// Package entitlementtest is the contract suite of entitlement sources.
//
// It owns what every source must do. It must not know any of them.
package entitlementtest

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
)

// Fixture is a source under test. It must have been given exactly this: the
// organisation "acme" has 3 units of Product for any user, and nobody else has
// any.
type Fixture struct {
	Source  entitlement.Source
	Product entitlement.Product
	// Break makes the source unreachable, and Mend reachable again; nil: it
	// cannot be away.
	Break, Mend func()
}

// Run checks a source; make is called once for each part.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	alice := entitlement.Who{User: "alice", Org: "acme", Account: "a-1"}
	bob := entitlement.Who{User: "bob", Org: "umbrella", Account: "b-1"}

	t.Run("a source has a name", func(t *testing.T) {
		if make(t).Source.Name() == "" {
			t.Error("instances could not remember where their quota is from")
		}
	})
	t.Run("what is granted is told with its holder", func(t *testing.T) {
		f := make(t)
		g, err := f.Source.Grant(t.Context(), alice, f.Product)
		if err != nil || g.Units != 3 || g.Holder != "org/acme" || !g.Active(time.Now()) {
			t.Errorf("got %+v, %v", g, err)
		}
		carol := entitlement.Who{User: "carol", Org: "acme"}
		if same, err := f.Source.Grant(t.Context(), carol, f.Product); err != nil || same.Holder != g.Holder {
			t.Errorf("a colleague shares it: got %+v, %v", same, err)
		}
	})
	t.Run("no grant is no error", func(t *testing.T) {
		f := make(t)
		other := f.Product
		other.Type, other.Resource = "unheard-of", "unheard-of"
		for reason, ask := range map[string]struct {
			who entitlement.Who
			p   entitlement.Product
		}{
			"another organisation": {bob, f.Product},
			"another product":      {alice, other},
			"nobody":               {entitlement.Who{}, f.Product},
		} {
			if g, err := f.Source.Grant(t.Context(), ask.who, ask.p); err != nil || g.Active(time.Now()) {
				t.Errorf("%s: got %+v, %v", reason, g, err)
			}
		}
	})
	t.Run("a reservation can be asked for twice and given back twice", func(t *testing.T) {
		f := make(t)
		first, err := f.Source.Reserve(t.Context(), alice, f.Product, "i1", 1)
		if err != nil {
			t.Fatal(err)
		}
		second, err := f.Source.Reserve(t.Context(), alice, f.Product, "i1", 1)
		if err != nil || second != first {
			t.Errorf("asked twice: %q, then %q, %v", first, second, err)
		}
		for range 2 {
			if err := f.Source.Release(t.Context(), first, "i1"); err != nil {
				t.Errorf("given back: %v", err)
			}
		}
		if err := f.Source.Release(t.Context(), "", "never-was"); err != nil {
			t.Errorf("what is not there is fine: %v", err)
		}
	})
	t.Run("what is not granted is refused", func(t *testing.T) {
		f := make(t)
		if _, err := f.Source.Reserve(t.Context(), bob, f.Product, "i2", 1); !fault.Is(err, fault.Denied) || fault.Reason(err) != "quota" {
			t.Errorf("nothing granted: %v", err)
		}
		if _, err := f.Source.Reserve(t.Context(), alice, f.Product, "i3", 4); !fault.Is(err, fault.Denied) || fault.Reason(err) != "quota" {
			t.Errorf("more than granted: %v", err)
		}
	})
	t.Run("who is away says so", func(t *testing.T) {
		f := make(t)
		if f.Break == nil {
			return // it is in the process, and cannot be
		}
		f.Break()
		if _, err := f.Source.Grant(t.Context(), alice, f.Product); !fault.Is(err, fault.Unavailable) {
			t.Errorf("grant: %v", err)
		}
		if _, err := f.Source.Reserve(t.Context(), alice, f.Product, "i4", 1); !fault.Is(err, fault.Unavailable) {
			t.Errorf("reserve: %v", err)
		}
		if err := f.Source.Release(t.Context(), "s-1", "i4"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("release: %v", err)
		}
		f.Mend()
		if _, err := f.Source.Reserve(t.Context(), alice, f.Product, "i4", 1); err != nil {
			t.Errorf("back again: %v", err)
		}
	})
}
