package argocd

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// userPrefix is what the history of Argo CD shows before the id of a sync.
const userPrefix = "drover:"

// move is what is to be done about a sync.
type move string

const (
	stay      move = ""          // the watch tells when there is more
	look      move = "look"      // have the repository looked at first
	begin     move = "begin"     // set the operation
	terminate move = "terminate" // end what runs
	withdraw  move = "withdraw"  // take back what has not begun
)

// syncing is everything that a step of a sync is decided by.
type syncing struct {
	want       *runtime.SyncRequest
	run        *runtime.SyncRun // the last one that is known
	begun      bool             // the wanted one was begun
	compared   string           // the sync that the repository was last looked at for
	refreshing bool
	behind     bool // Argo CD has compared another source last
	app        seenApplication
}

// step decides about a sync, and tells how it goes. It is pure: each id is begun
// at most once, and never while another operation is under way.
func step(s syncing) (move, *runtime.SyncRun) {
	if s.want == nil {
		if s.run != nil && !ended(s.run) {
			return stay, follow(s, s.run.ID, false)
		}
		return stay, s.run
	}
	id, state := s.want.ID, s.app.Status.OperationState
	if s.run != nil && s.run.ID == id && ended(s.run) {
		return stay, s.run
	}
	waits := func(why string) *runtime.SyncRun { return &runtime.SyncRun{ID: id, Phase: "Running", Message: why} }
	if s.begun {
		run := follow(s, id, s.want.Terminate)
		switch {
		case !s.want.Terminate || ended(run):
			return stay, run
		case state != nil && state.Operation.sync() == id && state.Phase == "Running":
			return terminate, run
		case s.app.Operation.sync() == id && (state == nil || state.Operation.sync() != id):
			return withdraw, run
		}
		return stay, run
	}
	switch {
	case s.want.Terminate:
		return stay, &runtime.SyncRun{ID: id, Phase: "Terminated", Message: "it was ended before it began"}
	case s.compared != id:
		return look, waits("Argo CD looks at the repository")
	case s.refreshing:
		return stay, waits("Argo CD looks at the repository")
	case s.app.Operation != nil || state != nil && (state.Phase == "Running" || state.Phase == "Terminating"):
		return stay, waits("it waits for another operation of the deployment to end")
	}
	return begin, waits("Argo CD has not begun yet")
}

// follow tells how a sync goes that was begun.
func follow(s syncing, id string, terminated bool) *runtime.SyncRun {
	state := s.app.Status.OperationState
	switch {
	case state != nil && state.Operation.sync() == id:
		return account(id, *state, terminated)
	case s.app.Operation.sync() == id:
		return &runtime.SyncRun{ID: id, Phase: "Running", Message: "Argo CD has not begun yet"}
	}
	return &runtime.SyncRun{ID: id, Phase: "Error", Message: "the sync was lost: another operation took its place, or the Application was deleted; ask for a new one"}
}

// account is what Argo CD tells about a sync.
func account(id string, state operationState, terminated bool) *runtime.SyncRun {
	run := &runtime.SyncRun{ID: id, Phase: state.Phase, Message: short(state.Message, 4000), Revision: state.SyncResult.Revision,
		Retries: state.RetryCount, Started: state.StartedAt}
	run.Resources = runtime.Foremost(state.SyncResult.Resources, maxResources)
	for i := range run.Resources {
		run.Resources[i].Message = short(run.Resources[i].Message, 500)
	}
	if run.Phase == "Failed" || run.Phase == "Error" {
		if terminated || strings.Contains(strings.ToLower(state.Message), "operation terminated") {
			run.Phase = "Terminated"
		}
	}
	if ended(run) { // before that it is the end of one attempt
		run.Finished = state.FinishedAt
	}
	return run
}

func ended(run *runtime.SyncRun) bool {
	return slices.Contains([]string{"Succeeded", "Failed", "Error", "Terminated"}, run.Phase)
}

const waitAgain = 15 * time.Second // for Argo CD, should no watch tell

// carry does what is next about refreshes and syncs of a deployment.
func (s *shift) carry(ctx context.Context, w *writer, d runtime.Deployment, m *memory, app *unstructured.Unstructured) (time.Duration, error) {
	if d.Sync != nil && m.Begun == d.Sync.ID && app.GetAnnotations()[begunMark] != d.Sync.ID {
		// The watch has not told yet, or somebody has removed the mark.
		live, err := s.r.live(ctx, applications, app.GetName())
		if err != nil || live == nil {
			return waitAgain, err
		}
		app = live
	}
	marks := app.GetAnnotations()
	now := syncing{want: d.Sync, run: m.Run, compared: marks[comparedMark], refreshing: marks[refreshMark] != "", behind: behind(app), app: view(app)}
	now.begun = d.Sync != nil && (marks[begunMark] == d.Sync.ID || m.Begun == d.Sync.ID)
	m.Trouble = trouble(now.app.Status, m.Trouble)
	do, run := step(now)
	if do == stay && overtaken(now.app.Status, d.Automated) {
		do = terminate
	}
	if do == stay && refit(app.DeepCopy()) {
		err := s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
			refit(o)
			hasten(o, s.r.cfg.Now())
			s.remind(o)
		})
		return waitAgain, err
	}
	fresh := do == stay && marks[refreshedMark] != d.Refresh
	if fresh {
		if err := s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
			mark(o, refreshMark, "normal", refreshedMark, d.Refresh)
			hasten(o, s.r.cfg.Now())
			s.remind(o)
		}); err != nil {
			return 0, err
		}
	}
	if err := s.act(ctx, w, do, d, app); err != nil {
		return 0, err
	}
	mending, unheard, since := time.Duration(0), now.unheard(), s.failing(w.e.Record.ID, app)
	switch idle := do == stay && !fresh; {
	case idle && unheard && late(app, s.r.cfg.Now()):
		_, sofar := reminded(app)
		if err := s.revise(ctx, w, app, func(o *unstructured.Unstructured) { remindAgain(o, sofar, s.r.cfg.Now()) }); err != nil {
			return 0, err
		}
	case idle && !unheard:
		var err error
		if mending, err = s.mend(ctx, w, d, app, since); err != nil {
			return 0, err
		}
	}
	switch do {
	case begin:
		m.Begun, m.BegunIn = d.Sync.ID, string(app.GetUID())
	case withdraw:
		run = &runtime.SyncRun{ID: d.Sync.ID, Phase: "Terminated", Message: "it was ended before Argo CD began", Finished: s.r.cfg.Now().UTC().Truncate(time.Second)}
	}
	s.follows(d.Sync, m.Run, run, now.begun || do == begin)
	m.Run = run
	switch {
	case run != nil && !ended(run):
		return waitAgain, nil
	case unheard: // many may be at once, by one push
		rest, _ := remindIn(app, s.r.cfg.Now())
		return max(rest, 2*waitAgain), nil
	}
	return mending, nil
}

// act does a move. Each is one write, to the Application as it was read.
func (s *shift) act(ctx context.Context, w *writer, do move, d runtime.Deployment, app *unstructured.Unstructured) error {
	switch do {
	case look:
		return s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
			mark(o, refreshMark, "normal", comparedMark, d.Sync.ID, refreshedMark, d.Refresh)
			s.remind(o)
		})
	case begin:
		return s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
			o.Object["operation"] = request(d)
			mark(o, begunMark, d.Sync.ID)
			s.remind(o)
		})
	case terminate:
		return s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "Terminating", "status", "operationState", "phase")
			s.remind(o)
		})
	case withdraw:
		return s.revise(ctx, w, app, func(o *unstructured.Unstructured) { delete(o.Object, "operation") })
	}
	return nil
}

// request is the operation that Argo CD is given for a sync.
func request(d runtime.Deployment) object {
	sync := object{"prune": d.Sync.Prune, "syncStrategy": object{"hook": object{}}}
	if d.Sync.Revision != "" {
		sync["revision"] = d.Sync.Revision
	}
	if options, ok := syncPolicy(d)["syncOptions"]; ok {
		sync["syncOptions"] = options
	}
	return object{
		"initiatedBy": object{"username": userPrefix + d.Sync.ID},
		"info":        []any{object{"name": infoName, "value": d.Sync.ID}},
		"sync":        sync,
		// Somebody waits for its outcome, and those behind it do: five more tries take a minute.
		"retry": object{"limit": d.Sync.Retries, "backoff": object{"duration": "1s", "factor": int64(2), "maxDuration": "20s"}},
	}
}

// behind reports whether Argo CD has last compared another source than the Application has
// by now. It does not compare what it finds invalid.
func behind(app *unstructured.Unstructured) bool {
	is, _, err := unstructured.NestedStringMap(app.Object, "spec", "source")
	st := view(app).Status
	was := st.Sync.ComparedTo.Source
	invalid := slices.ContainsFunc(st.Conditions, func(c runtime.DeployedCondition) bool { return c.Type == "InvalidSpecError" })
	return err == nil && !invalid && was.RepoURL != "" && was != origin{is["repoURL"], is["path"], is["targetRevision"]}
}

// unheard reports whether Argo CD was asked for something and has not begun it: to look at
// the repository, or at another one, to end an operation, or to sync. Now and then it does not see a change
// until it compares the Application the next time, minutes later: where it has just
// written a status itself, it may take that for the last word. Any other change has it
// look again.
func (s syncing) unheard() bool {
	state := s.app.Status.OperationState
	if s.refreshing || s.behind || state != nil && state.Phase == "Terminating" {
		return true
	}
	return s.want != nil && s.app.Operation.sync() == s.want.ID && (state == nil || state.Operation.sync() != s.want.ID)
}

// revise changes an Application if it is still as it was read; otherwise it is
// looked at again.
func (s *shift) revise(ctx context.Context, w *writer, app *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	next := app.DeepCopy()
	change(next)
	err := w.patch(ctx, applications, app, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fault.New(fault.Unavailable, "the Application changed meanwhile; it is looked at again").Because("changed-meanwhile")
	}
	return s.r.explain(err, applications, app.GetName())
}
