package environment_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// ops are what the log says was done to an environment.
func (w *world) ops(id string) (out []string) {
	w.t.Helper()
	changes, err := w.store.Changes(context.Background(), ledger.ChangeQuery{Kind: "environment", ID: id, Limit: 1000})
	w.must(err)
	for _, c := range changes {
		out = append(out, c.Op)
	}
	return out
}

func count(all []string, one string) (n int) {
	for _, x := range all {
		if x == one {
			n++
		}
	}
	return n
}

func (w *world) until(name string, ttl time.Duration) environment.Environment {
	w.t.Helper()
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: name, Template: "shop", TTL: ttl})
	w.must(err)
	w.work(10 * time.Second)
	return w.env(o.ID)
}

func TestEnd(t *testing.T) {
	cases := []struct {
		reason    string
		ttl       time.Duration
		reminders int
	}{
		{"those of a day and more come three times", 48 * time.Hour, 3},
		{"the one of a day is past when it begins", 8 * time.Hour, 2},
		{"the one of an hour too", 30 * time.Minute, 1},
		{"all of them are", 2 * time.Minute, 0},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w := begin(t)
			w.add("1", shop("db", "web<db"))
			e := w.until("staging", c.ttl)
			w.work(e.Spec.Ends.Sub(w.clock) - time.Second)
			if e = w.env(e.ID); e.Phase != environment.OK || count(w.ops(e.ID), "reminder") != c.reminders {
				t.Fatalf("before the end it is %s after %d reminders", e.Phase, count(w.ops(e.ID), "reminder"))
			}
			w.work(30 * time.Second)
			if e = w.env(e.ID); e.Phase != environment.Destroyed || len(w.forge.made) != 0 || count(w.ops(e.ID), "reminder") != c.reminders {
				t.Errorf("behind the end it is %s, %d things are left", e.Phase, len(w.forge.made))
			}
		})
	}
}

// An end that was moved is reminded of anew; one that was taken back never comes.
func TestExtend(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	e := w.until("staging", 30*time.Minute)
	w.work(25 * time.Minute)
	_, err := w.s.Extend(alice, e.ID, w.clock.Add(time.Hour/2))
	w.must(err)
	w.work(28 * time.Minute)
	if e = w.env(e.ID); e.Phase != environment.OK || count(w.ops(e.ID), "reminder") != 2 {
		t.Fatalf("%s after %d reminders", e.Phase, count(w.ops(e.ID), "reminder"))
	}
	_, err = w.s.Extend(alice, e.ID, time.Time{})
	w.must(err)
	w.work(48 * time.Hour)
	if e = w.env(e.ID); e.Phase != environment.OK {
		t.Error(e.Phase)
	}
}

func TestProtectedHasNoEnd(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	e := w.until("staging", 5*time.Minute)
	_, err := w.s.Protect(alice, e.ID, true)
	w.must(err)
	w.work(3 * time.Hour)
	if e = w.env(e.ID); e.Phase != environment.OK || !strings.Contains(e.Status.Message, "protected") || count(w.ops(e.ID), "reminder") != 1 {
		t.Fatalf("%s %q %v", e.Phase, e.Status.Message, w.ops(e.ID))
	}
	_, err = w.s.Protect(alice, e.ID, false)
	w.must(err)
	w.work(time.Minute)
	if e = w.env(e.ID); e.Phase != environment.Destroyed {
		t.Error(e.Phase, e.Status.Message)
	}
}

// The end was approved with the environment; what a policy denies it denies.
func TestEndAndPolicies(t *testing.T) {
	for effect, want := range map[string]string{"approve": environment.Destroyed, "deny": environment.OK} {
		w := begin(t)
		st := shop("db")
		st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
			for _, c := range changes {
				if c.Action == "destroy" {
					out = append(out, environment.Verdict{Policy: "data", Address: c.Address, Effect: effect, Message: "data would be lost"})
				}
			}
			return out
		}
		w.add("1", st)
		e := w.until("staging", 5*time.Minute)
		w.work(30 * time.Minute)
		e = w.env(e.ID)
		if e.Phase != want {
			t.Errorf("%s: %s %s", effect, e.Phase, e.Status.Message)
		}
		if effect == "deny" && (!strings.Contains(e.Status.Message, "data would be lost") || count(w.ops(e.ID), "destroy") != 1) {
			t.Errorf("a denied end says %q, and was tried %d times", e.Status.Message, count(w.ops(e.ID), "destroy"))
		}
	}
}

// An apply that runs when the end comes is overtaken.
func TestEndWhileApplying(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db", "web<db"))
	w.forge.slow = map[string]int{"web": 10_000}
	o, op, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", TTL: time.Minute})
	w.must(err)
	w.work(50 * time.Second)
	if e := w.env(o.ID); e.Phase != environment.Deploying {
		t.Fatal(e.Phase)
	}
	w.work(time.Minute)
	if e := w.env(o.ID); e.Phase != environment.Destroyed || len(w.forge.made) != 0 {
		t.Errorf("%s %s, %d things are left", e.Phase, e.Status.Message, len(w.forge.made))
	}
	if phase, _ := w.operation(op); phase != operation.Superseded {
		t.Errorf("the apply is %s", phase)
	}
}

// A kill anywhere around the end leaves nothing.
func TestEndIsKilled(t *testing.T) {
	for at := range 25 {
		w := newWorld(t, t.TempDir())
		w.open()
		w.add("1", shop("db", "web<db"))
		e := w.until("staging", 2*time.Minute)
		w.store.fate.at = []int{at}
		w.work(10 * time.Minute)
		w.store.fate.at = nil
		w.work(10 * time.Minute)
		if e = w.env(e.ID); e.Phase != environment.Destroyed || len(w.forge.made) != 0 {
			t.Errorf("killed at %d: %s %s", at, e.Phase, e.Status.Message)
		}
		found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: "operation", Limit: 100})
		w.must(err)
		for _, o := range found {
			if o.Phase == operation.Running {
				t.Errorf("killed at %d: %s never ends", at, o.Name)
			}
		}
		w.store.Close()
	}
}

// Whenever it is looked at, each reminder is given once, and none for a time that
// was past when the end was set.
func TestRemind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		ends := set.Add(time.Duration(rapid.IntRange(1, 3*24*3600).Draw(t, "ttl")) * time.Second)
		reminded, given := set, 0
		for now := set; now.Before(ends); now = now.Add(time.Duration(rapid.IntRange(1, 8*3600).Draw(t, "later")) * time.Second) {
			due, next := environment.RemindOf(ends, reminded, now)
			if !next.IsZero() && !next.After(now) || next.After(ends) {
				t.Fatalf("the next one is %s, now %s, end %s", next, now, ends)
			}
			if due {
				given++
				reminded = now
				if again, _ := environment.RemindOf(ends, reminded, now); again {
					t.Fatal("twice at once")
				}
			}
		}
		possible := 0
		for _, before := range []time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute} {
			if ends.Add(-before).After(set) {
				possible++
			}
		}
		if given > possible {
			t.Fatalf("%d reminders of %d", given, possible)
		}
	})
}
