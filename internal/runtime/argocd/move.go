package argocd

import (
	"context"
	"reflect"

	"github.com/droverhq/drover/internal/runtime"
)

// moves reports whether what was deployed is to be taken away because the
// deployment goes somewhere else: Argo CD only looks where an Application goes now.
// What is manual is left where it is, as nobody has asked for a change there, and so
// is what was on a target that is gone. One cluster under the name of another target
// is the same place. It is pure.
func moves(last, d runtime.Deployment) bool {
	switch {
	case !d.Automated || d.Detached || last.Detached || last.Target != nil && last.Target.ID == d.Abandoned:
		return false
	case last.Namespace != d.Namespace:
		return true
	case last.Target == nil || d.Target == nil:
		return last.Target != d.Target
	}
	return last.Target.ID != d.Target.ID && last.Target.Server != d.Target.Server
}

// leave takes the Application away with what it deployed where the deployment is to
// be somewhere else; what is still going is told. It is made anew when it is gone.
func (s *shift) leave(ctx context.Context, w *writer, d runtime.Deployment, m *memory) (going string, err error) {
	last, name := m.last(), applicationName(d.UID)
	if last == nil || last.UID != d.UID || !moves(*last, d) {
		return "", nil
	}
	app, err := s.r.live(ctx, applications, name)
	if err != nil {
		return "", err
	}
	if app != nil && app.GetDeletionTimestamp() == nil && reflect.DeepEqual(destination(app.Object), destination(application(s.r.cfg.ArgoCD, d).Object)) {
		return "", nil // it was made anew, and that was not written down
	}
	// As with a removal: until it is gone its project and the Secret of its cluster
	// must be as they were.
	s.needs.set(w.e.Record.ID, nil, last, true)
	// What it shared there is tidied up by whoever makes it anew.
	return s.uninstall(ctx, w, name, last)
}

// destination of an Application.
func destination(app object) any {
	spec, _ := app["spec"].(object)
	return spec["destination"]
}
