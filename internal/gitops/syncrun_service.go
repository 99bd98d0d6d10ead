package gitops

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// runRetries is how often a sync is tried again after it failed.
const runRetries = 5

// IntendSyncRun takes a sync run's intent, as IntendDeployment does. What it was
// made with never changes: other wishes are written down as Invalid.
func (s *Service) IntendSyncRun(ctx context.Context, in SyncRunIntent) error {
	for attempt := 0; ; attempt++ {
		err := s.intendSyncRun(ctx, in)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) intendSyncRun(ctx context.Context, in SyncRunIntent) error {
	o, known, err := s.known(ctx, KindSyncRun.Name, in.Intent)
	if err != nil {
		return err
	}
	r, err := DecodeSyncRun(o)
	if err != nil {
		return err
	}
	actor := actorOf(in.Intent)
	if in.Gone {
		var over bool
		if r.Spec.Origin, over, err = s.goneAlready(ctx, KindSyncRun.Name, in.Intent, o, r.Spec.Deleted, r.Spec.Origin); over || err != nil {
			return err
		}
		return s.dropRun(ctx, r, actor)
	}
	forged, err := s.admit(ctx, in.Intent, known, o, r.Spec.Deleted, r.Spec.Origin)
	if err != nil {
		return err
	}
	if known {
		altered, err := s.unforge(ctx, &r, forged)
		if err != nil {
			return err
		}
		if forged {
			r.comeBack(in)
		}
		if !r.restore(in) && !altered && !forged && !moved(in.Intent, r.Spec.Origin) && r.Org == in.Namespace.org() {
			return nil
		}
		r.Org = in.Namespace.org()
		r.Spec.Origin, r.Spec.Invalid = in.origin(), ""
		switch asks := runOf(in); {
		case asks.Deployment != r.Spec.Deployment:
			r.Spec.Invalid = immutableDeployment
		case asks.Revision != r.Spec.Revision:
			r.Spec.Invalid = immutableRevision
		}
		r.Spec.Seal = r.Spec.seal()
		err = s.writeRun(ctx, r, "update", ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx)})
		return s.mended(ctx, r.Ref, in.Intent, forged || altered, err)
	}
	ws, puts, err := s.homeWorkspace(ctx, in.Namespace)
	if err != nil {
		s.refuse(ctx, KindSyncRun.Name, in.Intent, err, func(c Condition) any {
			return SyncRunView{Phase: "Waiting", Message: c.Message, Conditions: []Condition{c}}
		})
		return err
	}
	r = s.newRun(ws, in.UID, in.Name, runOf(in))
	r.Spec.Stop = in.Phase == "Terminating" // the ledger has lost it with that
	r.Spec.Seal = r.Spec.seal()
	set := ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx), Puts: puts}
	if phase := endedPhase[in.Phase]; phase != "" { // the ledger has lost it: it is not carried out twice
		r.Phase = phase
		if r.Status.Mirrored, err = digestOfView(ViewRun(r)); err != nil { // its resource tells more than is known now
			return err
		}
		return s.writeRun(ctx, r, "create", set)
	}
	if bad := checkRevision(in.Revision); bad != "" {
		r.Phase, r.Status.Error = RunFailed, bad // nobody could carry it out
		return s.writeRun(ctx, r, "create", set)
	}
	return s.writeRun(ctx, r, "create", s.startRun(&r, set))
}

// endedPhase are the phases of sync runs that have ended, by what users call them.
var endedPhase = map[string]string{"Succeeded": Succeeded, "Failed": RunFailed, "Terminated": Terminated}

// runOf is what a custom resource asks for.
func runOf(in SyncRunIntent) SyncRunSpec {
	return SyncRunSpec{Deployment: cut(in.Deployment, 253), Revision: cut(in.Revision, maxRevision), Prune: in.Prune, Origin: in.origin(), Made: in.Created.UTC()}
}

// unforge puts back all that a sync run was written with, also what its resource cannot
// tell: that somebody wants it to end. It is as the log has it. Lost: so is the origin.
func (s *Service) unforge(ctx context.Context, r *SyncRun, lost bool) (altered bool, err error) {
	altered = r.Spec.forged()
	if !altered && (!lost || r.Spec.Seal != "") {
		return false, nil
	}
	var was *SyncRunSpec
	stop := false
	err = s.lookBack(ctx, r.Ref, func(c ledger.Change) bool {
		stop = stop || c.Op == opTerminate
		then, bad := read[SyncRunSpec](c.Object.Spec)
		if spec, ok := then.(SyncRunSpec); bad == nil && ok && spec.Seal != "" && !spec.forged() {
			was = &spec
		}
		return was != nil
	})
	if err != nil {
		return false, err
	}
	if was == nil {
		r.Spec.Stop = stop
		return altered, nil
	}
	if was.Deployment != r.Spec.Deployment && !r.over() {
		r.Parent = "" // the deployment that it seemed to be for
	}
	was.Stop = was.Stop || stop
	was.Origin, was.Deleted, was.Seal = r.Spec.Origin, r.Spec.Deleted, was.seal()
	r.Spec = *was
	return altered, nil
}

// restore puts back what a sync run was made with, where somebody has changed what the
// ledger has of that.
func (r *SyncRun) restore(in SyncRunIntent) bool {
	has, was := r.Spec.digest(), runOf(in)
	if in.Generation != r.Spec.Origin.Generation || has == "" || has == was.digest() {
		return false
	}
	if r.Spec.Deployment != was.Deployment && !r.over() {
		r.Parent = "" // the deployment that it seemed to be for
	}
	if r.Spec.Deployment, r.Spec.Revision = was.Deployment, was.Revision; in.Generation <= 1 {
		r.Spec.Prune = was.Prune
	}
	return true
}

// comeBack takes back that a sync run was to go. One that has ended meanwhile has ended.
func (r *SyncRun) comeBack(in SyncRunIntent) {
	if r.Spec.Origin == nil && r.Spec.Seal == "" { // nothing is left of what it was made with
		if r.Spec = runOf(in); r.Spec.Made.IsZero() {
			r.Spec.Made = r.Created
		}
	}
	r.Spec.Origin, r.Spec.Deleted, r.Status.Mirrored = in.origin(), false, ""
	revive(&r.Object, in.Name, r.Phase)
}

// newRun is a sync run of a workspace.
func (s *Service) newRun(ws ledger.Object, id, name string, spec SyncRunSpec) SyncRun {
	if spec.Made.IsZero() {
		spec.Made = s.Now().UTC()
	}
	return SyncRun{
		Object: ledger.Object{
			Ref: ledger.Ref{Kind: KindSyncRun.Name, ID: id}, Org: ws.Org, Name: name, Phase: Waiting,
			Fields: ledger.Fields{"workspace": ws.ID},
		},
		Spec: spec, Status: SyncRunStatus{Since: s.Now().UTC()},
	}
}

// startRun adds the operation of a new run.
func (s *Service) startRun(r *SyncRun, set ledger.Set) ledger.Set {
	start := operation.StartFor("sync", r.Object, set.Cause, operation.About{Type: typeSyncRun, Owner: r.workspace()})
	r.Status.Operation, r.Status.Cause = start.Object.ID, string(set.Cause)
	set.Puts = append(set.Puts, start)
	return set
}

func (s *Service) writeRun(ctx context.Context, r SyncRun, op string, set ledger.Set) error {
	put, err := r.put(op)
	if err != nil {
		return err
	}
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: r.Ref, Org: r.Org})
	_, err = s.Store.Commit(ctx, set)
	return err
}

// dropRun wants a sync run gone: one that runs is terminated.
func (s *Service) dropRun(ctx context.Context, r SyncRun, actor string) error {
	r.Spec.Deleted = true
	return s.writeRun(ctx, r, "delete", ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx)})
}

// over reports whether a sync run has ended.
func (r *SyncRun) over() bool {
	return r.Phase == Succeeded || r.Phase == RunFailed || r.Phase == Terminated
}

// stops reports whether a sync run is to end before it has.
func (r *SyncRun) stops() bool { return r.Spec.Deleted || r.Spec.Stop }

// requestOf is a sync run as the agent is asked for it.
func requestOf(r SyncRun) *runtime.SyncRequest {
	out := &runtime.SyncRequest{ID: r.ID, Revision: r.Spec.Revision, Prune: r.Spec.Prune, Retries: runRetries, Terminate: r.stops()}
	if r.Status.Operation != "" {
		out.Operation = &runtime.DeploymentOperation{ID: r.Status.Operation, Owner: r.workspace(), Resource: r.ID, Type: typeSyncRun, Cause: r.Status.Cause}
	}
	return out
}

// nextRun is the sync run of a deployment that is under way, otherwise the oldest
// that has not ended; nil: none. One that was made before and is heard of after
// another has begun waits for that.
func (s *Service) nextRun(ctx context.Context, d Deployment) (*SyncRun, error) {
	if d.Status.Run != "" {
		o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindSyncRun.Name, ID: d.Status.Run})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		r, err := sound(ctx, s, o, DecodeSyncRun)
		if err != nil || o.ID != "" && o.Deleted.IsZero() && !r.over() {
			return &r, err
		}
	}
	found, err := s.Store.List(ctx, ledger.Query{
		Kind: KindSyncRun.Name, Scope: map[string]any{"workspace": d.workspace(), "deployment": d.Name}, Limit: 10,
		Order: []ledger.Order{{Column: "made"}, {Column: "created"}},
		Where: ledger.And{
			ledger.Compare{Column: "phase", Op: ledger.In, Values: []any{Waiting, Running, Terminating}},
			ledger.Compare{Column: "parent", Op: ledger.In, Values: []any{"", d.ID}},
		},
	})
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		r, err := sound(ctx, s, o, DecodeSyncRun)
		if err != nil {
			return nil, err
		}
		if !r.stops() {
			return &r, nil
		}
	}
	return nil, nil
}

// runsOf wakes the sync runs that are about a deployment.
func (s *Service) runsOf(ctx context.Context, d Deployment) ([]ledger.Wake, error) {
	return s.runWakes(ctx, map[string]any{"workspace": d.workspace(), "deployment": d.Name}, Waiting, Running, Terminating)
}

func (s *Service) runWakes(ctx context.Context, scope map[string]any, phases ...any) ([]ledger.Wake, error) {
	var out []ledger.Wake
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{
			Kind: KindSyncRun.Name, Scope: scope, AfterID: after, Limit: wakesPage, Brief: true,
			Where: ledger.Compare{Column: "phase", Op: ledger.In, Values: phases},
		})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			out, after = append(out, ledger.Wake{Ref: o.Ref, Org: o.Org}), o.ID
		}
		if len(found) < wakesPage {
			return out, nil
		}
	}
}
