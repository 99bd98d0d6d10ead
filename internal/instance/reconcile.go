package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sso"
)

// Clusters tells where there is room.
type Clusters interface {
	Candidates(ctx context.Context, provider, region string) ([]cluster.Candidate, error)
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
	Now     func() time.Time // default: time.Now
}

func (c Config) filled() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Reconciler carries instances through their phases. One for all phases.
type Reconciler struct{ Config }

// NewReconciler makes the reconciler.
func NewReconciler(c Config) *Reconciler { return &Reconciler{c.filled()} }

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
	facts, err := r.observe(ctx, in, off)
	if err != nil {
		return reconcile.Result{}, err
	}
	run := run{
		Reconciler: r, task: task, off: off, in: in, facts: facts,
		now: r.Now().UTC(), op: "update", deleted: in.Spec.Deleted,
	}
	return run.act(ctx, Plan(in, facts, run.now))
}

func (r *Reconciler) observe(ctx context.Context, in Instance, off *offering.Offering) (Facts, error) {
	_, size, err := off.Plan(in.Spec.Type + "." + in.Spec.Size)
	if err != nil {
		// The size is sold no longer: what was sold keeps running, nothing new is placed.
		size.Capacity = in.Status.Units
	}
	f := Facts{Units: size.Capacity, Hooks: len(off.Hooks(in.Phase)) > 0}
	if NeedsCandidates(in) {
		if f.Candidates, err = r.Clusters.Candidates(ctx, in.Spec.Provider, in.Spec.Region); err != nil {
			return Facts{}, err
		}
	}
	return f, nil
}

// Unsettled lists, for the slow resync, instances that should have work to do.
func (r *Reconciler) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := r.Store.List(ctx, ledger.Query{
		Kind: Kind.Name, AfterID: after, Limit: limit, Brief: true,
		Where: ledger.Compare{Column: "phase", Op: ledger.NotIn, Values: []any{Ready, Failed, Suspended}},
	})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	wakes := make([]ledger.Wake, len(found))
	for i, o := range found {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	return wakes, found[len(found)-1].ID, nil
}

// run is one run on one instance: it turns actions into one set.
type run struct {
	*Reconciler
	task  reconcile.Task
	off   *offering.Offering
	in    Instance
	facts Facts
	now   time.Time
	set   ledger.Set
	op    string // the verb for the log: the phase entered, else "update"

	deleted bool // the wish to delete, as it was read
}

func (r *run) act(ctx context.Context, actions []Action) (reconcile.Result, error) {
	if len(actions) == 0 {
		return reconcile.Done(ledger.Set{}), nil
	}
	r.set = ledger.Set{Actor: "system", Cause: ledger.ByChange(r.in.Ref, r.in.Version)}
	switch a := actions[0].(type) {
	case Come:
		return reconcile.Wait(ledger.Set{}, a.After, a.Why), nil
	case Queue:
		if r.in.waiting() {
			return reconcile.Wait(ledger.Set{}, placeRetry, a.Why), nil
		}
		// Once it is known to wait it looks again: room that was made in
		// between has woken nobody.
		r.in.Status.Message = a.Why
		set, err := r.write(ctx)
		return reconcile.Again(set), err
	}
	for _, a := range actions {
		err := r.step(ctx, a)
		if fault.Reason(err) == "busy" {
			return reconcile.Wait(ledger.Set{}, hookRetry, err.Error()), nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	set, err := r.write(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.next(set), nil
}

// next looks ahead: where nothing will be left to do after the write, the run
// ends with it, which saves a commit of its own for the end.
func (r *run) next(set ledger.Set) reconcile.Result {
	if r.in.Spec.Deleted != r.deleted {
		return reconcile.Again(set) // intent changed: the ledger moves the generation
	}
	facts := r.facts
	facts.Hooks = len(r.off.Hooks(r.in.Phase)) > 0
	after := Plan(r.in, facts, r.now)
	if len(after) == 0 {
		return reconcile.Done(set)
	}
	if come, ok := after[0].(Come); ok {
		return reconcile.Wait(set, come.After, come.Why)
	}
	return reconcile.Again(set)
}

func (r *run) step(ctx context.Context, a Action) error {
	in := &r.in
	switch a := a.(type) {
	case Move:
		if !CanMove(in.Phase, a.To) {
			return reconcile.Terminal(fault.New(fault.Internal, "no move from %s to %s", in.Phase, a.To))
		}
		in.Phase, r.op = a.To, a.To
		in.Status.Hooked = slices.DeleteFunc(in.Status.Hooked, func(p string) bool { return p == a.To })
		in.Status.Since, in.Status.Reason, in.Status.Message = r.now, a.Reason, ""
		if a.To == Deleting {
			r.release() // before Clean tells who waits: what is told must be true already
		}
	case Place:
		in.Status.Cluster, in.Status.Units, in.Status.Message = a.Cluster, r.facts.Units, ""
		in.Status.Namespace, in.Status.Placement = in.Spec.Offering+"-"+in.ID, ledger.NewID()
		r.set.Counts = append(r.set.Counts, ledger.Count{
			Name: cluster.CapacityCounter(a.Cluster), Delta: r.facts.Units, Max: r.capacity(a.Cluster),
		})
	case Unplace:
		in.Status.Rejected = append(in.Status.Rejected, in.Status.Cluster)
		r.release()
		r.op = "unplace"
	case Render:
		doc, err := r.off.Desired(ctx, facts(in, r.off), offering.Surroundings{})
		if err != nil {
			return err
		}
		in.Status.Desired, in.Status.Rendered, in.Status.Token = doc, in.Generation, r.task.Token
	case Call:
		return r.call(ctx, a)
	case Finish:
		return r.finish(ctx, a)
	case Expire:
		r.set.Cause = ledger.BySchedule("its lifespan ended")
		in.deprovision(r.now)
		r.op = Deprovision
		if err := r.finish(ctx, Finish{Phase: operation.Superseded, Reason: "its lifespan ended"}); err != nil {
			return err
		}
		r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: in.Ref, Org: in.Org})
	case Clean:
		if err := r.makeRoom(ctx); err != nil {
			return err
		}
		r.set.Frees = append(r.set.Frees, names(in)...)
		in.Object.Deleted, r.op = r.now, "delete"
	}
	return nil
}

func (r *run) capacity(id string) int64 {
	for _, c := range r.facts.Candidates {
		if c.ID == id {
			return c.Capacity
		}
	}
	return 0
}

// makeRoom wakes some of those who wait for what was given back. That was
// written before: whoever begins to wait after this list finds the room itself.
func (r *run) makeRoom(ctx context.Context) error {
	if r.in.Status.Cluster == "" {
		return nil
	}
	wakes, err := waitingFor(ctx, r.Store, r.in.Spec.Provider, r.in.Spec.Region, int(min(max(r.facts.Units, 1), 100)))
	r.set.Wakes = append(r.set.Wakes, wakes...)
	return err
}

// release gives the reserved units back.
func (r *run) release() {
	s := &r.in.Status
	if s.Cluster == "" {
		return
	}
	r.set.Counts = append(r.set.Counts, ledger.Count{Name: cluster.CapacityCounter(s.Cluster), Delta: -s.Units})
	if r.in.Phase != Deleting { // what is gone keeps the memory where it was
		s.Cluster, s.Placement, s.Desired, s.Observed = "", "", nil, nil
	}
	s.Units = 0
}

// call calls the hooks of the phase. A refusal fails the instance where the
// table allows it; a deletion is never given up.
func (r *run) call(ctx context.Context, a Call) error {
	in := &r.in
	for _, h := range r.off.Hooks(in.Phase) {
		err := r.Hooks.Call(ctx, hook.Call{
			URL: h.URL, Timeout: time.Duration(h.Timeout), Phase: in.Phase,
			Fence: r.task.Fence(in.Generation), Body: facts(in, r.off),
		})
		if err == nil {
			continue
		}
		late := a.Within > 0 && r.now.Sub(in.Status.Since) >= a.Within
		if a.Within == 0 || !late && !fault.Is(err, fault.Invalid) || !CanMove(in.Phase, Failed) {
			return err
		}
		reason := fmt.Sprintf("The seller's service did not agree: %s. Delete this instance, or ask the seller.", err)
		if err := r.step(ctx, Move{To: Failed, Reason: reason}); err != nil {
			return err
		}
		in.Status.Refused = in.Generation
		return r.finish(ctx, Finish{Phase: operation.Failed, Reason: reason})
	}
	in.Status.Hooked = append(in.Status.Hooked, in.Phase)
	return nil
}

// finish ends the running operation in the same commit.
func (r *run) finish(ctx context.Context, a Finish) error {
	puts, err := r.in.endOperation(ctx, r.Store, a, r.now)
	r.set.Puts = append(r.set.Puts, puts...)
	return err
}

// endOperation takes the operation from the instance, and ends it where it
// still runs.
func (in *Instance) endOperation(ctx context.Context, store ledger.Reader, a Finish, now time.Time) ([]ledger.Put, error) {
	id := in.Status.Operation
	if id == "" {
		return nil, nil
	}
	op, err := store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id})
	if err != nil {
		return nil, err
	}
	in.Status.Operation = ""
	if op.Phase != operation.Running {
		return nil, nil
	}
	put, err := operation.Finish(op, a.Phase, a.Reason, now)
	if err != nil {
		return nil, err
	}
	return []ledger.Put{put}, nil
}

func (r *run) write(ctx context.Context) (ledger.Set, error) {
	put, err := encode(ctx, r.off, &r.in, r.op)
	if err != nil {
		return ledger.Set{}, err
	}
	r.set.Puts = append([]ledger.Put{put}, r.set.Puts...)
	return r.set, nil
}
