package instance

import (
	"context"
	"encoding/json"
	"maps"
	"time"

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

// OwnedBy returns the wakes of what a user owns, after an id, and the id to go
// on after: empty when that was all.
func (s *Service) OwnedBy(ctx context.Context, user, after string, limit int) ([]ledger.Wake, string, error) {
	return s.wakes(ctx, "owner", user, after, limit)
}

// OfOrg returns the wakes of what an organisation has, as OwnedBy does.
func (s *Service) OfOrg(ctx context.Context, org, after string, limit int) ([]ledger.Wake, string, error) {
	return s.wakes(ctx, "org", org, after, limit)
}

func (s *Service) wakes(ctx context.Context, column, value, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{column: value}, AfterID: after, Limit: limit, Brief: true,
	})
	if err != nil {
		return nil, "", err
	}
	wakes := make([]ledger.Wake, len(found))
	for i, o := range found {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	if len(found) < limit {
		return wakes, "", nil
	}
	return wakes, found[len(found)-1].ID, nil
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
	in.Phase, in.Status.Since, in.Status.Message, in.Status.Approval = Deprovision, now.UTC(), "", ""
	if o := in.Status.Observed; o != nil && o.State == stateDeleted {
		in.Status.Observed = nil // said before it was asked: no answer to this
	}
	if in.placed() {
		in.Status.Message = "waiting for the data plane to remove it"
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
