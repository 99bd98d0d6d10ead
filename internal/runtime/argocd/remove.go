package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const removeAgain = 2 * time.Second // at what is going away, should no watch tell

const untoldOthers = "what it shared with others is looked at when the agent was told of all of them"

// remove takes a deployment away: the Application with what it deployed, then what
// nobody else shares with it.
func (s *shift) remove(ctx context.Context, e *keep.Entry) (time.Duration, error) {
	rec := e.Record
	s.diffs.forget(rec.ID)
	gone := s.parts(rec)
	going, err := s.dismantle(ctx, e)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err
	}
	seen := runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Installing, Message: going, Detail: rec.Seen.Detail}
	if err != nil {
		s.Complain(e, err)
		seen.Message = runtime.Unremovable + ": " + err.Error()
		if fault.Is(err, fault.Internal) {
			seen.Message = runtime.Unremovable + "; the data plane's operator finds the reason in the agent's log"
		}
		if err := s.Settle(ctx, e, seen); err != nil {
			return 0, err
		}
		return 0, err
	}
	if going != "" {
		return removeAgain, s.Settle(ctx, e, seen)
	}
	s.depart(ctx, rec)
	next := e.Record
	next.Gone, next.Inventory, next.Body, next.Own = true, nil, nil, nil
	next.Seen = runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Deleted}
	if err := s.Save(ctx, e, next); err != nil {
		return 0, err
	}
	s.Show(e, next.Seen)
	gone()
	return 0, nil
}

// dismantle goes one step further; what is still going is told.
func (s *shift) dismantle(ctx context.Context, e *keep.Entry) (going string, err error) {
	m, w := remember(e.Record.Own), &writer{s: s, e: e}
	if m.Kept {
		s.needs.set(e.Record.ID, nil, nil, true)
		return "", nil
	}
	if len(e.Record.Inventory) == 0 && m.Last == nil {
		if err := s.recall(ctx, w, &m); err != nil {
			return "", err
		}
	}
	last := m.last()
	// Until the Application is gone its project must allow what it deployed, or
	// Argo CD would leave that behind without a word.
	if last != nil && own(*last) && !s.r.cfg.covered(*last) {
		last.Namespaces = append(last.Namespaces, last.Namespace)
	}
	s.needs.set(e.Record.ID, nil, last, true)
	var shares []string
	for _, line := range e.Record.Inventory {
		id, err := manifest.Parse(line)
		switch {
		case err != nil:
		case id.Kind == applications.kind:
			if going, err = s.uninstall(ctx, w, id.Name, last); err != nil || going != "" {
				return going, err
			}
		case id.Kind == projects.kind:
			shares = append(shares, id.Name)
		}
	}
	if len(shares) > 0 && !s.r.told.whole() {
		return untoldOthers, nil
	}
	s.needs.set(e.Record.ID, nil, nil, true)
	for _, project := range shares {
		if err := s.share(ctx, w, project, true); err != nil {
			return "", err
		}
	}
	return "", nil
}

// uninstall deletes an Application with what it deployed; without, where the
// cluster that this was on is gone.
func (s *shift) uninstall(ctx context.Context, w *writer, name string, last *runtime.Deployment) (going string, err error) {
	app, err := s.r.live(ctx, applications, name)
	if going, absent := s.absent(w.e.Record, err); absent {
		return going, nil
	}
	if err != nil || app == nil {
		s.unknow(applications, name)
		return "", err
	}
	detached := last != nil && last.Detached
	if last != nil && !detached {
		before := w.writes
		if err := s.share(ctx, w, projectName(*last), false); err != nil {
			return "", err
		}
		if w.writes != before {
			// Argo CD hears of a project and of an Application's end by two watches, and
			// leaves behind what the project as it knows it does not allow.
			return "it is being removed", nil
		}
	}
	if next, differs := parting(app, detached, s.r.cfg.Now()); differs {
		if err := w.patch(ctx, applications, app, next); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return "it is being removed", nil
		} else if err != nil {
			return "", s.r.explain(err, applications, name)
		}
	}
	if app.GetDeletionTimestamp() == nil {
		if err := w.erase(ctx, applications, app); err != nil {
			return "", err
		}
		return "it is being removed", nil
	}
	return stuck(app, s.r.cfg.Now()), nil
}

// absentFor is how long the kind of Applications must be missing before those that
// there were are taken to have gone with it. A cluster may say so for a moment.
const absentFor = time.Minute

// absent reports whether there is no Argo CD to ask; going: it may come back.
func (s *shift) absent(rec keep.Record, err error) (going string, absent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault.Reason(err) != "no-argocd" {
		delete(s.without, rec.ID)
		return "", false
	}
	now := s.r.cfg.Now()
	if s.without[rec.ID].IsZero() {
		s.without[rec.ID] = now
	}
	if rec.Settled && now.Sub(s.without[rec.ID]) < absentFor {
		return "it cannot be removed while Argo CD is not there, and is taken to be gone with it after a minute", true
	}
	delete(s.without, rec.ID)
	return "", true
}

// parting is an Application before it is deleted: with the finalizer that takes
// along what it deployed, or without any; and without an operation, which Argo CD
// would carry to its end first, retries and all. Now and then Argo CD does not see that
// one is being deleted, and would not until it compares it the next time, minutes later:
// any change has it look again.
func parting(app *unstructured.Unstructured, detached bool, now time.Time) (next *unstructured.Unstructured, differs bool) {
	finalizers := app.GetFinalizers()
	next = app.DeepCopy()
	switch {
	case detached && len(finalizers) > 0:
		next.SetFinalizers(nil)
		differs = true
	case !detached && app.GetDeletionTimestamp() == nil && !slices.ContainsFunc(finalizers, func(f string) bool { return strings.HasPrefix(f, finalizer) }):
		next.SetFinalizers(append(finalizers, finalizer))
		differs = true
	}
	if v := view(app); v.Operation != nil {
		if st := v.Status.OperationState; st == nil || st.Phase != "Running" && st.Phase != "Terminating" {
			delete(next.Object, "operation")
			differs = true
		} else if st.Phase == "Running" {
			_ = unstructured.SetNestedField(next.Object, "Terminating", "status", "operationState", "phase")
			differs = true
		}
	}
	return next, remindOfEnd(next, now) || differs
}

// stuck says what an Application waits for that is being deleted. Argo CD goes on
// to compare it: what it has deleted and still sees has finalizers that are not done.
func stuck(app *unstructured.Unstructured, now time.Time) string {
	st := view(app).Status
	var troubles []string
	for _, c := range st.Conditions {
		if c.Type == "DeletionError" {
			troubles = append(troubles, c.Message)
		}
	}
	var going, left []string
	for _, r := range st.Resources {
		// What it did not find any more is gone, and its word on that stays.
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: r.Group, Kind: r.Kind})
		if i := slices.Index(troubles, apierrors.NewNotFound(plural.GroupResource(), r.Name).Error()); i >= 0 {
			troubles = slices.Delete(troubles, i, i+1)
			continue
		}
		switch name := strings.TrimSpace(r.Kind + " " + r.Name); {
		case r.Health != nil && r.Health.Message == pendingDeletion:
			going = append(going, name)
		case r.Health == nil || r.Health.Status != "Missing":
			left = append(left, name)
		}
	}
	if len(troubles) > 0 {
		return "it is being removed, and Argo CD cannot: " + short(troubles[0], 500)
	}
	if len(going) > 0 {
		return "it is being removed, and waits for what has finalizers that nobody has taken off: " + few(going)
	}
	since := app.GetDeletionTimestamp()
	if since == nil || now.Sub(since.Time) < time.Minute {
		return "it is being removed"
	}
	text := "it is being removed since " + since.UTC().Format(time.RFC3339) + ", and Argo CD has not finished"
	if len(left) > 0 {
		text += "; look at " + few(left)
	}
	return text
}

// pendingDeletion is Argo CD's word on the health of what is being deleted.
const pendingDeletion = "Pending deletion"

// few are the first of some names.
func few(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
