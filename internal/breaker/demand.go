package breaker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Demand is something that a policy lets happen only if somebody approves.
type Demand struct {
	// Scope and Rule together name what is asked about: an approval of one says
	// nothing of another.
	Scope string
	Rule  string // for people: "plan 1a2b3c of environment shop"
	// Message says what would happen, and why that is asked.
	Message string
	// Object that waits for the decision.
	Object ledger.Ref
}

// Demand returns what must be counted in the same commit as what was approved, so
// that an approval is good for one. Faults as of Guard.Take: whoever holds the
// object is woken when that is decided.
func (s *Service) Demand(ctx context.Context, d Demand) ([]ledger.Count, error) {
	var counts []ledger.Count
	err := again(func() (err error) {
		counts, err = s.demand(ctx, d, s.Now().UTC())
		return err
	})
	return counts, err
}

func (s *Service) demand(ctx context.Context, d Demand, now time.Time) ([]ledger.Count, error) {
	id := idOf(d.Scope, d.Rule)
	used, err := s.Store.Counter(ctx, approvedCounter+id)
	if err != nil {
		return nil, err
	}
	a, err := s.approval(ctx, id)
	if err != nil {
		return nil, err
	}
	switch a.judge(Removal{}, used, now) {
	case pass:
		return []ledger.Count{{Name: approvedCounter + id, Delta: 1, Max: a.Spec.Last}}, nil
	case wait:
		if a.sample(d.Object) {
			if err := s.commit(ctx, &a, "update", 0); err != nil {
				return nil, err
			}
		}
		return nil, a.waits()
	}
	a.Phase = Open
	a.Spec = Spec{Scope: d.Scope, Rule: d.Rule, Of: d.Object.Kind, Demanded: true}
	a.Status = Status{Since: now, Waiting: 1, Samples: []string{d.Object.String()},
		Message: fmt.Sprintf("%s; an operator has to approve: `drover approve %s`", d.Message, a.ID)}
	if err := s.commit(ctx, &a, Open, countSoon); err != nil {
		return nil, err
	}
	return nil, a.waits()
}

// Words that differ where a policy asks, and not a limit of removals.
func (a *Approval) approvedMessage(how string) string {
	until := a.Spec.Until.Format(time.RFC3339)
	if a.Spec.Demanded {
		return fmt.Sprintf("%s may go on until %s", a.Spec.Rule, until)
	}
	return fmt.Sprintf("%s would go because of %s may go until %s", how, a.Spec.Rule, until)
}

func (a *Approval) refusedMessage() string {
	if a.Spec.Demanded {
		return fmt.Sprintf("%s was refused; `drover approve %s` lets it go on after all", a.Spec.Rule, a.ID)
	}
	return fmt.Sprintf("what would go because of %s stays until that changes; `drover approve %s` lets it go after all", a.Spec.Rule, a.ID)
}

func (a *Approval) expiredMessage() string {
	if a.Spec.Demanded {
		return "nothing waits any more for a decision about " + a.Spec.Rule
	}
	return "nothing waits any more for what " + cmp.Or(a.Spec.Rule, "a rule") + " would take"
}

func (a *Approval) lapsedMessage() string {
	if a.Spec.Demanded {
		return fmt.Sprintf("the approval of %s has run out; an operator has to approve: `drover approve %s`", a.Spec.Rule, a.ID)
	}
	return fmt.Sprintf("the approval has run out, and more would go because of %s; an operator has to approve: `drover approve %s`", a.Spec.Rule, a.ID)
}
