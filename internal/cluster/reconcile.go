package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// settle is how long after the wish a cluster is looked at for instances that
// were being placed when it was made.
const settle = 5 * time.Second

// depart writes that a cluster is to go.
func (s *Service) depart(ctx context.Context, o ledger.Object, spec Spec) (ledger.Object, error) {
	spec.Deleted = true
	body, err := json.Marshal(spec)
	if err != nil {
		return o, err
	}
	version := o.Version
	o.Spec, o.Phase = body, Deprovisioning
	r, err := s.store.Commit(ctx, ledger.Set{
		Actor: access.From(ctx).Actor(), Cause: ledger.CauseOf(ctx),
		Puts:  []ledger.Put{{Object: o, Expect: version, Op: "delete"}},
		Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}},
	})
	if err != nil {
		return o, err
	}
	return r.Objects[0], nil
}

// Reconcile sees to the account of a cluster's agent, and takes a cluster away
// that is to go.
func (s *Service) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Get(ctx, task.Ref.ID)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	spec, status, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if spec.Deleted {
		return s.remove(ctx, o, spec, status)
	}
	if s.Accounts == nil {
		return reconcile.Done(ledger.Set{}), nil
	}
	client, _, err := s.Accounts.EnsureAgent(ctx, o.ID)
	if err != nil || client == status.Client {
		return reconcile.Done(ledger.Set{}), err
	}
	status.Client = client
	return s.finish(o, spec, status, "account")
}

// remove goes on with a cluster that is to go.
func (s *Service) remove(ctx context.Context, o ledger.Object, spec Spec, status Status) (reconcile.Result, error) {
	if wait := settle - s.now().Sub(o.Updated); wait > 0 {
		return reconcile.Wait(ledger.Set{}, wait, "looking whether instances were being placed"), nil
	}
	used, err := s.store.Counter(ctx, CapacityCounter(o.ID))
	if err != nil {
		return reconcile.Result{}, err
	}
	if used > 0 { // one came in between: whoever ordered it was promised it
		spec.Deleted, o.Phase = false, Waiting
		return s.finish(o, spec, status, "keep")
	}
	if s.Accounts != nil {
		if err := s.Accounts.RemoveAgent(ctx, o.ID); err != nil {
			return reconcile.Result{}, err
		}
	}
	o.Deleted, status = s.now().UTC(), Status{}
	result, err := s.finish(o, spec, status, "delete")
	result.Write.Frees = spec.names(o.Ref)
	return result, err
}

func (s *Service) finish(o ledger.Object, spec Spec, status Status, op string) (reconcile.Result, error) {
	version := o.Version
	var err error
	if o.Spec, err = json.Marshal(spec); err != nil {
		return reconcile.Result{}, err
	}
	if o.Status, err = json.Marshal(status); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Done(ledger.Set{
		Actor: "system", Cause: ledger.ByChange(o.Ref, version),
		Puts: []ledger.Put{{Object: o, Expect: version, Op: op}},
	}), nil
}

// Unsettled lists, for the slow resync, clusters that have work to do: those
// that are to go, and those whose agents lack an account.
func (s *Service) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	var wakes []ledger.Wake
	for _, o := range found {
		spec, status, err := Decode(o)
		if err == nil && (spec.Deleted || s.Accounts != nil && status.Client == "") {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
	}
	return wakes, found[len(found)-1].ID, nil
}
