package environment

import (
	"context"
	"slices"
)

// atEase sees what an environment at rest is decided on.
func (s *Service) atEase(ctx context.Context, e Environment, seen *Seen) error {
	c := seen.Counts
	if c.Pending+c.Leaving > 0 || e.Spec.Destroy {
		return nil
	}
	var err error
	if seen.Counts.Drifted, err = s.openDrift(ctx, e.ID); err != nil {
		return err
	}
	s.rests.mu.Lock()
	defer s.rests.mu.Unlock()
	if v := s.rests.vigils[e.ID]; v != nil && v.key == e.vigilKey() {
		seen.ProbeAt = v.until.Add(-vigilSlack)
	}
	if last := s.rests.strays[e.ID]; !last.none || last.laid != e.Status.Laid {
		seen.StrayAt = last.at.Add(strayEvery)
	}
	return nil
}

// endpoints fills in the status endpoints of what was just made: none of them is
// decided.
func (t *turn) endpoints(ctx context.Context) error {
	v, err := t.vigil(ctx, t.e)
	s := &t.e.Status
	s.Checks = nil
	if err != nil {
		return err
	}
	for _, p := range v.probes {
		if !p.entry {
			s.Checks = append(s.Checks, Endpoint{Name: p.name(), Of: p.of, URL: p.url()})
		}
	}
	return nil
}

// probe has this replica probe the endpoints until the work is due again. It only
// writes what it has found out already.
func (t *turn) probe(ctx context.Context) error {
	t.rests.mu.Lock()
	v := t.rests.vigils[t.e.ID]
	same := v != nil && v.key == t.e.vigilKey()
	t.rests.mu.Unlock()
	if !same {
		var err error
		if v, err = t.vigil(ctx, t.e); err != nil {
			return err
		}
	}
	wait := vigilFor
	if phase, message := health(slices.Concat(t.e.Status.Checks, t.e.Status.Entries)); phase != t.e.Phase || phase == Fail && message != t.e.Status.Message {
		t.say(phase, message)
	}
	if t.e.Phase == Waiting {
		wait = vigilUndecided
	}
	t.next = &Come{After: wait, Why: "its status endpoints are probed meanwhile"}
	if len(v.probes) == 0 {
		return nil
	}
	t.rests.mu.Lock()
	defer t.rests.mu.Unlock()
	if !same {
		v.due = t.at
	}
	v.until = t.at.Add(wait + vigilSlack)
	t.rests.vigils[t.e.ID] = v
	return nil
}

// count tells what is there.
func (t *turn) count(ctx context.Context) error {
	t.e.Status.Counts = t.seen.Counts
	return t.groups(ctx)
}

// glanceOver wakes those that were not looked at yet, or ends the wish.
func (t *turn) glanceOver(ctx context.Context) error {
	there, err := t.resources(ctx, t.e.ID, false)
	if err != nil {
		return err
	}
	open := 0
	for _, r := range there {
		if r.Phase == Ready && !r.Spec.Absent && r.Spec.Drift != driftIgnore && r.Status.Looked < t.e.Spec.Look {
			open++
			if open <= layAtOnce {
				t.set.Wakes = append(t.set.Wakes, wakeOf(KindResource.Name, r.ID, r.Org))
			}
		}
	}
	if open > 0 {
		t.next = &Come{After: glanceEvery, Why: "its resources are looked at"}
		return nil
	}
	if err := t.stray(ctx); err != nil {
		return err
	}
	t.e.Status.Looked, t.e.Status.Observed, t.op = t.e.Spec.Look, t.at, "observe"
	return nil
}
