package gitops

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Deployments carries deployments out.
type Deployments struct{ *Service }

// Reconcile loads, observes, plans, acts, tells the custom resource, and returns
// one write.
func (r *Deployments) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	d, err := sound(ctx, r.Service, o, Decode)
	if err != nil {
		return reconcile.Result{}, gaveUp(err)
	}
	if o = d.Object; !o.Deleted.IsZero() {
		return reconcile.Done(ledger.Set{}), nil
	}
	now := r.Now().UTC()
	d.Status.refresh(now)
	f, err := r.facts(ctx, d)
	if err != nil {
		return reconcile.Result{}, err
	}
	run := &run{Service: r.Service, task: task, read: o, d: d, facts: f, now: now, op: "update"}
	run.set = ledger.Set{Actor: "system", Cause: ledger.ByChange(o.Ref, o.Version)}
	return run.act(ctx, Plan(d, f, run.now))
}

// facts reads what Plan looks at.
func (r *Deployments) facts(ctx context.Context, d Deployment) (f Facts, err error) {
	s := &d.Status
	if f.Held, err = r.engine(ctx, s.Engine); err != nil {
		return f, err
	}
	if s.Leaving != nil {
		if f.Left, err = r.engine(ctx, s.Leaving.Engine); err != nil {
			return f, err
		}
	}
	if len(d.Spec.To.Selector) > 0 || len(s.Children) > 0 {
		if err = r.fleet(ctx, d, &f); err != nil {
			return f, err
		}
	}
	if d.Spec.Deleted {
		f.Orphaned, err = r.orphaned(ctx, s.Target)
		return f, err
	}
	if !d.Spec.Operator {
		f.Barred = r.barred(d.Org)
	}
	if s.Run != "" { // which may be to end, whatever else there is
		if f.Next, err = r.nextRun(ctx, d); err != nil {
			return f, err
		}
	}
	if err = r.name(ctx, d, &f); err != nil || f.Rival != "" || d.Spec.Invalid != "" || f.Barred != "" {
		return f, err
	}
	w, err := r.workspace(ctx, d.workspace())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return f, err
	}
	if err == nil && w.Object.Deleted.IsZero() {
		f.Workspace = &w
	}
	if len(d.Spec.To.Selector) > 0 {
		return f, nil
	}
	if f.Wanted = d.Spec.To.Cluster; f.Wanted == "" {
		f.Wanted = w.Spec.Engine
	}
	if f.Engine, err = r.engine(ctx, f.Wanted); err != nil || f.Engine == nil {
		return f, err
	}
	return f, r.around(ctx, d, &f)
}

// around reads what the body is made of.
func (r *Deployments) around(ctx context.Context, d Deployment, f *Facts) error {
	if name := d.Spec.To.Target; name != "" {
		t, ok, err := r.targetNamed(ctx, d.workspace(), name)
		if err != nil {
			return err
		}
		if ok {
			f.Target = &t
		}
	}
	if s := &d.Status; f.Target == nil || f.Target.ID != s.Target {
		var err error
		if f.Orphaned, err = r.orphaned(ctx, s.Target); err != nil {
			return err
		}
	}
	c, ok, err := r.repositoryFor(ctx, d.workspace(), d.Spec.Repository)
	if err != nil {
		return err
	}
	if ok && c.Status.Good != nil {
		f.Credential = &c
	}
	if f.Next == nil {
		if f.Next, err = r.nextRun(ctx, d); err != nil {
			return err
		}
	}
	if f.Engine.Runtime == kubernetes && d.Spec.To.Target == "" && !f.Engine.Leaving {
		return r.checkout(ctx, d, f)
	}
	return nil
}

func (s *Service) engine(ctx context.Context, id string) (*Engine, error) {
	if id == "" {
		return nil, nil
	}
	e, err := s.Engines.Engine(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot tell what becomes of cluster %s: %w", id, err)
	}
	return &e, nil
}

// name tells who has the name that the deployment wants.
func (r *Deployments) name(ctx context.Context, d Deployment, f *Facts) error {
	holder, err := r.Store.Lookup(ctx, nameOf(d.workspace(), d.Name))
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case holder == d.Ref:
		f.Named = true
		return nil
	}
	f.Rival = holder.ID
	o, err := r.Store.Get(ctx, holder)
	if err != nil {
		return err
	}
	rival, err := sound(ctx, r.Service, o, Decode)
	f.Dying = rival.Spec.Deleted
	return err
}

// run is one run on one deployment: it turns actions into one set.
type run struct {
	*Service
	task  reconcile.Task
	read  ledger.Object
	d     Deployment
	facts Facts
	now   time.Time
	set   ledger.Set
	op    string
	oust  string
	come  *Come
}

func (r *run) act(ctx context.Context, actions []Action) (reconcile.Result, error) {
	held, issued := false, r.d.Status.Issued
	for _, a := range actions {
		if _, ok := a.(Hold); ok {
			held = true
		}
		if err := r.step(ctx, a); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !held && r.d.Spec.Invalid == "" {
		r.d.Status.Error, r.d.Status.Told, r.d.Status.Patient = "", "", false
	}
	r.d.Status.Wanted = ""
	if r.d.Status.Engine == "" {
		r.d.Status.Wanted = r.facts.Wanted
	}
	r.d.Status.Quiet = r.facts.quiet(r.d.Status.Engine)
	r.d.settle(r.now)
	r.d.vouch(r.facts.Engine)
	r.annotate(&r.d, r.facts.Credential)
	if c, ok := r.d.conclude(); ok {
		if err := r.step(ctx, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	told := r.report(ctx, issued)
	if err := r.write(); err != nil {
		return reconcile.Result{}, err
	}
	if told != nil {
		return reconcile.Result{Write: r.set}, told
	}
	if wait := r.d.Status.Refreshed.Add(refreshEvery).Sub(r.now); r.d.Status.Pushed && (r.come == nil || wait < r.come.After) {
		r.come = &Come{max(wait, time.Millisecond), "for the repository"}
	}
	if r.come != nil && r.d.Object.Deleted.IsZero() {
		return reconcile.Wait(r.set, r.come.After, r.come.Why), nil
	}
	return reconcile.Done(r.set), nil
}

func (r *run) step(ctx context.Context, a Action) error {
	s := &r.d.Status
	switch a := a.(type) {
	case Claim:
		r.set.Claims = append(r.set.Claims, ledger.Claim{Name: nameOf(r.d.workspace(), r.d.Name), Holder: r.d.Ref})
		runs, err := r.runsOf(ctx, r.d) // they may have waited for it
		r.set.Wakes = append(r.set.Wakes, runs...)
		return err
	case Hold:
		s.Error, s.Told, s.Patient = a.Why, a.Told, a.Patient
	case Place:
		r.place(a.Engine)
	case Detach:
		return r.detach(ctx)
	case Release:
		return r.release(ctx)
	case Retreat, Withdraw:
		s.Issued++
		s.Remove, s.Token = true, r.task.Token
	case Unplace:
		s.Engine, s.Runtime, s.Desired, s.Digest, s.Remove, s.Observed = "", "", "", "", false, nil
		s.Made, s.Commit = "", ""
	case Begin:
		r.begin(a.Run)
	case End:
		r.letGo()
	case Stop:
		return r.stop(ctx, a.Run)
	case Unread:
		s.Unread = a.Why
		r.giveUp(a.Lasting, a.Why)
	case Render:
		s.Unread = ""
		if err := r.render(ctx, a); err != nil {
			return err
		}
		r.giveUp(false, "")
	case Conclude:
		puts, err := r.endOperation(ctx, &r.d, a.Phase, a.Reason)
		r.set.Puts = append(r.set.Puts, puts...)
		if r.d.child() { // which may be what its own operation waited for
			r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindDeployment.Name, ID: r.d.Parent}, Org: r.d.Org})
		}
		return err
	case Vanish:
		return r.vanish(ctx)
	case Spread:
		return r.spread(ctx, a.Engines)
	case Gather:
		return r.gather(ctx, a.Children)
	case Oust:
		r.oust = a.ID
	case Come:
		if r.come == nil || a.After < r.come.After {
			r.come = &a
		}
	}
	return nil
}

// place hands the deployment to another engine. The one that has it is to remove
// its copy; the count goes on, so that no word of one is taken for the other's.
func (r *run) place(e Engine) {
	s := &r.d.Status
	if s.Engine == e.ID && !s.Remove && s.Issued > 0 { // another runtime in the same place: the next body is for that
		s.Made, s.Commit = "", ""
		return
	}
	if s.Engine != "" && s.Engine != e.ID && s.Issued > 0 && s.Desired != "" && !s.removed() {
		s.Leaving = &Leaving{Engine: s.Engine, Runtime: s.Runtime, Generation: s.Issued + 1, Token: r.task.Token, Desired: s.Desired, Digest: s.Digest}
	}
	s.Engine, s.Runtime, s.Desired, s.Digest, s.Remove, s.Detached, s.Observed = e.ID, e.Runtime, "", "", false, false, nil
	s.Unread = ""
	s.Made, s.Commit = "", ""
}

// begin takes a sync run up.
func (r *run) begin(run SyncRun) {
	s := &r.d.Status
	s.Run = run.ID
	if s.Sync = requestOf(run); s.Sync.Operation != nil {
		s.Sync.Operation.Instance = s.Engine
	}
	r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: run.Ref, Org: run.Org})
}

// letGo ends the care for a sync run. One that ended before the agent said so was
// ended by somebody just as it was handed over: the agent is not to begin it.
func (r *run) letGo() {
	s := &r.d.Status
	if seen := s.deployed().Run; s.Sync != nil && s.Sync.ID == s.Run && (seen == nil || seen.ID != s.Run || !endedRun(seen)) {
		stopped := *s.Sync
		stopped.Terminate = true
		s.Sync = &stopped
	}
	s.Run = ""
}

// vanish ends the deployment: whoever held its resource back lets it go first.
func (r *run) vanish(ctx context.Context) error {
	if of := r.d.Spec.Origin; of != nil && r.Mirror != nil {
		if err := r.Mirror.Release(ctx, KindDeployment.Name, r.d.ID, *of); err != nil {
			return fmt.Errorf("cannot let the custom resource go: %w", err)
		}
	}
	r.d.Object.Deleted, r.op = r.now, "delete"
	r.set.Frees = append(r.set.Frees, ledger.Claim{Name: nameOf(r.d.workspace(), r.d.Name), Holder: r.d.Ref})
	heirs, err := r.wakesOf(ctx, map[string]any{"workspace": r.d.workspace(), "name": r.d.Name})
	if err != nil {
		return err
	}
	for _, w := range heirs {
		if w.ID != r.d.ID {
			r.set.Wakes = append(r.set.Wakes, w)
		}
	}
	if r.d.child() {
		r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindDeployment.Name, ID: r.d.Parent}, Org: r.d.Org})
	}
	runs, err := r.runsOf(ctx, r.d)
	if err != nil {
		return err
	}
	ended, err := r.runWakes(ctx, map[string]any{"parent": r.d.ID}, Succeeded, RunFailed, Terminated)
	r.set.Wakes = append(append(r.set.Wakes, runs...), ended...)
	return err
}

// write adds the deployment to the set, unless it is as it was read.
func (r *run) write() error {
	put, err := r.d.put(r.op)
	if err != nil {
		return err
	}
	o := put.Object
	if bytes.Equal(o.Spec, r.read.Spec) && bytes.Equal(o.Status, r.read.Status) && o.Phase == r.read.Phase && o.Deleted.Equal(r.read.Deleted) &&
		o.Parent == r.read.Parent && reflect.DeepEqual(o.Fields, r.read.Fields) {
		return nil
	}
	if r.op == "update" && o.Phase != r.read.Phase {
		put.Op = o.Phase
	}
	r.set.Puts = append([]ledger.Put{put}, r.set.Puts...)
	if r.d.child() && o.Phase != r.read.Phase {
		r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindDeployment.Name, ID: r.d.Parent}, Org: r.d.Org})
	}
	return nil
}

// Unsettled lists, for the slow resync, deployments that something should become of.
func (r *Deployments) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.unsettledOf(ctx, KindDeployment.Name, []any{Pending, Deploying, Deleting}, after, limit)
}

func (s *Service) unsettledOf(ctx context.Context, kind string, phases []any, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{
		Kind: kind, AfterID: after, Limit: limit, Brief: true,
		Where: ledger.Compare{Column: "phase", Op: ledger.In, Values: phases},
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
