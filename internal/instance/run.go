package instance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

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

	read Instance // as it was read
}

// begin starts from what was read.
func (r *run) begin() {
	if r.read.ID == "" {
		r.read = r.in
	}
	r.in, r.op = r.read, "update"
	r.set = ledger.Set{Actor: "system", Cause: ledger.ByChange(r.in.Ref, r.in.Version)}
}

func (r *run) act(ctx context.Context, actions []Action) (reconcile.Result, error) {
	if len(actions) == 0 {
		return reconcile.Done(ledger.Set{}), nil
	}
	switch a := actions[0].(type) {
	case Come:
		return reconcile.Wait(ledger.Set{}, a.After, a.Why), nil
	case Queue:
		if r.in.Status.Message == a.Why {
			return reconcile.Wait(ledger.Set{}, placeRetry, a.Why), nil
		}
		// Once it is known to wait it looks again: room that was made in
		// between has woken nobody.
		r.in.Status.Message = a.Why
		r.scale(ctx)
		set, err := r.write(ctx)
		return reconcile.Again(set), err
	}
	for _, a := range actions {
		err := r.step(ctx, a)
		if fault.Reason(err) == "busy" {
			return reconcile.Wait(ledger.Set{}, hookRetry, err.Error()), nil
		}
		if err != nil {
			return r.stuck(ctx, err)
		}
	}
	r.remind()
	if _, looked := actions[0].(Look); looked && r.unchanged() {
		return r.next(ledger.Set{}), nil
	}
	set, err := r.write(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if _, waits := actions[0].(Spare); waits {
		return reconcile.Again(set), nil // what was decided in between has woken nobody
	}
	return r.next(set), nil
}

// next looks ahead: where nothing will be left to do after the write, the run
// ends with it, which saves a commit of its own for the end.
func (r *run) next(set ledger.Set) reconcile.Result {
	now, was := &r.in.Spec, &r.read.Spec
	changed := now.Deleted != was.Deleted || now.Suspended != was.Suspended || now.Billing != was.Billing || now.Moves != was.Moves
	if changed && r.in.Generation == r.read.Generation {
		return reconcile.Again(set) // intent changed: the ledger moves the generation
	}
	if r.in.Status.Promotion == Promoting {
		return reconcile.Again(set) // it is not known here whether it can go on
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
		return r.move(a)
	case Place:
		in.Status.Cluster, in.Status.Units, in.Status.Message = a.Cluster, r.facts.Units, ""
		in.Status.Namespace, in.Status.Placement = in.Spec.Offering+"-"+in.ID, ledger.NewID()
		in.Status.Versions, in.Status.Placed = a.Versions, a.Why
		counts := r.take(a.Cluster)
		in.Status.Room = held(counts)
		r.set.Counts = append(r.set.Counts, counts...)
	case Unplace:
		if !slices.Contains(in.Status.Rejected, in.Status.Cluster) { // it may be asked again and again
			in.Status.Rejected = append(slices.Clone(in.Status.Rejected), in.Status.Cluster)
		}
		r.release()
		if in.Status.Sought.IsZero() || r.now.Sub(in.Status.Since) >= placeWithin { // it was somewhere for a while
			in.Status.Sought = r.now
		}
		in.Status.Since = r.now // it waits for room from here on
		r.op = "unplace"
	case Vacate:
		r.vacate(a)
	case Furnish:
		return r.furnish(ctx)
	case Swap:
		r.takeOver()
	case Recall:
		r.recall(a)
	case Forget:
		r.forget()
	case Render:
		return r.render(ctx)
	case Call:
		return r.call(ctx, a)
	case Finish:
		return r.finish(ctx, a)
	case Expire:
		r.set.Cause = ledger.BySchedule(a.Why)
		r.set.Counts = append(r.set.Counts, r.facts.Removal.Counts...)
		in.deprovision(r.now)
		r.op = Deprovision
		r.announce(ctx)
		return r.finish(ctx, Finish{Phase: operation.Superseded, Reason: a.Why})
	case Until:
		in.Status.Expires, in.Status.Ruled = a.Expires, a.Ruled
		r.op = "expires"
	case Granted:
		in.Status.GrantEnds, r.op = a.Ends, "granted"
	case Spare:
		r.spare(a)
	case Rest:
		in.Spec.Suspended, in.Status.Resting = a.On, a.On
		r.set.Cause = ledger.BySchedule("its end is near")
		if !a.On {
			r.set.Cause = ledger.BySchedule("its end is far again")
		}
	case Promote:
		return r.promote(ctx)
	case Demote:
		r.demote(a.Why)
	case Clean:
		return r.clean(ctx)
	default:
		return r.reach(ctx, a)
	}
	return nil
}

func (r *run) move(a Move) error {
	in := &r.in
	if !CanMove(in.Phase, a.To) {
		return reconcile.Terminal(fault.New(fault.Internal, "no move from %s to %s", in.Phase, a.To))
	}
	in.Phase, r.op = a.To, a.To
	in.Status.Hooked = slices.DeleteFunc(slices.Clone(in.Status.Hooked), func(p string) bool { return p == a.To })
	in.Status.Since, in.Status.Reason, in.Status.Message = r.now, a.Reason, ""
	switch a.To {
	case Preparing: // written down before anything is asked for
		in.Status.Named, in.Status.Certified = r.facts.Names, r.facts.Certificate
	case Provisioning, Ready: // everything outside was just made, or seen to be there
		r.looked()
	case Deleting:
		r.release() // before Clean tells who waits: what is told must be true already
	}
	return nil
}

// render makes the document. One that has not changed is not issued anew: the
// data plane need not hear of every wish.
func (r *run) render(ctx context.Context) error {
	in := &r.in
	around, err := r.around(ctx, in.Status.Cluster)
	if err != nil {
		return err
	}
	doc, err := r.off.Desired(ctx, facts(in, r.off), around)
	if err != nil {
		return err
	}
	if bytes.Equal(doc, in.Status.Desired) {
		in.Status.Issued, in.Status.Rendered = in.issued(), in.Generation
		return nil
	}
	in.Status.Desired, in.Status.Rendered, in.Status.Issued, in.Status.Token = doc, in.Generation, in.Generation, r.task.Token
	in.Status.Digest = digestOf(doc)
	return nil
}

// announce makes the document that says that the instance is to go in the same
// commit as the wish, which saves a run where ten thousand end at once. The
// generation is the one that the ledger will give to the changed wish. What
// cannot be rendered now is not in the way: the next run tries again.
func (r *run) announce(ctx context.Context) {
	if !r.in.placed() {
		return
	}
	r.in.Generation++
	if r.render(ctx) != nil {
		r.in.Generation--
	}
}

// clean gives everything back that the ledger counts.
func (r *run) clean(ctx context.Context) error {
	in := &r.in
	if err := r.makeRoom(ctx); err != nil {
		return err
	}
	for _, h := range in.Status.Held {
		r.set.Counts = append(r.set.Counts, ledger.Count{Name: h.Counter, Delta: -h.Units})
	}
	in.Status.Held = nil
	r.set.Frees = append(r.set.Frees, names(in)...)
	if ref := r.memory.kept(in.ID); ref != "" { // sealed, and never written down
		if err := r.Keeper.Shred(ctx, ref); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	in.Object.Deleted, r.op = r.now, "delete"
	r.memory.forget(in.ID)
	return nil
}

// take are the counters of a cluster that the units are counted in.
func (r *run) take(id string) []ledger.Count {
	for _, c := range r.facts.Candidates {
		if c.ID == id {
			return c.Take(r.facts.Units)
		}
	}
	return nil
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

// room is what the units are counted in.
func (in *Instance) room() []Hold {
	if s := &in.Status; len(s.Room) == 0 && s.Units > 0 { // written before clusters had several counters
		return []Hold{{Counter: cluster.CapacityCounter(s.Cluster), Units: s.Units}}
	}
	return in.Status.Room
}

// release gives the reserved units back.
func (r *run) release() {
	s := &r.in.Status
	if s.Cluster == "" {
		return
	}
	for _, h := range r.in.room() {
		r.set.Counts = append(r.set.Counts, ledger.Count{Name: h.Counter, Delta: -h.Units})
	}
	if r.in.Phase != Deleting { // what is gone keeps the memory where it was
		s.Cluster, s.Placed, s.Placement, s.Desired, s.Observed, s.Versions = "", "", "", nil, nil, nil
		s.Routes = slices.Clone(s.Routes)
		for i := range s.Routes {
			s.Routes[i].Router = "" // was that cluster's
		}
	}
	s.Units, s.Room = 0, nil
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
	in.Status.Hooked = append(slices.Clone(in.Status.Hooked), in.Phase)
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
