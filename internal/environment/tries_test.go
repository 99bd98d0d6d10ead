package environment_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// resting is what an open breaker says.
type resting struct{ error }

func (r resting) Unwrap() error        { return r.error }
func (resting) Resumes() time.Duration { return 10 * time.Second }

func TestWhatAFailureComesTo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	away := fault.New(fault.Unavailable, "away")
	open := resting{fault.New(fault.Unavailable, "it rests").Because("breaker-open")}
	at := func(attempts int, rests time.Duration) environment.ResourceStatus {
		s := environment.ResourceStatus{Attempts: attempts}
		if rests >= 0 {
			s.Resting = now.Add(-rests)
		}
		return s
	}
	const answers = -1
	for _, c := range []struct {
		reason string
		was    environment.ResourceStatus
		err    error
		want   environment.Reckoned
	}{
		{"the first try", at(0, answers), away, environment.Reckoned{Attempts: 1, Wait: time.Second, Counts: true}},
		{"the third", at(2, answers), away, environment.Reckoned{Attempts: 3, Wait: 4 * time.Second, Counts: true}},
		{"the last", at(3, answers), away, environment.Reckoned{Attempts: 4, Wait: 8 * time.Second, Counts: true, Final: true}},
		{"it is given a rest", at(1, answers), open, environment.Reckoned{Attempts: 1, Resting: now, Wait: 10 * time.Second}},
		{"and another one", at(1, time.Minute), open, environment.Reckoned{Attempts: 1, Resting: now.Add(-time.Minute), Wait: 10 * time.Second}},
		{"a look whether it is back is no try", at(3, time.Minute), away, environment.Reckoned{Attempts: 3, Resting: now.Add(-time.Minute), Wait: 5 * time.Second}},
		{"just before it is given up", at(3, 5*time.Minute-1), away, environment.Reckoned{Attempts: 3, Resting: now.Add(1 - 5*time.Minute), Wait: 5 * time.Second}},
		{"it is given up", at(1, 5*time.Minute), away, environment.Reckoned{Attempts: 4, Resting: now.Add(-5 * time.Minute), Final: true}},
		{"also while it rests", at(1, 5*time.Minute), open, environment.Reckoned{Attempts: 4, Resting: now.Add(-5 * time.Minute), Final: true}},
		{"the resource's own failure counts, and somebody answers", at(1, time.Minute), environment.Own(away), environment.Reckoned{Attempts: 2, Wait: 2 * time.Second, Counts: true}},
		{"so does another kind", at(1, time.Minute), errors.New("broken"), environment.Reckoned{Attempts: 2, Wait: 2 * time.Second, Counts: true}},
		{"what is wrong stays so", at(0, answers), fault.New(fault.Invalid, "no"), environment.Reckoned{Attempts: 1, Wait: time.Second, Counts: true, Final: true}},
		{"so does what is denied", at(0, time.Minute), fault.New(fault.Denied, "no"), environment.Reckoned{Attempts: 1, Wait: time.Second, Counts: true, Final: true}},
		{"whoever has too much to do was not asked", at(1, answers), fault.New(fault.Unavailable, "full").Because("bulkhead-full"), environment.Reckoned{Attempts: 1, Wait: 500 * time.Millisecond}},
	} {
		if diff := cmp.Diff(c.want, environment.Reckon(c.was, c.err, 3, now)); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}
}

// However many tries a template allows, they are never more than a minute apart, nor at once.
func TestTriesDoNotHurry(t *testing.T) {
	for attempts := range 100 {
		got := environment.Reckon(environment.ResourceStatus{Attempts: attempts}, errors.New("broken"), 100, time.Now()).Wait
		if got < time.Second || got > time.Minute {
			t.Errorf("after %d tries the next one comes after %s", attempts+1, got)
		}
	}
}

// An outage under five minutes uses up no more tries than it took the breaker to open,
// however often it is looked whether the other side is back; one that lasts longer is
// given up within six. The calls of an executor are made once each, those inside it to
// Consul and Vault up to three times.
func TestAnOutageUsesUpNoTries(t *testing.T) {
	for _, c := range []struct {
		reason string
		once   bool
		others int // failures of others before
		lasts  time.Duration
		made   bool
		counts int
	}{
		{"a restart", false, 0, 8 * time.Second, true, 1},
		{"a minute", false, 0, time.Minute, true, 1},
		{"just under five minutes", false, 0, 4*time.Minute + 40*time.Second, true, 1},
		{"an hour", false, 0, time.Hour, false, 1},
		{"a minute, and others have found out", true, 5, time.Minute, true, 0},
		{"a minute, and others have nearly found out", true, 3, time.Minute, true, 2},
		{"an hour, and others have found out", true, 5, time.Hour, false, 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := resilience.New(resilience.Config{Name: "Consul at x"})
				began, s, counted := time.Now(), environment.ResourceStatus{}, 0
				call := func(context.Context) error {
					if time.Since(began) < c.lasts {
						return fault.New(fault.Unavailable, "Consul at x does not answer")
					}
					return nil
				}
				for range c.others {
					_ = p.Once(t.Context(), call)
				}
				run := p.Do
				if c.once {
					run = p.Once
				}
				for {
					err := run(t.Context(), call)
					if err == nil {
						if !c.made || counted != c.counts || time.Since(began) > c.lasts+20*time.Second {
							t.Errorf("made after %s, with %d tries counted", time.Since(began), counted)
						}
						return
					}
					v := environment.Reckon(s, err, 3, time.Now())
					if v.Counts {
						counted++
					}
					if s.Attempts, s.Resting = v.Attempts, v.Resting; v.Final {
						if took := time.Since(began); c.made || counted != c.counts || took < 5*time.Minute || took > 6*time.Minute {
							t.Errorf("given up after %s, with %d tries counted: %v", took, counted, err)
						}
						return
					}
					time.Sleep(v.Wait)
				}
			})
		})
	}
}

// A resource says which try has failed, and that the next one comes by itself; after the
// last one it has failed.
func TestTriesAreTold(t *testing.T) {
	w := begin(t)
	w.add("1", shop("a"))
	w.forge.trouble = map[string]string{"a": "broken"}
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	var said []string
	for range 200 {
		w.work(100 * time.Millisecond)
		r := w.resources(o.ID)["a"]
		head, _, _ := strings.Cut(r.Status.Message, ":")
		if head != "" && (len(said) == 0 || said[len(said)-1] != head) {
			said = append(said, head)
		}
		if r.Phase == environment.Failed {
			break
		}
	}
	want := []string{
		"try 1 of 4 failed, the next one comes by itself", "try 2 of 4 failed, the next one comes by itself",
		"try 3 of 4 failed, the next one comes by itself", "it could not be made",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(strings.Join(w.forge.tried, " "), "a"); n != 4 {
		t.Errorf("it was tried %d times, want 4", n)
	}
}
