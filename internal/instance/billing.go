package instance

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// assigned is the plan that an order comes to, and who grants it.
type assigned struct {
	typ     offering.Type
	size    offering.Size
	billing Billing
	grant   entitlement.Grant
	granted bool // by a source of quota, which has to be asked for the units
}

// modelOf finds a billing model; an offering without any has one without a name.
func modelOf(off *offering.Offering, name string) (offering.BillingModel, bool) {
	if name == "" && len(off.Spec.Billing) == 0 {
		return offering.BillingModel{}, true
	}
	i := slices.IndexFunc(off.Spec.Billing, func(m offering.BillingModel) bool { return m.Name == name })
	if i < 0 {
		return offering.BillingModel{}, false
	}
	return off.Spec.Billing[i], true
}

// fits are the models of a type that an order can mean: the named one, or those
// that what else it says leaves open.
func fits(off *offering.Offering, t offering.Type, req Create) []offering.BillingModel {
	return slices.DeleteFunc(off.Models(t), func(m offering.BillingModel) bool {
		if req.Billing.Model != "" {
			return m.Name != req.Billing.Model
		}
		return m.OwnCluster != (req.Cluster != "") || (len(m.Marketplaces) > 0) != (req.Billing.Account != "")
	})
}

// assign picks the type and the billing model of an order: the first type of
// the file that everybody may have or that a quota grants, else the trial.
func (s *Service) assign(ctx context.Context, off *offering.Offering, who access.Principal, req Create) (assigned, error) {
	var want string // the type that the plan names
	if req.Plan != "" {
		t, _, err := off.Plan(req.Plan)
		if err != nil {
			return assigned{}, err
		}
		want = t.Name
	}
	if _, known := modelOf(off, req.Billing.Model); !known && req.Billing.Model != "" {
		return assigned{}, fault.New(fault.Invalid, "there is no billing model %.64q", req.Billing.Model).Because("billing")
	}
	a, err := s.entitled(ctx, off, who, req, want)
	if err != nil {
		return assigned{}, err
	}
	if want != "" && want != a.typ.Name {
		return assigned{}, fault.New(fault.Invalid, "plan %q cannot be had: there is no quota of yours for it; the instance type that you are entitled to is %q",
			req.Plan, a.typ.Name).Because("plan")
	}
	a.size = a.typ.Sizes[0]
	if req.Plan != "" {
		_, a.size, _ = off.Plan(req.Plan)
	}
	a.billing, err = bill(off, a, req)
	return a, err
}

// entitled walks the types in the order of the file.
func (s *Service) entitled(ctx context.Context, off *offering.Offering, who access.Principal, req Create, want string) (assigned, error) {
	var trial *offering.Type
	types := slices.Clone(off.Spec.Types)
	// Of several that are granted the one that is asked for goes first.
	if i := slices.IndexFunc(types, func(t offering.Type) bool { return t.Name == want && t.Quota == offering.QuotaGranted }); i > 0 {
		types = slices.Insert(slices.Delete(types, i, i+1), 0, off.Spec.Types[i])
	}
	for i, t := range types {
		switch t.Quota {
		case offering.QuotaTrial:
			if trial == nil || t.Name == want {
				trial = &types[i]
			}
		case offering.QuotaGranted:
			for _, m := range fits(off, t, req) {
				g, err := s.grant(ctx, asker(who), product(off, t.Name, m))
				if err != nil {
					return assigned{}, err
				}
				if g.Active(s.Now()) {
					return assigned{typ: t, billing: Billing{Model: m.Name}, grant: g, granted: true}, nil
				}
			}
		default:
			if want == "" || want == t.Name {
				return assigned{typ: t, billing: firstModel(off, t, req)}, nil
			}
		}
	}
	if trial != nil {
		return assigned{typ: *trial, billing: firstModel(off, *trial, req)}, nil
	}
	return assigned{}, fault.New(fault.Denied, "you have no quota for %s: ask for some, or for another billing model", off.Spec.Names.Plural).Because("quota")
}

func firstModel(off *offering.Offering, t offering.Type, req Create) Billing {
	if models := fits(off, t, req); len(models) > 0 {
		return Billing{Model: models[0].Name}
	}
	if models := off.Models(t); req.Billing.Model == "" && len(models) > 0 {
		return Billing{Model: models[0].Name} // bill says what does not fit
	}
	return Billing{Model: req.Billing.Model}
}

// grant asks the source of quota; without one there is none.
func (c *Config) grant(ctx context.Context, who entitlement.Who, p entitlement.Product) (entitlement.Grant, error) {
	if c.Quota == nil {
		return entitlement.Grant{}, nil
	}
	g, err := c.Quota.Grant(ctx, who, p)
	switch {
	case fault.Is(err, fault.Denied):
		return entitlement.Grant{}, nil
	case err != nil:
		return entitlement.Grant{}, fault.New(fault.Unavailable, "the quota could not be looked up: %w", err).Because("quota-check")
	}
	return g, nil
}

// bill checks what an order says of its payment against the model.
func bill(off *offering.Offering, a assigned, req Create) (Billing, error) {
	i := slices.IndexFunc(off.Models(a.typ), func(m offering.BillingModel) bool { return m.Name == a.billing.Model })
	if i < 0 {
		return Billing{}, fault.New(fault.Invalid, "instance type %q cannot be had under billing model %.64q", a.typ.Name, a.billing.Model).Because("billing")
	}
	m := off.Models(a.typ)[i]
	switch {
	case m.OwnCluster && req.Cluster == "":
		return Billing{}, fault.New(fault.Invalid, "billing model %q needs the id of a cluster of your own", m.Name).Because("cluster-id")
	case !m.OwnCluster && req.Cluster != "":
		return Billing{}, fault.New(fault.Invalid, "billing model %q takes no cluster of your own", m.Name).Because("cluster-id")
	}
	return market(m, req.Billing)
}

// market checks the marketplace of a model and the account there.
func market(m offering.BillingModel, b Billing) (Billing, error) {
	out := Billing{Model: m.Name}
	bad := func(format string, args ...any) (Billing, error) {
		return Billing{}, fault.New(fault.Invalid, format, args...).Because("billing-account")
	}
	if len(m.Marketplaces) == 0 {
		if b.Account != "" || b.Marketplace != "" {
			return bad("billing model %q has no marketplace and takes no billing account", m.Name)
		}
		return out, nil
	}
	out.Account, out.Marketplace = b.Account, b.Marketplace
	if out.Marketplace == "" && len(m.Marketplaces) == 1 {
		out.Marketplace = m.Marketplaces[0]
	}
	switch {
	case b.Account == "":
		return bad("billing model %q needs the id of your account at the marketplace", m.Name)
	case len(b.Account) > maxOwner || strings.ContainsFunc(b.Account, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return bad("the id of the billing account is not one")
	case !slices.Contains(m.Marketplaces, out.Marketplace):
		return bad("name the marketplace of the billing account: one of %s", strings.Join(m.Marketplaces, ", "))
	}
	return out, nil
}

func asker(p access.Principal) entitlement.Who {
	return entitlement.Who{User: p.User, Org: p.Org, Account: p.Account}
}

// payer is whoever the instance's units are asked for.
func (in *Instance) payer() entitlement.Who {
	return entitlement.Who{User: in.Owner, Org: in.Org, Account: in.Spec.Account}
}

func product(off *offering.Offering, typeName string, m offering.BillingModel) entitlement.Product {
	if t, ok := off.TypeOf(typeName); ok && t.Product != "" {
		m.Product = t.Product
	}
	return entitlement.Product{
		Offering: off.Metadata.Name, Type: typeName, Billing: m.Name,
		Resource: m.Resource, Name: m.Product, Models: m.Models,
	}
}

const (
	quotaCounter     = "quota/"
	instancesCounter = "instances/"
)

// quotaCounts are the counters that a grant is enforced by. All are kept even
// where there is no bound, since there may be one tomorrow.
func quotaCounts(p entitlement.Product, g entitlement.Grant, units int64) []ledger.Count {
	most := g.MaxInstances
	if most <= 0 {
		most = -1
	}
	return []ledger.Count{
		{Name: quotaCounter + p.Offering + "/" + g.Holder + "/" + p.Type + "/" + p.Billing, Delta: units, Max: g.Units},
		{Name: instancesCounter + p.Offering + "/" + g.Holder, Delta: 1, Max: most},
	}
}

// RegionCounter counts the units of a type that a region has taken.
func RegionCounter(offeringName, provider, region, typeName string) string {
	return "region/" + offeringName + "/" + provider + "/" + region + "/" + typeName
}

// counts are all counters that an order moves.
func (a assigned) counts(off *offering.Offering, in *Instance, region offering.Region) []ledger.Count {
	var out []ledger.Count
	if a.granted {
		m, _ := modelOf(off, a.billing.Model)
		out = quotaCounts(product(off, a.typ.Name, m), a.grant, a.size.Quota)
	}
	if a.typ.Quota == offering.QuotaTrial {
		out = append(out, ledger.Count{Name: "trial/" + off.Metadata.Name + "/" + url.PathEscape(in.Org) + "/" + in.Owner, Delta: 1, Max: max(a.typ.PerOwner, 1)})
	}
	if in.Spec.Cluster == "" {
		limit, bounded := region.Limits[a.typ.Name]
		if !bounded {
			limit = -1
		}
		out = append(out, ledger.Count{
			Name:  RegionCounter(off.Metadata.Name, in.Spec.Provider, region.Name, a.typ.Name),
			Delta: a.size.Capacity, Max: limit,
		})
	}
	return out
}

func held(counts []ledger.Count) []Hold {
	var out []Hold
	for _, c := range counts {
		if c.Delta != 0 {
			out = append(out, Hold{Counter: c.Name, Units: c.Delta})
		}
	}
	return out
}

// exhausted tells a user which bound an order met.
func exhausted(off *offering.Offering, a assigned, in *Instance, err error) error {
	name, ok := strings.CutPrefix(fault.Reason(err), "counter:")
	if !ok || !fault.Is(err, fault.Exhausted) {
		return err
	}
	kind, _, _ := strings.Cut(name, "/")
	switch kind + "/" {
	case quotaCounter:
		return fault.New(fault.Exhausted, "your quota of %d units of instance type %q is used up: delete an instance, or ask for more", a.grant.Units, a.typ.Name).Because("quota")
	case instancesCounter:
		return fault.New(fault.Exhausted, "you have the %d %s that you are allowed", a.grant.MaxInstances, off.Spec.Names.Plural).Because("limit")
	case "trial/":
		return fault.New(fault.Exhausted, "only %d %s of instance type %q is allowed at a time", max(a.typ.PerOwner, 1), off.Spec.Names.Singular, a.typ.Name).Because("capacity")
	case "region/":
		return fault.New(fault.Exhausted, "region %s of %s cannot accept instance type %q at this moment: try another region, or later", in.Spec.Region, in.Spec.Provider, a.typ.Name).Because("capacity")
	}
	return err
}

// graceOf is the grace period of the model in force.
func graceOf(off *offering.Offering, model string) time.Duration {
	m, _ := modelOf(off, model)
	return time.Duration(m.Grace)
}
