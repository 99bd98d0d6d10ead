package instance

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// Create is an order.
type Create struct {
	Name       string
	Provider   string // default: the offering's first
	Region     string // default: the provider's first
	MultiAZ    *bool
	Plan       string // <type>.<size>; default: what the caller has quota for, in its first size
	Version    string // of the first component; default: the newest
	Billing    Billing
	Cluster    string // one of the tenant's own; default: the fleet's
	Parameters map[string]any
	// ID that it will have, from those inside the house who must find it again
	// after a crash; default: a new one.
	ID string
}

// Create accepts an order. It answers when the order is durable, long before
// the instance is ready. What bounds the caller (quota, trials, the region) is
// counted in the same commit, so no two orders can both be the last.
func (s *Service) Create(ctx context.Context, off *offering.Offering, req Create) (ledger.Object, error) {
	who := access.From(ctx)
	if who.User == "" {
		return ledger.Object{}, fault.New(fault.Denied, "the token names no user").Because("denied")
	}
	if err := s.admitted(ctx, who, off); err != nil {
		return ledger.Object{}, err
	}
	if err := ValidateName(req.Name); err != nil {
		return ledger.Object{}, err
	}
	now := s.Now().UTC()
	in := Instance{
		Object: ledger.Object{
			Ref: ledger.Ref{Kind: Kind.Name, ID: cmp.Or(req.ID, ledger.NewID())},
			Org: who.Org, Owner: who.User, Name: req.Name, Phase: Accepted, Created: now,
		},
		Status: Status{Since: now},
	}
	plan, counts, err := s.order(ctx, off, req, &in)
	if err != nil {
		return ledger.Object{}, err
	}
	routes, err := off.Routes(ctx, facts(&in, off))
	if err != nil {
		return ledger.Object{}, err
	}
	for _, r := range routes {
		in.Status.Routes = append(in.Status.Routes, Route{Name: r.Name, Host: r.Host})
	}
	op := operation.Start("create", in.Object, ledger.CauseOf(ctx))
	in.Status.Operation = op.Object.ID
	put, err := encode(ctx, off, &in, "create")
	if err != nil {
		return ledger.Object{}, err
	}
	r, err := s.Store.Commit(ctx, ledger.Set{
		Actor: who.Actor(), Cause: ledger.CauseOf(ctx),
		Puts:   []ledger.Put{put, op},
		Claims: names(&in),
		Counts: counts,
		Wakes:  []ledger.Wake{{Ref: in.Ref}},
	})
	if fault.Reason(err) == "name-taken" {
		return ledger.Object{}, fault.New(fault.Conflict, "%s name is already used: %w", off.Spec.Names.Kind, err).Because("name-taken")
	}
	if err != nil {
		return ledger.Object{}, exhausted(off, plan, &in, err)
	}
	return r.Objects[0], nil
}

// admitted asks the operators' documents: may this user order at all?
func (s *Service) admitted(ctx context.Context, who access.Principal, off *offering.Offering) error {
	if s.Policy == nil {
		return nil
	}
	if err := s.Policy.Admit(who); err != nil {
		return err
	}
	return s.Policy.Accepted(ctx, who, off.Spec.Terms)
}

// order checks an order against the offering and the caller's quota, and fills
// the instance in. It returns what the order takes.
func (s *Service) order(ctx context.Context, off *offering.Offering, req Create, in *Instance) (assigned, []ledger.Count, error) {
	who := access.From(ctx)
	none := func(err error) (assigned, []ledger.Count, error) { return assigned{}, nil, err }
	own, err := s.ownCluster(ctx, who, req.Cluster)
	if err != nil {
		return none(err)
	}
	provider, region := offering.Provider{Name: own.Provider}, offering.Region{Name: own.Region}
	if req.Cluster == "" {
		if provider, region, err = off.Place(req.Provider, req.Region); err != nil {
			return none(err)
		}
	}
	versions, err := versionsOf(off, req.Version)
	if err != nil {
		return none(err)
	}
	parameters, err := off.ValidateOrder(req.Parameters)
	if err != nil {
		return none(err)
	}
	if holdsNUL(parameters) { // no process or document could be given it
		return none(fault.New(fault.Invalid, "a parameter holds a zero byte").Because("parameters"))
	}
	plan, err := s.assign(ctx, off, who, req)
	if err != nil {
		return none(err)
	}
	if !region.Sells(plan.typ.Name) {
		return none(fault.New(fault.Invalid, "instance type %q is not sold in region %q", plan.typ.Name, region.Name).Because("type"))
	}
	multiAZ := plan.typ.MultiAZ != nil && *plan.typ.MultiAZ
	if plan.typ.MultiAZ == nil && req.MultiAZ != nil {
		multiAZ = *req.MultiAZ
	}
	if own.MultiAZ != nil {
		multiAZ = *own.MultiAZ
	}
	in.Spec = Spec{
		Offering: off.Metadata.Name, Provider: provider.Name, Region: region.Name, MultiAZ: multiAZ,
		Type: plan.typ.Name, Size: plan.size.Name, Versions: versions, Parameters: plan.size.Fill(parameters),
		Billing: plan.billing, Cluster: req.Cluster, Account: who.Account,
	}
	in.Status.Paid = plan.billing
	if plan.size.Lifespan > 0 {
		in.Status.Expires = in.Created.Add(time.Duration(plan.size.Lifespan))
	}
	if plan.granted {
		in.Status.Source, in.Status.GrantEnds = s.Quota.Name(), plan.grant.Expires
		in.Status.Tickets = []Ticket{{ID: in.ID}} // asked for by the loop
	}
	counts := plan.counts(off, in, region)
	in.Status.Held = held(counts)
	return plan, counts, nil
}

// versionsOf are the versions of the components that the file knows.
func versionsOf(off *offering.Offering, first string) (map[string]string, error) {
	out := map[string]string{}
	for i, c := range off.Spec.Components {
		want := ""
		if i == 0 {
			want = first
		}
		v, err := off.Version(c.Name, want)
		if err != nil {
			return nil, err
		}
		if v != "" {
			out[c.Name] = v
		}
	}
	return out, nil
}

// ownCluster finds a cluster that an order names, if it is the tenant's. Where
// it stands is where the instance will be.
func (s *Service) ownCluster(ctx context.Context, who access.Principal, id string) (cluster.Spec, error) {
	if id == "" {
		return cluster.Spec{}, nil
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: cluster.Kind.Name, ID: id})
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return cluster.Spec{}, err
	}
	if err != nil || o.Org == "" || o.Org != who.Org || !o.Deleted.IsZero() {
		return cluster.Spec{}, fault.New(fault.Invalid, "your organisation has no cluster %.64q", id).Because("cluster-id")
	}
	spec, _, err := cluster.Decode(o)
	return spec, err
}

func holdsNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		return slices.ContainsFunc(v, holdsNUL)
	case map[string]any:
		for k, x := range v {
			if strings.ContainsRune(k, 0) || holdsNUL(x) {
				return true
			}
		}
	}
	return false
}
