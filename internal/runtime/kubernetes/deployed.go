package kubernetes

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// maxResources that are told of one deployment.
const maxResources = 2000

// deployment is where the manifests of a document are from, of items of that kind.
type deployment struct {
	UID        string `json:"uid"`
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision"` // as it was asked for
	Commit     string `json:"commit"`   // that it was found to be
	Namespace  string `json:"namespace"`
	// ClusterResources: objects without a namespace may be among its manifests.
	ClusterResources bool `json:"cluster_resources"`
	// NoNamespace: the namespace is not made for it.
	NoNamespace bool `json:"no_namespace"`
	// Kept: it is to be let go of, and what was deployed left as it is.
	Kept bool `json:"kept"`
	// Named are namespaces that an operator gave it by their names, so that reserved
	// ones among them are meant.
	Named []string `json:"named"`
	// Manual: nothing is done but for the sync Run, once, with Prune or without.
	// Everything else is compared with what is there.
	Manual bool   `json:"manual"`
	Run    string `json:"run"`
	Prune  bool   `json:"prune"`
	// Retries is how often Run is tried again after it failed.
	Retries int64 `json:"retries"`
}

// deployed tells what is seen of a deployment in the words of Argo CD, which its
// users know. It is pure. What was applied is in sync: whatever differs is put
// right, and only what is not there yet, or is on its way out, is not. Of a manual
// one it is told what differs.
func deployed(doc document, health manifest.Health, differs []runtime.ResourceDifference, m memory) (json.RawMessage, error) {
	out := runtime.Deployed{Sync: runtime.SyncStatus{Status: "Synced"}, Health: runtime.HealthStatus{Status: "Healthy"}, Healed: m.Healed, Operation: m.told(), Run: m.ran(doc)}
	not := map[manifest.ID]bool{}
	for _, x := range differs {
		id := manifest.ID{Group: x.Group, Kind: x.Kind, Namespace: x.Namespace, Name: x.Name}
		not[id], out.Sync.Status = true, "OutOfSync"
		if x.Change == runtime.ToRemove {
			out.Resources = append(out.Resources, runtime.DeployedResource{Group: x.Group, Kind: x.Kind, Namespace: x.Namespace, Name: x.Name, Status: "OutOfSync",
				Health: &runtime.HealthStatus{Status: "Healthy", Message: "Git has it no longer: a sync with prune removes it"}})
		}
	}
	out.Diff = runtime.Concise(slices.Clone(differs))
	if d := doc.Deployment; d != nil {
		out.Sync.Revision = d.Commit
		out.Compared = &runtime.Compared{Repository: d.Repository, Path: d.Path, Revision: d.Revision, Namespace: d.Namespace}
	}
	worst := 0
	for _, o := range health.Objects {
		one := runtime.DeployedResource{Group: o.ID.Group, Kind: o.ID.Kind, Namespace: o.ID.Namespace, Name: o.ID.Name, Status: "Synced", Health: &runtime.HealthStatus{}}
		if api, _ := o.Content["apiVersion"].(string); api != "" {
			one.Version = api[len(groupPrefix(api)):]
		}
		if o.Content == nil || o.State == "Terminating" || not[o.ID] {
			one.Status, out.Sync.Status = "OutOfSync", "OutOfSync"
		}
		one.Health.Status = healths[o.State]
		if one.Health.Status == "" {
			one.Health.Status = "Unknown"
		}
		if one.Health.Status != "Healthy" {
			one.Health.Message = o.Message
		}
		if at := slices.Index(ranks, one.Health.Status); at > worst {
			worst, out.Health = at, *one.Health
		}
		out.Resources = append(out.Resources, one)
	}
	slices.SortStableFunc(out.Resources, func(a, b runtime.DeployedResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if len(out.Resources) > maxResources {
		out.Resources, out.More = runtime.Foremost(out.Resources, maxResources), len(out.Resources)-maxResources
	}
	return json.Marshal(out)
}

// failedDeployment is what is told of one that could not be applied: what is there
// of it is not known.
func failedDeployment(doc document, message string, m memory) (json.RawMessage, error) {
	trouble := runtime.DeployedCondition{Type: "SyncError", Message: message}
	if doc.manual() && doc.Deployment.Run == "" {
		trouble.Type = "ComparisonError"
	}
	out := runtime.Deployed{Sync: runtime.SyncStatus{Status: "Unknown"}, Health: runtime.HealthStatus{Status: "Unknown"},
		Conditions: []runtime.DeployedCondition{trouble}, Operation: m.told(), Run: m.ran(doc)}
	if d := doc.Deployment; d != nil {
		out.Compared = &runtime.Compared{Repository: d.Repository, Path: d.Path, Revision: d.Revision, Namespace: d.Namespace}
	}
	return json.Marshal(out)
}

// healths of objects by their states.
var healths = map[string]string{"Current": "Healthy", "InProgress": "Progressing", "Terminating": "Progressing", "Failed": "Degraded", "NotFound": "Missing"}

// ranks of healths: of several the last one counts.
var ranks = []string{"Healthy", "Progressing", "Unknown", "Missing", "Degraded"}

// groupPrefix of an apiVersion: "apps/" of apps/v1.
func groupPrefix(api string) string {
	for i := range api {
		if api[i] == '/' {
			return api[:i+1]
		}
	}
	return ""
}
