package argocd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

// What an Application was made of is found in it again, as far as its project needs
// it; where that is in doubt nothing is.
func TestFormer(t *testing.T) {
	d := runtime.Deployment{UID: "u-1", Workspace: "ws-1", Namespace: "shop", Namespaces: []string{"shop"}, Repository: "https://h/r", Path: "k8s"}
	wide := d
	wide.ClusterResources = true
	elsewhere := d
	elsewhere.Target = &runtime.Target{ID: "t-1", Server: "https://c"}
	long := d
	long.Workspace = strings.Repeat("Long", 40)
	for _, c := range []struct {
		reason string
		of     runtime.Deployment
		want   *runtime.Deployment
	}{
		{"an ordinary one", d, &d},
		{"one with objects for the whole cluster", wide, &wide},
		{"what is on a target needs its Secret, which nobody has", elsewhere, nil},
		{"a name that was made shorter does not tell the workspace", long, nil},
	} {
		app := argocd.Application("argocd", c.of)
		raw, err := json.Marshal(app.Object) // as the API gives it
		if err != nil {
			t.Fatal(err)
		}
		got := argocd.Former("u-1", parse(t, string(raw)))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
		if got != nil && argocd.ProjectName(*got) != argocd.ProjectName(c.of) {
			t.Errorf("%s: it is in another project", c.reason)
		}
	}
}
