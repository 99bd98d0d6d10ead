package policy

import (
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
)

var (
	_ Decisions          = (*Service)(nil)
	_ entitlement.Source = (*Service)(nil)
)

// Admit is for tenants: operators and agents are never shut out, or nobody
// could open the door again.
func (s *Service) Admit(who access.Principal) error {
	if who.Admin || who.Cluster != "" {
		return nil
	}
	t := s.tables.Load()
	if _, denied := t.denied[who.User]; denied {
		return fault.New(fault.Denied, "user %.64q may not use this service", who.User).Because("denied")
	}
	if t.barred[who.Org] {
		return fault.New(fault.Denied, "organisation %.64q may not use this service", who.Org).Because("denied")
	}
	if t.closed && !t.let[who.Org] {
		return fault.New(fault.Denied, "the service is under maintenance; come back later").Because("maintenance")
	}
	return nil
}

// Barred reports whether an organisation is on the deny list.
func (s *Service) Barred(org string) bool { return s.tables.Load().barred[org] }

// Denied reports whether a user is on the deny list.
func (s *Service) Denied(user string) bool {
	_, denied := s.tables.Load().denied[user]
	return denied
}

// DeniedBy names the deny list that a user is on, and its generation; "" where
// there is none.
func (s *Service) DeniedBy(user string) (list string, generation int64) {
	by := s.tables.Load().denied[user]
	return by.list, by.generation
}

// Name is what instances remember as their quota_type.
func (s *Service) Name() string { return "quota-management-list" }

// Grant tells what the quotas give somebody. An organisation's quota goes before
// that of an account, if it is for this user.
func (s *Service) Grant(_ context.Context, who entitlement.Who, p entitlement.Product) (entitlement.Grant, error) {
	t := s.tables.Load()
	q, holder := (*Quota)(nil), ""
	if who.Org != "" {
		holder = "org/" + who.Org
		if q = t.quotas[holder]; q != nil && !q.AnyUser && !slices.Contains(q.Users, who.User) {
			q = nil
		}
	}
	if q == nil && who.User != "" {
		holder = "owner/" + who.User
		q = t.quotas[holder]
	}
	if q == nil {
		return entitlement.Grant{}, nil
	}
	for _, g := range q.Grants {
		if g.Offering != p.Offering || g.Type != p.Type {
			continue
		}
		units, expires, ok := g.under(p.Billing)
		if !ok {
			break
		}
		return entitlement.Grant{Units: units, Holder: holder, Expires: expires, MaxInstances: q.MaxInstances}, nil
	}
	return entitlement.Grant{}, nil
}

// under is what a grant gives under a billing model.
func (g *Grant) under(model string) (units int64, expires time.Time, ok bool) {
	if len(g.Billing) == 0 {
		return g.Units, g.Expires, true
	}
	for _, b := range g.Billing {
		if b.Model == model {
			return b.Units, sooner(b.Expires, g.Expires), true
		}
	}
	return 0, time.Time{}, false
}

// sooner of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Reserve has nothing to take: who orders counts units in the same commit as
// the order.
func (s *Service) Reserve(ctx context.Context, who entitlement.Who, p entitlement.Product, _ string, units int64) (string, error) {
	g, err := s.Grant(ctx, who, p)
	if err != nil {
		return "", err
	}
	if !g.Active(s.Now()) || g.Units >= 0 && units > g.Units {
		return "", fault.New(fault.Denied, "no quota for %d more of type %.64q", units, p.Type).Because("quota")
	}
	return "", nil
}

// Release has nothing to give back.
func (s *Service) Release(context.Context, string, string) error { return nil }

// holder is who shares the quota.
func (q *Quota) holder() string {
	if q.Organisation != "" {
		return "org/" + q.Organisation
	}
	return "owner/" + q.Account
}
