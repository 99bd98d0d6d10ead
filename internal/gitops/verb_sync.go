package gitops

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// runnable finds a deployment that the caller may have synced or refreshed: their
// own, and as an operator also what a custom resource asks for.
func (s *Service) runnable(ctx context.Context, ref, verb string) (Deployment, error) {
	d, err := s.own(ctx, ref, verb)
	if err == nil && d.Spec.Origin != nil && !access.From(ctx).Admin {
		return d, fault.New(fault.Denied, "deployment %s is what the custom resource %s/%s asks for: create a GitOpsDeploymentSyncRun there", d.Name, d.Spec.Origin.Namespace, d.Spec.Origin.Name).Because("custom-resource")
	}
	return d, err
}

// Sync asks for a sync run of a manual deployment; revision and prune as in
// SyncRunSpec.
func (s *Service) Sync(ctx context.Context, ref, revision string, prune bool) (SyncRun, string, error) {
	d, err := s.runnable(ctx, ref, "sync")
	switch {
	case err != nil:
		return SyncRun{}, "", err
	case len(d.Spec.To.Selector) > 0:
		return SyncRun{}, "", fault.New(fault.Invalid, "deployment %s is for many clusters: sync those that it has made", d.Name).Because("selector")
	case d.Spec.Automated:
		return SyncRun{}, "", fault.New(fault.Conflict, "deployment %s follows Git by itself: refresh it, or make it manual first", d.Name).Because("automated")
	}
	if bad := checkRevision(revision); bad != "" {
		return SyncRun{}, "", fault.New(fault.Invalid, "%s", bad).Because("revision")
	}
	if who := access.From(ctx); d.Spec.Operator && !who.Admin && revision != "" && revision != d.Spec.Revision {
		return SyncRun{}, "", fault.New(fault.Denied, "deployment %s was made by an operator and may go where you may not: it is synced at its own revision alone", d.Name).Because("revision")
	}
	r := s.runOf(d, revision, prune)
	r.Owner = access.From(ctx).User
	set := s.startRun(&r, s.set(ctx))
	op := r.Status.Operation
	if err := s.writeRun(ctx, r, "create", set); err != nil {
		return SyncRun{}, "", err
	}
	o, err := s.Store.Get(ctx, r.Ref)
	if err != nil {
		return SyncRun{}, "", err
	}
	r, err = DecodeSyncRun(o)
	return r, op, err
}

// runOf is a new sync run of a deployment.
func (s *Service) runOf(d Deployment, revision string, prune bool) SyncRun {
	id := ledger.NewID()
	r := s.newRun(ledger.Object{Ref: ledger.Ref{ID: d.workspace()}, Org: d.Org}, id, d.Name+"-"+id, SyncRunSpec{Deployment: d.Name, Revision: revision, Prune: prune})
	r.Parent, r.Owner = d.ID, d.Owner
	return r
}

// Terminate ends a sync run that waits or runs.
func (s *Service) Terminate(ctx context.Context, run string) error {
	for attempt := 0; ; attempt++ {
		err := s.terminate(ctx, run)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) terminate(ctx context.Context, run string) error {
	who := access.From(ctx)
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindSyncRun.Name, ID: cut(run, 253)})
	if fault.Is(err, fault.NotFound) || err == nil && (!who.Sees(o.Org, o.Owner) || !o.Deleted.IsZero()) {
		return fault.New(fault.NotFound, "there is no sync run %.80q", run)
	}
	if err != nil {
		return err
	}
	r, err := sound(ctx, s, o, DecodeSyncRun)
	switch {
	case err != nil:
		return err
	case !who.MayChange(o.Org, o.Owner):
		return fault.New(fault.Denied, "only whoever asked for sync run %s, and the organisation's admins, may terminate it", o.Name).Because("permission")
	case r.Spec.Origin != nil && !who.Admin:
		return fault.New(fault.Denied, "sync run %s is a custom resource: delete that", o.Name).Because("custom-resource")
	case r.over():
		return fault.New(fault.Conflict, "sync run %s has ended already", o.Name).Because("phase")
	case r.Spec.Stop && !r.Spec.forged():
		return nil
	}
	altered, err := s.unforge(ctx, &r, false)
	if err != nil {
		return err
	}
	if r.Spec.Stop = true; r.Spec.Seal != "" {
		r.Spec.Seal = r.Spec.seal()
	}
	if err = s.writeRun(ctx, r, opTerminate, s.set(ctx)); err == nil && altered && r.Spec.Origin != nil && s.Mirror != nil {
		s.Mirror.Mended(ctx, r.Kind, r.ID, *r.Spec.Origin)
	}
	return err
}

const opTerminate = "terminate" // in the log

// Rollback goes back to an earlier entry of the history: its id, or a commit; nil
// and "" for the one before the last. The commit is pinned until the revision is
// changed again, and repository and path are those that it was deployed from. What
// the revision was is kept. A manual one is synced, too.
func (s *Service) Rollback(ctx context.Context, ref string, id *int64, revision string) (Deployment, string, error) {
	for attempt := 0; ; attempt++ {
		d, op, err := s.rollback(ctx, ref, id, revision)
		if !again(err, attempt) {
			return d, op, err
		}
	}
}

func (s *Service) rollback(ctx context.Context, ref string, id *int64, revision string) (Deployment, string, error) {
	d, err := s.ours(ctx, ref, "roll back")
	if err != nil {
		return d, "", err
	}
	back, ok := d.Status.earlier(id, revision)
	if !ok {
		return d, "", fault.New(fault.NotFound, "deployment %s has no such revision in its history: see `drover deploy history %s`", d.Name, d.Name).Because("revision")
	}
	was := d.Spec
	d.Spec.Revision, d.Spec.Path, d.Spec.Repository = back.Revision, cmp.Or(back.Path, was.Path), cmp.Or(back.Repository, was.Repository)
	if !d.Spec.asks(was) {
		return d, "", nil
	}
	if bad := cmp.Or(checkRepository(d.Spec.Repository), checkPath(d.Spec.Path)); bad != "" { // as its cluster told it
		return d, "", fault.New(fault.Invalid, "%s", bad).Because("revision")
	}
	if d.Spec.Previous == "" {
		d.Spec.Previous = cmp.Or(was.Revision, "HEAD")
	}
	set := s.set(ctx)
	if !d.Spec.Automated {
		r := s.runOf(d, back.Revision, true)
		set = s.startRun(&r, set)
		put, err := r.put("create")
		if err != nil {
			return d, "", err
		}
		set.Puts = append(set.Puts, put)
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: r.Ref, Org: r.Org})
	}
	return s.change(ctx, d, "rollback", set)
}

// earlier finds an entry of the history.
func (s *Status) earlier(id *int64, revision string) (runtime.DeployedRevision, bool) {
	now := runtime.DeployedRevision{Revision: s.deployed().Sync.Revision}
	if n := len(s.History); n > 0 {
		now = s.History[n-1].DeployedRevision
	}
	for _, r := range slices.Backward(s.History) {
		switch {
		case id != nil && r.ID == *id, revision != "" && len(revision) >= 7 && len(r.Revision) >= len(revision) && r.Revision[:len(revision)] == revision:
			return r.DeployedRevision, true
		case id == nil && revision == "" && !same(r.DeployedRevision, now):
			return r.DeployedRevision, true
		}
	}
	return runtime.DeployedRevision{}, false
}

// refreshEvery is how often a repository is looked at at most, however often it is
// said to have changed.
const refreshEvery = time.Second

// Refresh has the repository looked at now.
func (s *Service) Refresh(ctx context.Context, ref string) error {
	d, err := s.runnable(ctx, ref, "refresh")
	if err != nil {
		return err
	}
	return s.refresh(ctx, d.Ref, nil)
}

// refresh moves the count for what came close behind another word, once it may.
func (s *Status) refresh(now time.Time) {
	if s.Pushed && !now.Before(s.Refreshed.Add(refreshEvery)) {
		s.Pushed, s.Refreshed = false, now
		s.Refresh++
	}
}

// word takes the word that a repository has changed, and tells when to look; more: it
// is to be looked at anyway. What one for many has heard before it gives to those
// that it has made.
func (s *Status) word(now time.Time, many bool) (wait time.Duration, more bool) {
	wait = min(max(0, refreshEvery-now.Sub(s.Refreshed)), refreshEvery)
	switch {
	case s.Pushed:
		return wait, true
	case wait > 0:
		s.Pushed = true
		return wait, false
	}
	s.Refresh++
	if s.Refreshed = now.UTC(); many {
		s.Pushes = nil
	}
	return 0, false
}

// refresh says that a repository has changed. The first word moves the count, one
// that comes close behind is remembered for a moment later, and of any more of them
// nothing but pushes that are new. A push (nil: nobody is to know of one) is the cause,
// and of one that follows Git an operation, unless another is under way, which it is
// a part of.
func (s *Service) refresh(ctx context.Context, ref ledger.Ref, push *Push) error {
	for attempt := 0; ; attempt++ {
		o, err := s.Store.Get(ctx, ref)
		if err != nil {
			return err
		}
		d, err := sound(ctx, s, o, Decode)
		if err != nil || !o.Deleted.IsZero() || d.Spec.Deleted {
			return err
		}
		wait, more := d.Status.word(s.Now(), len(d.Spec.To.Selector) > 0)
		if heard := push != nil && d.Status.hear(*push); more && !heard {
			return nil
		}
		wake := ledger.Wake{Ref: d.Ref, Org: d.Org, After: wait}
		set := s.set(ctx)
		if push != nil {
			set.Cause = push.cause()
			if d.Spec.Automated && d.Status.Operation == "" {
				if err := s.begin(ctx, &d, "push", &set); err != nil {
					return err
				}
			}
		}
		put, err := d.put("refresh")
		if err != nil {
			return err
		}
		set.Puts, set.Wakes = append([]ledger.Put{put}, set.Puts...), []ledger.Wake{wake}
		if _, err = s.Store.Commit(ctx, set); !again(err, attempt) {
			return err
		}
	}
}
