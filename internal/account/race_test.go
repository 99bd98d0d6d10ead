package account_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
)

// TestResetDuringRecheck lets a recheck bring the old secret to the provider
// after a reset brought the new one.
func TestResetDuringRecheck(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(-1), w.start(-1)
	ctx := as(t.Context(), "mary", "acme")
	a, err := one.Create(ctx, "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute)
	var b account.Account
	w.idp.before = func() {
		if b, err = two.Reset(ctx, a.ID); err != nil {
			t.Errorf("cannot reset: %v", err)
		}
	}
	if !w.once(t, one) || b.Secret == "" {
		t.Fatal("no recheck was due")
	}
	for w.once(t, one) {
	}
	if w.idp.all()[a.ClientID].Secret != b.Secret {
		t.Error("the new secret does not work at once")
	}
	w.tidy(t, 1)
}

// TestDeleteDuringRecheck lets a recheck bring a client back that was deleted
// in between.
func TestDeleteDuringRecheck(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(-1), w.start(-1)
	ctx := as(t.Context(), "mary", "acme")
	a, err := one.Create(ctx, "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute)
	w.idp.before = func() {
		if err := two.Delete(ctx, a.ID); err != nil {
			t.Errorf("cannot delete: %v", err)
		}
	}
	w.once(t, one)
	for w.once(t, one) {
	}
	w.tidy(t, 0)
}

// TestLateApply stalls a creation until the loop has taken it back and removed
// it; what the request then brings to the provider goes, too.
func TestLateApply(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(-1), w.start(-1)
	w.idp.before = func() {
		w.pass(61 * time.Second)
		for w.once(t, two) {
		}
		if o := w.objects(t)[0]; o.Phase != account.Deleted {
			t.Errorf("it was not taken back: %s", o.Phase)
		}
	}
	if _, err := one.Create(as(t.Context(), "mary", "acme"), "robot", ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
	if len(w.idp.all()) != 1 {
		t.Fatal("the provider did not get it late; the test shows nothing")
	}
	w.work(t, one, two)
	w.tidy(t, 0)
}

// TestTwoResets lets one reset come in while another is at it.
func TestTwoResets(t *testing.T) {
	w := newWorld(t)
	one, two := w.start(-1), w.start(-1)
	ctx := as(t.Context(), "mary", "acme")
	a, err := one.Create(ctx, "robot", "")
	if err != nil {
		t.Fatal(err)
	}
	w.idp.before = func() {
		if _, err := two.Reset(ctx, a.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("the second reset: got %v, want a Conflict", err)
		}
	}
	b, err := one.Reset(ctx, a.ID)
	if err != nil || w.idp.all()[a.ClientID].Secret != b.Secret {
		t.Errorf("the first reset: %v", err)
	}
}
