package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// Reconcile carries a cluster through its phases: it loads, observes, plans,
// acts, and returns one write.
func (s *Service) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Get(ctx, task.Ref.ID)
	if fault.Is(err, fault.NotFound) {
		s.forget(task.Ref.ID)
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	c, err := load(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	facts, bodies, err := s.observe(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	r := &run{Service: s, task: task, c: c, facts: facts, bodies: bodies, at: s.now().UTC(), op: "update"}
	return r.act(ctx, Plan(c, facts, r.at))
}

// run is one run on one cluster: it turns actions into one set.
type run struct {
	*Service
	task   reconcile.Task
	c      Cluster
	facts  Facts
	bodies map[string]json.RawMessage // of the wanted steps
	at     time.Time
	op     string // the verb for the log: the phase entered, else "update"
	set    ledger.Set
	// next is what comes after the write; nil: another run at once.
	next *Come
	// stale: somebody else wrote meanwhile, so what was decided may be wrong by now.
	stale bool
}

func (r *run) act(ctx context.Context, actions []Action) (reconcile.Result, error) {
	if len(actions) == 0 {
		return reconcile.Done(ledger.Set{}), nil
	}
	if come, ok := actions[0].(Come); ok {
		r.next = &come
		said := r.c.Phase == Provisioned || r.c.Phase == Deprovisioning && r.c.Status.Leaving
		if !said || r.c.Status.Message == come.Why {
			return r.result(ledger.Set{}), nil
		}
		r.c.Status.Message = come.Why
	}
	for _, a := range actions {
		err := r.step(ctx, a)
		if r.stale {
			return reconcile.Again(ledger.Set{}), nil
		}
		if err != nil {
			return r.stuck(err)
		}
	}
	set, err := r.write()
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.result(set), nil
}

func (r *run) result(set ledger.Set) reconcile.Result {
	if r.next == nil {
		return reconcile.Again(set)
	}
	return reconcile.Wait(set, r.next.After, r.next.Why)
}

// stuck says what is in the way, where people look for it, and tries again.
func (r *run) stuck(err error) (reconcile.Result, error) {
	switch r.c.Phase {
	case Provisioning, Provisioned, Deprovisioning, Cleanup, Abandoned:
	default:
		return reconcile.Result{}, err // the message is the agent's
	}
	message := "It is tried again: " + err.Error()
	if r.c.Status.Message == message {
		return reconcile.Result{}, err
	}
	o, failed := load(r.c.Object) // what was half done is not written
	if failed != nil {
		return reconcile.Result{}, err
	}
	r.c, r.set, r.op = o, ledger.Set{}, "update"
	r.c.Status.Message = message
	set, failed := r.write()
	if failed != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Write: set}, err
}

func (r *run) step(ctx context.Context, a Action) error {
	switch a := a.(type) {
	case Come:
	case Move:
		return r.move(a)
	case Begin:
		r.c.Status.Maker, r.op = &a.Maker, "maker"
	case Ensure:
		return r.ensure(ctx)
	case Account:
		return r.account(ctx)
	case Settle:
		return r.settle(ctx, a.Steps)
	case Apply:
		return r.apply(ctx, a.Steps)
	case Drop:
		return r.drop(ctx, a.Steps)
	case Finish:
		return r.finish(ctx, a)
	case Keep:
		to := Waiting
		if r.c.Status.Session != "" {
			to = Ready
		}
		r.c.Spec.Deleted = false
		err := r.move(Move{To: to})
		r.op = "keep"
		return err
	case Leave:
		r.c.Status.Leaving, r.op = true, "leave"
		r.set.Counts = append(r.set.Counts, closing(r.c.ID))
	case Strip:
		return r.strip(ctx, a.Last)
	case Abandon:
		r.abandon(r.c.Status.Steps)
		r.c.Status.Steps, r.op = nil, "steps"
	case Withdraw:
		return r.withdraw(ctx)
	case Lose:
		return r.lose(ctx)
	case Evacuate:
		return r.evacuate(ctx)
	case Clean:
		return r.clean(ctx)
	}
	return nil
}

func (r *run) move(a Move) error {
	if !CanMove(r.c.Phase, a.To) {
		return reconcile.Terminal(fault.New(fault.Internal, "no move from %s to %s", r.c.Phase, a.To))
	}
	s := &r.c.Status
	r.c.Phase, r.op = a.To, a.To
	s.Since, s.Reason, s.Message = r.at, a.Reason, ""
	if a.To == Failed {
		s.Refused = s.Maker.digest()
		if r.facts.Maker != nil {
			s.Refused = r.facts.Maker.digest()
		}
	}
	return nil
}

// account sees to the accounts of its agent and of its login.
func (r *run) account(ctx context.Context) error {
	if r.facts.Accounts {
		client, _, err := r.Accounts.EnsureAgent(ctx, r.c.ID)
		if err != nil {
			return err
		}
		r.c.Status.Client = client
	}
	if r.facts.Login {
		client, _, err := r.Logins.EnsureLogin(ctx, r.c.ID, loginURL(r.c.Spec.Domain))
		if err != nil {
			return err
		}
		r.c.Status.Login = client
	}
	r.op = "account"
	r.saw(r.c.ID, func(l *looks) { l.accounts = r.now() })
	return nil
}

// loginURL is where people come back to after they have logged in to a cluster.
func loginURL(domain string) string {
	return "https://oauth-openshift." + domain + "/oauth2callback/drover"
}

// finish ends the running operation in the same commit.
func (r *run) finish(ctx context.Context, a Finish) error {
	puts, err := r.endOperation(ctx, &r.c, a.Phase, a.Reason)
	r.set.Puts = append(r.set.Puts, puts...)
	return err
}

// endOperation takes the operation from the cluster, and ends it where it still
// runs.
func (s *Service) endOperation(ctx context.Context, c *Cluster, phase, reason string) ([]ledger.Put, error) {
	id := c.Status.Operation
	if id == "" {
		return nil, nil
	}
	op, err := s.store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id})
	if err != nil {
		return nil, err
	}
	c.Status.Operation = ""
	if op.Phase != operation.Running {
		return nil, nil
	}
	put, err := operation.Finish(op, phase, reason, s.now())
	return []ledger.Put{put}, err
}

// clean gives back what the cluster has elsewhere.
func (r *run) clean(ctx context.Context) error {
	if r.Accounts != nil {
		if err := r.Accounts.RemoveAgent(ctx, r.c.ID); err != nil {
			return err
		}
	}
	if r.Logins != nil {
		if err := r.Logins.RemoveLogin(ctx, r.c.ID); err != nil {
			return err
		}
	}
	for _, ref := range []string{r.c.Status.State, r.c.Status.Kubeconfig, r.c.Spec.Kubeconfig} {
		if err := r.shred(ctx, ref); err != nil {
			return err
		}
	}
	r.set.Frees = append(r.set.Frees, r.c.Spec.names(r.c.Ref)...)
	r.c.Deleted, r.c.Status, r.op = r.at, Status{}, "delete"
	r.forget(r.c.ID)
	return nil
}

func (r *run) write() (ledger.Set, error) {
	put, err := r.put()
	if err != nil {
		return ledger.Set{}, err
	}
	r.set.Actor, r.set.Cause = "system", ledger.ByChange(r.c.Ref, r.c.Version)
	r.set.Puts = append([]ledger.Put{put}, r.set.Puts...)
	return r.set, nil
}

func (r *run) put() (ledger.Put, error) { return r.c.put(r.op) }

// put writes a cluster in place of the version that was read.
func (c Cluster) put(op string) (ledger.Put, error) {
	o := c.Object
	var err error
	if o.Spec, err = json.Marshal(c.Spec); err != nil {
		return ledger.Put{}, err
	}
	if o.Status, err = json.Marshal(c.Status); err != nil {
		return ledger.Put{}, err
	}
	o.Labels = c.Spec.Labels
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// saw notes that something was looked at; forget drops such notes.
func (s *Service) saw(id string, note func(*looks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked == nil {
		s.looked = map[string]looks{}
	}
	l := s.looked[id]
	note(&l)
	s.looked[id] = l
}

func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.looked, id)
}

// hasSteps reports whether there are steps to look after.
func (s *Service) hasSteps(c Cluster) bool {
	if len(c.Status.Steps) > 0 || c.Spec.Profile != "" || s.Installs != nil && s.reaches(c) {
		return true
	}
	return s.Offerings != nil && slices.ContainsFunc(s.Offerings.List(), func(off *offering.Offering) bool {
		return off.Steps() != nil && c.Spec.isFor(off)
	})
}

// depart writes that a cluster is to go.
func (s *Service) depart(ctx context.Context, c Cluster, puts ...ledger.Put) (ledger.Object, error) {
	c.Spec.Deleted, c.Phase = true, Deprovisioning
	c.Status.Since, c.Status.Message, c.Status.Reason = s.now().UTC(), "", ""
	put, err := c.put("delete")
	if err != nil {
		return c.Object, err
	}
	r, err := s.store.Commit(ctx, ledger.Set{
		Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx),
		Puts: append([]ledger.Put{put}, puts...), Wakes: []ledger.Wake{{Ref: c.Ref, Org: c.Org}},
	})
	if err != nil {
		return c.Object, err
	}
	return r.Objects[0], nil
}

// Unsettled lists, for the slow resync, clusters that have work to do: those on
// their way, those whose agents lack an account, and those with steps.
func (s *Service) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	var wakes []ledger.Wake
	for _, o := range found {
		c, err := load(o)
		if err != nil {
			continue
		}
		settled := c.Phase == Waiting || c.Phase == Ready || c.Phase == Failed || c.Phase == Abandoned
		if !settled || c.Spec.Deleted || c.Status.Operation != "" || s.Accounts != nil && c.Status.Client == "" || s.hasSteps(c) {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
	}
	return wakes, found[len(found)-1].ID, nil
}
