package instance

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// Store is what the room needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
}

// Offerings finds the compiled offering of an instance.
type Offerings interface {
	Get(name string) (*offering.Offering, bool)
}

// Service holds the verbs on instances. Each is one transaction that leaves its
// due work behind. The caller comes with the context, as does the cause.
type Service struct{ Config }

// NewService makes the service.
func NewService(c Config) *Service { return &Service{c.filled()} }

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
}

// Create accepts an order. It answers when the order is durable, long before
// the instance is ready.
func (s *Service) Create(ctx context.Context, off *offering.Offering, req Create) (ledger.Object, error) {
	who := access.From(ctx)
	if who.User == "" {
		return ledger.Object{}, fault.New(fault.Denied, "the token names no user").Because("denied")
	}
	if err := ValidateName(req.Name); err != nil {
		return ledger.Object{}, err
	}
	spec, size, err := order(off, req)
	if err != nil {
		return ledger.Object{}, err
	}
	now := s.Now().UTC()
	in := Instance{
		Object: ledger.Object{
			Ref: ledger.Ref{Kind: Kind.Name, ID: ledger.NewID()},
			Org: who.Org, Owner: who.User, Name: req.Name, Phase: Accepted, Created: now,
		},
		Spec:   spec,
		Status: Status{Since: now},
	}
	if size.Lifespan > 0 {
		in.Status.Expires = now.Add(time.Duration(size.Lifespan))
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
		Wakes:  []ledger.Wake{{Ref: in.Ref}},
	})
	if fault.Reason(err) == "name-taken" {
		return ledger.Object{}, fault.New(fault.Conflict, "%s name is already used: %w", off.Spec.Names.Kind, err).Because("name-taken")
	}
	if err != nil {
		return ledger.Object{}, err
	}
	return r.Objects[0], nil
}

// order checks an order against the offering and fills in the defaults.
func order(off *offering.Offering, req Create) (Spec, offering.Size, error) {
	typ, size, err := off.Plan(req.Plan)
	if err != nil {
		return Spec{}, size, err
	}
	provider, region, err := off.Place(req.Provider, req.Region)
	if err != nil {
		return Spec{}, size, err
	}
	if !region.Sells(typ.Name) {
		return Spec{}, size, fault.New(fault.Invalid, "instance type %q is not sold in region %q", typ.Name, region.Name).Because("type")
	}
	versions := map[string]string{}
	for i, c := range off.Spec.Components {
		want := ""
		if i == 0 {
			want = req.Version
		}
		v, err := off.Version(c.Name, want)
		if err != nil {
			return Spec{}, size, err
		}
		if v != "" {
			versions[c.Name] = v
		}
	}
	parameters, err := off.ValidateOrder(req.Parameters)
	if err != nil {
		return Spec{}, size, err
	}
	if holdsNUL(parameters) { // no process or document could be given it
		return Spec{}, size, fault.New(fault.Invalid, "a parameter holds a zero byte").Because("parameters")
	}
	multiAZ := typ.MultiAZ != nil && *typ.MultiAZ
	if typ.MultiAZ == nil && req.MultiAZ != nil {
		multiAZ = *req.MultiAZ
	}
	return Spec{
		Offering: off.Metadata.Name, Provider: provider.Name, Region: region.Name, MultiAZ: multiAZ,
		Type: typ.Name, Size: size.Name, Versions: versions, Parameters: parameters,
	}, size, nil
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

// Get returns an instance that the caller may see, by id or by name.
func (s *Service) Get(ctx context.Context, offeringName, idOrName string) (ledger.Object, error) {
	who := access.From(ctx)
	missing := fault.New(fault.NotFound, "%s with id='%s' not found", offeringName, idOrName)
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: idOrName})
	if fault.Is(err, fault.NotFound) && namePattern.MatchString(idOrName) {
		o, err = s.byName(ctx, who, offeringName, idOrName)
	}
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, missing
	}
	if err != nil {
		return ledger.Object{}, err
	}
	if o.Fields["offering"] != offeringName || !who.Sees(o.Org, o.Owner) || !o.Deleted.IsZero() {
		return ledger.Object{}, missing
	}
	return o, nil
}

// byName finds a live instance by name: by the claim in the caller's own scope,
// or for an admin, who has none, by search.
func (s *Service) byName(ctx context.Context, who access.Principal, offeringName, name string) (ledger.Object, error) {
	ref, err := s.Store.Lookup(ctx, ledger.Name{Space: nameSpace(offeringName, who.Org, who.User), Name: name})
	if err == nil {
		return s.Store.Get(ctx, ref)
	}
	if !who.Admin || !fault.Is(err, fault.NotFound) {
		return ledger.Object{}, err
	}
	found, err := s.Store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"offering": offeringName, "name": name}, Limit: 2,
	})
	switch {
	case err != nil:
		return ledger.Object{}, err
	case len(found) == 0:
		return ledger.Object{}, fault.New(fault.NotFound, "no %s is named %q", offeringName, name)
	case len(found) > 1:
		return ledger.Object{}, fault.New(fault.Conflict, "several organisations have a %s named %q: use the id", offeringName, name)
	}
	return found[0], nil
}

// Query selects instances for a list.
type Query struct {
	Offering string // empty: of all offerings
	Where    ledger.Expr
	Order    []ledger.Order
	Page     int // from 1
	Size     int
	Whole    bool // spec and status too, not only the view
}

// List returns a page of what the caller may see, and the total.
func (s *Service) List(ctx context.Context, q Query) ([]ledger.Object, int64, error) {
	scope := map[string]any{}
	if q.Offering != "" {
		scope["offering"] = q.Offering
	}
	maps.Copy(scope, access.From(ctx).Scope())
	return ledger.Paged(ctx, s.Store, ledger.Query{
		Kind: Kind.Name, Scope: scope, Where: q.Where, Order: q.Order, Brief: !q.Whole,
		Offset: max(q.Page-1, 0) * q.Size, Limit: q.Size,
	})
}

// Live counts the instances of an offering that are not gone.
func (s *Service) Live(ctx context.Context, offeringName string) (int64, error) {
	return s.Store.Total(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"offering": offeringName}})
}

// Waiting returns the wakes of those who have waited longest for room in a region.
func (s *Service) Waiting(ctx context.Context, provider, region string, limit int) ([]ledger.Wake, error) {
	return waitingFor(ctx, s.Store, provider, region, limit)
}

func waitingFor(ctx context.Context, store Store, provider, region string, limit int) ([]ledger.Wake, error) {
	found, err := store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"parent": waitingRoom(provider, region)}, Limit: limit, Brief: true,
	})
	wakes := make([]ledger.Wake, len(found))
	for i, o := range found {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	return wakes, err
}

// Update changes what is wanted; nil stays as it is.
type Update struct {
	Owner      *string
	Version    *string           // of the first component
	Versions   map[string]string // by component; operators only
	Suspended  *bool             // operators only
	Parameters map[string]any
}

// Update changes intent.
func (s *Service) Update(ctx context.Context, offeringName, idOrName string, req Update) (ledger.Object, error) {
	return s.change(ctx, offeringName, idOrName, func(in *Instance, off *offering.Offering, who access.Principal) (string, error) {
		if !who.MayChange(in.Org, in.Owner) {
			return "", fault.New(fault.Denied, "only the owner or an organisation admin may change it")
		}
		if in.Spec.Deleted {
			return "", fault.New(fault.Conflict, "it is being deleted").Because("deleting")
		}
		if req.Owner != nil {
			if *req.Owner == "" || len(*req.Owner) > maxOwner || strings.ContainsFunc(*req.Owner, unicode.IsControl) {
				return "", fault.New(fault.Invalid, "owner must be a user's name of 1 to %d characters", maxOwner).Because("field")
			}
			if in.Org == "" { // its name is claimed under the owner
				return "", fault.New(fault.Invalid, "only within an organisation can an instance be handed on").Because("field")
			}
			if *req.Owner != in.Owner {
				in.Owner, in.Spec.Owner = *req.Owner, *req.Owner
			}
		}
		if req.Version != nil {
			first := off.Spec.Components[0].Name
			v, err := off.Version(first, *req.Version)
			if err != nil {
				return "", err
			}
			in.Spec.Versions = maps.Clone(in.Spec.Versions)
			if in.Spec.Versions == nil {
				in.Spec.Versions = map[string]string{}
			}
			in.Spec.Versions[first] = v
		}
		if req.Parameters != nil {
			merged := maps.Clone(in.Spec.Parameters)
			if merged == nil {
				merged = map[string]any{}
			}
			maps.Copy(merged, req.Parameters)
			p, err := off.Validate(merged)
			if err != nil {
				return "", err
			}
			in.Spec.Parameters = p
		}
		if req.Suspended != nil && *req.Suspended != in.Spec.Suspended {
			if !who.Admin {
				return "", fault.New(fault.Denied, "only an operator may suspend or resume")
			}
			if *req.Suspended && in.Phase != Ready || !*req.Suspended && in.Phase != Suspended {
				return "", fault.New(fault.Conflict, "it is %s: only a ready instance can be suspended, only a suspended one resumed", in.Phase).Because("phase")
			}
			in.Spec.Suspended = *req.Suspended
		}
		return "update", nil
	})
}

// Delete asks for the end. The instance is gone when its data plane has said so
// and everything it held was given back; asking twice changes nothing.
func (s *Service) Delete(ctx context.Context, offeringName, idOrName string) (ledger.Object, error) {
	return s.change(ctx, offeringName, idOrName, func(in *Instance, _ *offering.Offering, who access.Principal) (string, error) {
		if !who.MayChange(in.Org, in.Owner) {
			return "", fault.New(fault.Denied, "only the owner or an organisation admin may delete it")
		}
		if in.Spec.Deleted {
			return "", nil
		}
		in.deprovision(s.Now())
		return "delete", nil
	})
}

func (in *Instance) deprovision(now time.Time) {
	in.Spec.Deleted = true
	in.Phase, in.Status.Since, in.Status.Message = Deprovision, now.UTC(), ""
	if o := in.Status.Observed; o != nil && o.State == stateDeleted {
		in.Status.Observed = nil // said before it was asked: no answer to this
	}
}

const (
	maxConflicts = 8
	maxOwner     = 256
)

// change reads, edits and writes an instance, again if somebody else wrote
// meanwhile. An edit that returns no verb leaves everything as it is.
func (s *Service) change(ctx context.Context, offeringName, idOrName string,
	edit func(*Instance, *offering.Offering, access.Principal) (verb string, err error)) (ledger.Object, error) {
	off, ok := s.Offerings.Get(offeringName)
	if !ok {
		return ledger.Object{}, fault.New(fault.NotFound, "there is no offering %q", offeringName)
	}
	who := access.From(ctx)
	for attempt := 0; ; attempt++ {
		o, err := s.Get(ctx, offeringName, idOrName)
		if err != nil {
			return ledger.Object{}, err
		}
		in, err := Decode(o)
		if err != nil {
			return ledger.Object{}, err
		}
		spec := o.Spec
		verb, err := edit(&in, off, who)
		if err != nil || verb == "" {
			return in.Object, err
		}
		set := ledger.Set{Actor: who.Actor(), Cause: ledger.CauseOf(ctx)}
		if now, err := json.Marshal(in.Spec); err != nil {
			return ledger.Object{}, err
		} else if string(now) != string(spec) {
			if set.Puts, err = s.succeed(ctx, &in, verb, set.Cause); err != nil {
				return ledger.Object{}, err
			}
			set.Wakes = []ledger.Wake{{Ref: in.Ref, Org: in.Org}}
		}
		put, err := encode(ctx, off, &in, verb)
		if err != nil {
			return ledger.Object{}, err
		}
		set.Puts = append([]ledger.Put{put}, set.Puts...)
		r, err := s.Store.Commit(ctx, set)
		if err == nil {
			return r.Objects[0], nil
		}
		if fault.Reason(err) != "version" || attempt >= maxConflicts {
			return ledger.Object{}, err
		}
	}
}

// succeed starts a new operation on the instance and ends the one it overtakes.
func (s *Service) succeed(ctx context.Context, in *Instance, verb string, cause ledger.Cause) ([]ledger.Put, error) {
	overtaken := Finish{Phase: operation.Superseded, Reason: "a later " + verb + " took its place"}
	puts, err := in.endOperation(ctx, s.Store, overtaken, s.Now())
	if err != nil {
		return nil, err
	}
	start := operation.Start(verb, in.Object, cause)
	in.Status.Operation = start.Object.ID
	return append(puts, start), nil
}
