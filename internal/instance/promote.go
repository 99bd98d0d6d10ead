package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// Promotion of an instance.
const (
	Promoting       = "promoting"
	PromotionFailed = "failed"
)

// Promote asks for another billing model while the instance runs. It is carried
// out by the loop, which takes the new quota and gives the old one back.
func (s *Service) Promote(ctx context.Context, offeringName, id string, to Billing) (ledger.Object, error) {
	return s.change(ctx, offeringName, id, func(in *Instance, off *offering.Offering, who access.Principal) (string, error) {
		if !who.Admin && (who.Org != in.Org || who.User != in.Owner && !who.OrgAdmin) {
			return "", fault.New(fault.Denied, "only the owner or an organisation admin may promote it")
		}
		if in.Status.Promotion == Promoting {
			return "", fault.New(fault.Conflict, "it is being promoted already").Because("promotion")
		}
		if in.Phase != Ready && in.Phase != Suspended && in.Phase != Resuming {
			return "", fault.New(fault.Conflict, "it is %s: only a ready, suspended or resuming instance can be promoted", in.Phase).Because("promotion")
		}
		now, _ := modelOf(off, in.Status.Paid.Model)
		if !slices.Contains(now.Promotable, to.Model) {
			return "", fault.New(fault.Invalid, "it cannot be promoted from billing model %q to %.64q", now.Name, to.Model).Because("promotion")
		}
		typ, _, err := off.Plan(in.Spec.Type + "." + in.Spec.Size)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(off.Models(typ), func(m offering.BillingModel) bool { return m.Name == to.Model })
		if i < 0 || off.Models(typ)[i].OwnCluster != (in.Spec.Cluster != "") {
			return "", fault.New(fault.Invalid, "instance type %q cannot be had under billing model %.64q", typ.Name, to.Model).Because("promotion")
		}
		if to, err = market(off.Models(typ)[i], to); err != nil {
			return "", err
		}
		in.Spec.Billing = to
		in.Status.Promotion, in.Status.PromotionDetails = Promoting, ""
		if typ.Quota == offering.QuotaGranted {
			in.Status.Tickets = append(slices.Clone(in.Status.Tickets), Ticket{ID: in.ID + "." + ledger.NewID()})
		}
		return "promote", nil
	})
}

// planPromotion decides a promotion by what the source of quota said.
func planPromotion(in Instance, facts Facts) []Action {
	switch {
	case in.Status.Promotion == Promoting && facts.Target == Yes:
		return []Action{Promote{}}
	case in.Status.Promotion == Promoting && facts.Target == No:
		return []Action{Demote{Why: facts.Refusal}, Finish{Phase: operation.Failed, Reason: facts.Refusal}}
	case in.Status.Promotion != Promoting && len(in.surplus()) > 0:
		return []Action{Release{}}
	}
	return nil
}

// surplus are the reservations that nothing stands on any more.
func (in *Instance) surplus() []Ticket {
	if in.Status.Reserved == "" || in.Status.Promotion == Promoting {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.Status.Tickets), func(t Ticket) bool { return t.ID == in.Status.Reserved })
}

// swap is how the quota of an instance changes hands in a promotion.
type swap struct {
	product entitlement.Product
	granted bool // somebody has to grant it, and does
	refused bool // somebody has to grant it, and does not
	counts  []ledger.Count
	held    []Hold
	ends    time.Time // of the grant
}

// swap finds out what the wanted billing model takes: what is held of quotas
// is given back, what stays the same is left alone.
func (r *Reconciler) swap(ctx context.Context, in *Instance, off *offering.Offering) (swap, error) {
	typ, size, err := off.Plan(in.Spec.Type + "." + in.Spec.Size)
	if err != nil {
		return swap{}, err
	}
	m, _ := modelOf(off, in.Spec.Billing.Model)
	out := swap{product: product(off, typ.Name, m)}
	if typ.Quota != offering.QuotaGranted {
		out.held = in.Status.Held
		return out, nil
	}
	g, err := r.grant(ctx, in.payer(), out.product)
	if err != nil {
		return swap{}, err
	}
	if !g.Active(r.Now()) {
		out.refused = true
		return out, nil
	}
	out.granted, out.ends = true, g.Expires
	out.counts = quotaCounts(out.product, g, size.Quota)
	out.held = held(out.counts)
	for _, h := range in.Status.Held {
		if !strings.HasPrefix(h.Counter, quotaCounter) && !strings.HasPrefix(h.Counter, instancesCounter) {
			out.held = append(out.held, h)
			continue
		}
		if i := slices.IndexFunc(out.counts, func(c ledger.Count) bool { return c.Name == h.Counter }); i >= 0 {
			out.counts[i].Delta -= h.Units
			continue
		}
		out.counts = append(out.counts, ledger.Count{Name: h.Counter, Delta: -h.Units})
	}
	return out, nil
}

// target finds out whether the wanted billing model is to be had. The commit
// that takes it counts once more.
func (r *Reconciler) target(ctx context.Context, in *Instance, off *offering.Offering) (Answer, string, error) {
	if _, _, err := off.Plan(in.Spec.Type + "." + in.Spec.Size); err != nil {
		return No, fmt.Sprintf("Plan %s.%s is not sold any more.", in.Spec.Type, in.Spec.Size), nil
	}
	if _, sold := modelOf(off, in.Spec.Billing.Model); !sold {
		return No, fmt.Sprintf("Billing model %s is not sold any more.", in.Spec.Billing.Model), nil
	}
	s, err := r.swap(ctx, in, off)
	if err != nil {
		return Unknown, "", err
	}
	if s.refused {
		return No, fmt.Sprintf("There is no quota for billing model %s. Ask for some and try again.", in.Spec.Billing.Model), nil
	}
	for _, c := range s.counts {
		if c.Delta <= 0 || c.Max < 0 {
			continue
		}
		used, err := r.Store.Counter(ctx, c.Name)
		if err != nil {
			return Unknown, "", err
		}
		if used+c.Delta > c.Max {
			return No, fmt.Sprintf("The quota for billing model %s is used up. Ask for more and try again.", in.Spec.Billing.Model), nil
		}
	}
	return Yes, "", nil
}

// promote takes the new quota in the commit that gives the old one back.
func (r *run) promote(ctx context.Context) error {
	in := &r.in
	s, err := r.swap(ctx, in, r.off)
	if err != nil {
		return err
	}
	if s.granted {
		_, size, err := r.off.Plan(in.Spec.Type + "." + in.Spec.Size)
		if err != nil {
			return err
		}
		last := in.Status.Tickets[len(in.Status.Tickets)-1]
		number, err := r.Quota.Reserve(ctx, in.payer(), s.product, last.ID, size.Quota)
		switch {
		case err != nil && !refuses(fault.Of(err)):
			return trouble{quotaSource, err}
		case err != nil:
			why := fmt.Sprintf("The quota for billing model %s was refused. Ask for some and try again.", in.Spec.Billing.Model)
			r.demote(why)
			return r.finish(ctx, Finish{Phase: operation.Failed, Reason: why})
		}
		in.reserved(last.ID, number)
		in.Status.Source = r.Quota.Name()
	}
	r.set.Counts = append(r.set.Counts, s.counts...)
	in.Status.Held, in.Status.Paid = s.held, in.Spec.Billing
	in.Status.Promotion, in.Status.PromotionDetails, in.Status.Message = "", "", ""
	if !r.facts.Lifespan {
		in.Status.Expires, in.Status.Ruled, in.Status.GrantEnds = time.Time{}, false, s.ends // the end was that of the old entitlement
	}
	r.op = "promoted"
	return nil
}

// demote drops the wish: the instance stays as it was paid for.
func (r *run) demote(why string) {
	s := &r.in.Status
	r.in.Spec.Billing = s.Paid
	s.Promotion, s.PromotionDetails, s.Message = PromotionFailed, why, ""
	r.op = "demote"
}

// reserved notes the number under which a reservation is in force.
func (in *Instance) reserved(id, number string) {
	s := &in.Status
	s.Tickets = slices.Clone(s.Tickets)
	for i := range s.Tickets {
		if s.Tickets[i].ID == id {
			s.Tickets[i].Number = number
		}
	}
	s.Reserved, s.Ticket = id, number
}
