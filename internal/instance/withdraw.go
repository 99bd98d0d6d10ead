package instance

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
)

// withdraw removes everything outside. Each part is tried, whatever becomes of
// the others, and what is done is written down.
func (r *run) withdraw(ctx context.Context) error {
	var first error
	for _, part := range []struct {
		culprit string
		remove  func(context.Context) error
	}{
		{nameServers, r.withdrawNames},
		{identityProvider, r.withdrawAccount},
		{certificates, r.withdrawCertificates},
		{quotaSource, r.withdrawQuota},
	} {
		if err := part.remove(ctx); err != nil && first == nil {
			first = trouble{part.culprit, err}
		}
	}
	return first
}

var notConfigured = fault.New(fault.Invalid, "none is configured any more, but it may still hold something of this instance")

func (r *run) withdrawNames(ctx context.Context) error {
	s := &r.in.Status
	if !s.Named {
		return nil
	}
	var hosts []string
	for _, route := range s.Routes {
		hosts = append(hosts, route.Host)
	}
	if r.DNS == nil {
		if len(s.Published) > 0 {
			return notConfigured
		}
	} else if len(hosts) > 0 {
		if err := r.DNS.Remove(ctx, r.in.Ref.String(), hosts); err != nil {
			return err
		}
	}
	s.Named, s.Published = false, nil
	return nil
}

func (r *run) withdrawAccount(ctx context.Context) error {
	s := &r.in.Status
	if s.Client != "" {
		if r.SSO == nil {
			return notConfigured
		}
		if err := r.SSO.Delete(ctx, s.Client); err != nil {
			return err
		}
		s.Client = ""
	}
	if s.Secret != "" {
		if err := r.Keeper.Shred(ctx, s.Secret); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		s.Secret = ""
	}
	return nil
}

// cessation is the reason of RFC 5280 for what is not in use any more.
const cessation = 5

func (r *run) withdrawCertificates(ctx context.Context) error {
	s := &r.in.Status
	if s.Certified && r.Certificates != nil {
		for _, route := range s.Routes {
			err := r.Certificates.Revoke(ctx, route.Host, cessation)
			if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
				return err // Invalid: it is not the source's to end
			}
		}
	}
	s.Certified = false
	return nil
}

func (r *run) withdrawQuota(ctx context.Context) error {
	s := &r.in.Status
	for len(s.Tickets) > 0 {
		if r.Quota == nil || s.Tickets[0].Number != "" && s.Source != r.Quota.Name() {
			return notConfigured // somebody else has it
		}
		if err := r.Quota.Release(ctx, s.Tickets[0].Number, s.Tickets[0].ID); err != nil {
			return err
		}
		s.Tickets = s.Tickets[1:]
	}
	return nil
}
