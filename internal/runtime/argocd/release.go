package argocd

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// letGo forgets a deployment and leaves what was deployed as it is. The Application goes
// without it, so that nobody follows Git any more; where the agent may not take that
// away it stays, as all that is shared does.
func (s *shift) letGo(ctx context.Context, w *writer, d runtime.Deployment) (seen runtime.Observed, again time.Duration, err error) {
	rec, m := w.e.Record, w.memory
	if !m.Kept && !s.r.told.whole() { // nobody looks at what it shared once it is forgotten
		seen = runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Installing, Message: "it is being let go of: " + untoldOthers, Detail: rec.Seen.Detail}
		return seen, removeAgain, nil
	}
	s.needs.set(rec.ID, nil, nil, true)
	if !m.Kept {
		if err := s.orphan(ctx, w, applicationName(d.UID)); err != nil {
			return seen, 0, err
		}
		s.diffs.forget(rec.ID)
		s.attend(rec.ID, nil)
		for _, line := range rec.Inventory {
			if id, err := manifest.Parse(line); err == nil && id.Kind == projects.kind {
				if err := s.share(ctx, w, id.Name, true); err != nil && !powerless(err) {
					return seen, 0, err
				}
			}
		}
		m.Kept, m.Last, m.Run, m.Trouble = true, nil, nil, ""
		if err := w.memorize(ctx, *m, nil); err != nil {
			return seen, 0, err
		}
	}
	w.e.Applied = true
	seen = runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Ready}
	seen.Detail, err = json.Marshal(runtime.Deployed{Sync: runtime.SyncStatus{Status: "Unknown"}, Health: runtime.HealthStatus{Status: "Unknown"}, Kept: true})
	return seen, 0, err
}

// orphan deletes an Application without what it deployed.
func (s *shift) orphan(ctx context.Context, w *writer, name string) error {
	app, err := s.r.live(ctx, applications, name)
	if powerless(err) || err == nil && (app == nil || app.GetLabels()[managedLabel] != managedBy) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(app.GetFinalizers()) > 0 {
		next := app.DeepCopy()
		next.SetFinalizers(nil)
		err := w.patch(ctx, applications, app, next)
		switch {
		case apierrors.IsForbidden(err):
			return nil
		case apierrors.IsConflict(err):
			return fault.New(fault.Unavailable, "the Application changed meanwhile; it is looked at again").Because("changed-meanwhile")
		case err != nil && !apierrors.IsNotFound(err):
			return s.r.explain(err, applications, name)
		}
	}
	if err := w.erase(ctx, applications, app); err != nil && !powerless(err) {
		return err
	}
	return nil
}

// powerless reports whether the agent may not, or there is no Argo CD.
func powerless(err error) bool {
	return fault.Is(err, fault.Denied) || fault.Reason(err) == "no-argocd"
}
