package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// Environments is the reconciler of environments: it takes plans up, lays resources
// out and follows them. What is done to a resource is its own reconciler's.
type Environments struct{ *Service }

// Reconcile may stop and start again anywhere: each commit is a place to go on from.
func (r *Environments) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, err
	}
	if err != nil || !o.Deleted.IsZero() {
		r.forget(task.ID)
		return reconcile.Done(ledger.Set{}), nil
	}
	e, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if e.Spec.Handed != nil {
		return reconcile.Done(ledger.Set{}), nil
	}
	seen, err := r.see(ctx, e)
	if err != nil {
		return reconcile.Result{}, err
	}
	t := &turn{Service: r.Service, task: task, e: e, seen: seen, at: r.Now().UTC(), op: "update"}
	return t.act(ctx, Decide(e, seen, t.at))
}

func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.looks, id)
	delete(s.tallies, id)
	s.rests.forget(id)
}

// see counts an environment's resources, and reads what its next step depends on.
func (s *Service) see(ctx context.Context, e Environment) (Seen, error) {
	var seen Seen
	if e.Spec.Next != nil {
		o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindPlan.Name, ID: e.Spec.Next.Plan})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return seen, err
		}
		if err == nil {
			p, err := DecodePlan(o)
			if err != nil {
				return seen, err
			}
			seen.Plan = &p
		}
	}
	if e.Spec.Turn == 0 {
		return seen, nil
	}
	// In the order in which resources go through them: one that moves meanwhile is
	// counted twice, and never not at all.
	c := &seen.Counts
	for _, of := range []struct {
		phase string
		n     *int64
	}{{ResourceLeaving, &c.Leaving}, {Pending, &c.Pending}, {Applying, &c.Applying}, {Blocked, &c.Blocked}, {Failed, &c.Failed}, {Ready, &c.Ready}} {
		var err error
		if *of.n, err = s.Store.Total(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": e.ID, "phase": of.phase}}); err != nil {
			return seen, err
		}
	}
	seen.Counts.Total, seen.Counts.Drifted = seen.total(), e.Status.Counts.Drifted
	if err := s.atEase(ctx, e, &seen); err != nil {
		return seen, err
	}
	seen.Still = s.still(e.ID, seen.Counts)
	if seen.Counts.Failed > 0 {
		failed, err := s.Store.List(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": e.ID, "phase": Failed}, Limit: 4})
		if err != nil {
			return seen, err
		}
		var said []string
		for _, o := range failed {
			if r, err := DecodeResource(o); err == nil {
				said = append(said, r.Spec.Address+": "+r.Status.Message)
			}
		}
		seen.Failed = sentences(said, 3)
	}
	return seen, nil
}

// still counts the looks at which the counts were those of the one before, each
// long enough after it for somebody to have moved.
func (s *Service) still(id string, now Counts) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.Now()
	was, known := s.looks[id]
	switch {
	case !known || was.counts != now:
		was = look{counts: now, at: at}
	case at.Sub(was.at) < glanceEvery:
		return 0
	default:
		was.still, was.at = was.still+1, at
	}
	s.looks[id] = was
	return was.still
}

// look is what an environment saw of its resources when it last looked.
type look struct {
	counts Counts
	at     time.Time
	still  int
}

// turn is one run on one environment: it turns actions into one set.
type turn struct {
	*Service
	task reconcile.Task
	e    Environment
	seen Seen
	at   time.Time
	op   string
	set  ledger.Set
	next *Come
	// stale secrets are shredded once nothing refers to them any more.
	stale []string
}

func (t *turn) act(ctx context.Context, actions []Action) (reconcile.Result, error) {
	if len(actions) == 0 {
		return reconcile.Done(ledger.Set{}), nil
	}
	before := t.e
	for _, a := range actions {
		if err := t.step(ctx, a); err != nil {
			return t.stuck(err)
		}
	}
	set := t.set
	if !reflect.DeepEqual(before, t.e) || len(set.Puts) > 0 {
		put, err := t.e.put(t.op)
		if err != nil {
			return reconcile.Result{}, err
		}
		set.Puts = append([]ledger.Put{put}, set.Puts...)
	}
	set.Actor, set.Cause = "system", ledger.ByChange(t.e.Ref, t.e.Version)
	if len(t.stale) > 0 {
		if t.task.Token != 0 {
			set.Lease = &ledger.Lease{Ref: t.e.Ref, Token: t.task.Token}
		}
		if _, err := t.Store.Commit(ctx, set); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Again(ledger.Set{}), t.shred(ctx, t.stale...)
	}
	if t.next == nil {
		return reconcile.Again(set), nil
	}
	return reconcile.Wait(set, t.next.After, t.next.Why), nil
}

// stuck says what is in the way, where people look for it, and tries again.
func (t *turn) stuck(err error) (reconcile.Result, error) {
	e, failed := Decode(t.e.Object) // what was half done is not written
	message := "It is tried again: " + err.Error()
	if failed != nil || fault.Is(err, fault.Conflict) || e.Status.Message == message {
		return reconcile.Result{}, err
	}
	e.Status.Message = message
	put, failed := e.put("update")
	if failed != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Write: ledger.Set{Actor: "system", Cause: ledger.ByChange(e.Ref, e.Version), Puts: []ledger.Put{put}}}, err
}

func (t *turn) step(ctx context.Context, a Action) error {
	switch a := a.(type) {
	case Come:
		t.next = &a
	case Reject:
		return t.reject(ctx, a.Reason, "")
	case Check:
		return t.check(ctx)
	case Take:
		return t.take(ctx)
	case Lay:
		return t.lay(ctx)
	case Rouse:
		return t.rouse(ctx)
	case Say:
		t.say(a.Phase, a.Message)
		return t.groups(ctx)
	case Settle:
		return t.settle(ctx, a)
	case Clean:
		return t.clean(ctx)
	case Remind:
		t.remind()
	case Spare:
		t.spare()
	case Expire:
		return t.expire(ctx)
	case Glance:
		return t.glanceOver(ctx)
	case Stray:
		return t.stray(ctx)
	case Count:
		return t.count(ctx)
	case Probe:
		return t.probe(ctx)
	}
	return nil
}

// say writes what people read, where it differs.
func (t *turn) say(phase, message string) {
	s := &t.e.Status
	if t.e.Phase != phase {
		t.e.Phase, t.op, s.Since = phase, phase, t.at
	}
	total := max(s.Counts.Total, t.seen.Counts.Total)
	s.Message, s.Counts = message, t.seen.Counts
	s.Counts.Total = total
}

// finish ends an operation in the same commit.
func (t *turn) finish(ctx context.Context, id, phase, reason string) error {
	puts, err := t.end(ctx, id, phase, reason)
	t.set.Puts = append(t.set.Puts, puts...)
	return err
}

// reject drops the next plan; to is the phase that it enters, where it is to blame.
func (t *turn) reject(ctx context.Context, reason, to string) error {
	n := t.e.Spec.Next
	if err := t.finish(ctx, n.Operation, operation.Failed, reason); err != nil {
		return err
	}
	if to != "" && t.seen.Plan != nil {
		p := *t.seen.Plan
		p.Phase, p.Status.Message = to, reason
		put, err := p.put(to)
		if err != nil {
			return err
		}
		t.set.Puts = append(t.set.Puts, put)
	}
	t.e.Spec.Next, t.e.Status.Tries, t.op = nil, 0, "reject"
	t.e.Status.Message = "The plan was not taken up: " + reason
	if t.e.Spec.Turn == 0 {
		t.e.Phase, t.e.Status.Since = Fail, t.at
		t.e.Status.Message += fmt.Sprintf(" Mend that and `drover env retry %s`, plan something else, or destroy it.", t.e.Name)
	}
	return nil
}

// take makes the plan the one that is carried out. From here on it is.
func (t *turn) take(ctx context.Context) error {
	p, n, spec := *t.seen.Plan, t.e.Spec.Next, &t.e.Spec
	if err := t.e.takes(p.Spec); err != nil {
		return t.reject(ctx, err.Error(), "")
	}
	if err := t.finish(ctx, t.e.Status.Operation, operation.Superseded, "a later plan took its place"); err != nil {
		return err
	}
	if spec.Turn > 0 && !p.Spec.Destroy && (spec.Version != p.Spec.Version || !sameParameters(spec.Parameters, p.Spec.Parameters)) {
		spec.Previous = &Before{Version: spec.Version, Parameters: spec.Parameters}
	}
	ttl := p.Spec.TTL
	if ttl == 0 && spec.Turn == 0 {
		b, err := t.Templates.Blueprint(ctx, p.Spec.Version)
		if err != nil {
			return err
		}
		ttl = time.Duration(b.About().Spec.TTL)
	}
	if ttl > 0 {
		spec.Ends, t.e.Status.Reminded = t.at.Add(ttl).Truncate(time.Second), t.at
	}
	if spec.Turn++; spec.Turn == 1 {
		spec.FirstEnd = spec.Ends
	}
	if n.Operation == "" { // an end that was refused before
		begin := operation.Start("destroy", t.e.Object, ledger.BySchedule("end"))
		t.set.Puts, n.Operation = append(t.set.Puts, begin), begin.Object.ID
	}
	spec.Planned, spec.Plan, spec.Next = spec.Turn, p.ID, nil
	spec.Version, spec.Parameters, spec.Destroy = p.Spec.Version, p.Spec.Parameters, p.Spec.Destroy
	if p.Spec.Describes {
		spec.Description = p.Spec.Description
	}
	if p.Spec.Tagged {
		spec.Tags = p.Spec.Tags
	}
	if t.e.Phase = Destroying; !spec.Destroy {
		t.e.Phase, spec.Told = Deploying, &Told{Description: p.Spec.Description, Tags: p.Spec.Tags}
	}
	t.op = t.e.Phase
	t.e.Status.Operation, t.e.Status.Tries, t.e.Status.Since, t.e.Status.Message = n.Operation, 0, t.at, "its resources are laid out"
	p.Phase = Applied
	put, err := p.put(Applied)
	t.set.Puts = append(t.set.Puts, put)
	return err
}

func sameParameters(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	return maps.EqualFunc(a, b, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}

// settle ends the turn: what it gives, how it went.
func (t *turn) settle(ctx context.Context, a Settle) error {
	s := &t.e.Status
	if a.Outcome == operation.Succeeded {
		err := t.outputs(ctx)
		if err == nil {
			err = t.endpoints(ctx)
		}
		if fault.Is(err, fault.Invalid) {
			a = Settle{Phase: Fail, Outcome: operation.Failed, Message: fmt.Sprintf("%s. Mend the template and plan again (drover env plan %s).", err, t.e.Name)}
		} else if err != nil {
			return err
		}
		s.Anew = 0
		if s.Deployed.IsZero() || s.Operation != "" {
			s.Deployed = t.at
		}
	}
	if err := t.groups(ctx); err != nil {
		return err
	}
	if err := t.finish(ctx, s.Operation, a.Outcome, a.Message); err != nil {
		return err
	}
	if all := slices.Concat(s.Checks, s.Entries); a.Phase == OK && len(all) > 0 {
		a.Phase, a.Message = health(all)
	}
	s.Operation, s.Counts = "", Counts{}
	t.say(a.Phase, a.Message)
	return nil
}

// clean ends the environment, of which nothing is left. Counts alone are not believed:
// what would be left behind nobody could ever take away.
func (t *turn) clean(ctx context.Context) error {
	q := ResourcesOf(t.e.Object)
	q.Limit = 1
	if left, err := t.Store.List(ctx, q); err != nil || len(left) > 0 {
		t.next = &Come{After: glanceEvery, Why: "its resources are worked on"}
		return errors.Join(err, t.rouse(ctx))
	}
	s := &t.e.Status
	if err := t.finish(ctx, s.Operation, operation.Succeeded, ""); err != nil {
		return err
	}
	if t.e.Spec.Next != nil {
		if err := t.finish(ctx, t.e.Spec.Next.Operation, operation.Superseded, "the environment is destroyed"); err != nil {
			return err
		}
		t.e.Spec.Next = nil
	}
	for _, ref := range s.Secrets {
		if err := t.shred(ctx, ref); err != nil {
			return err
		}
	}
	if err := t.forgives(ctx); err != nil {
		return err
	}
	t.set.Frees = append(t.set.Frees, ledger.Claim{Name: named(t.e.Org, t.e.Owner, t.e.Name), Holder: t.e.Ref})
	*s = Status{Since: t.at, Destroyed: t.at, Deployed: s.Deployed, Laid: s.Laid, Message: "It was destroyed."}
	t.e.Phase, t.e.Deleted, t.op = Destroyed, t.at, "delete"
	t.forget(t.e.ID)
	return nil
}
