package instance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

// work lets work be done without the data plane saying a word.
func (w *world) work() {
	for work, ok := w.claim(); ok; work, ok = w.claim() {
		for n := 0; !w.run(work); n++ {
			if n > 50 {
				w.t.Fatal("one object keeps a worker busy for good")
			}
		}
	}
}

// An entitlement that ends takes the instance with it, in its own time, and one
// that comes back saves it.
func TestAnEndedEntitlement(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", taste)
	w.rounds()
	ended := out.grants["stage/taste"]
	ended.Expires = w.clock
	out.grants["stage/taste"] = ended
	w.pass(13 * time.Minute)
	in := w.one()
	if want := w.clock.Add(96 * time.Hour); !in.Status.Expires.Equal(want) {
		t.Fatalf("it ends %s, want %s", in.Status.Expires, want)
	}
	if in.Phase != instance.Suspended || !in.Spec.Suspended {
		t.Errorf("%s within the grace period", in.Phase)
	}
	operator := access.With(alice, access.Principal{User: "op", Admin: true})
	off := false
	if _, err := w.service.Update(operator, "band", in.ID, instance.Update{Suspended: &off}); !fault.Is(err, fault.Conflict) {
		t.Errorf("resumed within the grace period: %v", err)
	}

	out.down["quota"] = away
	expires := in.Status.Expires
	w.pass(time.Hour)
	if in = w.one(); !in.Status.Expires.Equal(expires) || in.Phase != instance.Suspended {
		t.Errorf("a lookup that failed changed it: %s until %s", in.Phase, in.Status.Expires)
	}
	delete(out.down, "quota")

	out.grants["stage/taste"] = entitlement.Grant{Units: 10, Holder: "org/acme"}
	w.pass(13 * time.Minute)
	if in = w.one(); in.Phase != instance.Ready || !in.Status.Expires.IsZero() || in.Spec.Suspended {
		t.Errorf("entitled again: %s until %s", in.Phase, in.Status.Expires)
	}

	out.grants["stage/taste"] = entitlement.Grant{} // nobody says anything any more: somebody has lost a file
	w.pass(97 * time.Hour)
	if in = w.one(); in.Phase != instance.Ready || !in.Status.Expires.IsZero() {
		t.Errorf("a quota that is gone took it away: %s until %s", in.Phase, in.Status.Expires)
	}

	out.grants["stage/taste"] = entitlement.Grant{Holder: "org/acme"}
	w.pass(13 * time.Minute)
	w.pass(97 * time.Hour)
	w.rounds()
	if n := len(w.instances(false)); n > 0 {
		t.Errorf("%d are left after the grace period: %s", n, w.one().Phase)
	}
	out.nothingLeft(w)
}

// An operator's suspension is not undone by the clock.
func TestOperatorsSuspensionLasts(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", taste)
	w.rounds()
	operator := access.With(alice, access.Principal{User: "op", Admin: true})
	on, off := true, false
	_, err := w.service.Update(operator, "band", w.one().ID, instance.Update{Suspended: &on})
	w.must(err)
	w.rounds()
	out.grants["stage/taste"] = entitlement.Grant{Holder: "org/acme"}
	w.pass(13 * time.Minute)
	out.grants["stage/taste"] = entitlement.Grant{Units: 1, Holder: "org/acme"}
	w.pass(13 * time.Minute)
	if in := w.one(); in.Phase != instance.Suspended || !in.Status.Expires.IsZero() {
		t.Errorf("%s until %s", in.Phase, in.Status.Expires)
	}
	_, err = w.service.Update(operator, "band", w.one().ID, instance.Update{Suspended: &off})
	w.must(err)
	w.rounds()
	if in := w.one(); in.Phase != instance.Ready {
		t.Errorf("resumed: %s", in.Phase)
	}
}

// One that rests already when an operator suspends it stays the operator's; a
// tenant who says the same changes nothing.
func TestOperatorsSuspensionOfWhatRestsLasts(t *testing.T) {
	for _, tc := range []struct {
		reason string
		who    access.Principal
		phase  string
	}{
		{"an operator's wish", access.Principal{User: "op", Admin: true}, instance.Suspended},
		{"the owner has no say in it", access.From(alice), instance.Ready},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w, out, _ := newStage(t)
			w.order("band", taste)
			w.rounds()
			ended := out.grants["stage/taste"]
			ended.Expires = w.clock
			out.grants["stage/taste"] = ended
			w.pass(13 * time.Minute)
			if in := w.one(); in.Phase != instance.Suspended || !in.Status.Resting {
				t.Fatalf("%s, by the clock: %v", in.Phase, in.Status.Resting)
			}
			on, off := true, false
			_, err := w.service.Update(access.With(alice, tc.who), "band", w.one().ID, instance.Update{Suspended: &on})
			w.must(err)
			out.grants["stage/taste"] = entitlement.Grant{Units: 10, Holder: "org/acme"}
			w.pass(13 * time.Minute)
			if in := w.one(); in.Phase != tc.phase || !in.Status.Expires.IsZero() {
				t.Errorf("%s until %s, want %s", in.Phase, in.Status.Expires, tc.phase)
			}
			if tc.phase == instance.Suspended {
				_, err = w.service.Update(access.With(alice, tc.who), "band", w.one().ID, instance.Update{Suspended: &off})
				w.must(err)
				w.rounds()
				if in := w.one(); in.Phase != instance.Ready {
					t.Errorf("resumed: %s", in.Phase)
				}
			}
		})
	}
}

// A trial ends on time, and nobody outside is asked for it to begin to end.
func TestTrialsEnd(t *testing.T) {
	w, out, off := newStage(t)
	out.grants = nil
	off.Spec.Providers[0].Regions[0].Limits = nil
	const trials = 50
	for n := range trials {
		_, err := w.service.Create(user(fmt.Sprintf("u%d", n)), off, instance.Create{Name: fmt.Sprintf("b-%d", n)})
		w.must(err)
	}
	everything := func(string) bool { return true }
	w.work()
	w.apply(everything)
	w.report(everything)
	w.work()
	for _, in := range w.instances(false) {
		if in.Phase != instance.Ready || !in.Status.Expires.Equal(start.Add(48*time.Hour)) {
			t.Fatalf("%s until %s", in.Phase, in.Status.Expires)
		}
	}
	w.clock = start.Add(48 * time.Hour)
	for _, who := range []string{"sso", "dns", "quota", "certificate"} {
		out.down[who] = away
	}
	calls := fmt.Sprint(out.calls)
	w.work()
	for _, in := range w.instances(false) {
		if in.Phase != instance.Deprovision {
			t.Fatalf("%s at the end of its lifespan", in.Phase)
		}
	}
	if now := fmt.Sprint(out.calls); now != calls {
		t.Errorf("somebody was asked: %s, before %s", now, calls)
	}
	out.down = map[string]error{}
	w.apply(everything)
	w.report(everything)
	w.work()
	out.nothingLeft(w)
}

// Whoever is denied loses what they have; their colleagues keep theirs.
func TestADeniedOwner(t *testing.T) {
	w, out, off := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	_, err := w.service.Create(user("bob"), off, instance.Create{Name: "wings"})
	w.must(err)
	w.rounds()
	out.denied["alice"] = true
	wakes, next, err := w.service.OwnedBy(alice, "alice", "", 10)
	if err != nil || len(wakes) != 1 || next != "" {
		t.Fatalf("alice has %v, %q, %v", wakes, next, err)
	}
	if all, next, err := w.service.OfOrg(alice, "acme", "", 1); err != nil || len(all) != 1 || next == "" {
		t.Fatalf("the first of acme: %v, %q, %v", all, next, err)
	}
	w.pass(13 * time.Minute)
	w.rounds()
	if in := w.one(); in.Name != "wings" || in.Phase != instance.Ready {
		t.Errorf("left is %s, %s", in.Name, in.Phase)
	}
}
