package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Lists tells which document denies a user, and its generation. Policies that
// know implement it.
type Lists interface {
	DeniedBy(user string) (list string, generation int64)
}

// Removal is what the breaker says of a removal that a rule wants.
type Removal struct {
	Approval string         // that it waits for; "": it may go
	Why      string         // for users
	Counts   []ledger.Count // what is counted with it
}

// spareFor is a net: who approves, or changes the rule, wakes those who wait.
const spareFor = time.Hour

const waitsForApproval = "waiting for approval "

// spares reports whether an end has to wait.
func (f *Facts) spares(end ending) bool { return end.ruled && f.Removal.Approval != "" }

// lapsed reports whether the grant has ended when it was to end.
func (in *Instance) lapsed(now time.Time) bool {
	return !in.Status.GrantEnds.IsZero() && !now.Before(in.Status.GrantEnds)
}

// later compares ends, of which zero is never.
func later(a, than time.Time) bool { return !than.IsZero() && (a.IsZero() || a.After(than)) }

// planSpare says that the removal waits, or does no longer.
func planSpare(in Instance, facts Facts, end ending) []Action {
	var want Spare
	if facts.spares(end) {
		want = Spare{Approval: facts.Removal.Approval, Why: facts.Removal.Why}
	} else if end.why != "" {
		return nil // it goes, and with it what it waited for
	}
	said := in.Status.Message
	stale := want.Approval != "" && said != want.Why && (said == "" || strings.HasPrefix(said, waitsForApproval))
	if want.Approval == in.Status.Approval && !stale {
		return nil
	}
	return []Action{want}
}

// spare writes down that the removal waits.
func (r *run) spare(a Spare) {
	s := &r.in.Status
	if a.Approval != "" || strings.HasPrefix(s.Message, waitsForApproval) {
		s.Message = a.Why
	}
	s.Approval, r.op = a.Approval, "spared"
}

// remind says again what a step has wiped away.
func (r *run) remind() {
	if s := &r.in.Status; s.Approval != "" && s.Message == "" {
		s.Message = r.facts.Removal.Why
	}
}

// goes finds out whether the instance is to go now, so that nobody needs to be
// asked for anything else.
func (r *Reconciler) goes(ctx context.Context, in Instance, off *offering.Offering, f *Facts, now time.Time) (bool, error) {
	if in.Phase == Deprovision || in.Phase == Deleting {
		return true, nil
	}
	if in.Status.Ruled {
		f.Entitled, f.Ends = r.entitled(ctx, in, off, *f)
	}
	end := ended(in, *f, now)
	if end.why == "" || !end.ruled || r.Breaker == nil {
		return end.why != "", nil
	}
	total, err := r.Store.Total(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"offering": in.Spec.Offering}})
	if err != nil {
		return false, err
	}
	wanted := breaker.Removal{Scope: "instances/" + in.Spec.Offering, Total: total, Object: in.Ref}
	wanted.Rule, wanted.Version = r.rule(in, end)
	counts, err := r.Breaker.Take(ctx, wanted)
	var waits *breaker.Waiting
	switch {
	case errors.As(err, &waits):
		f.Removal.Approval = waits.Approval
		f.Removal.Why = fmt.Sprintf("%s%s before it is removed (%s); it keeps running until then", waitsForApproval, waits.Approval, end.why)
		if waits.Refused {
			f.Removal.Why = fmt.Sprintf("%s%s, which was refused: it is not removed although %s", waitsForApproval, waits.Approval, end.why)
		}
		return false, nil
	case err != nil:
		return false, err
	}
	f.Removal.Counts = counts
	return true, nil
}

// rule names what takes it, so that all that it takes share one approval.
func (r *Reconciler) rule(in Instance, end ending) (string, int64) {
	if end.why != ownerDenied {
		return fmt.Sprintf("quota that %s grants no longer", in.Status.Source), 0
	}
	if lists, ok := r.Policy.(Lists); ok {
		if list, generation := lists.DeniedBy(in.Owner); list != "" {
			return fmt.Sprintf("the deny list %q", list), generation
		}
	}
	return "a deny list", 0
}

// Awaiting returns the wakes of those whose removal waits for an approval, after
// an id, and the id to go on after: empty when that was all.
func (s *Service) Awaiting(ctx context.Context, approval, after string, limit int) ([]ledger.Wake, string, error) {
	return s.wakes(ctx, "approval", approval, after, limit)
}

// CountAwaiting tells how many there are.
func (s *Service) CountAwaiting(ctx context.Context, approval string) (int64, error) {
	return s.Store.Total(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"approval": approval}})
}
