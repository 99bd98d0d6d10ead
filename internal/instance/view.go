package instance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/offering"
)

// Admin is what the offering shows its operators of an instance besides what
// everybody sees.
func (s *Service) Admin(ctx context.Context, o ledger.Object) (json.RawMessage, error) {
	in, off, err := s.decoded(o)
	if err != nil {
		return nil, err
	}
	around, err := s.around(ctx, in.Status.Cluster)
	if err != nil {
		return nil, err
	}
	return off.PresentAdmin(ctx, facts(&in, off), around)
}

func (s *Service) decoded(o ledger.Object) (Instance, *offering.Offering, error) {
	in, err := Decode(o)
	if err != nil {
		return in, nil, err
	}
	off, ok := s.Offerings.Get(in.Spec.Offering)
	if !ok {
		return in, nil, fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering).Because(noOffering)
	}
	return in, off, nil
}

// Secrets of a document besides that of the identity.
const (
	secretCert = "tls.crt"
	secretKey  = "tls.key"
)

// Reveal puts the secrets into a document that an agent asked for. What it
// returns is for that agent alone and is never stored. Where nothing but the
// certificate cannot be had, the document comes without it beside a fault with
// the reason "certificate": whether that is better than none is the caller's to say.
func (s *Service) Reveal(ctx context.Context, o ledger.Object, body json.RawMessage) (json.RawMessage, error) {
	in, off, err := s.decoded(o)
	if err != nil {
		return nil, err
	}
	var lacks error
	filled, err := offering.FillSecrets(body, func(name string) (string, error) {
		switch {
		case name == secretCert || name == secretKey:
			if s.Certificates == nil || in.host() == "" {
				return "", nil // whoever has no certificates of ours brings their own
			}
			c, err := s.Certificates.For(ctx, in.host())
			if err != nil {
				lacks = fault.New(fault.Of(err), "its certificate: %w", err).Because("certificate")
				return "", nil
			}
			if name == secretCert {
				return c.Cert, nil
			}
			return c.Key, nil
		case in.Status.Secret == "" && off.Spec.Identity != nil && name == off.Spec.Identity.Name:
			return "", nil
		case in.Status.Secret != "": // under the name that the file had when the document was made
			secret, err := s.Keeper.Unseal(ctx, in.Status.Secret)
			return string(secret), err
		}
		return "", fault.New(fault.Internal, "there is no secret %q", name)
	})
	if err != nil {
		return nil, err
	}
	return filled, lacks
}

// Revoke ends the certificates of an instance for a reason of RFC 5280.
func (s *Service) Revoke(ctx context.Context, offeringName, id string, reason int) error {
	o, err := s.Get(ctx, offeringName, id)
	if err != nil {
		return err
	}
	in, err := Decode(o)
	if err != nil {
		return err
	}
	if !access.From(ctx).MayChange(in.Org, in.Owner) {
		return fault.New(fault.Denied, "only the owner or an organisation admin may revoke its certificate")
	}
	if s.Certificates == nil {
		return fault.New(fault.Invalid, "no source of certificates is configured").Because("certificate")
	}
	if reason < 0 || reason > 10 || reason == 7 { // RFC 5280 does not use 7
		return fault.New(fault.Invalid, "%d is no reason for a revocation: RFC 5280 has 0 to 10, without 7", reason).Because("field")
	}
	for _, r := range in.Status.Routes {
		if err := s.Certificates.Revoke(ctx, r.Host, reason); err != nil {
			return err
		}
	}
	return nil
}

// Query returns metrics of one instance: those of the names, or all that the
// offering shows.
func (s *Service) Query(ctx context.Context, offeringName, id string, names []string, r metric.Range) ([]metric.Series, error) {
	names, selector, err := s.measured(ctx, offeringName, id, names)
	if err != nil {
		return nil, err
	}
	return s.Metrics.Query(ctx, `{__name__=~"`+strings.Join(names, "|")+`",`+selector+`}`, r)
}

// Federate returns metrics of one instance in the text format of Prometheus.
func (s *Service) Federate(ctx context.Context, offeringName, id string, names []string) ([]byte, error) {
	names, selector, err := s.measured(ctx, offeringName, id, names)
	if err != nil {
		return nil, err
	}
	selectors := make([]string, len(names))
	for i, name := range names {
		selectors[i] = name + "{" + selector + "}"
	}
	return s.Metrics.Federate(ctx, selectors)
}

// measured checks who asks for what, and returns the metrics and what picks
// this instance's. Names of metrics have no letters that PromQL reads otherwise.
func (s *Service) measured(ctx context.Context, offeringName, id string, names []string) ([]string, string, error) {
	o, err := s.Get(ctx, offeringName, id)
	if err != nil {
		return nil, "", err
	}
	in, off, err := s.decoded(o)
	if err != nil {
		return nil, "", err
	}
	sold := off.Spec.Metrics.Names
	for _, name := range names {
		if !slices.Contains(sold, name) {
			return nil, "", fault.New(fault.Invalid, "there is no metric %.64q", name).Because("field")
		}
	}
	if s.Metrics == nil {
		return nil, "", fault.New(fault.Invalid, "no source of metrics is configured").Because("metrics")
	}
	selector, err := off.Selector(ctx, facts(&in, off))
	if len(names) == 0 {
		names = sold
	}
	return names, selector, err
}
