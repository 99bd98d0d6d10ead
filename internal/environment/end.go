package environment

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// reminders are how long before the end people are told of it.
var reminders = []time.Duration{24 * time.Hour, time.Hour, 10 * time.Minute}

// endAgain is after how long a destruction is tried again that was not taken up.
const endAgain = time.Hour

// Actions of the end.
type (
	// Remind puts into the log that the end is near.
	Remind struct{}
	// Expire begins the destruction, as somebody's destroy would.
	Expire struct{}
	// Spare says that the end has come and that it is protected.
	Spare struct{}
)

func (Remind) action() {}
func (Expire) action() {}
func (Spare) action()  {}

// remind tells whether a reminder is due, and when the next one is; zero: none.
// Reminded is when the last was given, or when the end was set: those before that
// are past. Of several that were missed there is one.
func remind(ends, reminded, now time.Time) (due bool, next time.Time) {
	for _, before := range reminders {
		at := ends.Add(-before)
		switch {
		case at.After(now):
			if next.IsZero() {
				next = at
			}
		case at.After(reminded) && now.Before(ends):
			due = true
		}
	}
	return due, next
}

// planEnd sees to the planned destruction. It comes before everything else: an
// apply that runs is overtaken as by somebody's destroy.
func planEnd(e Environment, seen Seen, now time.Time) []Action {
	if e.Spec.Ends.IsZero() || e.Spec.Destroy {
		return nil
	}
	if now.Before(e.Spec.Ends) {
		if due, _ := remind(e.Spec.Ends, e.Status.Reminded, now); due {
			return []Action{Remind{}}
		}
		return nil
	}
	if e.Spec.Protected {
		if !e.Status.Ended.Equal(e.Spec.Ends) {
			return []Action{Spare{}}
		}
		return nil
	}
	if p := seen.Plan; e.Spec.Next != nil && p != nil && p.Spec.Destroy && (p.Spec.End || p.Phase == Planning || p.Phase == Planned) {
		if message := "its end has come: " + p.Status.Message; p.Phase == Asking && e.Phase == OK && e.Status.Message != message {
			return []Action{Say{Phase: e.Phase, Message: message}}
		}
		return nil // it is about to go
	}
	if !e.Status.Ended.IsZero() && !e.Status.Ended.Before(e.Spec.Ends) && now.Before(e.Status.Ended.Add(endAgain)) {
		return nil // it was tried, and was refused
	}
	return []Action{Expire{}}
}

// planTimer comes back when the end, or a reminder of it, is near. It is the last
// step: whoever comes earlier anyway finds out.
func planTimer(e Environment, _ Seen, now time.Time) []Action {
	if after, ok := untilEnd(e, now); ok {
		return []Action{Come{After: after, Why: "it ends " + e.Spec.Ends.UTC().Format(time.RFC3339)}}
	}
	return nil
}

// inTime shortens a pause that would miss the end.
func inTime(e Environment, actions []Action, now time.Time) []Action {
	if len(actions) == 0 {
		return nil
	}
	come, ok := actions[len(actions)-1].(Come)
	if after, timed := untilEnd(e, now); ok && timed && after < come.After {
		come.After = after
		actions[len(actions)-1] = come
	}
	return actions
}

// untilEnd is how long there is nothing to do about the end.
func untilEnd(e Environment, now time.Time) (time.Duration, bool) {
	switch {
	case e.Spec.Ends.IsZero() || e.Spec.Destroy:
		return 0, false
	case now.Before(e.Spec.Ends):
		if _, next := remind(e.Spec.Ends, e.Status.Reminded, now); !next.IsZero() {
			return next.Sub(now), true
		}
		return e.Spec.Ends.Sub(now), true
	case e.Spec.Protected:
		return 0, false // whoever takes that back wakes it
	}
	return max(e.Status.Ended.Add(endAgain).Sub(now), time.Minute), true
}

func (t *turn) remind() {
	t.e.Status.Reminded, t.op = t.at, "reminder"
}

func (t *turn) spare() {
	t.e.Status.Ended, t.op = t.e.Spec.Ends, "reminder"
	t.e.Status.Message = fmt.Sprintf("Its end has come, and it is protected: it stays. Move the end (drover env extend %s), or take the protection back (drover env protect %s --off).", t.e.Name, t.e.Name)
}

// expire writes the plan of the destruction and that it is wanted. Policies that
// demand an approval do not hold it up: it was made with this end. One that was
// refused before is made once more: its operation has ended then, and another begins
// only if it is taken up.
func (t *turn) expire(ctx context.Context) error {
	if n := t.e.Spec.Next; n != nil {
		if err := t.finish(ctx, n.Operation, operation.Superseded, "the environment's end has come"); err != nil {
			return err
		}
	}
	p, again, err := t.endPlan(ctx)
	if err != nil {
		return err
	}
	p.Phase, p.Status = Planning, PlanStatus{}
	p.Spec = PlanSpec{Environment: t.e.Name, ID: t.e.ID, Template: t.e.Spec.Template, Version: t.e.Spec.Version, Parameters: t.e.Spec.Parameters,
		Description: t.e.Spec.Description, Tags: t.e.Spec.Tags, Destroy: true, Operator: t.e.Spec.Operator, Apply: true, End: true,
		Sooner: t.e.Spec.FirstEnd.IsZero() || t.e.Spec.Ends.Before(t.e.Spec.FirstEnd)}
	next := &Next{Plan: p.ID}
	op := Planning
	if !again {
		op = "create"
		begin := operation.Start("destroy", t.e.Object, ledger.BySchedule("end"))
		t.set.Puts, next.Operation = append(t.set.Puts, begin), begin.Object.ID
	}
	put, err := p.put(op)
	if err != nil {
		return err
	}
	t.set.Puts = append(t.set.Puts, put)
	t.set.Wakes = append(t.set.Wakes, ledger.Wake{Ref: p.Ref, Org: p.Org})
	t.e.Spec.Next, t.e.Status.Tries = next, 0
	t.e.Status.Ended, t.e.Status.EndPlan, t.op = t.at, p.ID, "destroy"
	if !again {
		t.e.Status.Message = "its end has come"
	}
	return nil
}

// endPlan is the plan of the end that was refused before, or a new one.
func (t *turn) endPlan(ctx context.Context) (p Plan, again bool, err error) {
	if id := t.e.Status.EndPlan; id != "" {
		o, err := t.Store.Get(ctx, ledger.Ref{Kind: KindPlan.Name, ID: id})
		if err == nil && o.Deleted.IsZero() && o.Phase != Applied {
			p, err = DecodePlan(o)
			return p, true, err
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return p, false, err
		}
	}
	return Plan{Object: ledger.Object{Ref: ledger.Ref{Kind: KindPlan.Name, ID: ledger.NewID()}, Org: t.e.Org, Owner: t.e.Owner, Name: t.e.Name, Parent: t.e.ID}}, false, nil
}

// withoutApprovals leaves out verdicts that only ask for somebody's approval.
func withoutApprovals(verdicts []Verdict) (out []Verdict) {
	for _, v := range verdicts {
		if v.Effect != approve {
			out = append(out, v)
		}
	}
	return out
}
