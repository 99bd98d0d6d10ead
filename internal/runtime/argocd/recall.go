package argocd

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// Recalls implements keep.Recaller.
func (s *shift) Recalls() {}

// recall finds what there is of a deployment that is to go, and of which nothing is
// written down: the agent was installed anew since it was made. A removal says no
// more than an id, and the Application of that name tells the rest.
func (s *shift) recall(ctx context.Context, w *writer, m *memory) error {
	uid := w.e.Record.ID[strings.LastIndexByte(w.e.Record.ID, '/')+1:]
	app, err := s.r.live(ctx, applications, applicationName(uid))
	if fault.Reason(err) == "no-argocd" {
		return nil
	}
	if err != nil || app == nil || app.GetLabels()[managedLabel] != managedBy || app.GetLabels()[databaseLabel] != label(uid) {
		return err // there is none, or it is somebody else's
	}
	lines := []string{applications.line(s.r.cfg.ArgoCD, app.GetName())}
	if project, _, _ := unstructured.NestedString(app.Object, "spec", "project"); strings.HasPrefix(project, projectPrefix) {
		lines = append(lines, projects.line(s.r.cfg.ArgoCD, project))
	}
	if last := former(uid, app); last != nil {
		if m.Last, err = json.Marshal(last); err != nil {
			return err
		}
	}
	return w.memorize(ctx, *m, lines)
}

const projectPrefix = "app-project-"

// former is the deployment that an Application was made of, as far as its project
// must know it until it is gone; nil: that cannot be told, and its project is left as
// it is.
func former(uid string, app *unstructured.Unstructured) *runtime.Deployment {
	at := func(path ...string) string {
		text, _, _ := unstructured.NestedString(app.Object, append([]string{"spec"}, path...)...)
		return text
	}
	workspace, ours := strings.CutPrefix(at("project"), projectPrefix)
	workspace, wide := strings.CutSuffix(workspace, "-cluster")
	d := runtime.Deployment{UID: uid, Workspace: workspace, Repository: at("source", "repoURL"), Path: at("source", "path"),
		Namespace: at("destination", "namespace"), Namespaces: []string{at("destination", "namespace")}, ClusterResources: wide}
	if !ours || at("destination", "name") != inCluster || d.Namespace == "" || projectName(d) != at("project") {
		return nil
	}
	return &d
}
