package instance

import (
	"context"
	"errors"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sso"
)

// Clusters tells where there is room.
type Clusters interface {
	Shortlist(ctx context.Context, order cluster.Order) (cluster.Shortlist, error)
}

// Hooks calls the seller's own service.
type Hooks interface {
	Call(ctx context.Context, call hook.Call) error
}

// Config of what keeps instances: the Service and the Reconciler take the same.
type Config struct {
	Store     Store
	Keeper    ledger.Keeper // of secrets; needed where SSO or Certificates are
	Offerings Offerings
	Clusters  Clusters
	Hooks     Hooks
	// Quota tells what tenants are entitled to; nil: nothing, so only types
	// that need no grant can be had.
	Quota entitlement.Source
	// Policy says who may do nothing any more; nil: everybody may.
	Policy policy.Decisions
	// SSO holds the accounts of instances; nil: they have none.
	SSO sso.Provider
	// DNS carries their hosts; nil: nobody needs to.
	DNS dns.Records
	// Certificates of their hosts; nil: there are none.
	Certificates certificate.Source
	// Metrics of instances; nil: none can be asked for.
	Metrics metric.Source
	// Breaker keeps rules from taking many at once; nil: nothing does.
	Breaker breaker.Guard
	Now     func() time.Time // default: time.Now
}

func (c Config) filled() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Reconciler carries instances through their phases. One for all phases.
type Reconciler struct {
	Config
	memory memory
}

// NewReconciler makes the reconciler.
func NewReconciler(c Config) *Reconciler { return &Reconciler{Config: c.filled()} }

// Reconcile loads, observes, plans, acts, and returns one write.
func (r *Reconciler) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	in, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	off, ok := r.Offerings.Get(in.Spec.Offering)
	if !ok {
		return reconcile.Result{}, fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering)
	}
	run := run{Reconciler: r, task: task, off: off, in: in, now: r.Now().UTC()}
	run.begin()
	run.facts, err = r.observe(ctx, in, off, run.now)
	var unanswered trouble
	if err != nil && !errors.As(err, &unanswered) {
		return reconcile.Result{}, err
	}
	actions := Plan(in, run.facts, run.now)
	if err != nil && idle(actions) {
		return run.stuck(ctx, err) // only then is it in the way of anything
	}
	return run.act(ctx, actions)
}

func idle(actions []Action) bool {
	if len(actions) == 0 {
		return true
	}
	_, waits := actions[0].(Come)
	return waits
}

// watchedOfferings are those whose instances are looked after while they run:
// they have an alarm clock, unless they were made before that was so.
func (r *Reconciler) watchedOfferings() (names []any) {
	all, ok := r.Offerings.(interface{ List() []*offering.Offering })
	if !ok {
		return nil
	}
	for _, off := range all.List() {
		if r.DNS != nil || r.SSO != nil && off.Spec.Identity != nil {
			names = append(names, off.Metadata.Name)
		}
	}
	return names
}

// Unsettled lists, for the slow resync, instances that should have work to do.
func (r *Reconciler) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	var where ledger.Expr = ledger.Compare{Column: "phase", Op: ledger.NotIn, Values: []any{Ready, Failed, Suspended}}
	if watched := r.watchedOfferings(); len(watched) > 0 {
		where = ledger.Or{where, ledger.Compare{Column: "offering", Op: ledger.In, Values: watched}}
	}
	found, err := r.Store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: limit, Brief: true, Where: where})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	wakes := make([]ledger.Wake, len(found))
	for i, o := range found {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	return wakes, found[len(found)-1].ID, nil
}
